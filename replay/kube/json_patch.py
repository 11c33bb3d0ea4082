"""RFC 6902 patches as the API server applies them, and the patch between two objects.

The server applies patches of mutating policies and webhooks with evanphx/json-patch v4. Its rules differ from the RFC
and from the Python package `jsonpatch`:

- `replace` of an absent object key adds it.
- Negative array indices count from the end.
- `add` without a value adds null, and so does a copy of an absent key.
- Copies are limited to 3 MiB in all.

Error texts reach users, so they are its own. Objects are never changed in place: the containers on a path are copied.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import orjson

from replay.json import JSON

COPY_LIMIT = 3 * 1024 * 1024
"""Bytes that the `copy` operations of one patch may add (`JSONPatchMaxCopyBytes` of the generic API server)."""

_ABSENT: Any = object()
_SCALARS = frozenset({str, int, bool, float})
_INDEX = re.compile(r"[+-]?[0-9]+")
_MISSING = "missing value"
_INVALID_INDEX = "invalid index referenced"


class JSONPatchError(Exception):
    """A patch cannot be applied. `str()` is the server's text."""


class TestFailed(JSONPatchError):  # noqa: N818 - named after the operation that did it
    """A `test` operation that found another value. A mutating policy then changes nothing, a webhook fails."""

    __test__ = False


def apply(document: JSON, operations: Sequence[Mapping[str, Any]], *, explicit_null: bool = False) -> JSON:
    """Return the document after all operations (evanphx/json-patch v4 `Patch.Apply`). The argument is not changed.

    Operations are decoded JSON objects with `op`, `path`, `from` and `value`. A `test` for null holds if the key is
    absent or null, but never with `explicit_null`. Policies need that, because the server makes their operations itself
    instead of parsing them. Raise `JSONPatchError`, and `TestFailed` for a failing `test`.
    """
    copied = 0
    for operation in operations:
        op = operation.get("op")
        if op == "copy":
            document, size = _copy(document, operation, copied)
            copied += size
        elif op == "test":
            _test(document, operation, explicit_null=explicit_null)
        elif isinstance(op, str) and op in _OPERATIONS:
            document = _OPERATIONS[op](document, operation)
        else:
            raise JSONPatchError(f"Unexpected kind: {op if isinstance(op, str) else 'unknown'}")
    return document


def _add(document: JSON, operation: Mapping[str, Any]) -> JSON:
    path = operation.get("path")
    if not isinstance(path, str):
        raise JSONPatchError("add operation failed to decode path: missing value")
    place = _copied(document, path)
    if place is None:
        raise JSONPatchError(f'add operation does not apply: doc is missing path: "{path}": {_MISSING}')
    try:
        return _inserted(place, operation.get("value"))
    except JSONPatchError as error:
        raise JSONPatchError(f"error in add for path: '{path}': {error}") from None


def _remove(document: JSON, operation: Mapping[str, Any]) -> JSON:
    path = operation.get("path")
    if not isinstance(path, str):
        raise JSONPatchError("remove operation failed to decode path: missing value")
    place = _copied(document, path)
    if place is None:
        raise JSONPatchError(f'remove operation does not apply: doc is missing path: "{path}": {_MISSING}')
    try:
        return _removed(place)
    except JSONPatchError as error:
        raise JSONPatchError(f"error in remove for path: '{path}': {error}") from None


def _replace(document: JSON, operation: Mapping[str, Any]) -> JSON:
    path = operation.get("path")
    if not isinstance(path, str):
        raise JSONPatchError(f"replace operation failed to decode path: {_no_path}")
    value = operation.get("value")
    if path == "":
        if not isinstance(value, dict | list):
            # The error that the server formats here is nil.
            raise JSONPatchError("replace operation value must be object or array: %!w(<nil>)")
        return value
    place = _copied(document, path)
    if place is None:
        raise JSONPatchError(f"replace operation does not apply: doc is missing path: {path}: {_MISSING}")
    root, container, key = place
    try:
        container[_index_of(container, key) if isinstance(container, list) else key] = value
    except JSONPatchError:
        raise JSONPatchError(f"replace operation does not apply: doc is missing key: {path}: {_MISSING}") from None
    return root


def _move(document: JSON, operation: Mapping[str, Any]) -> JSON:
    source = _text(operation, "from", f"move operation failed to decode from: {_no_from}")
    place = _copied(document, source)
    if place is None:
        raise JSONPatchError(f"move operation does not apply: doc is missing from path: {source}: {_MISSING}")
    _, parent, key = place
    try:
        value = _get(parent, key)
        document = _removed(place)
    except JSONPatchError as error:
        raise JSONPatchError(f"error in move for path: '{key}': {error}") from None
    path = _text(operation, "path", f"move operation failed to decode path: {_no_path}")
    place = _copied(document, path)
    if place is None:
        raise JSONPatchError(f"move operation does not apply: doc is missing destination path: {path}: {_MISSING}")
    try:
        return _inserted(place, value)
    except JSONPatchError as error:
        raise JSONPatchError(f"error in move for path: '{path}': {error}") from None


