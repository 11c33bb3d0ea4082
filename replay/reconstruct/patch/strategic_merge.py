"""Strategic merge patches (`k8s.io/apimachinery/pkg/util/strategicpatch.StrategicMergeMapPatch`).

They are map patches whose lists are merged by the keys that the Go types name (`patchStrategy`, `patchMergeKey`).
Directives are `$patch` (replace, delete), `$retainKeys`, `$setElementOrder/<list>` and
`$deleteFromPrimitiveList/<list>`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from replay.json import JSON
from replay.kube.schema import Schema

_PATCH = "$patch"
_RETAIN = "$retainKeys"
_ORDER = "$setElementOrder/"
_DELETE = "$deleteFromPrimitiveList/"
_NEVER = -1

Map = dict[str, Any]


class StrategicMergeError(Exception):
    """The server refuses the patch. `str()` says why."""


def has_directive(patch: JSON) -> bool:
    """Return whether a patch contains a directive, which only a strategic merge patch has."""
    if isinstance(patch, dict):
        return any(
            key in (_PATCH, _RETAIN) or key.startswith((_ORDER, _DELETE)) or has_directive(value)
            for key, value in patch.items()
        )
    return isinstance(patch, list) and any(map(has_directive, patch))


def strategic_merge(schema: Schema, original: Map, patch: Map) -> Map:
    """Return the result of the patch. Neither argument is changed, and untouched parts are shared.

    `schema` is that of `original`. Raise `StrategicMergeError`.
    """
    if _PATCH in patch:
        return _directed_map(patch)
    after, rest = _retained(original, patch), dict(patch)
    _check_deletions(rest)
    _merge_ordered(schema, after, rest)
    for key, value in rest.items():
        is_deletion = key.startswith(_DELETE)
        name = key.removeprefix(_DELETE)
        if value is None:
            after.pop(name, None)
        # `mergeMap` merges only values of one type. Otherwise the patch replaces the value.
        elif name in after and type(after[name]) is type(value) and isinstance(value, dict | list):
            field = _field(schema, name)
            if isinstance(value, list):
                after[name] = _merged_list(field, after[name], value, is_deletion=is_deletion)
            else:
                after[name] = value if _strategy(field) == "replace" else strategic_merge(field, after[name], value)
        elif not is_deletion:
            _replace(after, name, value)
    return after


def _directed_map(patch: Map) -> Map:
    """Return a map after a directive."""
    if patch[_PATCH] not in ("replace", "delete"):
        raise StrategicMergeError(f"unknown patch type `{patch[_PATCH]}`")
    return {key: value for key, value in patch.items() if key != _PATCH} if patch[_PATCH] == "replace" else {}


def _field(schema: Schema, name: str) -> Schema:
    """Return the schema of a field. Raise `StrategicMergeError` if the Go type lacks it."""
    field_schema = schema.field(name)
    if field_schema is None:
        raise StrategicMergeError(f"there is no field `{name}`")
    return field_schema


def _strategy(field: Schema) -> str:
    """Return how a field is merged, apart from `retainKeys`, which affects only the patch."""
    return next((strategy for strategy in field.patch_strategy.split(",") if strategy != "retainKeys"), "")


def _replace(after: Map, name: str, value: JSON) -> None:
    """Set a field to the value of the patch. A map that is itself a directive removes the field."""
    if isinstance(value, dict) and _PATCH in value:
        after.pop(name, None)
    else:
        after[name] = _plain(value)


def _plain(value: JSON) -> JSON:
    """Return a value of a patch without nulls and directives in its maps."""
    if isinstance(value, dict):
        entries = {key: inner for key, inner in value.items() if inner is not None and not _is_directive(inner)}
        return {key: _plain(inner) for key, inner in entries.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value if not _is_directive(inner)]
    return value


def _is_directive(value: JSON) -> bool:
    return isinstance(value, dict) and _PATCH in value


def _retained(original: Map, patch: Map) -> Map:
    """Return a copy of a map with the fields that `$retainKeys` names, or with all fields without that directive."""
    if _RETAIN not in patch:
        return dict(original)
    retained = patch[_RETAIN]
    if not isinstance(retained, list):
        raise StrategicMergeError("`$retainKeys` is not a list")
    for key, value in patch.items():
        if value is not None and key != _RETAIN and not key.startswith((_ORDER, _DELETE)) and key not in retained:
            raise StrategicMergeError(f"`{key}` is not among the `$retainKeys`")
    return {key: value for key, value in original.items() if key in retained}


def _check_deletions(patch: Map) -> None:
    """Refuse a patch that both deletes and adds a list item, because the server's order is random."""
    for key, gone in patch.items():
        added = patch.get(key.removeprefix(_DELETE)) if key.startswith(_DELETE) else None
        if added and gone and any(item in added for item in gone):
            raise StrategicMergeError(f"`{key.removeprefix(_DELETE)}` is added to and deleted from")


def _merge_ordered(schema: Schema, after: Map, rest: Map) -> None:
    """Merge the lists whose order the patch states, and remove them and all directives about maps from the patch."""
    rest.pop(_RETAIN, None)
    # A list, because the loop removes entries.
    for directive in [key for key in rest if key.startswith(_ORDER)]:
        order, name = rest.pop(directive), directive.removeprefix(_ORDER)
        old, new = after.get(name), rest.pop(name, None)
        if not isinstance(order, list) or not isinstance(old, list | None) or not isinstance(new, list | None):
            raise StrategicMergeError(f"`{name}` is not a list")
        if old is None and new is None:
            continue
        if not (old or new):
            raise StrategicMergeError(f"`{name}` has no items")
        field = _field(schema, name)
        items = [item for item in new or () if not _is_directive(item)]
        identity = _identity(field, [*order, *(old or ()), *items])
        _check_order(new or (), order, identity)
        if old is None:
            merged = _plain(new)
        else:
            merged = old if new is None else _merged_list(field, old, new, is_deletion=False)
        after[name] = _in_order(merged, order, _overwritten(field, old or [], new or [], identity), identity)


