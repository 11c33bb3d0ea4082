from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import orjson
import pyarrow as pa
import pytest

from replay.compare.weekly.effect import EffectAction
from replay.compare.weekly.figures import Readiness, Source, WeeklyResult
from replay.errors import ReplayError
from replay.pipeline.options import Options
from replay.pipeline.scenario import Scenario
from replay.pipeline.weekly.output import write_weekly
from replay.pipeline.weekly.report import WeeklyQuestion, weekly
from replay.report.render.document import MICROSECONDS
from replay.report.weekly.json import weekly_json

SAMPLE = Path(__file__).parents[2] / "sample_audit" / "shop"
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


def microseconds(text: str) -> int:
    at = datetime.fromisoformat(text)
    return int(at.timestamp()) * MICROSECONDS + at.microsecond


def counted_by_hand(start: int, end: int) -> tuple[Counter[str], Counter[str]]:
    """Denials and audited failures by policy, read off the events without any code of the report."""
    denied: Counter[str] = Counter()
    audited: Counter[str] = Counter()
    for event in events():
        if event["stage"] != "ResponseComplete" or not start <= microseconds(str(event["stageTimestamp"])) < end:
            continue
        status = event.get("responseStatus")
        message = status.get("message", "") if isinstance(status, dict) else ""
        if "denied request: " in message:
            denied[message.split("ValidatingAdmissionPolicy '")[1].split("'")[0]] += 1
        annotations = event.get("annotations")
        if isinstance(annotations, dict) and FAILURE in annotations:
            audited.update({entry["policy"] for entry in json.loads(annotations[FAILURE])})
    return denied, audited


def test_denials_and_failures_are_those_of_the_log_in_both_periods() -> None:
    found = whole()
    assert found.previous is not None
    for figures in (found.figures, found.previous):
        denied, audited = counted_by_hand(*figures.period)
        for action, expected in ((EffectAction.DENY, denied), (EffectAction.AUDIT, audited)):
            rows = {each.policy: each.requests for each in figures.actions if each.action is action}
            assert rows == expected
            assert all(sum(e.timeline.values()) == e.requests for e in figures.actions)


def test_a_policy_on_trial_would_deny_what_it_audits() -> None:
    """The current set alone: each would-be denial is a failure that the log holds."""
    source = Scenario(
        (str(SAMPLE / "audit.jsonl.zst"),), current=SAMPLE / "current", cluster=SAMPLE / "cluster.jsonl.zst"
    )
    found = report(source, WeeklyQuestion())
    _, audited = counted_by_hand(*found.figures.period)
    trial = {each.policy: each.requests for each in found.figures.promotions if "audits" in each.today}
    assert trial == {policy: audited[policy] for policy in trial}
    assert sum(trial.values()) > 300
    readiness = [list(Readiness).index(each.readiness) for each in found.figures.promotions]
    assert readiness == sorted(readiness)
    assert found.fidelity.disagreement_count == 0
    assert found.foreign == Counter()
    assert found.previous is None


def test_workers_and_shards_do_not_show() -> None:
    source = Scenario((str(SAMPLE),)).resolved()
    assert weekly_json(report(source, WeeklyQuestion(since="95s"), workers=2)) == weekly_json(whole())


def test_without_any_set_the_log_alone_speaks() -> None:
    found = report(Scenario((str(SAMPLE / "audit.jsonl.zst"),)), WeeklyQuestion())
    assert found.figures.promotions == ()
    assert {each.source for each in found.figures.actions} == {Source.LOG}
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
        "the log has no annotations: audited failures and what webhooks changed cannot be told from it",
    ]
    assert found.previous is None


def test_another_set_in_force_is_noticed() -> None:
    source = Scenario(
        (str(SAMPLE / "audit.jsonl.zst"),), current=SAMPLE / "candidate", cluster=SAMPLE / "cluster.jsonl.zst"
    )
    found = report(source, WeeklyQuestion())
    assert found.foreign["cand-team-label.static.k8s.io"] > 0
    assert found.fidelity.disagreement_count > 0


def test_a_kept_report_is_compared_with_and_a_rerun_gives_the_same(tmp_path: Path) -> None:
    store, out = tmp_path / "store", tmp_path / "out"
    log = Scenario((str(SAMPLE / "audit.jsonl.zst"),), store=store)
    first = report(log, WeeklyQuestion(until="90s", kept=out))
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
def test_unusable_questions_are_refused(question: WeeklyQuestion, message: str) -> None:
    with pytest.raises(ReplayError) as raised:
        report(Scenario((str(SAMPLE / "audit.jsonl.zst"),)), question)
    assert str(raised.value).startswith(message)


def test_nothing_to_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ReplayError, match="no log: give log files"):
        report(Scenario(), WeeklyQuestion())
    with pytest.raises(ReplayError, match="there is no store"):
        report(Scenario(store=tmp_path / "none"), WeeklyQuestion())
