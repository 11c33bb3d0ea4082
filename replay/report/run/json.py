"""The summary of a run as JSON."""

from __future__ import annotations

from typing import Any

import orjson

from replay.compare.fidelity import Agreement
from replay.compare.result import RunResult
from replay.compare.summary import decided
from replay.report.authorization.changes import authorization_json
from replay.report.run.mutations import mutation_groups
from replay.report.run.report import cells_of
from replay.report.run.views import by_kind, by_namespace, by_policy, by_user, by_workload, grouped

_VIEWS = {
    "policies": by_policy,
    "users": by_user,
    "namespaces": by_namespace,
    "resources": by_kind,
    "workloads": by_workload,
}


def summary_json(result: RunResult) -> str:
    """The summary as one JSON document, with a line end."""
    log, summary, fidelity = result.log, result.summary, result.fidelity
    known, total = decided(summary, "candidate")
    value: dict[str, Any] = {
        "log": {
            "files": log.files,
            "events": log.events,
            "requests": log.requests,
            "admission": log.admission,
            "rejects": dict(sorted(log.rejects.items())),
            "duplicates": log.duplicates,
        },
        "decided": {"requests": known, "of": total},
        "notReached": summary.not_reached.total(),
        "fidelity": {
            "denials": _agreement(fidelity.denials),
            "failures": _agreement(fidelity.failures),
            "annotations": _agreement(fidelity.annotations),
            "disagreements": fidelity.disagreement_count,
        },
        "outcomes": {kind.value: count for kind, count in sorted(summary.outcomes.items())},
        "world": {
            "roots": result.world.roots,
            "consequences": result.world.consequences,
            "notSent": result.world.not_sent,
            "unknown": result.world.unknown,
            "retriedOwners": result.world.retried,
            "refusedRetries": result.world.refused,
            "ends": dict(sorted(result.world.ends.items())),
        },
        "findings": {
            kind.value: {
                view: [
                    {
                        "name": group.label,
                        "requests": group.requests,
                        "workloads": len(group.workloads),
                        **(_origin(result, group.label) if view == "policies" else {}),
                    }
                    for group in grouped(cells_of(result, kind), labels)
                ]
                for view, labels in _VIEWS.items()
            }
            for kind in sorted({key.outcome for key in summary.cells})
        },
        "mutations": [
            {
                "outcome": outcome,
                "policy": policy,
                "shape": shape.split(", "),
                "requests": group.requests,
                **_origin(result, policy),
            }
            for group in mutation_groups(summary)
            for outcome, policy, shape in [group.label.split("\0")]
        ],
        "chains": [{**chain._asdict(), "requests": cell.count} for chain, cell in sorted(summary.chains.items())],
        "webhooks": {
            "calls": [{**call._asdict(), "requests": count} for call, count in sorted(summary.webhooks.items())],
            "failures": [
                {"webhook": webhook, "message": text, "requests": count}
                for (webhook, text), count in sorted(summary.call_failures.items())
            ],
            "takenToAnswerAsBefore": result.shared_webhooks,
        },
        "undetermined": [
            {
                "policy": gap.policy,
                "path": gap.path,
                "reason": gap.reason,
                "fix": gap.fix,
                "requests": count,
                **_origin(result, gap.policy),
            }
            for (side, gap), count in sorted(summary.gaps.items(), key=lambda item: (-item[1], item[0]))
            if side == "candidate"
        ],
    }
    if result.authorization is not None:
        value["authorization"] = authorization_json(result.authorization)
    return orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE).decode()


def _origin(result: RunResult, policy: str) -> dict[str, Any]:
    """Where a policy was read: in the candidate set, else in the current one; nothing of what the cluster holds."""
    origin = result.candidate.origins.get(policy) or result.current.origins.get(policy)
    return {"origin": origin._asdict()} if origin is not None else {}


def _agreement(agreement: Agreement) -> dict[str, int]:
    return {
        "observed": agreement.observed,
        "reproduced": agreement.reproduced,
        "undetermined": agreement.undetermined,
        "differs": agreement.differs,
        "notInLog": agreement.extra,
    }
