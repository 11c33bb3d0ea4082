"""A request made as small as it can be while it still shows a difference."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from replay.json import JSON, FieldPath
from replay.kube.attributes import UserInfo
from replay.prove.request import SymbolicRequest

Shows = Callable[[SymbolicRequest], SymbolicRequest | None]
"""The request as a server would settle it if it still shows the difference, else None."""

_SIDES = ("object", "old_object", "namespace_object")
_MOST_TRIES = 400


def minimal(request: SymbolicRequest, shows: Shows, least: SymbolicRequest) -> SymbolicRequest:
    """Remove everything that does not matter, part by part; `least` gives the values to return to."""
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
                break
            if tries >= _MOST_TRIES:
                break
    return current


def _smaller(request: SymbolicRequest, least: SymbolicRequest) -> Iterator[SymbolicRequest]:  # noqa: C901 - one case a kind
    """Requests with one thing less."""
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
    """Return the deepest places where a value differs from a base."""
    paths = list(_differences(value, base, ()))
    return [path for path in paths if not any(other != path and other[: len(path)] == path for other in paths)]


def _differences(value: JSON, base: JSON, at: FieldPath) -> Iterator[FieldPath]:
    """The places where two values differ, outer ones before inner ones."""
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
    """Return a copy in which a place has the base's value, or none."""
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
