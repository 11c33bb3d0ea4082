"""Options of `replay serve`, and the commands that it starts."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace

from replay.audit.live.tls import ServerTls
from replay.errors import ReplayError
from replay.serve.metrics import MOST_SERIES, bounded, metrics
from replay.serve.notices import notice, slack_text
from replay.serve.processes import Intake, WeeklyReport, ingest_command, pulled, weekly_command, weekly_reports
from replay.serve.runner import run_command, sets_digest
from replay.serve.settings import (
    Readers,
    Receiving,
    ServeSettings,
    Trial,
    of_each_cluster,
    parse_proxy,
    parse_seconds,
    parse_snapshots,
    parse_trials,
    read_secret,
)
from replay.serve.trials import TrialPhase, TrialState
from tests.serve.conftest import NODE, ROW, state_of, summary
from tests.support.certificates import Authority


class Bad(NamedTuple):
    """A setting that is refused, with the message."""

    name: str
    make: Callable[[Path], object]
    says: str


def same_authority(place: Path) -> None:
    """Require settings with one authority for readers and for API servers."""
    authority = Authority(place, "ca")
    tls = ServerTls(*authority.issue("server"), authority.path)
    settings = ServeSettings("s", place, (), readers=Readers("127.0.0.1:1", tls), receiving=Receiving(tls=tls))
    settings.require()


def receiving(**fields: Any) -> None:
    """Require settings with a way to receive events."""
    ServeSettings("s", Path("d"), (), receiving=Receiving(**fields)).require()


BAD = [
    Bad("a trial without a name", lambda place: parse_trials([str(place)]), "no trial `{place}`: write NAME=PATH"),
    Bad("a name that leads elsewhere", lambda place: parse_trials([f"../x={place}"]), "no trial `../x={place}`: write NAME=PATH"),
    Bad("one name twice", lambda place: parse_trials([f"a={place}", f"a={place}"]), "two trials are called `a`"),
    Bad("manifests that are not there", lambda place: parse_trials([f"a={place}/none"]), "{place}/none: there is no such file or directory"),
    Bad("a proxy without a header", lambda _place: parse_proxy("10.0.0.7"), "no proxy `10.0.0.7`: write ADDRESS=HEADER"),
    Bad("a proxy by name", lambda _place: parse_proxy("proxy=X-User"), "no proxy `proxy=X-User`: write ADDRESS=HEADER"),
    Bad("a secret that is not there", lambda place: read_secret(place / "none", "--x"), "{place}/none: cannot be read: no such file or directory"),
    Bad("an address without a port", lambda _place: Readers("localhost").require(), "no address `localhost`: write HOST:PORT"),
    Bad("a time that no clock has", lambda _place: parse_seconds("9999999999d", "--every"), "--every: no length of time `9999999999d`: write 30s, 5m, 1h"),
    Bad("a time that no thread can wait for", lambda _place: parse_seconds("999999999d", "--every"), "--every: no length of time `999999999d`: write 30s, 5m, 1h"),
    Bad("more digits than a number has", lambda _place: parse_seconds("9" * 5000 + "d", "--every"), "--every: no length of time `999"),
    Bad("an unclear time to keep", lambda _place: receiving(follow=("l",), keep="banana"), "no time `banana`: write 7d, 12h, 30m"),
    Bad("an unclear size to keep", lambda _place: receiving(follow=("l",), keep_size="banana"), "`banana`"),
    Bad("an unclear time to wait", lambda _place: receiving(follow=("l",), flush_age="banana"), "--flush-age: no length of time `banana`: write 30s, 5m, 1h"),
    Bad("a listener without a port", lambda _place: receiving(listen="localhost"), "--listen: no address `localhost`: write HOST:PORT"),
    Bad("a listener for other machines without TLS", lambda _place: receiving(listen="0.0.0.0:1"), "0.0.0.0 is reached from other machines: give --tls-cert-file"),
    Bad("a bucket that forgets", lambda _place: receiving(pull=("s3://a",), keep="30d"), "--keep and --keep-size go with --follow and --listen: `replay store prune` forgets at once"),
    Bad("another process that forgets", lambda _place: receiving(keep_size="1GB"), "--keep and --keep-size go with --follow and --listen"),
    Bad("a snapshot of no cluster", lambda place: parse_snapshots([str(place)]), "no snapshot `{place}`: write CLUSTER=FILE"),
    Bad("two snapshots of one cluster", lambda place: parse_snapshots([f"eu={place}", f"eu={place}"]), "two snapshots are of `eu`: give each cluster one"),
    Bad("a snapshot that is not there", lambda place: parse_snapshots([f"eu={place}/none"]), "{place}/none: there is no such file or directory"),
    Bad("a snapshot of another cluster", lambda place: ServeSettings("s", place, (Trial("n", place, cluster="eu"),), snapshots={"us": place}).require(), "--snapshot: the store has no cluster `us`; there are: `eu`"),
    Bad("readers who are API servers", same_authority, "{place}/ca.pem: API servers have certificates of this authority: readers need another one"),
    Bad("other machines without TLS", lambda _place: Readers("0.0.0.0:1", token="x" * 20).require(), "0.0.0.0 is reached from other machines: give --tls-cert-file"),
]  # fmt: skip


@pytest.mark.parametrize("row", BAD, ids=lambda row: row.name)
def test_a_setting_is_refused(row: Bad, tmp_path: Path) -> None:
    with pytest.raises(ReplayError) as raised:
        row.make(tmp_path)
    assert row.says.replace("{place}", str(tmp_path)) in str(raised.value)


def test_a_short_secret_is_refused(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("short\n")
    with pytest.raises(ReplayError, match="a secret needs 16 characters or more"):
        read_secret(tmp_path / "token", "--reader-token-file")


def test_commands(settings: ServeSettings, tmp_path: Path) -> None:
    receiving = Receiving(listen="127.0.0.1:1", tls=ServerTls(Path("c"), Path("k")), keep="30d")
    listening = replace(settings, receiving=receiving, cluster=Path("cluster.jsonl"))
    following = replace(settings, receiving=Receiving(follow=("/var/log/audit",)))
    store = ["--store", settings.store]
    assert ingest_command(settings) == []
    assert ingest_command(listening)[3:] == [
        *("ingest", *store, "--keep", "30d", "--flush-age", "5m", "--listen", "127.0.0.1:1"),
        *("--tls-cert-file", "c", "--tls-private-key-file", "k"),
    ]
    assert ingest_command(following)[3:] == ["ingest", "/var/log/audit", "--follow", *store, "--flush-age", "5m"]
    assert run_command(listening, listening.trials[0], tmp_path)[3:] == [
        *("run", *store, "--candidate", str(settings.trials[0].candidate), "--cluster", "cluster.jsonl"),
        *("--owner-label", "team", "--workers", "0", "--format", "json", "--out", str(tmp_path / "summary.json")),
        *("--fail-on", "none", "--report", str(tmp_path)),
    ]
    assert run_command(settings, settings.trials[0], tmp_path, (7, 9))[-3:] == ["--batches", "7", "9"]
    assert ingest_command(replace(settings, receiving=Receiving(pull=("s3://a/%H",), keep="30d")), ("s3://a/07",))[
        3:
    ] == [
        *("ingest", "s3://a/07", *store),
    ]
    assert weekly_command(settings, settings.trials[0], tmp_path)[3:] == [
        *("report", *store, "--since", "7d", "--candidate", str(settings.trials[0].candidate)),
        *("--owner-label", "team", "--out", str(tmp_path)),
    ]


def test_weekly_reports_are_named_by_their_day(tmp_path: Path) -> None:
    for name in ("2026-11-01", "2026-11-08", "2026-11-08.prod.eu", "latest", ".2026-11-15"):
        (tmp_path / "weekly" / name).mkdir(parents=True)
        (tmp_path / "weekly" / name / "report.html").touch()
    (tmp_path / "weekly" / "2026-11-22").mkdir()
    found = weekly_reports(tmp_path)
    assert found == [
        WeeklyReport("2026-11-08", "prod.eu"),
        WeeklyReport("2026-11-08", ""),
        WeeklyReport("2026-11-01", ""),
    ]
    assert [report.name for report in found] == ["2026-11-08.prod.eu", "2026-11-08", "2026-11-01"]
    assert weekly_reports(tmp_path / "none") == []


def test_a_place_is_read_by_the_hour() -> None:
    begin = datetime(2026, 11, 30, 22, 59, tzinfo=UTC).timestamp()
    assert pulled(("s3://a/%Y/%m/%d/%H/*.zst", "log.jsonl"), begin, begin + 3 * 3600) == (
        *("s3://a/2026/11/30/22/*.zst", "s3://a/2026/11/30/23/*.zst"),
        *("s3://a/2026/12/01/00/*.zst", "s3://a/2026/12/01/01/*.zst", "log.jsonl"),
    )


def test_lines_of_the_ingest_are_counted() -> None:
    intake = Intake()
    for line in (
        "1,200 events read; the store holds 7 requests",
        "1 event read; x",
        "12 requests refused",
        "2 ingests forgotten",
    ):
        intake = intake.after(line)
    assert intake == Intake(1201, 12)


def test_a_fleet_has_each_trial_for_each_cluster(tmp_path: Path) -> None:
    trials = (Trial("next", tmp_path), Trial("strict", tmp_path))
    store = str(tmp_path / "store")
    (tmp_path / "store" / "cluster=eu").mkdir(parents=True)
    assert [(each.name, each.store, each.cluster) for each in of_each_cluster(trials, store, "us")] == [
        ("eu.next", f"{store}/cluster=eu", "eu"),
        ("eu.strict", f"{store}/cluster=eu", "eu"),
        ("us.next", f"{store}/cluster=us", "us"),
        ("us.strict", f"{store}/cluster=us", "us"),
    ]
    assert {(each.name, each.store, each.cluster) for each in of_each_cluster(trials, str(tmp_path / "new"))} == {
        ("next", str(tmp_path / "new"), ""),
        ("strict", str(tmp_path / "new"), ""),
    }


def test_a_cluster_may_have_its_own_snapshot(settings: ServeSettings, tmp_path: Path) -> None:
    own, shared = tmp_path / "eu.jsonl", tmp_path / "all.jsonl"
    fleet = replace(settings, cluster=shared, snapshots={"eu": own})
    trials = of_each_cluster(settings.trials, str(tmp_path / "store"), "eu")
    command = run_command(fleet, trials[0], tmp_path)
    assert (command[command.index("--cluster") + 1], fleet.snapshot("us")) == (str(own), shared)
    assert sets_digest(fleet, trials[0]) == sets_digest(replace(settings, cluster=own), trials[0])


def test_a_trial_that_failed_has_no_numbers(settings: ServeSettings) -> None:
    state = replace(state_of(settings.trials[0], summary(ROW)), decided=7.0)
    failed = replace(state, phase=TrialPhase.FAILED)

    def samples(each: TrialState) -> list[str]:
        lines = metrics([each], {}, Intake()).splitlines()
        return [line.replace('{trial="next"}', "") for line in lines if line.startswith("replay_trial_")]

    assert samples(failed) == ["replay_trial_decided_timestamp_seconds 7.0", "replay_trial_failed 1"]
    assert samples(state)[-1] == "replay_trial_failed 0"
    assert {line.partition("{")[0].partition(" ")[0] for line in samples(state)} >= {
        "replay_trial_direct_denials_total",
        "replay_trial_lockouts",
        "replay_trial_undetermined",
    }


def test_series_are_bounded() -> None:
    rows = [(f"policy-{index % 3000}", "a", "b", 1) for index in range(6000)]
    found = bounded(rows)
    assert (len(found), found[-1]) == (MOST_SERIES + 1, (("other", "other", "other"), 4000))
    assert sum(count for _, count in found) == 6000


def test_a_notice_names_what_is_new(settings: ServeSettings) -> None:
    trial = settings.trials[0]
    document = notice(state_of(trial, summary(ROW, NODE)), [NODE])
    assert (document["findings"], document["isLockout"], document["first"][0]["workload"]) == (1, True, "Node/a")
    hostile = {**ROW, "workload": "Pod/<!channel> `x` @here", "namespace": "n"}
    attack = notice(state_of(trial, summary(hostile)), [hostile])
    assert slack_text(attack)["text"].splitlines()[-1] == (
        "team-label.static.k8s.io denies Pod/&lt;!channel&gt; 'x' (at)here in n"
    )
