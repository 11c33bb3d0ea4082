"""What constraints say of reviews that are alike: those which agree on all that was read on the way to an answer.

Rego tells while it runs at which paths it reads the review. A second review with the same values at these paths makes the same
way, and reads nothing else. So a name that only a message holds is part of what denials depend on, and of nothing else.
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

MOST_SAID: Final = 4096
"""How many answers of the constraints of a template are remembered for the same paths."""
_MOST_WAYS: Final = 4
"""How many sets of paths are looked at: one where nothing is violated, and some for violations."""
_DIGEST: Final = 16
_ABSENT: Final = orjson.Fragment(b"")
"""There is nothing at a path; no JSON is written so."""

Paths = tuple[tuple[str, ...], ...]


class Finding(NamedTuple):
    """A violation, before any action; `line` is that of the Rego rule, or the number of the CEL validation, from 1."""

    constraint: Constraint
    message: Any
    details: Value = None
    line: int = 0


class Said(NamedTuple):
    """Result of constraints for a review: violations, and what is unknown about which constraint."""

    findings: tuple[Finding, ...] = ()
    undetermined: tuple[tuple[Constraint, str], ...] = ()


class AlikeSaid:
    """Earlier results of a set's constraints, by what they read. Unknown results are not kept."""

    def __init__(self) -> None:
        """Nothing yet."""
        self._ways: dict[Hashable, dict[Paths, AlikeResults[Said]]] = {}

    def find(self, constraints: Hashable, request: Mapping[str, JSON]) -> Said | None:
        """Return the result of some constraints for an alike review; None if there is none."""
        for paths, known in self._ways.get(constraints, {}).items():
            content = _content(request, paths)
            if content is not None and (said := known.get(content)) is not None:
                return said
        return None

    def remember(
        self, constraints: Hashable, request: Mapping[str, JSON], paths: Sequence[Sequence[str]], said: Said
    ) -> None:
        """What constraints say of a review, of which they read what stands at these paths, which begin with `review`."""
        if said.undetermined:
            return
        ways = self._ways.setdefault(constraints, {})
        key = tuple(tuple(path[1:]) for path in paths)
        known = ways.get(key)
        if known is None:
            if len(ways) >= _MOST_WAYS:
                return
            known = ways[key] = AlikeResults(MOST_SAID)
        content = _content(request, key)
        if content is not None:
            known.remember(content, said)


def _content(request: Mapping[str, JSON], paths: Paths) -> bytes | None:
    """What stands at the paths, as bytes that are equal for nothing else; None where some of it is not known, or no JSON."""
    try:
        content = orjson.dumps([_at(request, path) for path in paths])
    except TypeError:
        return None
    return content if len(content) <= _DIGEST else hashlib.blake2b(content, digest_size=_DIGEST).digest()


def _at(value: Any, path: Sequence[str]) -> Any:
    for name in path:
        if type(value) is not dict:
            return value if type(value) is Missing else _ABSENT
        value = value.get(name, _ABSENT)
    return value
