from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import orjson
import pyarrow as pa
import pytest

from replay.audit.store import Store
from replay.compare.weekly import EffectAction, EffectSide, Figures, FigureSource, PolicyReadiness, WeeklyResult
from replay.errors import ReplayError
from replay.pipeline.options import Focus, Options
from replay.pipeline.run import run
from replay.pipeline.scenario import Scenario
from replay.pipeline.weekly.report import WeeklyQuestion, weekly, write_weekly
from replay.report.render.document import MICROSECONDS
from replay.report.weekly.json import rfc3339, weekly_json

SAMPLE = Path(__file__).parents[2] / "sample_audit" / "shop"
NAMESPACE = "team-a"
FAILURE = "validation.policy.admission.k8s.io/validation_failure"


def report(source: Scenario, question: WeeklyQuestion, workers: int = 1) -> WeeklyResult:
    return weekly(source, question, Options(workers=workers), lambda _what, _done, _total: None)


@cache
def events() -> tuple[dict[str, object], ...]:
    with pa.CompressedInputStream(pa.OSFile(str(SAMPLE / "audit.jsonl.zst")), "zstd") as stream:
        return tuple(orjson.loads(line) for line in stream.read().splitlines())


@cache
def whole() -> WeeklyResult:
    return report(Scenario((str(SAMPLE),)).resolved(), WeeklyQuestion(since="95s"))


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of the sample's log, so that it is read once."""
    directory = tmp_path_factory.mktemp("weekly") / "store"
    with Store.open(directory) as store:
        store.ingest([SAMPLE / "audit.jsonl.zst"])
    return directory


def microseconds(text: str) -> int:
    at = datetime.fromisoformat(text)
    return int(at.timestamp()) * MICROSECONDS + at.microsecond


def counted_by_hand(start: int, end: int, namespace: str = "") -> tuple[Counter[str], Counter[str]]:
    """Denials and audited failures by policy, of one namespace or of all, read off the events without any code of the report."""
    denied: Counter[str] = Counter()
    audited: Counter[str] = Counter()
    for event in events():
        if event["stage"] != "ResponseComplete" or not start <= microseconds(str(event["stageTimestamp"])) < end:
            continue
        ref = event.get("objectRef")
        if namespace and not (isinstance(ref, dict) and ref.get("namespace") == namespace):
            continue
        status = event.get("responseStatus")
        message = status.get("message", "") if isinstance(status, dict) else ""
        if "denied request: " in message:
            denied[message.split("ValidatingAdmissionPolicy '")[1].split("'")[0]] += 1
        is_absent = message.startswith('namespaces "') and event["verb"] == "create"
        if is_absent or "because it is being terminated" in message:
            denied["NamespaceLifecycle"] += 1
        annotations = event.get("annotations")
        if isinstance(annotations, dict) and FAILURE in annotations:
            audited.update({entry["policy"] for entry in json.loads(annotations[FAILURE])})
    return denied, audited


@pytest.mark.slow
def test_denials_and_failures_are_those_of_the_log_in_both_periods() -> None:
    found = whole()
    assert found.previous is not None
    for figures in (found.figures, found.previous):
        denied, audited = counted_by_hand(*figures.period)
        for action, expected in ((EffectAction.DENY, denied), (EffectAction.AUDIT, audited)):
            rows = {each.policy: each.requests for each in figures.actions if each.action is action}
            assert rows == expected
            assert all(sum(e.timeline.values()) == e.requests for e in figures.actions)


