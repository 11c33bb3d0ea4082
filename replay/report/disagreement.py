"""Differences between the log and a replay in words, and their agreement as values."""

from __future__ import annotations

from typing import Any

import orjson

from replay.compare.fidelity import Agreement, Disagreement, Fidelity
from replay.json import JSON

NOTHING = "nothing"
_BETWEEN = "; "


def differing(disagreement: Disagreement) -> tuple[str, str]:
    """Return the log's and the replay's text, only where they differ; `nothing` for a side without one."""
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
    """The statements of one side, each in words; text that is no JSON is one."""
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
    """An entry of the annotation `validation_failure`."""
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
    """How log and replay agree, as plain values."""
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
