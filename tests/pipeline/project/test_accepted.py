"""The file of accepted findings, and runs that heed it."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
from msgspec.structs import replace
from typer.testing import CliRunner, Result

from replay.audit.store import Store
from replay.cli.app import app
from replay.compare.accepted import Acceptance
from replay.compare.outcome import OutcomeKind
from replay.errors import ReplayError
from replay.pipeline.options import Options
from replay.pipeline.output import exit_code
from replay.pipeline.project.accepted import acceptances, accepted_text, add_accepted, expiry, read_accepted
from replay.pipeline.project.format import FailOn
from replay.pipeline.run import run
from replay.pipeline.scenario import Scenario

HEAD = "apiVersion: replay/v1\nkind: AcceptedFindings\naccepted:\n"
TODAY = date(2026, 11, 22)
ENTRIES = [
    Acceptance("p.static.k8s.io", "prod", "Deployment/a", 'said "so": #1', date(2026, 12, 31)),
    Acceptance("q", "*", "*", "ünïcode"),
    Acceptance("r", "", "*", "cluster scope"),
]


def silent(_what: str, _done: int, _total: int) -> None:
    """No progress shown."""


def bare(entries: tuple[Acceptance, ...]) -> list[Acceptance]:
    return [Acceptance(each.policy, each.namespace, each.workload, each.reason, each.expires) for each in entries]


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "accepted.yaml"
    add_accepted(path, ENTRIES[:1])
    add_accepted(path, ENTRIES[1:])
    assert bare(read_accepted(path)) == ENTRIES
    assert path.read_text() == accepted_text(ENTRIES)
    assert [each.line for each in read_accepted(path)] == [4, 9, 11]


def test_what_a_person_wrote_stays(tmp_path: Path) -> None:
    path = tmp_path / "accepted.yaml"
    text = f"# ours\n{HEAD}  - policy: p  # why\n    reason: so\n    expires: 2027-01-01"
    path.write_text(text)
    add_accepted(path, ENTRIES[1:2])
    assert path.read_text().startswith(f"{text}\n  - policy: ")
    assert bare(read_accepted(path)) == [Acceptance("p", reason="so", expires=date(2027, 1, 1)), ENTRIES[1]]


REFUSED = [
    ("no kind", "kind: Cases\napiVersion: replay/v1\n", "1:7: `kind` is to be AcceptedFindings of replay/v1"),
    ("an unknown field", f"{HEAD}  - {{policy: p, reason: r, until: never}}\n", "4:35: unknown field `until`; known are policy, "),
    ("no policy", f"{HEAD}  - {{reason: r}}\n", "4:5: `policy` is missing: which policy is meant to deny"),
    ("no reason", f"{HEAD}  - {{policy: p}}\n", "4:5: `reason` is missing: why it is meant to be denied"),
    ("no day", f"{HEAD}  - {{policy: p, reason: r, expires: soon}}\n", "4:37: `expires` is not a day such as 2026-12-31: `soon`"),
    ("no list", "apiVersion: replay/v1\nkind: AcceptedFindings\naccepted: all\n", "3:11: `accepted` is to be a list"),
    ("no YAML", "a: [", "2:1: yaml: "),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_what_is_refused(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "accepted.yaml"
    path.write_text(text)
    with pytest.raises(ReplayError) as error:
        read_accepted(path)
    assert str(error.value).startswith(f"{path}:{message}")


def test_a_file_to_which_nothing_can_be_added_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "accepted.yaml"
    text = "accepted: [{policy: p, reason: r}]\napiVersion: replay/v1\nkind: AcceptedFindings\n"
    path.write_text(text)
    with pytest.raises(ReplayError, match="no entry can be added: `accepted` is to be the last of the file"):
        add_accepted(path, ENTRIES)
    assert path.read_text() == text


def test_until_when() -> None:
    assert expiry("never", TODAY) is None
    assert expiry("2026-12-31", TODAY) == date(2026, 12, 31)
    assert expiry("2w", TODAY) == date(2026, 12, 6)
    for text in ("soon", "999999999d"):
        with pytest.raises(ReplayError, match=f"--expires: no day `{text}`: write 2026-12-31, 90d or never"):
            expiry(text, TODAY)


@pytest.fixture(scope="module")
def scenario(short_sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Scenario:
    """A scenario of which the log is in a store, so that it is read and replayed once."""
    found = Scenario((str(short_sample),)).resolved()
    directory = tmp_path_factory.mktemp("accepted") / "store"
    with Store.open(directory) as store:
        store.ingest(found.logs)
    return replace(found, logs=(), store=directory)


@pytest.mark.slow
@pytest.mark.parametrize(
    "by",
    ["policy", "namespace", "workload"],
)
def test_a_run_whose_findings_are_accepted_denies_nothing_new(by: str, scenario: Scenario, tmp_path: Path) -> None:
    path = tmp_path / "accepted.yaml"
    plain = run(scenario, Options(workers=1, today=TODAY), silent)
    add_accepted(path, [*acceptances(plain, by, "meant", TODAY), Acceptance("gone", reason="long ago")])
    heeding = run(scenario, Options(workers=1, today=TODAY, accepted=path), silent)
    denied = plain.summary.outcomes[OutcomeKind.NEWLY_DENIED]
    assert denied == heeding.accepted.requests > 0
    assert heeding.summary.outcomes == {**plain.summary.outcomes, OutcomeKind.NEWLY_DENIED: 0}
    assert [each.entry.policy for each in heeding.accepted.gone] == ["gone"]
    assert not [each for each in heeding.summary.cells if each.outcome is OutcomeKind.NEWLY_DENIED]
    assert not [each for each in heeding.summary.timeline if each[1] is OutcomeKind.NEWLY_DENIED]
    expired = run(scenario, Options(workers=1, today=date(2026, 11, 23), accepted=path), silent)
    assert (expired.summary.outcomes, expired.accepted.requests) == (plain.summary.outcomes, 0)
    assert expired.accepted.expired


def test_a_project_may_name_a_file_that_is_not_there_yet(scenario: Scenario, tmp_path: Path) -> None:
    found = run(scenario, Options(workers=1, accepted=tmp_path / "none.yaml"), silent)
    assert not found.accepted.entries


def test_what_a_run_fails_on(scenario: Scenario) -> None:
    result = run(scenario, Options(workers=1), silent)
    assert {each.value: exit_code(result, [each]) for each in FailOn} == {
        "denied": 1,
        "lockout": 0,
        "mutated": 1,
        "undecided": 0,
        "removed": 0,
        "none": 0,
    } | {"undecided": int(result.summary.outcomes[OutcomeKind.UNDETERMINED] > 0)}
    assert exit_code(result) == 1
    with pytest.raises(ReplayError, match="--fail-on: `none` stands alone: it fails on nothing"):
        exit_code(result, [FailOn.NONE, FailOn.DENIED])


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


@pytest.mark.slow
def test_accept_then_run(short_sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    log = [str(short_sample), "--workers", "1"]
    refused = invoke("accept", *log)
    assert str(refused.exception) == "--reason: say why this is intended"
    first = invoke("accept", *log, "--reason", "meant", "--by", "policy", "-n", "team-a")
    assert (first.exit_code, first.exception) == (0, None)
    assert "written to accepted.yaml" in first.output
    again = invoke("accept", *log, "--reason", "meant", "--by", "policy", "-n", "team-a")
    assert "0 entries until" in again.output
    printed = invoke("run", *log, "--accepted", "accepted.yaml", "--fail-on", "none")
    assert printed.exit_code == 0
    assert "Accepted" in printed.output
    lines = invoke("run", *log, "--accepted", "accepted.yaml", "--brief").output.splitlines()
    assert len(lines) <= 10
    assert lines[-1].endswith("not counted")
