"""The line format of `--outcomes`: one JSON object for each request that admission saw.

It is an interface, documented in the README.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import orjson

from replay.admission.decision import Decision, Denial, Verdict
from replay.compare.outcome import Outcome
from replay.go.time import timestamp
from replay.kcp.binding import DecidedIn
from replay.world.result import RequestEnd

_NOWHERE: Mapping[str, str | None] = {}
_PLANNED = "candidatePolicyWorkspace"
"""Field for the workspace whose policies would decide under the candidate."""


def outcome_line(outcome: Outcome) -> bytes:
    """Return one line without its end. `item` and the fields of the mutating phase are left out if they say nothing."""
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
    }
    current, candidate = _workspaces_of(outcome.decided_in)
    value |= current
    if candidate != current:
        value[_PLANNED] = candidate["policyWorkspace"]
    if outcome.item:
        value["item"] = outcome.item
    value["current"] = decision_value(outcome.current, current)
    value["candidate"] = decision_value(outcome.candidate, candidate)
    return orjson.dumps(value)


def _workspaces_of(decided_in: DecidedIn) -> tuple[dict[str, str | None], dict[str, str | None]]:
    """Return the kcp workspaces that decide under each set."""
    workspace, policies, planned = decided_in
    if not workspace:
        return {}, {}
    current, candidate = ({"workspace": workspace, "policyWorkspace": own or None} for own in (policies, planned))
    return current, candidate


def denial_values(denials: Iterable[Denial], where: Mapping[str, str | None] = _NOWHERE) -> list[dict[str, Any]]:
    """Return denials as JSON, in the server's order. `where` are the workspaces of a request to kcp."""
    return [
        {
            **where,
            "policy": denial.policy,
            "binding": denial.binding,
            "expressionIndex": denial.expression_index,
            "message": denial.message,
            "reason": denial.reason,
            "code": denial.code,
        }
        for denial in denials
    ]


class Ending(NamedTuple):
    """Result of a request in the candidate's world.

    `denials` are those on an object that differs from the log's. None means those of the decision about the request
    alone.
    """

    result: RequestEnd
    follows: str = ""
    repetitions: int = 0
    root: bool = False
    denials: Sequence[Denial] | None = None


def ended_line(line: bytes, ending: Ending) -> bytes:
    """Return a line of `outcome_line` with the end of its request in the candidate's world.

    The end is known only after all requests are read. The candidate's `denials` say why it refuses the request: those
    of the request alone, if any, or else those in that world.
    """
    end: dict[str, Any] = {"follows": ending.follows} if ending.follows else {}
    if ending.root:
        end["root"] = True
    if ending.repetitions:
        end["repetitions"] = ending.repetitions
    if ending.denials is None:
        # INVARIANT: the candidate's decision is the last value of a line.
        fields = b',"result":' + orjson.dumps(ending.result.value) + b"}"
        return line[:-2] + fields + (b"," + orjson.dumps(end)[1:] if end else b"}")
    value = orjson.loads(line)
    where = {key: value[key] for key in ("workspace", "policyWorkspace") if key in value}
    where |= {"policyWorkspace": value[_PLANNED]} if _PLANNED in value else {}
    decision, met = value["candidate"], denial_values(ending.denials, where)
    if decision["verdict"] != Verdict.DENIED:
        decision["denials"] = met
    decision["result"] = {**ending.result.value, "denials": met}
    return orjson.dumps({**value, **end})


def decision_value(decision: Decision, where: Mapping[str, str | None] = _NOWHERE) -> dict[str, Any]:
    """Return a decision as JSON, with denials in the server's order."""
    value: dict[str, Any] = {
        "verdict": decision.verdict,
        "denials": denial_values(decision.denials, where),
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
    if decision.triggered:
        value["triggered"] = [
            {"policy": each.policy, "undetermined": each.unknown}
            if each.unknown
            else {"policy": each.policy, "work": each.work}
            for each in decision.triggered
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
