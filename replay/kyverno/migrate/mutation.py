"""Patches of mutating rules as a CEL expression of `jsonPatch` (see `replay.kyverno.rules.{mutate,strategic_merge,json6902}`).

Only fields of maps get values that are strings, whole numbers or booleans. The expression joins operations, some of which
depend on the object: what exists already, and which maps a new field needs. Applying it twice is applying it once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

from msgspec import Struct

from replay.json import JSON
from replay.kube.json_patch import JSONPatchError, tokens
from replay.kube.schema import Encoding
from replay.kyverno.migrate.formula import Formula, NoEquivalentError, Place, Type, literal, negated
from replay.kyverno.rules.json6902 import invalid_operation, read_operations
from replay.kyverno.rules.match_pattern import ADD, parse_anchor
from replay.kyverno.rules.response import RuleError
from replay.kyverno.rules.substitution import has_variables


class _Patch(Struct, frozen=True):
    """Operation on one field. `path` are the keys that lead to it."""

    op: str
    path: tuple[str, ...]
    value: JSON = None
    is_anchored: bool = False
    """Whether it only adds a field that the object lacks."""
    may_replace_text: bool = False
    """Whether it is a merge, which writes anything but a map or list as a text where it replaces a text."""


def patch_expression(mutation: Mapping[str, Any], root: Place) -> str:
    """Return the expression of a JSON patch that changes an object as a mutation does. Raises UnsaidError."""
    if has_variables({key: mutation.get(key) for key in ("patchStrategicMerge", "patchesJson6902")}):
        raise NoEquivalentError("the patch has variables")
    if mutation.get("patchStrategicMerge") is not None:
        patches = list(_merged(mutation["patchStrategicMerge"], ()))
    else:
        patches = list(_operations(str(mutation.get("patchesJson6902") or "")))
    if not patches:
        raise NoEquivalentError("it patches nothing")
    for one, other in combinations(patches, 2):
        # Each operation is written for the object of the request, which no other one may change below it.
        if one.path[: len(other.path)] == other.path or other.path[: len(one.path)] == one.path:
            raise NoEquivalentError(f"two of its patches change {'.'.join(min(one.path, other.path))}")
    return _joined(patches, root)


def _merged(node: JSON, above: tuple[str, ...]) -> Iterator[_Patch]:
    """Yield the fields that a strategic merge sets."""
    if not isinstance(node, dict) or not node:
        raise NoEquivalentError(f"the patch of {'.'.join(above) or 'the object'} is not a map with fields")
    for key in sorted(node):
        if key == "$patch":
            raise NoEquivalentError("the patch has a directive")
        anchor = parse_anchor(key)
        if anchor is not None and anchor.modifier != ADD:
            raise NoEquivalentError(f"the patch has the anchor `{key}`")
        path = (*above, key if anchor is None else anchor.key)
        if anchor is None and isinstance(node[key], dict):
            yield from _merged(node[key], path)
        else:
            yield _Patch("add", path, node[key], is_anchored=anchor is not None, may_replace_text=anchor is None)


def _operations(text: str) -> Iterator[_Patch]:
    """Yield the operations of a JSON or YAML patch."""
    try:
        operations = read_operations(text)
        for operation in operations:
            if invalid_operation(operation):
                raise NoEquivalentError("its patch is invalid")
            if operation["op"] not in ("add", "replace", "remove"):
                raise NoEquivalentError(f"its patch has `{operation['op']}`")
            path = tokens(operation["path"])
            # Before an index Kyverno adds a list, not a map.
            if any(key == "-" or key.removeprefix("-").isdigit() for key in path):
                raise NoEquivalentError(f"its patch has an index: {operation['path']}")
            yield _Patch(operation["op"], path, operation.get("value"))
    except (RuleError, JSONPatchError):
        raise NoEquivalentError("its patch is invalid") from None


def _joined(patches: Sequence[_Patch], root: Place) -> str:
    """Return the lists of operations, joined. Those without a condition come together, after the maps that they need."""
    conditional: dict[str, None] = {}
    plain: list[str] = []
    for patch in patches:
        place = _parent(patch, root, conditional)
        own = place.field(patch.path[-1])
        operation = _operation(patch, own)
        if patch.op == "remove":
            conditional[_choice(own.exists, operation)] = None
        elif patch.is_anchored:
            conditional[_choice(negated(own.exists), operation)] = None
        else:
            plain.append(operation)
    return " +\n".join([*conditional, *([f"[{', '.join(plain)}]"] if plain else [])])


def _parent(patch: _Patch, root: Place, conditional: dict[str, None]) -> Place:
    """Return the map that holds a field. The operations that add the maps along its path join the conditional ones."""
    if not patch.path:
        raise NoEquivalentError("its patch is about the whole object")
    place, is_sure = root, True
    for index, name in enumerate(patch.path[:-1], 1):
        is_sure = is_sure and _is_always_there(place, name)
        place = place.field(name)
        if place.type is not Type.OBJECT:
            raise NoEquivalentError(f"{place.path} is not a map")
        if patch.op == "add" and not is_sure:
            made = _written("add", patch.path[:index], "{}")
            conditional[_choice(negated(place.has_value), made)] = None
    return place


def _is_always_there(place: Place, name: str) -> bool:
    """Return whether the API server writes a field into every object. What a schema requires is checked only after mutation."""
    fields = [schema.field(name) for schema in place.schemas]
    return all(field is not None and field.encoding is Encoding.ALWAYS for field in fields)


def _operation(patch: _Patch, place: Place) -> str:
    if patch.op == "remove":
        return _written("remove", patch.path)
    if place.type in (Type.OBJECT, Type.LIST) or isinstance(patch.value, dict | list) or patch.value is None:
        raise NoEquivalentError(f"the patch of {place.path} is not a string, a number or a boolean")
    if patch.may_replace_text and not isinstance(patch.value, str) and place.type not in (Type.INTEGER, Type.BOOLEAN):
        raise NoEquivalentError(
            f"the patch writes {literal(patch.value)} to {place.path}, as a text if it replaces one"
        )
    added = _written("add", patch.path, literal(patch.value))
    # A `replace` of an absent field fails in Kyverno. The API server's library adds the field, but does not remove one.
    return f"{_written('remove', patch.path)}, {added}" if patch.op == "replace" else added


def _written(op: str, path: Sequence[str], value: str = "") -> str:
    pointer = "".join(f"/{name.replace('~', '~0').replace('/', '~1')}" for name in path)
    return f"JSONPatch{{op: '{op}', path: {literal(pointer)}{f', value: {value}' if value else ''}}}"


def _choice(condition: Formula, operation: str) -> str:
    return f"({condition.text} ? [{operation}] : [])"
