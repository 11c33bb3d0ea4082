"""A request that shows a difference, with what both sides say and the fields that matter."""

from __future__ import annotations

from collections.abc import Iterator

from replay.prove.claim import EnforcementLevel, Witness
from replay.prove.context import ProofContext
from replay.prove.request import SymbolicRequest
from replay.prove.search.minimal import differences

_SIDES = (("object", "object"), ("old_object", "oldObject"), ("namespace_object", "namespaceObject"))


def _ends(context: ProofContext, request: SymbolicRequest) -> Iterator[tuple[str | int, ...]]:
    """Yield paths that end early, because their absence may matter."""
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
    """Return the witness of a request; `least` is the comparison that tells which fields matter."""
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
