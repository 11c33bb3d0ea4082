"""The answer of a run in at most ten lines, for the time while a policy is being written."""

from __future__ import annotations

from replay.compare.outcome import OutcomeKind
from replay.compare.result import RunResult
from replay.report.render.document import inert, number, plural
from replay.report.run.summary import run_summary
from replay.report.run.trust import MATCH
from replay.report.run.views import Group, by_policy, cells_with, direct, grouped

MOST_LINES = 10
MOST_POLICIES = 5
MOST_WORKLOADS = 3


def brief_lines(result: RunResult) -> list[str]:
    """Return at most ten lines: the answer, whether to trust it, lockouts, and the policies that deny most with their workloads."""
    document = run_summary(result)
    facts = {fact.label: fact.value for fact in document.facts}
    denied = direct(cells_with(result.summary, OutcomeKind.NEWLY_DENIED))
    groups = grouped(denied, by_policy)
    lines = [
        document.verdict,
        f"determined {facts['Determined']}, match with the log {facts[MATCH]}",
        f"lockouts: {facts['Lockouts']}",
    ]
    lines += [_policy(group) for group in groups[:MOST_POLICIES]]
    if len(groups) > MOST_POLICIES:
        rest = groups[MOST_POLICIES:]
        lines.append(
            f"{sum(each.requests for each in rest):>7,} by {plural(len(rest), 'other policy', 'other policies')}"
        )
    if result.accepted.requests:
        lines.append(f"{plural(result.accepted.requests, 'accepted denial')} not counted")
    return lines[:MOST_LINES]


def _policy(group: Group) -> str:
    names = sorted(inert(name).replace(" ", "/", 1) for name in group.workloads)
    more = f" and {number(len(names) - MOST_WORKLOADS)} more" if len(names) > MOST_WORKLOADS else ""
    return f"{group.requests:>7,} {inert(group.label)}: {', '.join(names[:MOST_WORKLOADS])}{more}"
