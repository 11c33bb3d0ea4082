"""Logs that grow, read by the command itself: it goes on where it ended, however it ended."""

from __future__ import annotations

import json
import random
import signal
import time
from pathlib import Path

import pytest

from replay.audit.directory import TOGETHER
from replay.audit.store import Store
from tests.support import log_lines
from tests.support.audit_webhook import event_list, post
from tests.support.live_command import LiveCommand, audit_ids
from tests.support.live_kills import BATCH, killed

pytestmark = pytest.mark.slow  # each row waits for processes of the command

SOON = ("--flush-age", "0s")
LATER = ("--flush-age", "1h")


def lines(first: int, count: int) -> bytes:
    return b"".join(log_lines.event(n % 60, auditID=f"id-{n}") + b"\n" for n in range(first, first + count))


def write(path: Path, content: bytes) -> None:
    with path.open("ab") as file:
        file.write(content)


def names(count: int) -> list[str]:
    return sorted(f"id-{n}" for n in range(count))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
def test_a_log_is_followed_until_the_end(number: int, tmp_path: Path) -> None:
    log, store = tmp_path / "audit.log", tmp_path / "store"
    with LiveCommand([log, "--store", store, "--follow", "--json", *SOON]) as command:
        command.wait_for("following")
        write(log, lines(0, 2))
        assert command.wait_for("2 events") == "2 events read; the store holds 2 requests"
        write(log, lines(2, 1) + b"half")
        command.wait_for("1 event ")
        code, out = command.end(number)
    assert (code, json.loads(out)["events"], json.loads(out)["rejects"]) == (0, 3, {})
    with LiveCommand([log, "--store", store, "--follow", *LATER]) as command:
        command.wait_for("following")
        write(log, b"\n" + lines(3, 1))
        code, out = command.end()
    assert (code, sorted(audit_ids(store))) == (0, names(4))
    assert "The store holds 4 requests" in out


def test_what_is_received_is_in_the_store_at_the_end(tmp_path: Path) -> None:
    store = tmp_path / "store"
    arguments = ["--listen", "127.0.0.1:0", "--store", store]
    with LiveCommand([*arguments, *LATER, "--json"]) as command:
        url = command.url()
        for _ in range(2):  # as if the first answer had been lost
            assert post(url, event_list(0, 3)).status == 200
        code, out = command.end()
    report = json.loads(out)
    assert (code, report["events"], report["requests"], report["rejects"]) == (0, 6, 3, {"duplicate": 3})
    assert (sorted(audit_ids(store)), list((store / "journal").iterdir())) == (names(3), [])


def test_a_store_has_one_live_log(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with LiveCommand(["--listen", "127.0.0.1:0", "--store", store]) as command:
        command.url()
        with LiveCommand([tmp_path, "--follow", "--store", store]) as second:
            second.wait_for("replay: ")
            assert second.process.wait(60) == 2
            assert second.told == [f"replay: {store}: another process follows a log into the store: one at a time does"]
        assert command.end()[0] == 0


def test_small_ingests_are_put_together(tmp_path: Path) -> None:
    log, store = tmp_path / "audit.log", tmp_path / "store"
    for number in range(TOGETHER):
        (tmp_path / f"log-{number}").write_bytes(lines(number, 1))
        with Store.open(store) as opened:
            opened.ingest([tmp_path / f"log-{number}"])
    with LiveCommand([log, "--store", store, "--follow", *LATER]) as command:
        command.wait_for("following")
        write(log, lines(TOGETHER, 1))
        assert command.end()[0] == 0
    with Store.open(store) as opened:
        assert [segment.events for segment in opened.segments] == [TOGETHER, 1]
    assert sorted(audit_ids(store)) == names(TOGETHER + 1)


def test_what_is_old_is_forgotten(tmp_path: Path) -> None:
    store = tmp_path / "store"
    for day in (1, 2, 30):
        times = dict.fromkeys(("requestReceivedTimestamp", "stageTimestamp"), f"2026-01-{day:02}T00:00:00.000000Z")
        (tmp_path / f"day-{day}").write_bytes(log_lines.event(0, auditID=f"id-{day}", **times) + b"\n")
        with Store.open(store) as opened:
            opened.ingest([tmp_path / f"day-{day}"])
    for options, told in (
        (("--keep", "7d"), "2 ingests forgotten, 1 ingest left"),
        (("--keep-size", "1B"), "1 ingest forgotten, 0 ingests left"),
    ):
        with LiveCommand(["--listen", "127.0.0.1:0", "--store", store, *options]) as command:
            assert command.wait_for(told[:8]) == told
            assert command.end()[0] == 0


def test_a_listener_that_is_killed(tmp_path: Path) -> None:
    """Every event of a batch that was accepted is there once; `python -m tests.bench.listen --kills 20` is a longer trial."""
    outcome = killed(tmp_path, kills=2)
    assert (outcome.missing, outcome.repeated) == ([], [])
    assert outcome.accepted * BATCH > 0


def test_a_follower_that_is_killed(tmp_path: Path) -> None:
    """It goes on exactly where the store ends: nothing is missing, and nothing is read a second time."""
    directory, store = tmp_path / "log", tmp_path / "store"
    directory.mkdir()
    chance, written = random.Random(1), 0
    for life in range(3):
        with LiveCommand([directory, "--store", store, "--follow", "--json", *SOON]) as command:
            command.wait_for("following")
            for _ in range(chance.randrange(5, 25)):
                write(directory / "audit.log", lines(written, 7)[:-1])
                time.sleep(chance.uniform(0, 0.2))
                write(directory / "audit.log", b"\n")
                written += 7
                if chance.random() < 0.2:
                    (directory / "audit.log").rename(directory / f"audit-{written:05}.log")
            if life < 2:
                command.kill()
                continue
            code, out = command.end()
    assert (code, json.loads(out)["rejects"]) == (0, {}), command.told
    assert sorted(audit_ids(store)) == names(written)
    with Store.open(store) as opened:
        assert list(opened.rejects()) == []
