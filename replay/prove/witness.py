"""A request that shows a difference, with what both sides say and the fields that matter."""

from __future__ import annotations

from collections.abc import Iterator

from replay.prove.claim import EnforcementLevel, Witness
from replay.prove.context import ProofContext
from replay.prove.request import SymbolicRequest
from replay.prove.search.minimal import differences

_SIDES = (("object", "object"), ("old_object", "oldObject"), ("namespace_object", "namespaceObject"))


def _ends(context: ProofContext, request: SymbolicRequest) -> Iterator[tuple[str | int, ...]]:
    """Where what policies read ends early: something matters by not being there."""
    for side, name in _SIDES:
        for path in sorted(context.interest.paths.get(name, ())):
            value, values = getattr(request, side), []
            for key in path:
                if not isinstance(value, dict) or key not in value:
                    break
                value = value[key]
                values.append(key)
            if value is not None and len(values) < len(path) and isinstance(value, dict):
                yield (name, *values)


def witness_of(context: ProofContext, request: SymbolicRequest, least: SymbolicRequest) -> Witness:
    """The witness of a request; `least` is what it is compared with to find the fields that matter."""
    current, candidate = context.judge.verdicts(request)
    marked = [
        (name, *path)
        for side, name in _SIDES
        for path in differences(getattr(request, side), getattr(least, side))
        if getattr(request, side) is not None
    ]
    if not marked:
        marked = list(dict.fromkeys(_ends(context, request)))
    return Witness(
        request,
        current.level or EnforcementLevel.ADMITTED,
        candidate.level or EnforcementLevel.ADMITTED,
        current.messages,
        candidate.messages,
        tuple(marked),
    )
