"""The four forms of a PATCH body, and what each may change.

An audit event has the patch but not its content type. A list is a JSON patch (RFC 6902). A whole object with
`fieldManager` in the query is an apply configuration, since server-side apply requires both; if the log has no query,
the object decides. Any other map is a merge patch (RFC 7386) or a strategic merge patch, which usually mean the same.
If they do not, the patch cannot be applied and the caller gets an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Any

from replay.audit.event import CREATED
from replay.json import JSON, FieldPath
from replay.kube import json_patch
from replay.kube.json_patch import JSONPatchError, tokens
from replay.reconstruct.record.exchange import Exchange, query_of
from replay.reconstruct.record.known import get

"""Status of an answer to a request that created its object."""


class PatchForm(Enum):
    """Form of a patch, as far as its body tells."""

    JSON = "JSON patch"
    APPLY = "apply configuration"
    MERGE = "merge patch"


class UnappliedPatchError(Exception):
    """The patch cannot be applied to the known state. `str()` is the reason."""


class UnfittingPatchError(UnappliedPatchError):
    """The JSON patch does not fit the object.

    If the object is fully known, the server refuses with 422 (`jsonPatcher.applyJSPatch`).
    """


def form_of(exchange: Exchange) -> PatchForm:
    """Return the form of a record's patch.

    If the log lacks the body, the patch is an apply if it created its object or is forced: only an apply can do that.
    """
    patch = exchange.request.json
    if isinstance(patch, list):
        return PatchForm.JSON
    # Other patches of a missing object fail with 404, and only an apply has the parameter `force`.
    if patch is None and (exchange.record.code == CREATED or "force" in query_of(exchange.record.request_uri)):
        return PatchForm.APPLY
    is_whole = isinstance(patch, dict) and patch.get("apiVersion") and patch.get("kind")
    if is_whole and ("fieldManager" in query_of(exchange.record.request_uri) or not exchange.has_query):
        return PatchForm.APPLY
    return PatchForm.MERGE


def touched(patch: JSON) -> list[FieldPath]:
    """Return the paths that a JSON, merge or strategic merge patch may have changed. A list counts as one path."""
    if isinstance(patch, list):
        paths = [tokens(operation[name]) for operation in patch for name in ("path", "from") if name in operation]
        return [_above_list(path) for path in paths]
    return list(_merged_paths(patch, ()))


def _merged_paths(patch: JSON, at: FieldPath) -> Iterator[FieldPath]:
    """Yield the leaves of a merge patch. A strategic directive touches its parent or the named field."""
    if not isinstance(patch, dict):
        yield at
        return
    # An empty map creates the field if it is missing. Every object has metadata.
    if not patch and at and at != ("metadata",):
        yield at
    for key, value in patch.items():
        if key.startswith(("$setElementOrder/", "$deleteFromPrimitiveList/")):
            yield (*at, key.partition("/")[2])
        elif key.startswith("$"):
            yield at
        else:
            yield from _merged_paths(value, (*at, key))


def _above_list(path: FieldPath) -> FieldPath:
    """Return a path, cut before its first list index."""
    for index, part in enumerate(path):
        if part == "-" or str(part).isdecimal():
            return path[:index]
    return path


def made_parts(paths: list[FieldPath], after: JSON) -> list[FieldPath]:
    """Return the outermost parts of an object that consist only of touched paths.

    A patch may have created them as a whole.
    """
    return [_outermost(path, paths, after) for path in paths]


def _outermost(path: FieldPath, paths: list[FieldPath], after: JSON) -> FieldPath:
    while len(path) > 1:
        above = path[:-1]
        siblings = get(after, above)
        if not isinstance(siblings, dict) or not all(_is_covered((*above, key), paths, after) for key in siblings):
            return path
        path = above
    return path


def _is_covered(at: FieldPath, paths: list[FieldPath], after: JSON) -> bool:
    """Return whether a patch touches everything that an object has at a path."""
    if any(at[: len(path)] == path for path in paths):
        return True
    value = get(after, at)
    return isinstance(value, dict) and bool(value) and all(_is_covered((*at, key), paths, after) for key in value)


def applied(patch: JSON, form: PatchForm, value: JSON) -> JSON:
    """Return the result of a JSON or merge patch. Raise `UnappliedPatchError` if the log does not tell enough.

    `value` is not changed. A map patch with strategic directives, or with lists, needs the schema of the kind and the
    content type.
    """
    if form is PatchForm.JSON:
        return _json_patched(patch, value)
    if form is PatchForm.APPLY:
        raise UnappliedPatchError("the result of an apply depends on field ownership, which the log does not show")
    if not isinstance(patch, dict):
        raise UnappliedPatchError("the log does not have the patch")
    if is_ambiguous(patch):
        raise UnappliedPatchError(
            "the log does not have the content type of the patch, and patch types treat lists differently"
        )
    return merge_patched(patch, value)


def is_ambiguous(patch: JSON) -> bool:
    """Return whether strategic and plain merge may differ, because of directives or lists."""
    if isinstance(patch, list):
        return True
    if not isinstance(patch, dict):
        return False
    return any(key.startswith("$") or is_ambiguous(value) for key, value in patch.items())


def merge_patched(patch: JSON, base: JSON) -> JSON:
    """Return the result of a merge patch (RFC 7386)."""
    if not isinstance(patch, dict):
        return patch
    after = dict(base) if isinstance(base, dict) else {}
    for key, value in patch.items():
        if value is None:
            after.pop(key, None)
        else:
            after[key] = merge_patched(value, after.get(key))
    return after


def _json_patched(patch: list[dict[str, Any]], value: JSON) -> JSON:
    """Return the result of a JSON patch (RFC 6902), as `jsonPatcher.applyJSPatch` applies it."""
    try:
        return json_patch.apply(value, patch)
    except JSONPatchError as error:
        raise UnfittingPatchError("the JSON patch does not apply to the object") from error


def agrees(old: JSON, new: JSON, paths: Iterable[FieldPath]) -> bool:
    """Return whether two states are equal outside the given paths."""
    ignored: _Tree = {}
    for path in paths:
        at = ignored
        for part in path:
            at = at.setdefault(part, {})
        at[_ALL] = {}
    return _equal_except(old, new, ignored)


_Tree = dict[str | int | None, Any]
# None is neither a key of a JSON object nor an index, so it cannot meet a part of a path.
_ALL = None


def _equal_except(one: JSON, other: JSON, ignored: _Tree) -> bool:
    """Compare two values outside a tree of paths. An absent value equals a map whose entries are all ignored."""
    if _ALL in ignored:
        return True
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(
            _equal_except(left, right, ignored[index]) if index in ignored else left == right
            for index, (left, right) in enumerate(zip(one, other, strict=True))
        )
    one, other = {} if one is None else one, {} if other is None else other
    if not (isinstance(one, dict) and isinstance(other, dict)):
        return bool(one == other)
    for key, value in one.items():
        below = ignored.get(key)
        if below is None:
            if key not in other or other[key] != value:
                return False
        elif not _equal_except(value, other.get(key), below):
            return False
    added = other.keys() - one.keys()
    return added <= ignored.keys() and all(_equal_except(None, other[key], ignored[key]) for key in added)
