"""Lists as sets (cel-go `ext/sets.go`): what one has of another, up to the bound."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from replay.prove.symbolic.equality import membership
from replay.prove.symbolic.fold import as_list
from replay.prove.symbolic.quantity import Followed
from replay.prove.symbolic.selection import Guarded, joined, spread
from replay.prove.symbolic.term import Term, conj, disj, implies
from replay.prove.symbolic.unknown import ValueFactory
from replay.prove.symbolic.value import Bool, ListOf, SymbolicValue, known


def _items(make: ValueFactory, one: ListOf, other: ListOf) -> list[tuple[Term, Term]]:
    """For each item of a list where it is there, and where it is in another list."""
    return [(there, membership(make, item, known(other))[0]) for there, item in one.items]


def _contains(make: ValueFactory, one: ListOf, other: ListOf) -> Term:
    return conj(*(implies(there, presence) for there, presence in _items(make, other, one)))


def _intersects(make: ValueFactory, one: ListOf, other: ListOf) -> Term:
    return disj(*(conj(there, presence) for there, presence in _items(make, one, other)))


def _equivalent(make: ValueFactory, one: ListOf, other: ListOf) -> Term:
    return conj(_contains(make, one, other), _contains(make, other, one))


def _over_lists(answer: Callable[[ValueFactory, ListOf, ListOf], Term]) -> Followed:
    def followed(make: ValueFactory, arguments: list[SymbolicValue]) -> SymbolicValue | None:
        pairs: list[Guarded] = []
        for guard, case in spread(arguments[0]):
            for other_guard, other in spread(arguments[1]):
                one, two = as_list(case), as_list(other)
                if one is None or two is None:
                    return None
                pairs.append((conj(guard, other_guard), known(Bool(answer(make, one, two)))))
        return joined(pairs)

    return followed


SETS: Mapping[tuple[str, int], Followed] = {
    ("sets.contains", 2): _over_lists(_contains),
    ("sets.intersects", 2): _over_lists(_intersects),
    ("sets.equivalent", 2): _over_lists(_equivalent),
}
"""By name and number of operands."""
