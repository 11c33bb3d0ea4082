"""State of an object under the candidate, compared with the log's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from replay.admission.inputs import Place
from replay.json import JSON, FieldPath
from replay.kube.attributes import Basis, Missing, PartialObject
from replay.reconstruct.patch.apply import MANAGED, are_managers_known
from replay.reconstruct.patch.body import agrees
from replay.reconstruct.record.known import Hole, Known, get, removed, replaced
from replay.world.result import CausingRequest


class DeferredObject:
    """An object that exists and whose content is computed on demand, since most contents are never read.

    `touched` are the places where it may differ from the log's object, None if unknown. They are all in bodies that
    clients write: finalizers and grace periods are as in the log. `spec_of` is a state with the same spec. It lets
    callers that need only the spec skip a long chain of status writes.
    """

    __slots__ = ("_content", "_make", "spec_of", "touched")

    def __init__(
        self, make: Callable[[], Known | Missing], touched: frozenset[Place] | None = None, spec_of: State = None
    ) -> None:
        """`make` computes the content, which is never null."""
        self._make = make
        self._content: Known | Missing | None = None
        self.touched = touched
        self.spec_of: State = spec_of.spec_of or spec_of if isinstance(spec_of, DeferredObject) else spec_of

    def differs_at(self, place: Place) -> bool:
        """Return whether the object may differ from the log's in a place, or in one above or below it."""
        if self.touched is None:
            return True
        return any(all(one == other for one, other in zip(each, place, strict=False)) for each in self.touched)

    @property
    def content(self) -> Known | Missing:
        """The object, computed at the first access."""
        if self._content is None:
            self._content = self._make()
        return self._content


LABELS: Place = ("object", "metadata", "labels")
"""Place that label selectors read."""

State = Known | Missing | DeferredObject | None
"""State of an object. None: as in the log. `Known` with null: absent. `Missing`: it exists, but its content is unknown.
"""


def content(state: Known | Missing | DeferredObject) -> Known | Missing:
    """Return the content of an object that differs from the log."""
    return state.content if isinstance(state, DeferredObject) else state


def spec(state: Known | Missing | DeferredObject) -> JSON:
    """Return the spec of an object that differs from the log, null if it has none or it is unknown."""
    here = content(state if not isinstance(state, DeferredObject) or state.spec_of is None else state.spec_of)
    return get(here.value, ("spec",)) if isinstance(here, Known) else None


MOST_BRANCHES = 4
"""Limit of the possible states of an object. Beyond it the object is unknown."""
INSIGNIFICANT_FIELDS: tuple[FieldPath, ...] = (
    *(("metadata", name) for name in ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields")),
    ("status",),
)
"""Fields that differ between equal objects: the server's counters, and controllers' reports."""


class Branch(NamedTuple):
    """One possible state of an object, and the request that caused its difference from the log."""

    state: State = None
    causing_request: CausingRequest | None = None

    @property
    def is_absent(self) -> bool:
        """Return whether the object is known to be absent."""
        return isinstance(self.state, Known) and self.state.value is None


SAME_BRANCHES = (Branch(),)


def with_content(branch: Branch) -> Branch:
    """Return a branch with its content computed."""
    return branch if branch.state is None else Branch(content(branch.state), branch.causing_request)


def merged_branches(branches: list[Branch]) -> tuple[Branch, ...]:
    """Return the distinct branches, reduced to an unknown state if there are too many."""
    if len(branches) == 1:
        return tuple(branches)
    distinct: list[Branch] = []
    for branch in branches:
        if not any(are_alike(branch.state, other.state) for other in distinct):
            distinct.append(branch)
    if len(distinct) <= MOST_BRANCHES:
        return tuple(distinct)
    # `Missing` says that the object exists, so that absence needs a branch of its own.
    absent = next((branch for branch in distinct if branch.is_absent), None)
    unknown = Branch(Missing("", "the object has too many possible states"), distinct[0].causing_request)
    return (unknown,) if absent is None else (absent, unknown)


def are_alike(one: State, other: State) -> bool:
    """Return whether two states are the same for everything that decides."""
    if one is None or other is None:
        return one is other
    one, other = content(one), content(other)
    # Two objects of unknown content count as the same branch, because nothing tells them apart.
    if isinstance(one, Missing) or isinstance(other, Missing):
        return isinstance(one, Missing) and isinstance(other, Missing)
    return same_object(one, other)


def same_object(one: Known, other: Known) -> bool:
    """Return whether two objects are equal for everything that decides about them."""
    if one.value is None or other.value is None:
        return one.value is other.value
    holes = [hole.path for hole in (*one.holes, *other.holes)]
    return agrees(one.value, other.value, (*INSIGNIFICANT_FIELDS, *holes))


def differ_in_managers(one: Known, other: Known) -> bool:
    """Return whether the field managers of both objects are known and differ."""
    if one.value is None or other.value is None or not (are_managers_known(one) and are_managers_known(other)):
        return False
    return _owners(one) != _owners(other)


def _owners(value: Known) -> dict[tuple[str, ...], JSON]:
    """Return the fields of each manager, without times. Entries for `status` belong to controllers and do not count."""
    return {
        tuple(str(entry.get(name, "")) for name in ("manager", "operation", "apiVersion", "subresource")): entry.get(
            "fieldsV1"
        )
        for entry in get(value.value, MANAGED)
        if entry.get("subresource") != "status"
    }


def known_or_missing(value: JSON | PartialObject | Missing | None) -> Known | Missing:
    """Return the object of attributes as a state. Unknown parts become holes."""
    if isinstance(value, Missing):
        return value
    if not isinstance(value, PartialObject):
        return Known(value, Basis.RECONSTRUCTED)
    plain, holes = value.value, []
    for path, missing in _leaves(value.value, ()):
        holes.append(Hole(path, missing.reason, missing.fix))
        # Removing a list item would shift the paths of the items after it, so it becomes null.
        plain = replaced(plain, path, None) if isinstance(path[-1], int) else _without(plain, path)
    return Known(plain, Basis.RECONSTRUCTED, tuple(holes))


def _without(value: JSON, path: FieldPath) -> JSON:
    """Return a copy without the entry at a path, which may lead through lists."""
    for depth, part in enumerate(path[:-1], 1):
        if isinstance(part, int):
            inner = value
            for step in path[:depth]:
                inner = inner[step]
            return replaced(value, path[:depth], _without(inner, path[depth:]))
    return removed(value, path)


def _leaves(value: JSON, path: FieldPath) -> Iterator[tuple[FieldPath, Missing]]:
    if isinstance(value, Missing):
        yield path, value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _leaves(inner, (*path, index))
