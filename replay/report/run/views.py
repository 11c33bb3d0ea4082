"""Cells of a summary regrouped by policy, user, namespace, resource or workload."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from itertools import chain

from msgspec import Struct, field

from replay.compare.outcome import OutcomeKind
from replay.compare.result import RunResult
from replay.compare.summary import Cell, CellKey, Example, Summary

OutcomeCells = Iterable[tuple[CellKey, Cell]]
CellItems = list[tuple[CellKey, Cell]]
MOST_EXAMPLES = 3


class Group(Struct, dict=True):
    """Direct findings that share a label, as cells.

    `consequences` counts findings that need an earlier request to end differently. `sole` counts direct findings of one
    policy alone. The other properties are computed only for the groups that a report shows.
    """

    label: str
    requests: int = 0
    consequences: int = 0
    sole: int = 0
    members: list[CellItems] = field(default_factory=list)
    """Lists of cells. Groups with the same denying policies share a list, because a set can have thousands of policies.
    """

    def add(self, key: CellKey, cell: Cell) -> None:
        """Add a cell. Of consequences only the number counts."""
        if key.follows:
            self.consequences += cell.count
            return
        self.requests += cell.count
        self.sole += cell.count if len(key.policies) == 1 else 0
        if not self.members:
            self.members.append([])
        self.members[0].append((key, cell))

    def join(self, other: Group) -> None:
        """Add the cells of another group. No cell may be in both."""
        self.requests += other.requests
        self.consequences += other.consequences
        self.sole += other.sole
        self.members += other.members

    @property
    def cells(self) -> Iterator[tuple[CellKey, Cell]]:
        """The cells of direct findings."""
        return chain.from_iterable(self.members)

    @property
    def first(self) -> int:
        """Time of the first request, in microseconds since the epoch, or 0 for an empty group."""
        return min((cell.first for _, cell in self.cells), default=0)

    @property
    def last(self) -> int:
        """Time of the last request, in microseconds since the epoch, or 0 for an empty group."""
        return max((cell.last for _, cell in self.cells), default=0)

    @cached_property
    def policies(self) -> set[str]:
        """The policies that cause the outcome of any request in the group."""
        return {policy for key, _ in self.cells for policy in key.policies}

    @cached_property
    def users(self) -> set[str]:
        """The users who sent the requests."""
        return {key.user for key, _ in self.cells}

    @cached_property
    def owners(self) -> set[str]:
        """The owners of the namespaces."""
        return {key.owner for key, _ in self.cells}

    @cached_property
    def namespaces(self) -> set[str]:
        """The namespaces of the requests."""
        return {key.namespace for key, _ in self.cells}

    @cached_property
    def workloads(self) -> set[str]:
        """The labels of the workloads."""
        return {workload_label(key) for key, _ in self.cells}

    @cached_property
    def examples(self) -> list[tuple[Example, CellKey]]:
        """The first requests in the log, with their cells."""
        pairs = ((example, key) for key, cell in self.cells for example in cell.examples)
        return heapq.nsmallest(MOST_EXAMPLES, pairs, key=lambda pair: pair[0].place)


def workload_label(key: CellKey) -> str:
    """Return `namespace Kind/name` of the owning workload, with its kcp workspace before it.

    Cluster-scoped workloads have no namespace.
    """
    return " ".join(each for each in (key.workspace, key.namespace, key.workload) if each)


def grouped(cells: OutcomeCells, labels: Callable[[CellKey], Iterable[str]]) -> list[Group]:
    """Return groups by label, those with most direct findings first. A cell with two labels counts in both groups."""
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
    return sorted(groups.values(), key=lambda group: (-group.requests, -group.consequences, group.label))


def direct(cells: OutcomeCells) -> CellItems:
    """Return the cells of direct findings: these need no earlier request to end differently."""
    return [(key, cell) for key, cell in cells if not key.follows]


def counts(summary: Summary) -> defaultdict[OutcomeKind, tuple[int, int]]:
    """Return for each outcome the numbers of direct findings and of consequences."""
    by_outcome: defaultdict[OutcomeKind, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for key, cell in summary.cells.items():
        own, following = by_outcome[key.outcome]
        by_outcome[key.outcome] = (own, following + cell.count) if key.follows else (own + cell.count, following)
    return by_outcome


def counted(cells: OutcomeCells) -> tuple[int, int]:
    """Return the numbers of direct findings and of consequences."""
    counts = [(cell.count, key.follows) for key, cell in cells]
    follows = sum(count for count, is_following in counts if is_following)
    return sum(count for count, _ in counts) - follows, follows


def labels_of(cells: OutcomeCells, labels: Callable[[CellKey], Iterable[str]]) -> set[str]:
    """Return the labels of all cells."""
    return {label for key, _ in cells for label in labels(key)}


def cells_with(summary: Summary, *outcomes: OutcomeKind) -> CellItems:
    """Return the cells of some outcomes, ordered by their first requests."""
    cells = [(key, cell) for key, cell in summary.cells.items() if key.outcome in outcomes]
    return sorted(cells, key=lambda item: (item[1].examples[0].seq, item[1].examples[0].item, item[0]))


def common_message(result: RunResult, policy: str) -> str:
    """Return the most frequent message of a policy's denials, or an empty text."""
    messages = result.summary.messages.get((OutcomeKind.NEWLY_DENIED, policy))
    return max(messages.items(), key=lambda item: (item[1], item[0]))[0] if messages else ""


def by_policy(key: CellKey) -> Iterable[str]:
    """Return each policy that causes the outcome."""
    return key.policies


def by_workspace(key: CellKey) -> Iterable[str]:
    """Return the kcp workspace that a request is sent to, if any."""
    return (key.workspace,) if key.workspace else ()


def by_user(key: CellKey) -> Iterable[str]:
    """Return the user that admission saw."""
    return (key.user,)


def by_namespace(key: CellKey) -> Iterable[str]:
    """Return the namespace, or `(cluster)` for cluster-scoped requests."""
    return (key.namespace or "(cluster)",)


def by_kind(key: CellKey) -> Iterable[str]:
    """Return the resource with its subresource."""
    return (key.resource,)


def by_workload(key: CellKey) -> Iterable[str]:
    """Return the owning workload."""
    return (workload_label(key),)


_ANONYMOUS = "system:anonymous"
"""Clients without credentials. They are no component of the cluster."""
LOCKED_OUT = ("control plane", "node", "kube-system service account", "service account")
"""Parts of a cluster whose denied requests are lockouts, the most serious first."""


def lockout(key: CellKey) -> str:
    """Return the part of the cluster that a direct finding locks out, or an empty text.

    A cluster that denies its own components may be unable to undo the change, so reports show lockouts first. A
    consequence is no lockout: a controller whose object was denied does not send its request at all.
    """
    return "" if key.follows else locked_out(key.user)


def locked_out(user: str) -> str:
    """Return the entry of `LOCKED_OUT` for a component of the control plane, a node or a controller, or an empty text for other users."""
    if user.startswith("system:node:"):
        return "node"
    if user.startswith("system:serviceaccount:kube-system:"):
        return "kube-system service account"
    if user.startswith("system:serviceaccount:"):
        return "service account"
    return "control plane" if user.startswith("system:") and user != _ANONYMOUS else ""
