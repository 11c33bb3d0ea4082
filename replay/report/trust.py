"""Trust in a report: how well the baseline matches the log, the mismatches, and what the log lacks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from replay.compare.fidelity import Agreement, Disagreement, Fidelity
from replay.compare.readiness import Confidence
from replay.compare.result import RunResult
from replay.compare.summary import Gap
from replay.json import JSON
from replay.report.render.document import Align, Column, Fact, Section, Table, Tone, inert, number, share, without_empty

CONFIDENCE_TONES = {Confidence.LOW: Tone.BAD, Confidence.MEDIUM: Tone.WARN, Confidence.HIGH: Tone.GOOD}


NOTHING = "nothing"
_BETWEEN = "; "


def differing(disagreement: Disagreement) -> tuple[str, str]:
    """Return the log's and the replay's text, only where they differ. A side without one is `nothing`."""
    observed, replayed = _parts(disagreement.observed), _parts(disagreement.replayed)
    only_each = (
        [part for part in observed if part not in replayed],
        [part for part in replayed if part not in observed],
    )
    if not any(only_each):  # the same things in another order, or as often
        only_each = observed, replayed
    log, replay = (_BETWEEN.join(parts) or NOTHING for parts in only_each)
    return log, replay


def _parts(text: str) -> list[str]:
    """Return the statements of one side as texts. Text that is not JSON is one statement."""
    try:
        value: JSON = orjson.loads(text)
    except orjson.JSONDecodeError:
        return [text] if text and text != NOTHING else []
    if isinstance(value, dict):
        return [f"{key} = {each}" for key, each in value.items()]
    if isinstance(value, list) and value and all(isinstance(each, dict) for each in value):
        return [_failure(each) for each in value]
    if isinstance(value, list) and len(value) == 3 and all(isinstance(each, str) for each in value):
        policy, binding, message = value
        return [_text_of(policy, binding, message)]
    return [str(each) for each in value] if isinstance(value, list) else [str(value)]


def _failure(entry: dict[str, Any]) -> str:
    """Return an entry of the annotation `validation_failure` as text."""
    actions = entry.get("validationActions")
    listed = ", ".join(map(str, actions)) if isinstance(actions, list) else ""
    where = [str(entry.get("binding") or "")]
    if "expressionIndex" in entry:
        where.append(f"validation {entry['expressionIndex']}")
    said = _text_of(str(entry.get("policy", "")), ", ".join(filter(None, where)), str(entry.get("message", "")))
    return f"{said} [{listed}]" if listed else said


def _text_of(policy: str, where: str, message: str) -> str:
    return f"{policy} ({where}): {message}" if where else f"{policy}: {message}"


def agreement_json(agreement: Agreement) -> dict[str, int]:
    """Return the agreement of log and replay as plain values."""
    return {
        "observed": agreement.observed,
        "reproduced": agreement.reproduced,
        "undetermined": agreement.undetermined,
        "differs": agreement.differs,
        "notInLog": agreement.extra,
    }


def fidelity_json(fidelity: Fidelity) -> dict[str, Any]:
    """Return the match with the log as plain values."""
    return {
        "denials": agreement_json(fidelity.denials),
        "failures": agreement_json(fidelity.failures),
        "annotations": agreement_json(fidelity.annotations),
        "disagreements": fidelity.disagreement_count,
    }


MATCH = "Match with the log"
LEAST_MATCH = 0.9
"""Share of reproduced decisions below which a report starts with a warning."""


def fidelity_fact(fidelity: Fidelity) -> Fact:
    """Return how many recorded decisions the baseline reproduces."""
    parts = [
        _reproduced_text(agreement, noun)
        for agreement, noun in (
            (fidelity.denials, "denials"),
            (fidelity.failures, "audited failures"),
            (fidelity.annotations, "annotations"),
        )
        if agreement.observed or agreement.extra
    ]
    if not parts:
        return Fact(MATCH, "not checkable", "the log records no decision of the baseline's policies", Tone.WARN)
    tone = Tone.GOOD if not fidelity.disagreement_count else Tone.WARN
    return Fact(MATCH, share(*fidelity.compared), "reproduced: " + ", ".join(parts), tone)


def matches_log(fidelity: Fidelity) -> bool:
    """Return whether the baseline reproduces enough of the log, or the log records nothing to compare."""
    # Undetermined decisions are not compared: they say what the log lacks, not that the set is wrong.
    reproduced, seen = fidelity.compared
    return seen <= 0 or reproduced >= LEAST_MATCH * seen


def mismatch(result: RunResult) -> str:
    """Return a warning if the baseline does not match the log, or cannot be compared with it. Otherwise "".

    A prediction is then worth little, because the baseline is probably not the set that was in force.
    """
    fidelity = result.fidelity
    aspects = (fidelity.denials, fidelity.failures, fidelity.annotations)
    if matches_log(fidelity):
        if result.has_snapshot or all(_unknown(each) <= (1 - LEAST_MATCH) * each.observed for each in aspects):
            return ""
        return (
            f"The snapshot is missing: {number(sum(map(_unknown, aspects)))} of {number(sum(each.observed for each in aspects))} decisions of "
            "the log are undetermined without it. Take one with `replay snapshot` and give it with --cluster."
        )
    reproduced, seen = fidelity.compared
    cause = result.mismatch_cause or "Another set was probably in force."
    return (
        f"The baseline does not match the log: {number(reproduced)} of {number(seen)} decisions agree. {cause} "
        "Run `replay verify` before you use this result."
    )


def _unknown(agreement: Agreement) -> int:
    """Return how many decisions of the log are undetermined in the replay."""
    return agreement.observed - agreement.reproduced - agreement.differs


def _reproduced_text(agreement: Agreement, noun: str) -> str:
    others = ((_unknown(agreement), "undetermined"), (agreement.extra, "more are not in the log"))
    notes = ", ".join(f"{number(count)} {text}" for count, text in others if count)
    text = f"{number(agreement.reproduced)}/{number(agreement.observed)} {noun}"
    return f"{text} ({notes})" if notes else text


def gaps_section(gap_counts: Mapping[Gap, int], rows: int) -> Section | None:
    """Return the reasons for undetermined verdicts, the most frequent first. None if every verdict is determined."""
    gaps = sorted(gap_counts.items(), key=lambda item: (-item[1], item[0]))
    if not gaps:
        return None
    columns = (
        Column("policy", Align.CODE),
        Column("requests", Align.NUMBER),
        Column("unknown", Align.CODE),
        Column("reason"),
        Column("to record it", optional=True),
    )
    table = Table(
        "gaps",
        "",
        columns,
        tuple(
            (inert(gap.policy), number(count), inert(gap.path), inert(gap.reason), inert(gap.fix))
            for gap, count in gaps[:rows]
        ),
        len(gaps),
    )
    lead = "The log does not hold what these verdicts depend on. Each of these requests could be admitted or denied."
    return Section("undetermined", "Undetermined", lead, (without_empty(table),), Tone.WARN)


def disagreements_section(fidelity: Fidelity, rows: int) -> Section | None:
    """Return the requests for which the baseline and the log differ, or None if there are none."""
    if not fidelity.disagreement_count:
        return None
    columns = (
        Column("audit id", Align.ID),
        Column("what"),
        Column("the log says"),
        Column("the baseline says"),
        Column("likely cause", optional=True),
    )
    shown = tuple(
        (inert(d.audit_id), d.aspect, *map(inert, differing(d)), inert(d.cause))
        for d in sorted(fidelity.disagreements)[:rows]
    )
    table = Table("disagreements", "", columns, shown, fidelity.disagreement_count)
    lead = "The baseline decides these requests differently from the log. `replay verify` looks for the cause."
    return Section("fidelity", "Mismatches with the log", lead, (without_empty(table),), Tone.WARN)
