"""Results of constraints for alike reviews: reviews that agree in everything that was read to get the result.

While Rego runs, it records the paths at which it reads the review. A second review with the same values at these paths
takes the same way and reads nothing else. So a name that only a message contains matters for denials only.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import orjson

from replay.admission.alike import AlikeResults
from replay.gatekeeper.constraint import Constraint
from replay.gatekeeper.rego.value import Value
from replay.json import JSON
from replay.kube.attributes import Missing

MOST_RESULTS: Final = 4096
"""Number of results that are kept for the constraints of one template and one set of paths."""
_MOST_WAYS: Final = 4
"""Number of sets of paths per group of constraints: one for reviews without violations, and a few for violations."""
_DIGEST: Final = 16
_ABSENT: Final = orjson.Fragment(b"")
"""Marker for an absent value. No JSON is encoded as these bytes."""

Paths = tuple[tuple[str, ...], ...]


class Finding(NamedTuple):
    """Violation, before any action. `line` is the line of the Rego rule or the number of the CEL validation, from 1."""

    constraint: Constraint
    message: Any
    details: Value = None
    line: int = 0


class ReviewResults(NamedTuple):
    """Results of constraints for a review: violations, and constraints whose result is unknown with the reason."""

    findings: tuple[Finding, ...] = ()
    undetermined: tuple[tuple[Constraint, str], ...] = ()


class ResultCache:
    """Earlier results of a set's constraints, by what they read. Unknown results are not kept."""

    def __init__(self) -> None:
        """Start without results."""
        self._ways: dict[Hashable, dict[Paths, AlikeResults[ReviewResults]]] = {}

    def find(self, constraints: Hashable, request: Mapping[str, JSON]) -> ReviewResults | None:
        """Return an earlier result of these constraints for an alike review, or None."""
        for paths, known in self._ways.get(constraints, {}).items():
            content = _content(request, paths)
            if content is not None and (results := known.get(content)) is not None:
                return results
        return None

    def remember(
        self, constraints: Hashable, request: Mapping[str, JSON], paths: Sequence[Sequence[str]], results: ReviewResults
    ) -> None:
        """Keep the result of constraints for a review. `paths` are the paths that they read, which begin with `review`."""
        if results.undetermined:
            return
        ways = self._ways.setdefault(constraints, {})
        key = tuple(tuple(path[1:]) for path in paths)
        known = ways.get(key)
        if known is None:
            if len(ways) >= _MOST_WAYS:
                return
            known = ways[key] = AlikeResults(MOST_RESULTS)
        content = _content(request, key)
        if content is not None:
            known.remember(content, results)


def _content(request: Mapping[str, JSON], paths: Paths) -> bytes | None:
    """Return the values at the paths as unique bytes, or None if a value is unknown or not JSON."""
    try:
        content = orjson.dumps([_value_at(request, path) for path in paths])
    except TypeError:
        return None
    return content if len(content) <= _DIGEST else hashlib.blake2b(content, digest_size=_DIGEST).digest()


def _value_at(value: Any, path: Sequence[str]) -> Any:
    for name in path:
        if type(value) is not dict:
            return value if type(value) is Missing else _ABSENT
        value = value.get(name, _ABSENT)
    return value
