"""The loop in which a policy gets better: what a saved file changes, in one line; ten lines at most; every format of a run."""

from __future__ import annotations

import csv
import json
import re
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace
from typer.testing import CliRunner

from replay.cli.app import app
from replay.compare.fidelity import Fidelity
from replay.compare.outcome import OutcomeKind
from replay.compare.result import LogFacts, RunResult, SetFacts
from replay.compare.summary import Cell, CellKey, Example, Summary
from replay.errors import ReplayError
from replay.pipeline.options import Options
from replay.pipeline.output import MOST_COMMENT, run_pieces
from replay.pipeline.project.format import Format
from replay.pipeline.project.watch import LoopOutcome, state, watch_runs
from replay.pipeline.run import run
from replay.pipeline.scenario import Scenario
from replay.report.run.brief import MOST_LINES, NOTHING, brief_lines, difference_line, run_comment
from tests.support.interchange import gitlab_issues, junit_cases, sarif_results

POLICY = "image-registries.yaml"


def run_text(result: RunResult, form: Format) -> str:
    return "".join(run_pieces(result, form))


def silent(_what: str, _done: int, _total: int) -> None:
    """No progress shown."""


@pytest.fixture
def scenario(short_sample: Path, tmp_path: Path) -> Scenario:
    """A scenario whose files may be changed."""
    shutil.copytree(short_sample, tmp_path / "own")
    return Scenario((str(tmp_path / "own"),)).resolved()


def watched(scenario: Scenario, *changes: Callable[[], object], options: Options | None = None) -> list[LoopOutcome]:
    """What is shown at first, and after each change."""
    shown: list[LoopOutcome] = []
    pending = list(changes)

    def show(found: LoopOutcome) -> None:
        shown.append(found)
        if pending:
            pending.pop(0)()
        else:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        watch_runs(scenario, options or Options(workers=1), silent, show)
    return shown


@pytest.mark.slow
def test_what_a_saved_policy_changes(scenario: Scenario) -> None:
    assert scenario.candidate is not None
    path = scenario.candidate / "vap" / POLICY
    text = path.read_text()
    first, less, wrong, back = watched(
        scenario,
        path.unlink,
        lambda: path.write_text("kind: ["),
        lambda: path.write_text(text),
    )
    assert isinstance(first, RunResult)
    assert isinstance(less, str)
    named, _, less = less.partition(": ")
    assert "ValidatingAdmissionPolicy/" in named
    assert re.match(r"-\d+ denied: [\w-]+/\w+/[\w-]+", less)
    assert isinstance(wrong, ReplayError)
    assert POLICY in str(wrong)
    assert isinstance(back, str)
    assert back.startswith(f"{named}: ")
    back = back.removeprefix(f"{named}: ")
    turned = re.sub(r"(^|; )([-+])", lambda found: f"{found[1]}{'+' if found[2] == '-' else '-'}", less)
    assert sorted(back.split("; ")) == sorted(turned.split("; "))


@pytest.mark.slow
def test_a_log_that_grows_and_a_file_of_accepted_findings_are_watched(scenario: Scenario, tmp_path: Path) -> None:
    log, accepted = Path(scenario.logs[0]), tmp_path / "accepted.yaml"
    lines = log.read_text().splitlines(keepends=True)
    log.write_text("".join(lines[:300]))
    accept = "apiVersion: replay/v1\nkind: AcceptedFindings\naccepted: [{policy: '*', reason: so}]\n"
    _, grown, calm = watched(
        scenario,
        lambda: log.write_text("".join(lines)),
        lambda: accepted.write_text(accept),
        options=Options(workers=1, accepted=accepted),
    )
    assert str(grown).startswith("+")
    assert " denied: " in str(grown)
    assert str(calm).startswith("-")
    assert "+" not in str(calm)


def test_standard_input_is_read_once(scenario: Scenario) -> None:
    with pytest.raises(ReplayError, match="standard input can be read once: --watch needs files"):
        watch_runs(Scenario(("-",), candidate=scenario.candidate), Options(), silent, lambda _found: None)


