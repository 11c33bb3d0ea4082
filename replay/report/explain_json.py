"""The explanation of a request as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, tzinfo
from typing import Any

from msgspec.structs import replace

from replay.admission.explain.explanation import PolicyExplanation
from replay.report.explain_report import Explained, SetExplanation, explain_document, reason, step_lines


def explain_json(explained: Explained, zone: tzinfo = UTC) -> dict[str, Any]:
    """Return an explanation as plain values. Expressions with their parts are the lines of the document."""
    request, text = explained.request, explained.concealer.text
    record, denial = request.record, explained.observed.denial
    document = replace(explain_document(explained, zone), sections=())
    return {
        "auditID": record.audit_id,
        "verdict": document.verdict,
        "workload": explained.workload,
        "owner": explained.owner,
        "facts": {fact.label: f"{fact.value} {fact.note}".strip() for fact in document.facts},
        "reached": {"how": request.reached.value, "reason": request.reached_reason},
        "basis": {name: basis.value if basis else None for name, basis in request.basis.items()},
        "observed": {
            "denial": ", ".join(each.policy for each in denial.by_policy) if denial else None,
            "failures": [
                {key: text(value) if isinstance(value, str) else value for key, value in each.items()}
                for each in explained.observed.failures
            ],
            "annotations": {key: text(value) for key, value in explained.observed.policy_annotations.items()},
        },
        "sets": {each.name: _set_json(explained, each) for each in explained.sets},
        **(
            {"authorization": {name: each.as_json() for name, each in explained.authorized}}
            if explained.authorized
            else {}
        ),
    }


def _set_json(explained: Explained, each: SetExplanation) -> dict[str, Any]:
    decision, concealer = each.decision, explained.concealer
    return {
        "verdict": decision.verdict.value,
        "denials": [
            {
                "policy": d.policy,
                "binding": d.binding,
                "message": concealer.text(d.message),
                "reason": d.reason,
                "code": d.code,
                **({"places": [concealer.text(place) for place in d.places]} if d.places else {}),
            }
            for d in decision.denials
        ],
        "warnings": [concealer.text(warning) for warning in decision.warnings],
        "auditAnnotations": {key: concealer.text(value) for key, value in decision.audit_annotations.items()},
        "mutated": [
            {"policy": m.policy, "binding": m.binding, "patch": list(concealer.patch(m.patch))}
            for m in decision.mutated
        ],
        "undetermined": [
            {"policy": gap.policy, "path": gap.path, "reason": concealer.text(gap.reason), "fix": gap.fix}
            for gap in decision.undetermined
        ],
        "policies": [_policy_json(explained, number, policy) for number, policy in each.steps],
        "webhooks": [
            {
                "webhook": webhook.webhook,
                "configuration": webhook.configuration,
                "phase": webhook.phase,
                "called": not webhook.reason,
                "again": any(webhook.webhook in again.webhooks for again in each.passes),
                "reason": webhook.reason,
            }
            for webhook in each.webhooks
        ],
    }


def _policy_json(explained: Explained, number: int, policy: PolicyExplanation) -> Mapping[str, Any]:
    return {
        "policy": policy.policy,
        "kind": policy.kind,
        "pass": number or None,
        "matches": policy.matches,
        "reason": "" if policy.matches else reason(policy),
        "bindings": [
            {
                "binding": each.binding,
                "outcome": explained.concealer.text(each.outcome or each.mismatch),
                "cost": each.cost,
                **({"place": [explained.concealer.text(place) for place in each.place]} if each.place else {}),
                "patch": list(explained.concealer.patch(each.patch)),
                "steps": [
                    {"label": step.label, "cost": step.cost, "lines": list(step_lines(explained, step))}
                    for step in each.steps
                ],
            }
            for each in policy.bindings
        ],
    }
