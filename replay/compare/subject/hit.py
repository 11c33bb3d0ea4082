"""Findings of a run by policy and workload."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from msgspec import Struct, field

from replay.compare.outcome import OutcomeKind
from replay.compare.summary import Cell, CellKey, Example


class HitKey(NamedTuple):
    """Key of a row: a policy, and a workload with namespace and owner. For warnings, the text stands for the policy."""

    outcome: OutcomeKind
    policy: str
    owner: str
    namespace: str
    workload: str


class Hit(Struct):
    """Effect of a policy on the requests of a workload.

    `requests` counts direct findings, `alone` those among them that no other policy causes, `follows` the consequences.
    All other fields are about the direct findings, if there are any: users, resources, first and last time
    (microseconds since the epoch), the first request and its message.
    """

    key: HitKey
    requests: int = 0
    alone: int = 0
    follows: int = 0
    users: set[str] = field(default_factory=set)
    resources: set[str] = field(default_factory=set)
    first: int = 0
    last: int = 0
    example: Example | None = None
    message: str = ""

    def add(self, key: CellKey, cell: Cell, place: int) -> None:
        """Add the counts of a cell. Direct findings must come first. `place` is the index of the policy in the cell."""
        if key.follows:
            self.follows += cell.count
            if self.requests:
                return
        else:
            self.requests += cell.count
            self.alone += cell.count if len(key.policies) == 1 else 0
        self.users.add(key.user)
        self.resources.add(key.resource)
        self.first = min(self.first, cell.first) if self.example else cell.first
        self.last = max(self.last, cell.last)
        example = cell.examples[0]
        if self.example is None or (example.seq, example.item) < (self.example.seq, self.example.item):
            self.example, self.message = example, example.messages[place] if place < len(example.messages) else ""


def hits(cells: Mapping[CellKey, Cell]) -> list[Hit]:
    """Return all rows: by outcome, then by policies and workloads with most direct findings."""
    rows: dict[HitKey, Hit] = {}
    # Direct findings come first. `Hit.add` keeps the details of consequences only if there are none.
    for key in sorted(cells, key=lambda key: key.follows):
        for place, policy in enumerate(key.policies):
            row = HitKey(key.outcome, policy, key.owner, key.namespace, key.workload)
            if row not in rows:
                rows[row] = Hit(row)
            rows[row].add(key, cells[key], place)
    return _ordered(rows.values())


def _ordered(hit_rows: Iterable[Hit]) -> list[Hit]:
    listed = list(hit_rows)
    order = list(OutcomeKind)
    totals = Counter[tuple[OutcomeKind, str]]()
    for each in listed:
        totals[each.key.outcome, each.key.policy] += each.requests

    def place(each: Hit) -> tuple[int, int, str, int, int, HitKey]:
        outcome, policy = each.key.outcome, each.key.policy
        return order.index(outcome), -totals[outcome, policy], policy, -each.requests, -each.follows, each.key

    return sorted(listed, key=place)
