"""Events in envelopes are read as those that stand for themselves; what is damaged is counted, with its line."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from replay.audit.format.recognise import HEAD, form_of
from replay.audit.format.table import formats_named
from replay.audit.store import Store
from replay.errors import AuditLogError, ReplayError
from tests.support.log_lines import event, records, rejects, zstd
from tests.support.wrapping import WRAPPINGS, Wrapping

SAMPLE = Path(__file__).parents[2] / "sample_audit" / "shop" / "audit.jsonl.zst"
_ALL = "select * exclude (file, line, part) from request order by seq, audit_id"


def rows_of(*paths: Path, names: Sequence[str] = ()) -> list[tuple[Any, ...]]:
    """The requests of logs, without where they stand."""
    with Store.open() as store:
        formats = tuple(each for name in names for each in formats_named(name))
        store.ingest(paths, formats=formats)
        return store.sql(_ALL).rows()


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Lines of the sample of all kinds, and their requests."""
    with pa.CompressedInputStream(str(SAMPLE), "zstd") as stream:
        lines = stream.read().decode().splitlines()[::7]
    path = tmp_path_factory.mktemp("sample") / "log"
    path.write_text("\n".join(lines))
    return lines, rows_of(path)


@pytest.mark.parametrize("wrapping", WRAPPINGS, ids=lambda each: each.what)
def test_a_wrapped_log_is_read_as_the_plain_one(
    wrapping: Wrapping, sample: tuple[list[str], list[tuple[Any, ...]]], tmp_path: Path
) -> None:
    lines, expected = sample
    (tmp_path / "log").write_bytes(wrapping.wrap(lines))
    assert rows_of(tmp_path / "log") == expected
    assert rows_of(tmp_path / "log", names=[wrapping.name]) == expected


def test_formats_of_all_kinds_in_one_directory(sample: tuple[list[str], list[tuple[Any, ...]]], tmp_path: Path) -> None:
    lines, expected = sample
    for number, wrapping in enumerate(WRAPPINGS):
        content = wrapping.wrap(lines[number :: len(WRAPPINGS)])
        name = tmp_path / f"{number:02}"
        name.write_bytes([content, gzip.compress(content), zstd(content)][number % 3])
    assert rows_of(tmp_path) == expected


E = event(1).decode()
LIST = {"kind": "EventList", "apiVersion": "audit.k8s.io/v1", "items": [json.loads(E)]}


class Damaged(NamedTuple):
    """`content` becomes one file; `read` are the lines of its requests, `rejected` `(line, reason)`."""

    name: str
    content: str
    read: Sequence[int]
    rejected: Sequence[tuple[int, str]]


def logged(*messages: str) -> str:
    return json.dumps({"logEvents": [{"id": "1", "timestamp": 1, "message": message} for message in messages]})


DAMAGED = [
    Damaged("a wrapper that is cut", f"{logged(E)}\n{logged(E)[:-9]}", [1], [(2, "truncated")]),
    Damaged("a wrapper that is altered", f"{logged(E)[:-9]}\n{logged(E)}", [2], [(1, "malformed")]),
    Damaged("an event that was cut before", logged(event(2).decode()[:-9], E), [1], [(1, "malformed")]),
    Damaged(
        "other lines of the same log",
        logged("I0101 00:00:00.000000 1 trace.go:236] Trace", '{"level":"info"}', E),
        [1],
        [(1, "not an event"), (1, "not an event")],
    ),
    Damaged("another document", f"{logged(E)}\n" + '{"messageType":"CONTROL_MESSAGE"}', [1], [(2, "not an event")]),
    Damaged("a wrapper of nothing", f"{logged(E)}\n{logged()}", [1], [(2, "not an event")]),
    Damaged("blank lines", f"\n{logged(E)}\n\n{logged('')}\n", [1], [(4, "not an event")]),
    Damaged("an EventList in a wrapper", f"{logged('')}\n{logged(json.dumps(LIST))}", [2], [(1, "not an event")]),
    Damaged("text before", f"node-0 {E}\nnode-1 E0101 no event\n\nnode-0 {E[:-9]}\n", [1], [(2, "not an event"), (4, "malformed")]),
    Damaged(
        "parts of a container's line",
        f"t stdout P {E[:9]}\nt stderr F E0101 other\nt stdout F {E[9:]}\nt stdout P {E[:9]}\n",
        [3],
        [(2, "not an event"), (5, "damaged")],
    ),
    Damaged("a document over lines that is cut", json.dumps({"events": [{"message": E}]}, indent=1)[:-3], [], []),
]  # fmt: skip


@pytest.mark.parametrize("case", DAMAGED, ids=lambda case: case.name)
def test_what_is_damaged_is_counted(case: Damaged, tmp_path: Path) -> None:
    (tmp_path / "log").write_text(case.content)
    with Store.open() as store:
        if not case.read:
            with pytest.raises(AuditLogError):
                store.ingest([tmp_path / "log"])
            return
        store.ingest([tmp_path / "log"])
        assert (sorted(record.line for record in records(store)), rejects(store)) == (case.read, case.rejected)


def test_the_form_is_told_by_a_beginning_that_is_cut_off() -> None:
    long = json.dumps(LIST).replace('"verb"', f'"annotations": {{"x": "{"y" * HEAD}"}}, "verb"')
    for name, text in (
        ("cloudwatch-subscription", logged(long)),
        ("azure-record", json.dumps({"properties": {"log": long}})),
        ("log", json.dumps({"log": LIST, "x": "y" * HEAD})),
    ):
        assert [each.name for each in form_of(text.encode()[:HEAD]).wrappers] == [name]


def test_a_format_that_is_asked_for_is_taken_off_where_nothing_tells_of_it() -> None:
    assert [each.name for each in form_of(b'{"log": 1}', formats_named("log")).wrappers] == ["log"]
    assert [each.name for each in form_of(b"", formats_named("eks")).wrappers] == []


def test_names_of_formats() -> None:
    with pytest.raises(ReplayError, match=r"--from: `word` is not known: there are aks, docker, eks, .*, vector$"):
        formats_named("word")
