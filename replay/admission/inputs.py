"""What the expressions of a policy read, and which of it has to be known."""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, cast

from replay.cel.typed import TypedMap, untyped
from replay.cellib.activation import Activation
from replay.cellib.composition import CompiledExpression, Evaluated, Evaluation, ExpressionCompiler
from replay.kube.attributes import JSON, Missing, PartialObject

Place = tuple[str | None, ...]
"""The names from a binding to a part of it."""

_ANY = None
"""Any element of a list, any entry of a map."""

_SEGMENT = re.compile(r"""\.?([^.\[\]"]+)|\[(?:("(?:[^"\\]|\\.)*")|)\]""")


class Inputs:
    """The bindings of one policy, binding and parameter.

    Match conditions have a `request` of their own: its resource is the one that was sent, whatever was matched.
    """

    __slots__ = ("_activations", "_bindings", "_match_request", "_partial")

    def __init__(self, bindings: Mapping[str, Any], match_request: Any) -> None:
        """`bindings` are those of the validations."""
        self._bindings = bindings
        self._match_request = match_request
        objects = {name: untyped(value) for name, value in bindings.items()}
        self._partial = {
            name: (value.value, tuple(_missing_places(value.value, (name,))))
            for name, value in objects.items()
            if isinstance(value, PartialObject)
        }
        self._activations: dict[tuple[bool, frozenset[Place]], Activation] = {}

    @property
    def is_partial(self) -> bool:
        """Whether any object is known in part."""
        return bool(self._partial)

    def activation(self, footprint: frozenset[str], *, matching: bool = False) -> Activation:
        """The activation for expressions that read at most `footprint`; `matching`: for match conditions.

        Missing parts of a partly known object that none of them reads are given as if they were not there: the value of
        the expressions is the same whatever these are.
        """
        places = [place for _, missing in self._partial.values() for place in missing]
        read = frozenset(_read_places(footprint, places)) if places else frozenset()
        key = (matching and self._match_request is not self._bindings["request"], read)
        if key not in self._activations:
            bindings = dict(self._bindings)
            if key[0]:
                bindings["request"] = self._match_request
            for name, (value, _) in self._partial.items():
                bindings[name] = _rewrapped(bindings[name], _with_missing(value, (name,), read))
            self._activations[key] = Activation(bindings)
        return self._activations[key]


class Evaluations:
    """The expressions of one kind for one input, on one budget: an `Evaluation`, or two where objects are partly known.

    With two, what one of them spends is not charged to the other until the budget of both is asked for.
    """

    __slots__ = ("_budget", "_compiler", "_evaluations", "_inputs", "_matching", "_only")

    def __init__(self, compiler: ExpressionCompiler, inputs: Inputs, budget: int, *, matching: bool = False) -> None:
        """`matching`: for match conditions."""
        self._compiler = compiler
        self._inputs = inputs
        self._budget = budget
        self._matching = matching
        self._evaluations: dict[int, Evaluation] = {}
        self._only = None if inputs.is_partial else self._evaluation(frozenset())

    def evaluate(self, compiled: CompiledExpression) -> Evaluated:
        """Evaluate the next expression."""
        return (self._only or self._evaluation(compiled.footprint)).evaluate(compiled)

    @property
    def remaining(self) -> int:
        """What is left of the budget."""
        if self._only is not None:
            return self._only.remaining
        return self._budget - sum(self._budget - each.remaining for each in self._evaluations.values())

    def _evaluation(self, footprint: frozenset[str]) -> Evaluation:
        """The evaluation for expressions with a footprint."""
        activation = self._inputs.activation(footprint, matching=self._matching)
        if id(activation) not in self._evaluations:
            self._evaluations[id(activation)] = Evaluation(self._compiler, activation, self._budget)
        return self._evaluations[id(activation)]


def _missing_places(value: JSON, place: Place) -> Iterator[Place]:
    """Where parts of a partly known value are missing."""
    if isinstance(value, Missing):
        yield place
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _missing_places(item, (*place, key))
    elif isinstance(value, list):
        for item in value:
            yield from _missing_places(item, (*place, _ANY))


def _with_missing(value: JSON, place: Place, kept: Container[Place]) -> JSON:
    """A partly known value without the missing parts but for those at certain places."""
    if isinstance(value, dict):
        items = ((key, item, (*place, key)) for key, item in value.items())
        return {key: _with_missing(item, at, kept) for key, item, at in items if _is_kept(item, at, kept)}
    if isinstance(value, list):
        at = (*place, _ANY)
        return [_with_missing(item, at, kept) for item in value if _is_kept(item, at, kept)]
    return value


def _is_kept(item: JSON, place: Place, kept: Container[Place]) -> bool:
    """Whether a part is known, or stays as missing."""
    return not isinstance(item, Missing) or place in kept


def _rewrapped(bound: Any, value: JSON) -> Any:
    """A value in the place of a partly known one: as a Go struct if that was one, as partly known if it still is."""
    leaves = tuple(_missing_leaves(value))
    rewrapped = PartialObject(value, leaves) if leaves else value
    return TypedMap(cast("dict[str, Any]", rewrapped)) if isinstance(bound, TypedMap) else rewrapped


def _missing_leaves(value: JSON) -> Iterator[Missing]:
    """The missing parts of a value."""
    if isinstance(value, Missing):
        yield value
    elif isinstance(value, (dict, list)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _missing_leaves(item)


def _read_places(footprint: Iterable[str], places: Iterable[Place]) -> Iterator[Place]:
    """The places to which, into which or above which a path of a footprint leads; a test for presence only looks there."""
    paths = [(_segments(path.removesuffix("?")), path.endswith("?")) for path in footprint]
    for place in places:
        if any(_overlaps(path, place) and not (is_test and len(place) > len(path)) for path, is_test in paths):
            yield place


def _overlaps(one: Place, other: Place) -> bool:
    """Whether one path leads on from the other."""
    return all(left == right or left is _ANY or right is _ANY for left, right in zip(one, other, strict=False))


@lru_cache(maxsize=4096)
def _segments(path: str) -> Place:
    """The names along a path of a footprint: `object.a[]["b.c"]` is `object`, `a`, any, `b.c`."""
    found = _SEGMENT.findall(path)
    return tuple(name or (json.loads(quoted) if quoted else _ANY) for name, quoted in found)