def _copy(document: JSON, operation: Mapping[str, Any], copied: int) -> tuple[JSON, int]:
    """Return the document after a `copy`, and the bytes that it copied."""
    source = _text(operation, "from", f"copy operation failed to decode from: {_no_from}")
    parent = _parent(document, source)
    if parent is None:
        raise JSONPatchError(f"copy operation does not apply: doc is missing from path: {source}: {_MISSING}")
    try:
        value = _get(parent, tokens(source)[-1])
    except JSONPatchError as error:
        raise JSONPatchError(f"error in copy for from: '{source}': {error}") from None
    path = _text(operation, "path", "copy operation failed to decode path: missing value")
    place = _copied(document, path)
    if place is None:
        raise JSONPatchError(f"copy operation does not apply: doc is missing destination path: {path}: {_MISSING}")
    # The server counts the bytes of the value as JSON.
    size = 0 if value is None else len(orjson.dumps(value))
    if copied + size > COPY_LIMIT:
        raise JSONPatchError(
            "Unable to complete the copy, the accumulated size increase of copy is "
            f"{copied + size}, exceeding the limit {COPY_LIMIT}"
        )
    try:
        return _inserted(place, value), size
    except JSONPatchError as error:
        raise JSONPatchError(f"error while adding value during copy: {error}") from None


def _test(document: JSON, operation: Mapping[str, Any], *, explicit_null: bool) -> None:
    path = _text(operation, "path", f"test operation failed to decode path: {_no_path}")
    value = document
    if path != "":
        parent = _parent(document, path)
        if parent is None:
            raise JSONPatchError(f"test operation does not apply: is missing path: {path}: {_MISSING}")
        try:
            value = _get(parent, tokens(path)[-1])
        except JSONPatchError as error:
            raise JSONPatchError(f"error in test for path: '{path}': {error}") from None
    is_null = explicit_null and "value" in operation and operation["value"] is None
    if is_null or not equal(value, operation.get("value")):
        raise TestFailed(f"testing value {path} failed: test failed")


_OPERATIONS = {"add": _add, "remove": _remove, "replace": _replace, "move": _move}
_no_path = f"operation missing path field: {_MISSING}"
_no_from = f"operation, missing from field: {_MISSING}"


def _text(operation: Mapping[str, Any], field: str, error: str) -> str:
    value = operation.get(field)
    if not isinstance(value, str):
        raise JSONPatchError(error)
    return value


@lru_cache(maxsize=4096)
def tokens(path: str) -> tuple[str, ...]:
    """Return the decoded tokens of a JSON pointer (RFC 6901). `~1` and `~0` are decoded in one pass."""
    if "~" not in path:
        return tuple(path.split("/")[1:])
    return tuple(_unescaped(part) for part in path.split("/")[1:])


def _unescaped(token: str) -> str:
    return re.sub("~[01]", lambda match: "/" if match[0] == "~1" else "~", token)


def _parent(document: JSON, path: str) -> JSON | None:
    """Return the container of the last token, or None if the path does not lead to one."""
    keys = tokens(path)
    if not keys:
        return None
    for key in keys[:-1]:
        if not isinstance(document, dict | list):
            return None
        try:
            document = document[_index_of(document, key)] if isinstance(document, list) else document.get(key)
        except JSONPatchError:
            return None
    return document if isinstance(document, dict | list) else None


def _get(container: JSON, key: str) -> JSON:
    return container[_index_of(container, key)] if isinstance(container, list) else container.get(key)


def _number(key: str) -> int:
    if not _INDEX.fullmatch(key):
        raise JSONPatchError(f"strconv.Atoi: parsing {_quoted(key)}: invalid syntax")
    number = int(key)
    if not -(2**63) <= number < 2**63:
        raise JSONPatchError(f"strconv.Atoi: parsing {_quoted(key)}: value out of range")
    return number


def _quoted(text: str) -> str:
    return orjson.dumps(text).decode()


def _index_of(items: list[JSON], key: str) -> int:
    """Return the position of an existing item. A negative one counts from the end."""
    number = _number(key)
    if not -len(items) <= number < len(items):
        raise JSONPatchError(f"Unable to access invalid index: {number}: {_INVALID_INDEX}")
    return number % len(items)


def _position(items: list[JSON], key: str) -> int:
    """Return where `add` inserts. A negative position counts from the end of the new list."""
    if key == "-":
        return len(items)
    try:
        number = _number(key)
    except JSONPatchError as error:
        raise JSONPatchError(f"value was not a proper array index: '{key}': {error}") from None
    if not -len(items) - 1 <= number <= len(items):
        raise JSONPatchError(f"Unable to access invalid index: {number}: {_INVALID_INDEX}")
    return number % (len(items) + 1)


