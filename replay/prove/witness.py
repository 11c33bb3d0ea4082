"""Witness of a difference: a request made as small as possible, written as a case for `replay test`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from replay.json import JSON, FieldPath
from replay.kube.attributes import UserInfo
from replay.prove.claim import EnforcementLevel, Witness
from replay.prove.context import ProofContext
from replay.prove.request import SymbolicRequest

Shows = Callable[[SymbolicRequest], SymbolicRequest | None]
"""Function that returns the settled request if it still shows the difference, otherwise None."""

_SIDES = ("object", "old_object", "namespace_object")
_MOST_TRIES = 400


def minimal(request: SymbolicRequest, shows: Shows, least: SymbolicRequest) -> SymbolicRequest:
    """Remove everything that does not matter, part by part. `least` gives the values to return to."""
    tries = 0
    current = request
    changed = True
    while changed and tries < _MOST_TRIES:
        changed = False
        for smaller in _smaller(current, least):
            tries += 1
            settled = shows(smaller)
            if settled is not None and settled != current:
                current, changed = settled, True
                # The other proposals come from the old request, so the search begins anew.
                break
            if tries >= _MOST_TRIES:
                break
    return current


def _smaller(request: SymbolicRequest, least: SymbolicRequest) -> Iterator[SymbolicRequest]:  # noqa: C901 - one case a kind
    """Yield requests with one thing less."""
    if request.user != least.user:
        yield request.with_parts({"user": least.user})
        if request.user.extra:
            yield request.with_parts({"user": UserInfo(request.user.username, request.user.uid, request.user.groups)})
        if request.user.groups != least.user.groups:
            yield request.with_parts(
                {"user": UserInfo(request.user.username, request.user.uid, least.user.groups, request.user.extra)}
            )
    if request.namespace != least.namespace:
        yield request.with_parts({"namespace": least.namespace})
    if request.dry_run:
        yield request.with_parts({"dry_run": False})
    if request.allowed:
        yield request.with_parts({"allowed": False})
    for side in _SIDES:
        value, base = getattr(request, side), getattr(least, side)
        if value is None or value == base:
            continue
        # The whole side comes first, because success saves all of its single steps.
        yield request.with_parts({side: base})
        for path in _differences(value, base, ()):
            yield request.with_parts({side: _reverted(value, base, path)})
    for index, param in enumerate(request.params):
        for path in _leaves(param, ()):
            yield request.with_parts(
                {"params": (*request.params[:index], _reverted(param, None, path), *request.params[index + 1 :])}
            )


def _leaves(value: JSON, at: FieldPath) -> Iterator[FieldPath]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*at, key)
        yield from _leaves(item, (*at, key))


def differences(value: JSON, base: JSON) -> list[FieldPath]:
    """Return the deepest paths where a value differs from a base."""
    paths = list(_differences(value, base, ()))
    return [path for path in paths if not any(other != path and other[: len(path)] == path for other in paths)]


def _differences(value: JSON, base: JSON, at: FieldPath) -> Iterator[FieldPath]:
    """Yield the paths where two values differ, outer ones before inner ones."""
    if isinstance(value, dict):
        below = base if isinstance(base, dict) else {}
        for key, item in value.items():
            if key not in below or item != below[key]:
                yield (*at, key)
                yield from _differences(item, below.get(key), (*at, key))
        for key in below:
            if key not in value:
                yield (*at, key)
    elif isinstance(value, list):
        base_items = base if isinstance(base, list) else []
        for index, item in enumerate(value):
            base_item = base_items[index] if index < len(base_items) else None
            if item != base_item:
                yield (*at, index)
                yield from _differences(item, base_item, (*at, index))


def _reverted(value: JSON, base: JSON, path: FieldPath) -> JSON:
    """Return a copy in which a path has the base's value, or none."""
    head: Any = path[0]
    rest = path[1:]
    copy: Any = list(value) if isinstance(value, list) else dict(value)
    below = _item(base, head)
    if rest and (isinstance(value, list) or head in value):
        copy[head] = _reverted(value[head], below, rest)
    elif below is not None:
        copy[head] = below
    elif isinstance(copy, list):
        del copy[head]
    else:
        copy.pop(head, None)
    return copy


def _item(value: JSON, key: str | int) -> JSON:
    if isinstance(value, dict):
        return value.get(key)
    if isinstance(value, list) and isinstance(key, int) and key < len(value):
        return value[key]
    return None


_SIDE_NAMES = (("object", "object"), ("old_object", "oldObject"), ("namespace_object", "namespaceObject"))


def _ends(context: ProofContext, request: SymbolicRequest) -> Iterator[tuple[str | int, ...]]:
    """Yield paths that end early, because their absence may matter."""
    for side, name in _SIDE_NAMES:
        # Sorted, because the order of a set differs between runs.
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
    """Return the witness of a request. Fields that differ from `least` are marked."""
    current, candidate = context.judge.verdicts(request)
    marked = [
        (name, *path)
        for side, name in _SIDE_NAMES
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


PLACE = ("cases", 0)
"""Position of the only case in the document."""

PLACES = {"object": "object", "oldObject": "oldObject", "namespaceObject": "namespace"}
"""Fields of a case, by the bindings of expressions."""


def case_of(witness: Witness, policy: str) -> dict[str, JSON]:
    """Return the file as a document, without empty parts."""
    request, target = witness.request, witness.request.target
    case: dict[str, Any] = {
        "name": f"{policy}, {witness.current.text} before and {witness.candidate.text} after",
        "operation": str(target.operation),
        "resource": target.resource._asdict(),
        "subresource": target.subresource,
        "objectName": request.name if request.object is None and request.old_object is None else "",
        "user": request.user.value,
        "namespace": request.namespace_object,
        "object": request.object,
        "oldObject": request.old_object,
        "params": [each for each in request.params if each is not None],
        "dryRun": request.dry_run,
        "authorizer": [{"decision": "allow"}] if request.allowed else [],
        "expect": _expected(witness),
    }
    shown = {key: value for key, value in case.items() if value not in ("", None, False, [], {})}
    return {"apiVersion": "replay/v1", "kind": "Cases", "cases": [shown]}


def _expected(witness: Witness) -> dict[str, JSON]:
    expected: dict[str, JSON] = {"verdict": "denied" if witness.candidate is EnforcementLevel.DENIED else "admitted"}
    if witness.candidate is EnforcementLevel.WARNED:
        expected["warnings"] = list(witness.candidate_messages)
    if "candidate" in witness.patches and witness.candidate is not EnforcementLevel.DENIED:
        expected["patch"] = witness.patches["candidate"]
    return expected
