"""What passed while a policy of the API was not there, and its static form would have denied."""

from __future__ import annotations

from typing import Any

from replay.compare.outcome import OutcomeKind
from replay.compare.result import RunResult
from replay.kube.admissionregistration import GROUP
from replay.report.render.document import Fact, Tone, inert, plural
from replay.report.run.views import Group, by_policy, cells_with, direct, grouped

_MOST_NAMES = 2


def bootstrap_gap_fact(result: RunResult) -> Fact | None:
    """How many requests came before the policies existed or while they were gone; None where none moved."""
    if not result.moved:
        return None
    groups = _groups(result)
    if not groups:
        return Fact("Bootstrap gap", "none", "what moved denies nothing that passed", Tone.GOOD)
    named = ", ".join(f"{inert(each.label)} ({each.requests:,})" for each in groups[:_MOST_NAMES])
    more = f" and {len(groups) - _MOST_NAMES} more" if len(groups) > _MOST_NAMES else ""
    requests = plural(sum(each.requests for each in groups), "request")
    return Fact("Bootstrap gap", requests, f"passed while the policy was not in the API: {named}{more}", Tone.WARN)


def bootstrap_gap_json(result: RunResult) -> list[dict[str, Any]]:
    """The same as plain JSON."""
    return [
        {
            "policy": group.label,
            "requests": group.requests,
            "examples": [example.audit_id for example, _ in group.examples],
        }
        for group in _groups(result)
    ]


def _groups(result: RunResult) -> list[Group]:
    """The direct denials by policies that moved as they are: their API form would have denied them too.

    It would not have seen policies and webhook configurations, which only static policies are asked about.
    """
    denied = direct(cells_with(result.summary, OutcomeKind.NEWLY_DENIED))
    seen = [(key, cell) for key, cell in denied if not key.resource.endswith(f".{GROUP}")]
    return [group for group in grouped(seen, by_policy) if group.label in result.moved]
