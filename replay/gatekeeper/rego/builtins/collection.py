"""Builtins for arrays, objects, types and graphs.

The Go sources are in `opa/v1/topdown`: `array.go`, `object.go`, `json.go`, `subset.go`, `walk.go`, `type.go` and
`reachable.go`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from replay.gatekeeper.rego.builtins.operand import BuiltinError, builtin, plain, wrong
from replay.gatekeeper.rego.lexer import TooLargeError
from replay.gatekeeper.rego.runtime import Context, step
from replay.gatekeeper.rego.value import (
    UNDEFINED,
    Object,
    PartialObject,
    Set,
    UnknownValue,
    Value,
    compare,
    equal,
    iterate,
    key_of,
    kind_name,
    members_of,
    object_of,
    pairs_of,
)

_MOST = 2_000_000
"""Limit for the elements of a concatenated array."""


@builtin("array.concat", "aa")
def _concat(a: list[Value], b: list[Value]) -> Value:
    if len(a) + len(b) > _MOST:
        raise TooLargeError
    return a + b


@builtin("array.slice", "aii")
def _slice(array: list[Value], start: int, stop: int) -> Value:
    stop = min(max(stop, 0), len(array))
    return array[min(max(start, 0), stop) : stop]


@builtin("array.reverse", "a")
def _reverse(array: list[Value]) -> Value:
    return array[::-1]


@builtin("array.flatten", "a")
def _flatten(array: list[Value]) -> Value:
    return [item for part in array for item in (part if type(part) is list else [part])]


@plain("object.get", 3)
def _get(value: Value, key: Value, default: Value) -> Value:
    if not isinstance(value, dict | Object):
        return wrong(value)
    if type(key) is not list:
        # Not for the result: it only raises if the key is unknown.
        wrong(key)
        found = step(value, key)
        return default if found is UNDEFINED else found
    for part in key:
        value = step(value, part)
        if value is UNDEFINED:
            return default
    return value


@builtin("object.keys", "o")
def _keys(value: Value) -> Value:
    # A field with an unknown value may also be absent.
    wrong(*(item for _, item in pairs_of(value)))
    return Set(key for key, _ in pairs_of(value))


def _key_names(keys: Value) -> set[str | bytes]:
    if isinstance(keys, dict | Object):
        return {key_of(key) for key, _ in pairs_of(keys)}
    if type(keys) not in (list, Set):
        wrong(keys)
        raise BuiltinError
    return {key_of(key) for key in iterate(keys)}


@builtin("object.remove", "ox")
def _remove(value: Value, keys: Value) -> Value:
    names = _key_names(keys)
    return object_of((key, item) for key, item in pairs_of(value) if key_of(key) not in names)


@builtin("object.filter", "ox")
def _filter(value: Value, keys: Value) -> Value:
    names = _key_names(keys)
    return object_of((key, item) for key, item in pairs_of(value) if key_of(key) in names)


@builtin("object.union", "oo")
def _union(a: Value, b: Value) -> Value:
    found = {key_of(key): (key, item) for key, item in pairs_of(a)}
    for key, item in pairs_of(b):
        name = key_of(key)
        if name in found:
            mine = found[name][1]
            if isinstance(mine, dict | Object) and isinstance(item, dict | Object):
                found[name] = (key, _union(mine, item))
                continue
        found[name] = (key, item)
    return object_of(found.values())


@builtin("object.union_n", "a")
def _union_n(objects: list[Value]) -> Value:
    found: Value = {}
    for item in objects:
        if not isinstance(item, dict | Object):
            wrong(item)
            raise BuiltinError
        found = _union(found, item)
    return found


@builtin("object.subset", "xx")
def _subset(whole: Value, part: Value) -> Value:
    if isinstance(whole, dict | Object) and isinstance(part, dict | Object):
        return _object_subset(whole, part)
    if type(whole) is Set and type(part) is Set:
        return part.members.keys() <= whole.members.keys()
    if type(whole) is list and type(part) is list:
        return _array_subset(whole, part)
    if type(whole) is list and type(part) is Set:
        return bool(whole) and part.members.keys() <= {key_of(item) for item in whole}
    raise BuiltinError


def _object_subset(whole: Value, part: Value) -> bool:
    for key, wanted in pairs_of(part):
        found = step(whole, key)
        if found is UNDEFINED:
            return False
        if equal(wanted, found):
            continue
        if isinstance(found, dict | Object) and isinstance(wanted, dict | Object):
            is_part = _object_subset(found, wanted)
        elif type(found) is Set and type(wanted) is Set:
            is_part = wanted.members.keys() <= found.members.keys()
        elif type(found) is list and type(wanted) is list:
            is_part = _array_subset(found, wanted)
        else:
            is_part = False
        if not is_part:
            return False
    return True


def _array_subset(whole: list[Value], part: list[Value]) -> bool:
    """Return whether an array contains another one as a sequence, by OPA's search."""
    if len(part) > len(whole):
        return False
    at = matched = 0
    while True:
        if matched == len(part):
            return True
        if at + matched == len(whole):
            return False
        if compare(whole[at + matched], part[matched]) == 0:
            matched += 1
        else:
            at += 1
            matched = 0


