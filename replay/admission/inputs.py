"""What the expressions of a policy read, and which of it has to be known."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from replay.cel.typed import TypedMap, untyped
from replay.cellib.activation import Activation
from replay.kube.attributes import JSON, Missing, PartialObject

_INDEX = re.compile(r"\[\d+\]")


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
        self._partial = {name: value for name, value in objects.items() if isinstance(value, PartialObject)}
        self._activations: dict[tuple[bool, frozenset[str]], Activation] = {}

    def activation(self, footprint: frozenset[str], *, matching: bool = False) -> Activation:
        """The activation for expressions that read at most `footprint`; `matching`: for match conditions.

        A partly known object whose missing parts none of them reads is given as if it had no such parts: the value of
        the expressions is the same whatever these are.
        """
        unread = frozenset(name for name, value in self._partial.items() if not _reads(footprint, value.missing))
        key = (matching and self._match_request is not self._bindings["request"], unread)
        if key not in self._activations:
            bindings = dict(self._bindings)
            if key[0]:
                bindings["request"] = self._match_request
            for name in unread:
                known = without_missing(self._partial[name].value)
                bindings[name] = TypedMap(known) if isinstance(bindings[name], TypedMap) else known
            self._activations[key] = Activation(bindings)
        return self._activations[key]


def without_missing(value: JSON) -> JSON:
    """A partly known value without the parts that are missing."""
    if isinstance(value, dict):
        return {key: without_missing(item) for key, item in value.items() if not isinstance(item, Missing)}
    if isinstance(value, list):
        return [without_missing(item) for item in value if not isinstance(item, Missing)]
    return value


def _reads(footprint: Iterable[str], missing: Iterable[Missing]) -> bool:
    """Whether any path of a footprint leads to a missing part, into it, or ends above it."""
    places = [_INDEX.sub("[]", each.path) for each in missing]
    return any(_is_within(path, place) or _is_within(place, path) for path in footprint for place in places)


def _is_within(inner: str, outer: str) -> bool:
    """Whether a path is another one or leads on from it."""
    return inner.startswith(outer) and (len(inner) == len(outer) or inner[len(outer)] in ".[")