@pytest.mark.slow
def test_a_policy_on_trial_would_deny_what_it_audits(kept: Path) -> None:
    """The current set alone: each would-be denial is a failure that the log holds."""
    source = Scenario(store=kept, current=SAMPLE / "current", cluster=SAMPLE / "cluster.jsonl.zst")
    found = report(source, WeeklyQuestion())
    _, audited = counted_by_hand(*found.figures.period)
    trial = {each.policy: each.requests for each in found.figures.promotions if "audits" in each.today}
    assert trial == {policy: audited[policy] for policy in trial}
    assert sum(trial.values()) > 300
    readiness = [list(PolicyReadiness).index(each.readiness) for each in found.figures.promotions]
    assert readiness == sorted(readiness)
    assert found.fidelity.disagreement_count == 0
    assert found.foreign == Counter()
    assert found.previous is None


def denied_by_policy(candidate: Path, tmp_path: Path, within: Focus) -> dict[str, tuple[int, int]]:
    """Root findings and what follows by policy, as the lines of `replay run` have them."""
    lines = tmp_path / "outcomes.jsonl"
    source = Scenario(
        (str(SAMPLE / "audit.jsonl.zst"),),
        current=SAMPLE / "current",
        candidate=candidate,
        cluster=SAMPLE / "cluster.jsonl.zst",
    )
    run(source, Options(outcomes=lines, workers=1, focus=within), lambda _what, _done, _total: None)
    counts: Counter[tuple[str, bool]] = Counter()
    for line in map(orjson.loads, lines.read_bytes().splitlines()):
        if line["outcome"] == "newly_denied":
            counts.update({(each["policy"], bool(line.get("root"))) for each in line["candidate"]["denials"]})
    return {policy: (counts[policy, True], counts[policy, False]) for policy, _ in counts}


def in_figures(figures: Figures, side: EffectSide) -> dict[str, tuple[int, int]]:
    return {
        each.policy: (each.roots, each.follow) for each in figures.promotions if each.side is side and each.newly_denied
    }


@pytest.mark.slow
def test_the_candidate_would_deny_what_a_run_finds_and_what_follows_is_apart(tmp_path: Path) -> None:
    """In each period by itself: the candidate is in force from its start."""
    found = whole()
    assert found.previous is not None
    for figures in (found.previous, found.figures):
        since, until = (rfc3339(at) for at in (figures.period.start, figures.period.end - 1))
        expected = denied_by_policy(SAMPLE / "candidate", tmp_path, Focus(since=since, until=until))
        assert in_figures(figures, EffectSide.CANDIDATE) == expected
        assert sum(follow for _, follow in expected.values()) > 100


@pytest.mark.slow
def test_a_namespace_alone(tmp_path: Path) -> None:
    """What the log tells of it, and what a run about it finds."""
    about = Focus(namespaces=(NAMESPACE,))
    source = Scenario((str(SAMPLE),)).resolved()
    found = weekly(source, WeeklyQuestion(), Options(workers=1, focus=about), lambda _what, _done, _total: None)
    figures = found.figures
    denied, audited = counted_by_hand(*figures.period, namespace=NAMESPACE)
    for action, expected in ((EffectAction.DENY, denied), (EffectAction.AUDIT, audited)):
        assert {each.policy: each.requests for each in figures.actions if each.action is action} == expected
    assert figures.namespaces == {NAMESPACE}
    assert in_figures(figures, EffectSide.CANDIDATE) == denied_by_policy(SAMPLE / "candidate", tmp_path, about)
    assert found.at_rest is not None
    assert {each.namespace for each in found.at_rest.objects} == {NAMESPACE}
    with pytest.raises(ReplayError, match="the log has no namespace `nowhere`"):
        weekly(source, WeeklyQuestion(), Options(workers=1, focus=Focus(namespaces=("nowhere",))), lambda *_told: None)