def test_directories_and_globs_are_watched(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    for name in ("a/deep.yaml", "b.log", "c.txt"):
        (tmp_path / name).touch()
    found = state([tmp_path / "a", f"{tmp_path}/*.log", tmp_path / "none"], [str(tmp_path / "c.txt")])
    assert {Path(path).name for path in found} == {"deep.yaml", "b.log", "c.txt"}


def result(*cells: tuple[OutcomeKind, str, str, int, bool]) -> RunResult:
    """A run that found some cells: outcome, namespace, workload, requests, whether they follow."""
    summary = Summary()
    for kind, namespace, workload, count, follows in cells:
        key = CellKey(kind, ("p",), "u", namespace, "pods", "Pod", workload, follows)
        summary.cells[key] = Cell(count, 0, 0, [Example(1, 0, "id", 0, "CREATE", "n", ("m",))])
        summary.outcomes[kind] += count
    return RunResult(LogFacts(), SetFacts("a"), SetFacts("b"), summary, Fidelity())


DENIED, MUTATED = OutcomeKind.NEWLY_DENIED, OutcomeKind.NEWLY_MUTATED
DIFFERENCES = [
    ("nothing", [(DENIED, "n", "Pod/a", 3, False)], [(DENIED, "n", "Pod/a", 3, False)], NOTHING),
    ("gone", [(DENIED, "n", "Pod/a", 1200, False)], [], "-1,200 denied: n/Pod/a"),
    ("less and more", [(DENIED, "n", "Pod/a", 3, False)], [(DENIED, "n", "Pod/a", 1, False), (DENIED, "", "Node/b", 5, False)], "-2 denied: n/Pod/a; +5 denied: Node/b"),
    ("what follows is not told", [(DENIED, "n", "Pod/a", 3, True)], [], NOTHING),
    ("denied, then mutated", [(DENIED, "n", "Pod/a", 3, False)], [(MUTATED, "n", "Pod/a", 3, False)], "-3 denied: n/Pod/a; +3 mutated: n/Pod/a"),
    ("many", [], [(DENIED, "n", f"Pod/{name}", number, False) for number, name in enumerate("abcde", 1)], "+15 denied: n/Pod/e, n/Pod/d, n/Pod/c, ..."),
]  # fmt: skip
Row = tuple[OutcomeKind, str, str, int, bool]


@pytest.mark.parametrize(
    ("before", "after", "line"), [row[1:] for row in DIFFERENCES], ids=[row[0] for row in DIFFERENCES]
)
def test_differences(before: list[Row], after: list[Row], line: str) -> None:
    assert difference_line(result(*before), result(*after)) == line


LIMIT = ("~ ValidatingAdmissionPolicy/limit changed", "    spec.failurePolicy changed: Fail -> Ignore")
OTHER_LIMIT = (LIMIT[0], "    spec.validations[0] changed:", "      - a", "      + b")
QUOTA = ("+ ResourceQuota/shop/quota added",)
CHANGED = [
    ("nothing", LIMIT, LIMIT, ""),
    ("a policy that was as in the baseline", (), LIMIT, "ValidatingAdmissionPolicy/limit: "),
    ("a policy that differs in another way", LIMIT, OTHER_LIMIT, "ValidatingAdmissionPolicy/limit: "),
    ("one of two objects", (*QUOTA, *LIMIT), (*QUOTA, *OTHER_LIMIT), "ValidatingAdmissionPolicy/limit: "),
    ("two objects", ("the sets do not differ",), (*LIMIT, *QUOTA), "ResourceQuota/shop/quota, ValidatingAdmissionPolicy/limit: "),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after", "named"), [row[1:] for row in CHANGED], ids=[row[0] for row in CHANGED])
def test_the_changed_objects_are_named(before: tuple[str, ...], after: tuple[str, ...], named: str) -> None:
    results = [replace(result(), changes=each) for each in (before, after)]
    assert difference_line(*results) == f"{named}{NOTHING}"


@pytest.fixture(scope="module")
def whole(short_sample: Path) -> RunResult:
    return run(Scenario((str(short_sample),)).resolved(), Options(workers=1), silent)


def test_ten_lines(whole: RunResult) -> None:
    lines = brief_lines(whole)
    assert 3 < len(lines) <= MOST_LINES
    assert lines[2] == "lockouts: none"
    assert brief_lines(result())[2:] == ["lockouts: none"]


def test_lines_that_could_not_be_used_are_told() -> None:
    """However short the output, nobody takes a part of a log for the whole."""
    damaged = replace(result(), log=LogFacts(rejects=Counter({"no JSON": 2, "no event": 1})))
    assert brief_lines(damaged)[2:] == ["lockouts: none", "unusable: 3 lines of the log"]
    told = ("Unusable", "3 lines")
    assert told in [(fact.label, fact.value) for fact in run_comment(damaged).facts]


def test_findings_stand_at_the_line_of_their_policy(whole: RunResult, monkeypatch: pytest.MonkeyPatch) -> None:
    origin = whole.candidate.origins["image-registries.static.k8s.io"]
    monkeypatch.chdir(Path(origin.file).parents[2])
    results = sarif_results(run_text(whole, Format.SARIF))
    (found,) = (each for each in results if each.message.text.startswith("image-registries.static.k8s.io: "))
    place = found.locations[0].physical_location
    assert place is not None
    assert place.region is not None
    assert (place.artifact_location.uri, place.region.start_line) == (f"candidate/vap/{POLICY}", origin.line)
    issues = gitlab_issues(run_text(whole, Format.GITLAB))
    assert {issue.fingerprint for issue in issues} == {each.partial_fingerprints["replay/v1"] for each in results}
    cases = junit_cases(run_text(whole, Format.JUNIT))
    assert {case.attrib["name"] for case in cases} >= set(whole.candidate.origins)
    failed = {case.attrib["name"] for case in cases if case.find("failure") is not None}
    denying = {p for key in whole.summary.cells for p in key.policies if key.outcome is DENIED and not key.follows}
    assert failed == denying
    github = run_text(whole, Format.GITHUB).splitlines()
    assert sum(line.startswith("::error file=candidate/vap/") for line in github) == len(denying)


def test_who_is_hit_as_csv(whole: RunResult) -> None:
    rows = list(csv.DictReader(run_text(whole, Format.CSV).splitlines()))
    assert {row["outcome"] for row in rows} >= {"newly_denied", "newly_mutated"}


def test_a_comment_has_a_collapsed_part_for_each_policy(whole: RunResult) -> None:
    text = run_text(whole, Format.MARKDOWN)
    assert text.startswith("### ⛔ ")
    assert text.count("<details>") == text.count("</details>") == text.count("<summary>") > 3
    assert len(text.encode()) < MOST_COMMENT


def test_a_comment_is_never_too_long_whatever_the_log_holds() -> None:
    cells = [(DENIED, "n", f"Deployment/<b>{'ü' * 200}@{number}", 1, False) for number in range(3000)]
    found = result(*cells)
    found.summary.cells = {
        replace(key, policies=(f"p@team{number}</summary>",)): cell
        for number, (key, cell) in enumerate(found.summary.cells.items())
    }
    text = run_text(found, Format.MARKDOWN)
    assert 0.9 * MOST_COMMENT < len(text.encode()) <= MOST_COMMENT
    assert text.endswith("more parts, which have no room in a comment.\n")
    assert "</summary></summary>" not in text
    assert "@team" not in text


@pytest.mark.slow
def test_standard_output_is_a_hyphen(short_sample: Path, tmp_path: Path) -> None:
    def printed(*arguments: str) -> str:
        return CliRunner().invoke(app, ["run", str(short_sample), "--workers", "1", *arguments]).stdout

    outcomes = printed("--outcomes", "-").splitlines()
    assert all(json.loads(line)["auditID"] for line in outcomes)
    assert len(outcomes) > 100
    out = tmp_path / "out.json"
    assert printed("--format", "json", "--out", str(out)) == ""
    assert printed("--json", "--out", "-") == out.read_text()
    assert printed("--out", str(out)) == ""
    assert out.read_text().startswith("Impact of the candidate")
    assert printed("--format", "html").startswith("<!doctype html>")
