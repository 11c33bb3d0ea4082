"""Cells of a summary regrouped: by policy, user, namespace, kind, workload."""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable

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


class Group(Struct):
    """The root findings that share a label: sets hold what differs inside; `follows` are how many others only follow.

    `alone` are those for which one policy is enough, `messages` how often each is given for the policy that the group is about.
    """

    label: str
    requests: int = 0
    follows: int = 0
    alone: int = 0
    first: int = 0
    last: int = 0
    policies: set[str] = field(default_factory=set)
    users: set[str] = field(default_factory=set)
    owners: set[str] = field(default_factory=set)
    namespaces: set[str] = field(default_factory=set)
    workloads: set[str] = field(default_factory=set)
    kinds: set[str] = field(default_factory=set)
    examples: list[tuple[Example, CellKey]] = field(default_factory=list)

    def add(self, key: CellKey, cell: Cell) -> None:
        """Count a cell in; of what follows only the number."""
        if key.follows:
            self.follows += cell.count
            return
        self.first = min(self.first, cell.first) if self.requests else cell.first
        self.last = max(self.last, cell.last)
        self.requests += cell.count
        self.alone += cell.count if len(key.policies) == 1 else 0
        self.policies.update(key.policies)
        self.users.add(key.user)
        self.owners.add(key.owner)
        self.namespaces.add(key.namespace)
        self.workloads.add(workload_label(key))
        self.kinds.add(key.kind or key.resource)
        if self._wants(cell.examples[0]):
            self._offer([(example, key) for example in cell.examples])

    def join(self, other: Group) -> None:
        """Count in what another group counts, whose cells are others."""
        self.follows += other.follows
        if not other.requests:
            return
        self.first = min(self.first, other.first) if self.requests else other.first
        self.last = max(self.last, other.last)
        self.requests += other.requests
        self.alone += other.alone
        self.policies |= other.policies
        self.users |= other.users
        self.owners |= other.owners
        self.namespaces |= other.namespaces
        self.workloads |= other.workloads
        self.kinds |= other.kinds
        if self._wants(other.examples[0][0]):
            self._offer(other.examples)

    def _wants(self, first: Example) -> bool:
        """Whether the first of some examples, which are in the order of the log, may be one of those that are kept."""
        return len(self.examples) < MOST_EXAMPLES or first[:2] < self.examples[-1][0][:2]

    def _offer(self, examples: list[tuple[Example, CellKey]]) -> None:
        """Keep the first examples."""
        candidates = [*self.examples, *examples]
        self.examples = heapq.nsmallest(MOST_EXAMPLES, candidates, key=lambda pair: pair[0][:2])


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
    counts = Counter[bool]()
    for key, cell in cells:
        counts[key.follows] += cell.count
    return counts[False], counts[True]


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