@plain("walk", 1)
def _walk(context: Context, value: Value) -> Iterator[Value]:
    """Yield each part of a value with its path, the value itself first."""
    stack: list[tuple[list[Value], Value]] = [([], value)]
    while stack:
        path, part = stack.pop()
        context.spend(1 + len(path) // 8)
        yield [path, part]
        kind = type(part)
        children: Iterable[tuple[Value, Value]]
        if kind is list:
            children = enumerate(part)
        elif isinstance(part, dict | Object):
            children = pairs_of(part)
        elif kind is Set:
            children = ((member, member) for member in members_of(part))
        else:
            if kind is UnknownValue:
                part.touched()
            continue
        stack += [([*path, key], item) for key, item in children][::-1]


def _paths(value: Value) -> list[list[Value]]:
    if type(value) not in (list, Set):
        wrong(value)
        raise BuiltinError
    found = []
    for item in iterate(value):
        if type(item) is str:
            found.append(
                [part.replace("~1", "/").replace("~0", "~") for part in item.lstrip("/").split("/")] if item else []
            )
        elif type(item) is list:
            found.append(item)
        else:
            wrong(item)
            raise BuiltinError
    return found


def _tree(paths: list[list[Value]]) -> dict[str | bytes, Any]:
    """Return the paths as nested dicts. None is a leaf."""
    root: dict[str | bytes, Any] = {}
    for path in paths:
        node: Any = root
        for part in path[:-1]:
            node = node.setdefault(key_of(part), {})
            if node is None:
                break
        if node is not None and path:
            node[key_of(path[-1])] = None
    return root


@builtin("json.filter", "ox")
def _json_filter(value: Value, paths: Value) -> Value:
    return _filtered(value, _tree(_paths(paths)))


def _filtered(value: Value, tree: dict[str | bytes, Any]) -> Value:
    """Return the parts of a value on the paths of a tree (`ast/term.go`, `filterObject`)."""
    if isinstance(value, dict | Object):
        return object_of(
            (key, _chosen(item, tree[key_of(key)])) for key, item in pairs_of(value) if key_of(key) in tree
        )
    if type(value) is list:
        return [_chosen(item, tree[str(place)]) for place, item in enumerate(value) if str(place) in tree]
    if type(value) is Set:
        return Set(_chosen(item, tree[key_of(item)]) for item in members_of(value) if key_of(item) in tree)
    return value


def _chosen(value: Value, tree: dict[str | bytes, Any] | None) -> Value:
    return value if tree is None else _filtered(value, tree)


@builtin("json.remove", "ox")
def _json_remove(value: Value, paths: Value) -> Value:
    return _without(value, _tree(_paths(paths)))


def _without(value: Value, tree: dict[str | bytes, Any]) -> Value:
    if isinstance(value, dict | Object):
        return object_of(
            (key, _left(item, key_of(key), tree))
            for key, item in pairs_of(value)
            if tree.get(key_of(key), tree) is not None
        )
    if type(value) is list:
        return [
            _left(item, str(place), tree) for place, item in enumerate(value) if tree.get(str(place), tree) is not None
        ]
    if type(value) is Set:
        return Set(
            _left(item, key_of(item), tree) for item in members_of(value) if tree.get(key_of(item), tree) is not None
        )
    return value


def _left(value: Value, name: str | bytes, tree: dict[str | bytes, Any]) -> Value:
    return _without(value, tree[name]) if name in tree else value


@plain("type_name", 1)
def _type_name(value: Value) -> Value:
    return kind_name(value)


def _is(name: str, kind: str) -> None:
    @plain(name, 1)
    def is_kind(value: Value) -> Value:
        return kind_name(value) == kind


for _kind in ("array", "boolean", "null", "number", "object", "set", "string"):
    _is(f"is_{_kind}", _kind)


def _cast(name: str, kinds: tuple[type, ...]) -> None:
    @plain(name, 1)
    def cast(value: Value) -> Value:
        return value if type(value) in kinds else wrong(value)


_cast("cast_string", (str,))
_cast("cast_boolean", (bool,))
_cast("cast_null", (type(None),))
_cast("cast_object", (dict, Object))


@builtin("cast_array", "c")
def _cast_array(value: Value) -> Value:
    return list(iterate(value))


@builtin("cast_set", "c")
def _cast_set(value: Value) -> Value:
    return Set(iterate(value))


@builtin("graph.reachable", "oc")
def _reachable(graph: Value, initial: Value) -> Value:
    found = Set()
    queue = list(iterate(initial))
    while queue:
        node = queue.pop()
        if found.has(node):
            continue
        edges = step(graph, node)
        if edges is UNDEFINED:
            continue
        found.add(node)
        if type(edges) in (list, Set):
            queue += iterate(edges)
    return found


@builtin("graph.reachable_paths", "oc")
def _reachable_paths(graph: Value, initial: Value) -> Value:
    found = Set()
    left = _MOST
    waiting: list[tuple[Value, list[Value]]] = [(node, []) for node in iterate(initial)]
    while waiting:
        node, before = waiting.pop()
        edges = step(graph, node)
        if edges is UNDEFINED:
            if before:
                found.add(before)
            continue
        path = [*before, node]
        neighbors = list(iterate(edges)) if type(edges) in (list, Set) else []
        left -= len(path) * (1 + len(neighbors))
        if left < 0:
            raise TooLargeError
        if not neighbors:
            found.add(path)
        for neighbor in neighbors:
            # As in OPA, an edge from a start to itself is not a cycle yet.
            if before and any(equal(neighbor, each) for each in path):
                found.add(path)
            else:
                waiting.append((neighbor, path))
    return found


@plain("internal.member_2", 2)
def _member(value: Value, collection: Value) -> Value:
    if isinstance(collection, UnknownValue | PartialObject):
        collection.touched()
    return (
        any(equal(item, value) for item in iterate(collection))
        if isinstance(collection, list | Set | dict | Object)
        else False
    )


@plain("trace", 1)
def _trace(note: Value) -> Value:
    return True if type(note) is str else wrong(note)


@plain("print", -1)
def _print(*_: Value) -> Value:
    return True
