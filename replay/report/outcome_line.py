"""The line format of `--outcomes`: one JSON object per request that admission saw. It is an interface; the README documents it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import orjson

from replay.admission.decision import Decision
from replay.compare.outcome import Outcome


def outcome_line(outcome: Outcome) -> bytes:
    """One line without its end; `item` and what a mutating phase adds stand there only where they say something."""
    value: dict[str, Any] = {
        "auditID": outcome.audit_id,
        "stageTimestamp": timestamp(outcome.stage_time),
        "user": outcome.user,
        "operation": outcome.operation,
        "resource": {
            "group": outcome.resource.group,
            "version": outcome.resource.version,
            "resource": outcome.resource.resource,
            "subresource": outcome.subresource,
        },
        "namespace": outcome.namespace,
        "name": outcome.name,
        "outcome": outcome.outcome,
        "basis": outcome.basis,
        "current": decision_value(outcome.current),
        "candidate": decision_value(outcome.candidate),
    }
    if outcome.item:
        value["item"] = outcome.item
    return orjson.dumps(value)


def decision_value(decision: Decision) -> dict[str, Any]:
    """A decision as JSON; denials are in the server's order."""
    value: dict[str, Any] = {
        "verdict": decision.verdict,
        "denials": [
            {
                "policy": denial.policy,
                "binding": denial.binding,
                "expressionIndex": denial.expression_index,
                "message": denial.message,
                "reason": denial.reason,
                "code": denial.code,
            }
            for denial in decision.denials
        ],
        "warnings": decision.warnings,
        "auditAnnotations": decision.audit_annotations,
        "patch": decision.patch,
        "undetermined": [
            {"policy": entry.policy, "binding": entry.binding, "reason": entry.reason}
            for entry in decision.undetermined
        ],
    }
    if decision.mutated:
        value["mutatedBy"] = [{"policy": m.policy, "binding": m.binding, "patch": m.patch} for m in decision.mutated]
    if decision.webhooks:
        value["webhooks"] = [
            {
                "configuration": call.configuration,
                "webhook": call.webhook,
                "phase": call.phase,
                "failurePolicy": call.failure_policy,
                "timeoutSeconds": call.timeout_seconds,
                "sideEffects": call.side_effects,
                "answer": call.answer,
            }
            for call in decision.webhooks
        ]
    for name, denials in (
        ("causedByMutation", decision.caused_by_mutation),
        ("healedByMutation", decision.healed_by_mutation),
    ):
        if denials:
            value[name] = [
                {"policy": each.policy, "binding": each.binding, "message": each.message} for each in denials
            ]
    return value


def timestamp(microseconds: int) -> str:
    """RFC 3339 with microseconds, as audit logs have it."""
    at = datetime.fromtimestamp(microseconds // 1_000_000, tz=UTC)
    return f"{at:%Y-%m-%dT%H:%M:%S}.{microseconds % 1_000_000:06d}Z"