@pytest.mark.slow
def test_what_is_on_trial_would_deny_what_a_run_finds_of_the_set_that_denies(tmp_path: Path) -> None:
    source = Scenario(
        (str(SAMPLE / "audit.jsonl.zst"),), current=SAMPLE / "current", cluster=SAMPLE / "cluster.jsonl.zst"
    )
    denying = shutil.copytree(SAMPLE / "current", tmp_path / "denying")
    for path in (denying / "vap").iterdir():
        path.write_text(re.sub(r"(validationActions:\n)(?: *- (?:Audit|Warn)\n)+", r"\1  - Deny\n", path.read_text()))
    found = report(source, WeeklyQuestion()).figures
    expected = denied_by_policy(denying, tmp_path, Focus())
    assert in_figures(found, EffectSide.CURRENT) == expected
    assert sum(follow for _, follow in expected.values()) > 100
    assert all(sum(each.halves) == sum(owner.requests for owner in each.owners) for each in found.promotions)


@pytest.mark.slow
def test_workers_and_shards_do_not_show() -> None:
    source = Scenario((str(SAMPLE),)).resolved()
    assert weekly_json(report(source, WeeklyQuestion(since="95s"), workers=2)) == weekly_json(whole())


def test_without_any_set_the_log_alone_speaks(kept: Path) -> None:
    found = report(Scenario(store=kept), WeeklyQuestion())
    assert found.figures.promotions == ()
    assert {each.source for each in found.figures.actions} == {FigureSource.LOG}
    assert found.figures.total(EffectAction.DENY) == counted_by_hand(*found.figures.period)[0].total()


def test_what_the_log_cannot_tell_is_said(tmp_path: Path) -> None:
    log = tmp_path / "audit.jsonl"
    log.write_bytes(
        b"".join(
            orjson.dumps({key: value for key, value in event.items() if key != "annotations"}) + b"\n"
            for event in events()[:400]
        )
    )
    found = report(Scenario((str(log),)), WeeklyQuestion(since="2026-11-20"))
    assert [note.partition(" at ")[0] for note in found.notes] == [
        "the log begins only",
        "the log has no annotations: audited failures and what webhooks changed are not in it",
    ]
    assert found.previous is None


@pytest.mark.slow
def test_another_set_in_force_is_noticed(kept: Path) -> None:
    source = Scenario(store=kept, current=SAMPLE / "candidate", cluster=SAMPLE / "cluster.jsonl.zst")
    found = report(source, WeeklyQuestion())
    assert found.foreign["cand-team-label.static.k8s.io"] > 0
    assert found.fidelity.disagreement_count > 0


@pytest.mark.slow
def test_a_kept_report_is_compared_with_and_a_rerun_gives_the_same(tmp_path: Path) -> None:
    store, out = tmp_path / "store", tmp_path / "out"
    log = Scenario((str(SAMPLE / "audit.jsonl.zst"),), store=store)
    first = report(log, WeeklyQuestion(until="90s", directory=out))
    write_weekly(first, out, UTC, brief=False)
    filled = Scenario(store=store)
    texts = []
    for _ in range(2):
        third = report(filled, WeeklyQuestion(since="80s", previous=out / "report.json"))
        assert third.previous == first.figures
        texts.append(weekly_json(third))
    assert texts[0] == texts[1]


@pytest.mark.parametrize(
    ("question", "message"),
    [
        (
            WeeklyQuestion(since="2020-01-01", until="2020-01-08"),
            "no request that admission saw in the period asked for: ",
        ),
        (WeeklyQuestion(since="10s", until="20s"), "the period ends before it begins: "),
        (WeeklyQuestion(since="yesterday"), "no time `yesterday`"),
        (WeeklyQuestion(previous=Path("/nowhere/report.json")), "/nowhere/report.json: no such file or directory"),
    ],
)
def test_unusable_questions_are_refused(question: WeeklyQuestion, message: str, kept: Path) -> None:
    with pytest.raises(ReplayError) as raised:
        report(Scenario(store=kept), question)
    assert str(raised.value).startswith(message)


def test_nothing_to_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ReplayError, match="no log: give log files"):
        report(Scenario(), WeeklyQuestion())
    with pytest.raises(ReplayError, match="there is no store"):
        report(Scenario(store=tmp_path / "none"), WeeklyQuestion())
