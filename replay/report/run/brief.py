"""A run in ten lines: what one wants to know while a policy is being written."""

from __future__ import annotations

from collections import Counter

from replay.compare.outcome import OutcomeKind
from replay.compare.result import RunResult
from replay.report.render.document import inert, number, plural
from replay.report.run.report import run_document
from replay.report.run.views import Group, by_policy, cells_with, grouped, lockout

MOST_LINES = 10
MOST_POLICIES = 5
MOST_WORKLOADS = 3


def brief_lines(result: RunResult) -> list[str]:
    """At most ten lines: the verdict, how far to believe it, lockouts, the policies that deny most and whom."""
    document = run_document(result)
    facts = {fact.label: fact.value for fact in document.facts}
    denied = [item for item in cells_with(result.summary, OutcomeKind.NEWLY_DENIED) if not item[0].follows]
    groups = grouped(denied, by_policy)
    lines = [document.verdict, f"decided {facts['Decided']}, fidelity {facts['Fidelity']}", _lockouts(result)]
    lines += [_policy(group) for group in groups[:MOST_POLICIES]]
    if len(groups) > MOST_POLICIES:
        rest = groups[MOST_POLICIES:]
        lines.append(
            f"{sum(each.requests for each in rest):>7,} by {plural(len(rest), 'other policy', 'other policies')}"
        )
    if result.accepted.requests:
        lines.append(f"{plural(result.accepted.requests, 'accepted denial')} not counted")
    return lines[:MOST_LINES]


def _lockouts(result: RunResult) -> str:
    counts: Counter[str] = Counter()
    for key, cell in cells_with(result.summary, OutcomeKind.NEWLY_DENIED):
        if not key.follows and lockout(key):
            counts[key.user] += cell.count
    users = ", ".join(f"{inert(user)} ({number(count)})" for user, count in counts.most_common(MOST_WORKLOADS))
    return f"lockouts: {users or 'none'}" + (f" and {len(counts) - MOST_WORKLOADS} more" if len(counts) > 3 else "")


def _policy(group: Group) -> str:
    names = sorted(inert(name).replace(" ", "/", 1) for name in group.workloads)
    more = f" and {number(len(names) - MOST_WORKLOADS)} more" if len(names) > MOST_WORKLOADS else ""
    return f"{group.requests:>7,} {inert(group.label)}: {', '.join(names[:MOST_WORKLOADS])}{more}"
