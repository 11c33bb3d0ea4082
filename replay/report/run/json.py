"""The summary of a run as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from itertools import islice
from typing import Any

import orjson

from replay.compare.outcome import OutcomeKind
from replay.compare.result import LogFacts, RunResult, WorldFacts
from replay.compare.summary import CellKey, Summary, decided
from replay.report.run.api_versions import api_versions_json
from replay.report.run.authorization import authorization_json
from replay.report.run.denied import accepted_json, bootstrap_gap_json
from replay.report.run.hits import hit_values
from replay.report.run.mutations import chain_cells, mutation_groups
from replay.report.run.proofs import proofs_summary
from replay.report.run.report import cells_of
from replay.report.run.triggered import triggered_json
from replay.report.run.views import (
    by_kind,
    by_namespace,
    by_policy,
    by_user,
    by_workload,
    by_workspace,
    counts,
    grouped,
)
from replay.report.run.webhooks import outage_json
from replay.report.trust import fidelity_json

_ROWS = 1000
"""Number of rows that are in memory as JSON at a time."""
_VIEWS = {
    "policies": by_policy,
    "users": by_user,
    "namespaces": by_namespace,
    "resources": by_kind,
    "workloads": by_workload,
}


def _shard_counts(summary: Summary) -> dict[str, Callable[[CellKey], Iterable[str]]]:
    """Return the counts that exist only for kcp."""
    return {"workspaces": by_workspace} if any(key.workspace for key in summary.cells) else {}


def summary_json(result: RunResult) -> str:
    """Return the summary as one JSON document, with a line end."""
    return "".join(summary_pieces(result))


def summary_pieces(result: RunResult) -> Iterator[str]:
    """Yield the pieces of the document. The rows of a large log are never all in memory."""
    opening = "{"
    for name, value in _members(result).items():
        pieces = _list(name, value) if isinstance(value, Iterator) else iter([_member(name, value)])
        yield opening + next(pieces)
        yield from pieces
        opening = ","
    yield "\n}\n"


def _member(name: str, value: object) -> str:
    """Return a member of an object as indented JSON."""
    return orjson.dumps({name: value}, option=orjson.OPT_INDENT_2)[len("{") : -len("\n}")].decode()


def _list(name: str, values: Iterator[object]) -> Iterator[str]:
    """Yield the pieces of a member that is a list, some values at a time."""
    beginning, end = f'\n  "{name}": [', "\n  ]"
    opening = beginning
    while some := list(islice(values, _ROWS)):
        yield opening + _member(name, some)[len(beginning) : -len(end)]
        opening = ","
    yield end if opening == "," else f"{beginning}]"


def _members(result: RunResult) -> dict[str, Any]:
    """Return the members of the document, in order. An iterator stands for a list."""
    summary = result.summary
    determined, total = decided(summary, "candidate")
    by_outcome = counts(summary)
    kinds = sorted(by_outcome)
    members: dict[str, Any] = {
        "log": _log(result.log),
        "decided": {"requests": determined, "of": total},
        "notReached": summary.not_reached.total(),
        "fidelity": fidelity_json(result.fidelity),
        "roots": {kind.value: by_outcome[kind][0] for kind in kinds},
        "outcomes": {kind.value: count for kind, count in sorted(summary.outcomes.items())},
        "world": _world(result.world),
        "findings": {kind.value: _findings(result, kind) for kind in kinds},
        "rows": hit_values(result),
        "deniedByDay": _denied_by_day(summary),
        "mutations": _mutations(result),
        "chains": [
            {
                **{name: value for name, value in chain._asdict().items() if name != "follows"},
                "requests": root.count,
                "follow": other.count,
            }
            for chain, (root, other) in chain_cells(summary)
        ],
        "webhooks": _webhooks(result),
        "undetermined": _undetermined(result),
    }
    if summary.triggered:
        members["triggered"] = triggered_json(summary)
    if result.moved:
        members["bootstrapGap"] = bootstrap_gap_json(result)
    if result.outage is not None:
        members["outage"] = outage_json(result)
    if result.versions.differ:
        members["versions"] = {"current": str(result.versions.current), "candidate": str(result.versions.candidate)}
        members["apiVersions"] = api_versions_json(result)
    if result.accepted.entries:
        members["accepted"] = accepted_json(result.accepted)
    if result.authorization is not None:
        members["authorization"] = authorization_json(result.authorization)
    if result.proofs:
        members["proofs"] = proofs_summary(result)
    return members


def _denied_by_day(summary: Summary) -> dict[str, dict[str, int]]:
    """Return the direct denials of each policy by day (UTC)."""
    days: dict[str, Counter[str]] = {}
    for (minute, outcome, policy), count in sorted(summary.timeline.items()):
        if outcome is OutcomeKind.NEWLY_DENIED:
            day = datetime.fromtimestamp(minute * 60, tz=UTC).date().isoformat()
            days.setdefault(policy, Counter())[day] += count
    return {policy: dict(counts) for policy, counts in sorted(days.items())}


def _log(log: LogFacts) -> dict[str, Any]:
    return {
        "files": log.files,
        "events": log.events,
        "requests": log.requests,
        "admission": log.admission,
        "rejects": dict(sorted(log.rejects.items())),
        "duplicates": log.duplicates,
    }


def _world(world: WorldFacts) -> dict[str, Any]:
    return {
        "roots": world.roots,
        "consequences": world.consequences,
        "failing": world.failing,
        "notSent": world.not_sent,
        "unknown": world.unknown,
        "retriedOwners": world.retried,
        "refusedRetries": world.refused,
        "refusedRetriesInLog": world.refused_in_log,
        "ends": dict(sorted(world.ends.items())),
    }


def _findings(result: RunResult, kind: OutcomeKind) -> dict[str, Any]:
    """Return the findings of one outcome in each view."""
    return {
        view: [
            {
                "name": group.label,
                "requests": group.requests,
                "follow": group.consequences,
                "workloads": len(group.workloads),
                **(_origin(result, group.label) if view == "policies" else {}),
            }
            for group in grouped(cells_of(result, kind), labels)
        ]
        for view, labels in (_VIEWS | _shard_counts(result.summary)).items()
    }


def _mutations(result: RunResult) -> list[dict[str, Any]]:
    return [
        {
            "outcome": outcome,
            "policy": policy,
            "shape": shape.split(", "),
            "requests": group.requests,
            "follow": group.consequences,
            **_origin(result, policy),
        }
        for group in mutation_groups(result.summary)
        for outcome, policy, shape in [group.label.split("\0")]
    ]


def _webhooks(result: RunResult) -> dict[str, Any]:
    summary = result.summary
    return {
        "calls": [{**call._asdict(), "requests": count} for call, count in sorted(summary.webhooks.items())],
        "failures": [
            {"webhook": webhook, "message": text, "requests": count}
            for (webhook, text), count in sorted(summary.call_failures.items())
        ],
        "takenToAnswerAsBefore": result.shared_webhooks,
    }


def _undetermined(result: RunResult) -> list[dict[str, Any]]:
    """Return what the candidate's decisions lack, the most frequent first."""
    return [
        {
            "policy": gap.policy,
            "path": gap.path,
            "reason": gap.reason,
            "fix": gap.fix,
            "requests": count,
            **_origin(result, gap.policy),
        }
        for (side, gap), count in sorted(result.summary.gaps.items(), key=lambda item: (-item[1], item[0]))
        if side == "candidate"
    ]


def _origin(result: RunResult, policy: str) -> dict[str, Any]:
    origin = result.origin(policy)
    return {"origin": origin._asdict()} if origin is not None else {}
