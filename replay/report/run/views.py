"""Cells of a summary regrouped: by policy, user, namespace, kind, workload."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from itertools import chain

from msgspec import Struct, field

from replay.compare.outcome import OutcomeKind
from replay.compare.summary import Cell, CellKey, Example, Summary

WORDS = {
    OutcomeKind.NEWLY_DENIED: "newly denied",
    OutcomeKind.NEWLY_ADMITTED: "newly admitted",
    OutcomeKind.NEWLY_MUTATED: "newly mutated",
    OutcomeKind.MUTATION_CHANGED: "mutated otherwise",
    OutcomeKind.NO_LONGER_MUTATED: "no longer mutated",
    OutcomeKind.NEWLY_WARNED: "newly warned",
    OutcomeKind.NEWLY_AUDITED: "newly audited",
    OutcomeKind.UNDETERMINED: "undetermined",
}
"""How a report calls the outcomes."""

OutcomeCells = Iterable[tuple[CellKey, Cell]]
CellItems = list[tuple[CellKey, Cell]]
MOST_EXAMPLES = 3


class Group(Struct, dict=True):
    """The root findings that share a label, by cell; `follows` are how many others only follow.

    `alone` are those for which one policy is enough. What else they have in common is worked out for the few that are shown.
    """

    label: str
    requests: int = 0
    follows: int = 0
    alone: int = 0
    members: list[CellItems] = field(default_factory=list)
    """The cells in lists, each of which all groups have that its cells are in: thousands of policies may deny the same."""

    def add(self, key: CellKey, cell: Cell) -> None:
        """Count a cell in; of what follows only the number."""
        if key.follows:
            self.follows += cell.count
            return
        self.requests += cell.count
        self.alone += cell.count if len(key.policies) == 1 else 0
        if not self.members:
            self.members.append([])
        self.members[0].append((key, cell))

    def join(self, other: Group) -> None:
        """Count in what another group counts, whose cells are others."""
        self.requests += other.requests
        self.follows += other.follows
        self.alone += other.alone
        self.members += other.members

    @property
    def cells(self) -> Iterator[tuple[CellKey, Cell]]:
        """The cells of root findings."""
        return chain.from_iterable(self.members)

    @property
    def first(self) -> int:
        """When the first of them was, in microseconds; 0 where there is none."""
        return min((cell.first for _, cell in self.cells), default=0)

    @property
    def last(self) -> int:
        """When the last of them was."""
        return max((cell.last for _, cell in self.cells), default=0)

    @cached_property
    def policies(self) -> set[str]:
        """All that make the outcome of any."""
        return {policy for key, _ in self.cells for policy in key.policies}

    @cached_property
    def users(self) -> set[str]:
        """Whose requests they are."""
        return {key.user for key, _ in self.cells}

    @cached_property
    def owners(self) -> set[str]:
        """Who owns their namespaces."""
        return {key.owner for key, _ in self.cells}

    @cached_property
    def namespaces(self) -> set[str]:
        """Where they are."""
        return {key.namespace for key, _ in self.cells}

    @cached_property
    def workloads(self) -> set[str]:
        """The labels of their workloads."""
        return {workload_label(key) for key, _ in self.cells}

    @cached_property
    def examples(self) -> list[tuple[Example, CellKey]]:
        """The first of them in the log."""
        pairs = ((example, key) for key, cell in self.cells for example in cell.examples)
        return heapq.nsmallest(MOST_EXAMPLES, pairs, key=lambda pair: pair[0][:2])


def workload_label(key: CellKey) -> str:
    """`namespace Kind/name` of the owning workload, the namespace left out for cluster-scoped ones, its workspace before it."""
    return " ".join(each for each in (key.workspace, key.namespace, key.workload) if each)


def grouped(cells: OutcomeCells, labels: Callable[[CellKey], Iterable[str]]) -> list[Group]:
    """Groups by each label of a cell, those with most root findings first, ties by label; a cell with two labels counts in both."""
    alike: dict[tuple[str, ...], Group] = {}
    for key, cell in cells:
        those = tuple(labels(key))
        if those not in alike:
            alike[those] = Group("")
        alike[those].add(key, cell)
    groups: dict[str, Group] = {}
    for those, group in alike.items():
        for label in those:
            if label not in groups:
                groups[label] = Group(label)
            groups[label].join(group)
    return sorted(groups.values(), key=lambda group: (-group.requests, -group.follows, group.label))


def roots(cells: OutcomeCells) -> CellItems:
    """The cells of findings that need no other request to end otherwise."""
    return [(key, cell) for key, cell in cells if not key.follows]


def counts(summary: Summary) -> defaultdict[OutcomeKind, tuple[int, int]]:
    """By outcome how many requests are root findings, and how many only follow."""
    by_outcome: defaultdict[OutcomeKind, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for key, cell in summary.cells.items():
        own, following = by_outcome[key.outcome]
        by_outcome[key.outcome] = (own, following + cell.count) if key.follows else (own + cell.count, following)
    return by_outcome


def counted(cells: OutcomeCells) -> tuple[int, int]:
    """How many requests are root findings, and how many only follow."""
    counts = [(cell.count, key.follows) for key, cell in cells]
    follows = sum(count for count, is_following in counts if is_following)
    return sum(count for count, _ in counts) - follows, follows


def labels_of(cells: OutcomeCells, labels: Callable[[CellKey], Iterable[str]]) -> set[str]:
    """The labels alone."""
    return {label for key, _ in cells for label in labels(key)}


def cells_with(summary: Summary, *outcomes: OutcomeKind) -> CellItems:
    """The cells of some outcomes in a stable order: that of their first requests."""
    cells = [(key, cell) for key, cell in summary.cells.items() if key.outcome in outcomes]
    return sorted(cells, key=lambda item: (item[1].examples[0].seq, item[1].examples[0].item, item[0]))


def by_policy(key: CellKey) -> Iterable[str]:
    """Each policy that makes the outcome."""
    return key.policies


def by_workspace(key: CellKey) -> Iterable[str]:
    """The workspace of kcp that a request is to: of whoever consumes what a policy is about."""
    return (key.workspace,) if key.workspace else ()


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
LOCKED_OUT = ("control plane", "node", "kube-system service account", "service account")
"""Whose requests lock somebody out, the gravest first."""


def lockout(key: CellKey) -> str:
    """Which part of a cluster a root finding belongs to, empty for everybody else's, and for what only follows.

    A cluster whose own components are denied may not be able to undo the change that denies them, so these come first. What a
    controller would not ask for, because what it acts upon was denied, is no lockout: nobody is refused anything.
    """
    return "" if key.follows else locked_out(key.user)


def locked_out(user: str) -> str:
    """One of `LOCKED_OUT` for a component of the control plane, a node or a controller, empty for people."""
    if user.startswith("system:node:"):
        return "node"
    if user.startswith("system:serviceaccount:kube-system:"):
        return "kube-system service account"
    if user.startswith("system:serviceaccount:"):
        return "service account"
    return "control plane" if user.startswith("system:") and user != _ANONYMOUS else ""
