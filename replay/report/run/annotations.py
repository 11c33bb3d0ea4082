"""Findings of a run at the lines of the policies that cause them, for pull requests."""

from __future__ import annotations

from collections.abc import Iterator

from replay.compare.outcome import MUTATIONS, WORDS, OutcomeKind
from replay.compare.result import RunResult
from replay.compare.summary import Cell, CellKey
from replay.report.annotate import Annotation, Annotations, FindingLevel, FindingRule
from replay.report.render.document import inert, number, plural
from replay.report.run.views import by_policy, cells_with, direct, grouped, lockout

MOST_WORKLOADS = 5
_EXPLAIN = "`replay run` with the same arguments lists the affected workloads. `replay explain AUDIT-ID` shows why."
_RULES = (
    FindingRule(
        "lockout",
        "The cluster's own components would be denied",
        "This policy would deny real requests of the control plane, a node or a controller. The cluster may be unable to undo"
        f" the change. Exclude these users or namespaces with a match condition before the rollout. {_EXPLAIN}",
    ),
    FindingRule(
        "newly-denied",
        "Real requests would newly be denied",
        "This policy would deny requests that the baseline admits. Talk to the owners of these workloads, narrow the policy, or"
        f" record intended denials with `replay accept`. {_EXPLAIN}",
    ),
    *(
        FindingRule(
            kind.value.replace("_", "-"),
            f"Real requests would be {WORDS[kind]}",
            f"This policy mutates requests differently from the baseline. {_EXPLAIN}",
        )
        for kind in MUTATIONS
    ),
    FindingRule(
        "undecided",
        "Requests are undetermined",
        "The audit log does not hold what this policy reads. `replay coverage` lists what to record.",
    ),
)
RULES = {rule.id: rule for rule in _RULES}
_LEVELS = {"lockout": FindingLevel.ERROR, "newly-denied": FindingLevel.ERROR, "undecided": FindingLevel.NOTE}
_ENDS = {
    "lockout": "of the cluster's own components would be denied",
    "newly-denied": "would newly be denied",
    **{kind.value.replace("_", "-"): f"would be {WORDS[kind]}" for kind in MUTATIONS},
    "undecided": "are undetermined",
}
_CellItems = list[tuple[CellKey, Cell]]


def run_annotations(result: RunResult) -> Annotations:
    """Return one finding per rule and policy, the most severe first. Other policies of the candidate are clean."""
    annotations = list(_annotations(result))
    hit = {each.subject for each in annotations}
    clean = [(origin.file, policy) for policy, origin in sorted(result.candidate.origins.items()) if policy not in hit]
    return Annotations("replay run", annotations, RULES, clean)


def _annotations(result: RunResult) -> Iterator[Annotation]:
    denied = cells_with(result.summary, OutcomeKind.NEWLY_DENIED)
    locked = [item for item in denied if lockout(item[0])]
    yield from _rule_annotations(result, "lockout", locked, locked)
    yield from _rule_annotations(result, "newly-denied", [item for item in denied if item not in locked], denied)
    for kind in MUTATIONS:
        cells = cells_with(result.summary, kind)
        yield from _rule_annotations(result, kind.value.replace("_", "-"), cells, cells)
    cells = cells_with(result.summary, OutcomeKind.UNDETERMINED)
    yield from _rule_annotations(result, "undecided", cells, cells)


def _rule_annotations(result: RunResult, rule: str, cells: _CellItems, among: _CellItems) -> Iterator[Annotation]:
    """Yield a finding for each policy of some cells. Consequences are counted apart."""
    consequences = {each.label: each.consequences for each in grouped(among, by_policy) if each.consequences}
    for group in grouped(direct(cells), by_policy):
        workloads = sorted(map(inert, group.workloads))
        listed = ", ".join(workloads[:MOST_WORKLOADS])
        more = f" and {number(len(workloads) - MOST_WORKLOADS)} more" if len(workloads) > MOST_WORKLOADS else ""
        then = (
            f"; {number(consequences[group.label])} more fail as a consequence" if group.label in consequences else ""
        )
        yield Annotation(
            rule,
            _LEVELS.get(rule, FindingLevel.WARNING),
            f"{plural(group.requests, 'request')} {_ENDS[rule]}: {listed}{more}{then}",
            inert(group.label),
            *_place(result, group.label),
        )


def _place(result: RunResult, policy: str) -> tuple[str, int]:
    """Return the file and line of a policy: in the candidate, else in the baseline. It is empty for a policy of the cluster."""
    origin = result.origin(policy)
    return (origin.file, origin.line) if origin is not None else ("", 0)