def _inserted(place: _Place, value: JSON) -> JSON:
    root, container, key = place
    if isinstance(container, list):
        container.insert(_position(container, key), value)
    else:
        container[key] = value
    return root


def _removed(place: _Place) -> JSON:
    root, container, key = place
    if isinstance(container, list):
        del container[_index_of(container, key)]
    elif key in container:
        del container[key]
    else:
        raise JSONPatchError(f"Unable to remove nonexistent key: {key}: {_MISSING}")
    return root


_Place = tuple[JSON, JSON, str]
"""A document of which only the path to the last token is copied, the container of that token, and the token."""


def _copied(document: JSON, path: str) -> _Place | None:
    """Return the place of a path in a copy, or None if the path does not lead to a container of its last token."""
    keys = tokens(path)
    if not keys or not isinstance(document, dict | list):
        return None
    root = container = document.copy()
    for key in keys[:-1]:
        if isinstance(container, list):
            try:
                at: Any = _index_of(container, key)
            except JSONPatchError:
                return None
            inner = container[at]
        else:
            at, inner = key, container.get(key)
        if not isinstance(inner, dict | list):
            return None
        container[at] = inner.copy()
        container = container[at]
    return root, container, keys[-1]


def equal(one: JSON, other: JSON) -> bool:
    """Return whether two JSON values are the same. `true` is not 1, and 1 is not 1.0."""
    # The list grows while it is read, so that deep values need no recursion.
    pairs = [(one, other)]
    for left, right in pairs:
        if left is right:
            continue
        if type(left) is not type(right):
            return False
        if isinstance(left, dict):
            if left.keys() != right.keys():
                return False
            pairs += zip(left.values(), map(right.__getitem__, left), strict=True)
        elif isinstance(left, list):
            if len(left) != len(right):
                return False
            pairs += zip(left, right, strict=True)
        elif left != right:
            return False
    return True


def diff(old: JSON, new: JSON) -> tuple[dict[str, JSON], ...]:
    """Return a patch that turns the object `old` into `new`.

    Objects are compared key by key, in the order of names. Of two lists, equal items at both ends are kept. The items
    between them are compared one by one, and the excess of one list is added or removed there.
    """
    operations: list[dict[str, JSON]] = []
    _differences("", old, new, operations)
    return tuple(operations)


def _differences(path: str, old: JSON, new: JSON, operations: list[dict[str, JSON]]) -> None:  # noqa: C901 - a loop a step
    if old is new:
        return
    if isinstance(old, dict) and isinstance(new, dict):
        # The two objects share most of their parts, so keys with identical values are skipped before any comparison.
        touched = []
        for key, value in new.items():
            if old.get(key, _ABSENT) is not value:
                touched.append(key)
        if len(new) - len(touched) < len(old):
            touched += old.keys() - new.keys()
        for key in sorted(touched):
            old_part, new_part = old.get(key, _ABSENT), new.get(key, _ABSENT)
            if new_part is _ABSENT:
                operations.append({"op": "remove", "path": f"{path}/{escaped(key)}"})
            elif old_part is _ABSENT:
                operations.append({"op": "add", "path": f"{path}/{escaped(key)}", "value": new_part})
            elif type(new_part) not in _SCALARS or type(old_part) is not type(new_part) or old_part != new_part:
                _differences(f"{path}/{escaped(key)}", old_part, new_part, operations)
    elif isinstance(old, list) and isinstance(new, list):
        _list_differences(path, old, new, operations)
    elif not equal(old, new):
        operations.append({"op": "replace", "path": path, "value": new})


def _list_differences(path: str, old: list[JSON], new: list[JSON], operations: list[dict[str, JSON]]) -> None:
    start, shorter = 0, min(len(old), len(new))
    while start < shorter and (old[start] is new[start] or equal(old[start], new[start])):
        start += 1
    # In lists of equal length, the pair that just differed is not compared again from the end.
    end, rest = 0, shorter - start - (len(old) == len(new))
    while end < rest and (old[-1 - end] is new[-1 - end] or equal(old[-1 - end], new[-1 - end])):
        end += 1
    for index in range(start, shorter - end):
        _differences(f"{path}/{index}", old[index], new[index], operations)
    if len(old) == len(new):
        return
    added = range(shorter - end, len(new) - end)
    # Items are removed from the end, so that no removal moves an item that is still to be removed.
    removed = reversed(range(shorter - end, len(old) - end))
    operations += [{"op": "add", "path": f"{path}/{index}", "value": new[index]} for index in added]
    operations += [{"op": "remove", "path": f"{path}/{index}"} for index in removed]


@lru_cache(maxsize=4096)
def escaped(key: str) -> str:
    """Return a key as a token of a JSON pointer."""
    return key.replace("~", "~0").replace("/", "~1")
