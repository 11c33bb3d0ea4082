"""Cells of a summary regrouped: by policy, user, namespace, kind, workload."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from replay.compare.outcome import OutcomeKind
from replay.compare.summary import Cell, CellKey, Example, Summary

Cells = Iterable[tuple[CellKey, Cell]]
CellItems = list[tuple[CellKey, Cell]]
MOST_EXAMPLES = 3


@dataclass(slots=True)
class Group:
    """The requests that share a label; sets hold what differs inside."""

    label: str
    requests: int = 0
    first: int = 0
    last: int = 0
    policies: set[str] = field(default_factory=set)
    users: set[str] = field(default_factory=set)
    namespaces: set[str] = field(default_factory=set)
    workloads: set[str] = field(default_factory=set)
    kinds: set[str] = field(default_factory=set)
    examples: list[tuple[Example, CellKey]] = field(default_factory=list)

    def add(self, key: CellKey, cell: Cell) -> None:
        """Count a cell in."""
        self.first = min(self.first, cell.first) if self.requests else cell.first
        self.last = max(self.last, cell.last)
        self.requests += cell.count
        self.policies.update(key.policies)
        self.users.add(key.user)
        self.namespaces.add(key.namespace)
        self.workloads.add(workload_label(key))
        self.kinds.add(key.kind or key.resource)
        if len(self.examples) < MOST_EXAMPLES or cell.examples[0][:2] < self.examples[-1][0][:2]:
            candidates = [*self.examples, *((example, key) for example in cell.examples)]
            self.examples = heapq.nsmallest(MOST_EXAMPLES, candidates, key=lambda pair: pair[0][:2])


def workload_label(key: CellKey) -> str:
    """`namespace Kind/name` of the owning workload, the namespace left out for cluster-scoped ones."""
    return f"{key.namespace} {key.workload}" if key.namespace else key.workload


def grouped(cells: Cells, labels: Callable[[CellKey], Iterable[str]]) -> list[Group]:
    """Groups by each label of a cell, largest first, ties by label; a cell with two labels counts in both."""
    groups: dict[str, Group] = {}
    for key, cell in cells:
        for label in labels(key):
            groups.setdefault(label, Group(label)).add(key, cell)
    return sorted(groups.values(), key=lambda group: (-group.requests, group.label))


def labels_of(cells: Cells, labels: Callable[[CellKey], Iterable[str]]) -> set[str]:
    """The labels alone."""
    return {label for key, _ in cells for label in labels(key)}


def cells_with(summary: Summary, *outcomes: OutcomeKind) -> CellItems:
    """The cells of some outcomes in a stable order: that of their first requests."""
    found = [(key, cell) for key, cell in summary.cells.items() if key.outcome in outcomes]
    return sorted(found, key=lambda item: (item[1].examples[0].seq, item[1].examples[0].item, item[0]))


def by_policy(key: CellKey) -> Iterable[str]:
    """Each policy that makes the outcome."""
    return key.policies


def by_user(key: CellKey) -> Iterable[str]:
    """Who admission saw."""
    return (key.user,)


def by_namespace(key: CellKey) -> Iterable[str]:
    """The namespace, `(cluster)` for cluster-scoped requests."""
    return (key.namespace or "(cluster)",)


def by_kind(key: CellKey) -> Iterable[str]:
    """The resource with its subresource."""
    return (key.resource,)


def by_workload(key: CellKey) -> Iterable[str]:
    """The owning workload."""
    return (workload_label(key),)


_ANONYMOUS = "system:anonymous"
"""Who came without credentials, which is nobody's component."""


def lockout(key: CellKey) -> str:
    """Which part of the control plane a request belongs to, empty for everybody else's.

    A cluster whose own components are denied may not be able to undo the change that denies them, so these come first.
    """
    return lockout_of(key.user, key.namespace)


def lockout_of(user: str, namespace: str) -> str:
    """The same for a user and the namespace of a request."""
    if user.startswith("system:node:"):
        return "node"
    if user.startswith("system:serviceaccount:kube-system:"):
        return "kube-system service account"
    if user.startswith("system:serviceaccount:"):
        return "service account" if namespace != "kube-system" else "kube-system namespace"
    if user.startswith("system:") and user != _ANONYMOUS:
        return "control plane"
    return "kube-system namespace" if namespace == "kube-system" else ""