def _overwritten(field: Schema, old: list[JSON], new: list[JSON], identity: Callable[[JSON], Any]) -> list[JSON]:
    """Return the old list as the Go code finds it again after merging a patch that deletes items.

    Added items were written into the places of the deleted ones, because `append` writes into the array that both Go
    slices share. So they have an order among the remaining items.
    """
    if not any(_is_directive(item) for item in new) or _strategy(field) != "merge":
        return old
    remaining, added = _directed(field, old, new)
    identities = [identity(item) for item in remaining]
    fresh = [item for item in added if identity(item) not in identities]
    return [*remaining, *fresh[: len(old) - len(remaining)]] if remaining is not added else old


def _merged_list(field: Schema, old: list[JSON], new: list[JSON], *, is_deletion: bool) -> list[JSON]:
    """Return two lists merged by key, or as sets of scalars; without the strategy `merge`, the new list."""
    if not (is_deletion or _strategy(field) == "merge"):
        return new
    if len({type(item) for item in (*old, *new)}) > 1:
        raise StrategicMergeError("the items of a list are of different types")
    if not any(isinstance(item, dict) for item in (*old, *new)):
        if is_deletion:
            return [item for item in old if item not in new]
        # Lists of scalars merge as sets, and the order of the patch wins.
        return _in_order(_unique([*old, *new]), new, old, lambda item: item)
    old, new = _directed(field, old, new)
    identity = _identity(field, [*old, *new])
    # Reversed, so that the first of several items with one key gets the merge, as in Go.
    places = {identity(item): index for index, item in reversed(list(enumerate(old)))}
    merged = list(old)
    for item in new:
        place = places.get(identity(item))
        if place is None:
            places[identity(item)] = len(merged)
            merged.append(item)
        elif field.items is not None:
            merged[place] = strategic_merge(field.items, merged[place], item)
    return _in_order(merged, new, old, identity)


def _directed(field: Schema, old: list[JSON], new: list[JSON]) -> tuple[list[JSON], list[JSON]]:
    """Return both lists after the directives among the patch's items: delete one item, or replace the whole list."""
    items, replaces = [], False
    for item in new:
        directive = item.get(_PATCH)
        if _PATCH not in item:
            items.append(item)
        elif directive == "replace":
            replaces = True
        elif directive == "delete" and field.patch_merge_key in item:
            gone = item[field.patch_merge_key]
            old = [each for each in old if each.get(field.patch_merge_key) != gone]
        else:
            raise StrategicMergeError(f"unknown patch type `{directive}`")
    return (items, []) if replaces else (old, items)


def _identity(field: Schema, items: Sequence[JSON]) -> Callable[[JSON], Any]:
    """Return a function that identifies list items: by value, or by a required merge key."""
    if not any(isinstance(item, dict) for item in items):
        return lambda item: item
    key = field.patch_merge_key

    def key_of(item: JSON) -> Any:
        if not key or not isinstance(item, dict) or key not in item:
            raise StrategicMergeError("an item of a list has no merge key")
        return item[key]

    # Every item needs the key, even one that is never compared.
    for item in items:
        key_of(item)
    return key_of


def _check_order(new: Sequence[JSON], order: Sequence[JSON], identity: Callable[[JSON], Any]) -> None:
    """Check that a patch's items follow the stated order, with no directive after the last one."""
    remaining = [item for item in new if not (_is_directive(item) and item[_PATCH] == "delete")]
    if not order:
        return
    for stated in order:
        while remaining and _is_directive(remaining[0]):
            remaining.pop(0)
        if remaining and identity(remaining[0]) == identity(stated):
            remaining.pop(0)
    if remaining:
        raise StrategicMergeError("the order of a list is not the one that is stated for it")


def _unique(items: Iterable[JSON]) -> list[JSON]:
    distinct: list[JSON] = []
    for item in items:
        if item not in distinct:
            distinct.append(item)
    return distinct


def _in_order(
    merged: list[JSON], patch_items: Sequence[JSON], server: Sequence[JSON], identity: Callable[[JSON], Any]
) -> list[JSON]:
    """Return the items in the order of the patch, with the server's own items where they were before.

    Between a patch item and a server item the patch item comes first, unless both existed in the other order.
    """
    of_patch, of_server = [identity(item) for item in patch_items], [identity(item) for item in server]
    server_items = sorted(
        (item for item in merged if identity(item) not in of_patch), key=lambda item: _place(of_server, identity(item))
    )
    right = sorted(
        (item for item in merged if identity(item) in of_patch), key=lambda item: of_patch.index(identity(item))
    )
    ordered: list[JSON] = []
    while server_items and right:
        one, other = _place(of_server, identity(server_items[0])), _place(of_server, identity(right[0]))
        ordered.append(server_items.pop(0) if _NEVER < one < other else right.pop(0))
    return [*ordered, *server_items, *right]


def _place(order: list[Any], item: JSON) -> int:
    return order.index(item) if item in order else _NEVER
