"""Strategic merge of kustomize with Kubernetes schemas (sigs.k8s.io/kustomize/kyaml `yaml/merge2`, `yaml/walk`).

Lists with a merge key are merged item by item, with the patch's items first. Other lists are replaced. A null in a
patch removes a field.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

from replay.go.format import float_text, marshal
from replay.json import JSON
from replay.kube.gvk import GroupVersionKind, split_api_version
from replay.kube.schema import Schema, Schemas
from replay.kyverno.rules.go_value import with_floats
from replay.kyverno.rules.match_pattern import ADD, CONDITION, GLOBAL, Anchor, PatternError, match_pattern, parse_anchor
from replay.kyverno.rules.response import GoPanicError, RuleError, UndeterminedError

_DIRECTIVE = "$patch"
_DIRECTIVES = ("delete", "replace", "merge")
_KINDS: dict[type, str] = {dict: "MappingNode", list: "SequenceNode"}


class _Missing:
    """Absent node, which differs from null."""


_MISSING: Any = _Missing()


def _strategic_merge(base: JSON, patch: JSON) -> JSON:
    """Return an object with a patch merged into it. Neither is changed. Raises RuleError."""
    merged = _walk(base, patch, None)
    return {} if merged is _MISSING else merged


@cache
def _schemas() -> Schemas:
    return Schemas()


def _is_absent(node: JSON) -> bool:
    return node is _MISSING or node is None


def _schema_of(schema: Schema | None, *nodes: JSON) -> Schema | None:
    if schema is not None:
        return schema
    for node in nodes:
        if isinstance(node, dict) and node.get("kind") and node.get("apiVersion"):
            group, version = split_api_version(str(node["apiVersion"]))
            found = _schemas().for_kind(GroupVersionKind(group, version, str(node["kind"])))
            if found is not None:
                return found
    return None


def _walk(dest: JSON, patch: JSON, schema: Schema | None) -> JSON:
    """Return the merged node, or `_MISSING` if it is removed."""
    schema = _schema_of(schema, dest, patch)
    first = next((node for node in (dest, patch) if not _is_absent(node)), None)
    if first is None:
        return _walk_map(dest, patch, schema)
    kind = type(first) if type(first) in _KINDS else None
    for node in (dest, patch):
        if not _is_absent(node) and (type(node) if type(node) in _KINDS else None) is not kind:
            raise _wrong_kind(type(first), node)
    if kind is dict:
        return _walk_map(dest, patch, schema)
    if kind is list:
        return _walk_list(dest, patch, schema)
    if isinstance(dest, str) and not isinstance(patch, str) and not _is_absent(patch):
        # A field keeps the style of its node, so that what replaces a quoted text is quoted too (`FieldSetter`).
        return _scalar(patch)
    return dest if patch is _MISSING else patch


def _wrong_kind(expected: type, node: JSON) -> RuleError:
    """Return the error about a node of another kind than that of a Python type (`yaml.InvalidNodeKindError`)."""
    wanted, found = _KINDS.get(expected, "ScalarNode"), _KINDS.get(type(node), "ScalarNode")
    return RuleError(f"wrong node kind: expected {wanted} but got {found}: node contents:\n{_flow(node)}\n")


def _flow(node: JSON) -> str:
    """Return a node as YAML in the style of JSON text."""
    if isinstance(node, dict):
        return "{" + ", ".join(f"{marshal(key)}: {_flow(node[key])}" for key in sorted(node)) + "}"
    return "[" + ", ".join(map(_flow, node)) + "]" if isinstance(node, list) else str(marshal(node))


def _walk_map(dest: JSON, patch: JSON, schema: Schema | None) -> JSON:
    if _is_absent(dest):
        if patch is _MISSING:
            return dest
        if patch is None:
            return _MISSING
        directive, patch = _map_directive(patch)
        if directive == "delete":
            return _MISSING
        dest = patch
    elif patch is None:
        return _MISSING
    elif patch is not _MISSING:
        directive, patch = _map_directive(patch)
        if directive == "delete":
            return _MISSING
        if directive == "replace":
            dest = patch
    other = patch if isinstance(patch, dict) else {}
    merged = dict(dest)
    for key in sorted({*dest, *other}):
        inner = schema.field(key) or schema.values if schema is not None else None
        value = _walk(dest.get(key, _MISSING), other.get(key, _MISSING), inner)
        if value is _MISSING or (value is None and key in other):
            merged.pop(key, None)
        else:
            merged[key] = value
    return merged


def _map_directive(patch: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the directive of a patch's map, and the map without it."""
    value = patch.get(_DIRECTIVE)
    if value is None:
        return "merge", patch
    if value not in _DIRECTIVES:
        raise RuleError(f"unknown patch strategy '{_scalar(value)}'")
    return str(value), {key: item for key, item in patch.items() if key != _DIRECTIVE}


def _list_directive(patch: JSON) -> tuple[str, JSON]:
    if not isinstance(patch, list):
        return "merge", patch
    for item in patch:
        if isinstance(item, dict) and item.get(_DIRECTIVE) is not None:
            # A directive beside other fields is about that item, not about the list.
            if len(item) > 1:
                return "merge", patch
            value = item[_DIRECTIVE]
            if value not in _DIRECTIVES:
                raise RuleError(f"unknown patch strategy '{_scalar(value)}'")
            kept = [each for each in patch if not (isinstance(each, dict) and each.get(_DIRECTIVE) == value)]
            return str(value), [each for each in kept if each not in (None, {})]
    return "merge", patch


def _walk_list(dest: JSON, patch: JSON, schema: Schema | None) -> JSON:
    if schema is None or "merge" not in schema.patch_strategy.split(","):
        return dest if patch is _MISSING else (_MISSING if patch is None else patch)
    if _is_absent(dest):
        dest = patch
    elif patch is None:
        return _MISSING
    elif patch is not _MISSING:
        directive, patch = _list_directive(patch)
        if directive == "delete":
            return _MISSING
        if directive == "replace":
            dest = patch
    keys = tuple(schema.map_keys) or ((schema.patch_merge_key,) if schema.patch_merge_key else ())
    sources = [patch if isinstance(patch, list) else [], dest]
    if not keys:
        values = _distinct([_scalar(item)] for source in sources for item in source)
        return _merged_items(values, ("",), dest, patch, None)
    values = _distinct([_field_text(item, key) for key in keys] for source in sources for item in source)
    return _merged_items(values, keys, dest, patch, schema.items)


def _distinct(values: Iterable[list[str]]) -> list[list[str]]:
    return [list(value) for value in dict.fromkeys(map(tuple, values))]


def _field_text(item: JSON, key: str) -> str:
    value = item.get(key) if isinstance(item, dict) else None
    return "" if value in (None, "", [], {}) and value is not False and value != 0 else _scalar(value)


def _merged_items(values: list[list[str]], keys: Sequence[str], dest: JSON, patch: JSON, schema: Schema | None) -> JSON:
    """Return the items merged by their keys. Items of the patch come first, then those that only the destination has."""
    if len(keys) > 1:
        values = _with_same_keys(values)
    elif (by_key := _merged_by_key(keys[0], dest, patch, schema)) is not None:
        return by_key
    added: list[JSON] = []
    merged: dict[int, JSON] = {}
    valid: Sequence[str] = keys
    for value in values:
        valid, texts = _valid_keys(values, value, keys)
        own, change = _item(dest, valid, texts), _item(patch, valid, texts)
        item = _walk(own, change, schema)
        if _is_absent(item) or item == {}:
            dest = _without_item(dest, valid, texts)
            continue
        if isinstance(item, dict):
            item = {
                **item,
                **{key: text for key, text in zip(valid, texts, strict=True) if text and item.get(key) is None},
            }
        if own is not _MISSING and not (isinstance(change, dict) and change.get(_DIRECTIVE) == "replace"):
            merged[id(own)] = item
        added = _with_item(added, item, valid, texts)
    if not values:
        return dest
    for item in dest:
        # kyaml changes the destination's own node in place, and puts it where the merged item stands.
        added = _appended(added, merged.get(id(item), item), valid)
    return added


def _merged_by_key(key: str, dest: JSON, patch: JSON, schema: Schema | None) -> JSON | None:
    """Return the merged items if one key distinguishes them all, without a search, or None if it does not.

    The result is that of the general merge, but in linear time.
    """
    own, changes = _by_key(dest, key), _by_key([] if patch is _MISSING else patch, key)
    if own is None or changes is None or any(_DIRECTIVE in change for change in changes.values()):
        return None
    merged = (_walk(own.get(text, _MISSING), changes.get(text, _MISSING), schema) for text in {**changes, **own})
    return [item for item in merged if not _is_absent(item) and item != {}] if own or changes else dest


def _by_key(items: JSON, key: str) -> dict[str, dict[str, Any]] | None:
    """Return items by their text under a key, or None if an item lacks the key or shares its value."""
    if not isinstance(items, list) or not key:
        return None
    found = {item[key]: item for item in items if isinstance(item, dict) and isinstance(item.get(key), str)}
    return found if len(found) == len(items) and "" not in found else None


def _with_same_keys(values: list[list[str]]) -> list[list[str]]:
    """Complete keys from each other if they agree where both are set."""
    values = list(values)
    for i in range(len(values)):
        for j in range(len(values)):
            one, other = values[i], values[j]
            pairs = list(zip(one, other, strict=True))
            if any(a == b for a, b in pairs) and all(a == b or not a or not b for a, b in pairs):
                values[i] = values[j] = [a or b for a, b in pairs]
    return values


def _valid_keys(values: list[list[str]], value: list[str], keys: Sequence[str]) -> tuple[list[str], list[str]]:
    used = {key for each in values for key, text in zip(keys, each, strict=False) if text}
    if not used:
        return list(keys), list(value)
    valid = [key for key in keys if key in used]
    return valid, [text for key, text in zip(keys, value, strict=False) if text or key in used]


def _item(items: JSON, keys: Sequence[str], texts: Sequence[str]) -> JSON:
    """Return the first item with these keys, or `_MISSING`."""
    if not isinstance(items, list):
        return _MISSING
    keys, texts = _valid_keys([list(texts)], list(texts), keys)
    for item in items:
        if not keys or not keys[0]:
            if _scalar(item) == texts[0]:
                return item
        elif isinstance(item, dict) and all(
            key in item and _scalar(item[key]) == text for key, text in zip(keys, texts, strict=True)
        ):
            return item
    return _MISSING


def _is_named(item: JSON, keys: Sequence[str], texts: Sequence[str]) -> bool:
    """Return whether an item has these keys, as kyaml's element setter compares them: an empty text fits any value."""
    for key, text in zip(keys, texts, strict=False):
        if not key:
            if isinstance(item, dict | list) or _scalar(item) != text:
                return False
        elif not isinstance(item, dict) or key not in item or (text and _scalar(item[key]) != text):
            return False
    return bool(texts)


def _with_item(items: list[JSON], new: JSON, keys: Sequence[str], texts: Sequence[str]) -> list[JSON]:
    """Return the items with `new` in place of those with the same keys, or at the end."""
    kept, replaced = [], False
    for item in items:
        if item is None or item == {}:
            continue
        if isinstance(new, dict) and not isinstance(item, dict):
            kept.append(item)
        elif _is_named(item, keys, texts):
            kept.append(new)
            replaced = True
        elif texts:
            kept.append(item)
    return kept if replaced else [*kept, new]


def _without_item(items: JSON, keys: Sequence[str], texts: Sequence[str]) -> JSON:
    return [item for item in items if item not in (None, {}) and not _is_named(item, keys, texts)]


def _appended(items: list[JSON], item: JSON, keys: Sequence[str]) -> list[JSON]:
    """Return the items with one item of the destination (`appendListNode`). With several keys it moves to the end."""
    if not keys[0]:
        return _with_item(items, item, keys, [_scalar(item)])
    texts: list[str] = []
    for key in keys:
        value = item.get(key) if isinstance(item, dict) else None
        if value is None:
            items = [*items, item]
        else:
            texts.append(_scalar(value))
    if len(keys) > 1:
        items = [each for each in _without_item(items, keys, texts) if texts]
    return _with_item(items, item, keys, texts)


def _scalar(node: JSON) -> str:
    """Return the text of a scalar node. A map or list has an empty text."""
    if node is None:
        return "null"
    if isinstance(node, bool):
        return "true" if node else "false"
    if isinstance(node, float):
        return float_text(node)
    return "" if isinstance(node, dict | list) else str(node)


# Anchors in a strategic merge patch, resolved for an object (`pkg/engine/mutate/patch/strategicPreprocessing.go`).

IsAnchor = Callable[[Anchor], bool]


class _ConditionError(Exception):
    """Condition that does not hold. `is_global` says that the whole rule depends on it."""

    def __init__(self, *, is_global: bool) -> None:
        super().__init__()
        self.is_global = is_global


def merge_with_anchors(base: JSON, patch: JSON) -> JSON:
    """Merge a patch into an object if the patch's conditions hold. Raises RuleError and GoPanicError."""
    pattern = _sorted(patch)
    try:
        _process(pattern, base)
        if not isinstance(pattern, dict):
            raise _wrong_kind(dict, pattern)
        _delete_condition_elements(pattern)
    except _ConditionError:
        pattern = {}
    except RuleError as error:
        raise RuleError(f"failed to preProcess rule: {error}") from None
    return _strategic_merge(base, pattern)


def _sorted(value: JSON) -> JSON:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value


def _is_condition(anchor: Anchor) -> bool:
    return anchor.modifier in (CONDITION, GLOBAL)


def _has_effect(anchor: Anchor) -> bool:
    return anchor.modifier in (CONDITION, GLOBAL, ADD)


def _keys(pattern: JSON, is_anchor: IsAnchor) -> list[tuple[str, Anchor]]:
    """Return the keys of a map that are anchors of some kind."""
    if not isinstance(pattern, dict):
        return []
    found = ((key, parse_anchor(key)) for key in pattern)
    return [(key, anchor) for key, anchor in found if anchor is not None and is_anchor(anchor)]


def _renamed(pattern: dict[str, Any], old: str, new: str) -> None:
    """Rename a key and keep its position. Raises UndeterminedError if the map has the new key as well.

    Kyverno then merges a map with a key that it has twice, whose value depends on where the other map is.
    """
    if new in pattern:
        raise UndeterminedError(f"the patch has `{new}` twice in one map, as `{old}` too")
    items = [(new if key == old else key, value) for key, value in pattern.items()]
    pattern.clear()
    pattern.update(items)


def _field(resource: JSON, key: str) -> tuple[bool, JSON]:
    """Return whether an object has a field, and its value."""
    return (True, resource[key]) if isinstance(resource, dict) and key in resource else (False, None)


def _process(pattern: JSON, resource: JSON) -> None:
    """Resolve a pattern's anchors in place, for an object or for None if the object is absent."""
    if isinstance(pattern, dict):
        _process_map(pattern, resource)
    elif isinstance(pattern, list) and pattern and isinstance(pattern[0], dict):
        _process_list(pattern, resource)


def _process_map(pattern: dict[str, Any], resource: JSON) -> None:
    _add_if_not_present(pattern, resource)
    _check(pattern, resource, GLOBAL)
    _check(pattern, resource, CONDITION)
    for key in list(pattern):
        anchor = parse_anchor(key)
        if anchor is None or not _has_effect(anchor):
            _process(pattern[key], _field(resource, key)[1])


def _add_if_not_present(pattern: JSON, resource: JSON) -> int:
    """Remove `+( )` fields that the object has, and remove the anchor from the others. Return how many there were."""
    anchors = _keys(pattern, lambda anchor: anchor.modifier == ADD)
    for key, anchor in anchors:
        if _field(resource, anchor.key)[0]:
            del pattern[key]
        else:
            _renamed(pattern, key, anchor.key)
    return len(anchors)


def _check(pattern: dict[str, Any], resource: JSON, modifier: str) -> None:
    """Raise _ConditionError if a condition of a map does not hold."""
    for key, anchor in _keys(pattern, lambda each: each.modifier == modifier):
        there, value = _field(resource, anchor.key)
        if not there:
            raise _ConditionError(is_global=modifier == GLOBAL)
        if _add_if_not_present(pattern[key], value):
            continue
        try:
            match_pattern(_comparable(value), _comparable(pattern[key]))
        except PatternError:
            raise _ConditionError(is_global=modifier == GLOBAL) from None


def _comparable(value: JSON) -> JSON:
    """Return a node for comparison: a scalar as its text, anything else as decoded JSON."""
    if isinstance(value, dict | list):
        return with_floats(value)
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return float_text(value) if isinstance(value, float) else str(value)


def _process_list(pattern: list[Any], resource: JSON) -> None:
    """Append a patch by name for each object item that fits an anchored item of the pattern."""
    if resource is not None and not isinstance(resource, list):
        raise _wrong_kind(list, resource)
    for element in list(pattern):
        if not _contains_anchor(element, _has_effect):
            continue
        has_global = _contains_anchor(element, lambda anchor: anchor.modifier == GLOBAL)
        global_passed, global_error = False, None
        # One copy serves all items: what a first one drops of it is dropped for the others too.
        candidate = copy.deepcopy(element)
        for item in resource or ():
            try:
                _process(candidate, item)
            except _ConditionError as error:
                global_error = error if error.is_global else global_error
                continue
            if has_global:
                global_passed = True
            else:
                _add_by_name(pattern, candidate, item)
        if resource is None:
            try:
                _process(candidate, None)
            except _ConditionError as error:
                if error.is_global:
                    raise
                continue
            global_passed = global_passed or has_global
        if not global_passed and global_error is not None:
            raise global_error


def _add_by_name(pattern: list[Any], candidate: JSON, item: JSON) -> None:
    """Append the rest of an item without anchors, with the name of the object's item."""
    there, name = _field(item, "name")
    if not there or name in (None, "", [], {}):
        return
    made = copy.deepcopy(candidate)
    if _delete_anchors(made, delete_scalar=True):
        return
    made["name"] = name
    pattern.append(made)


def _contains_anchor(pattern: JSON, is_anchor: IsAnchor) -> bool:
    if isinstance(pattern, dict):
        return any(
            ((anchor := parse_anchor(key)) is not None and is_anchor(anchor))
            or (value not in (None, "", [], {}) and _contains_anchor(value, is_anchor))
            for key, value in pattern.items()
        )
    if isinstance(pattern, list):
        return any(_contains_anchor(item, is_anchor) for item in pattern)
    anchor = parse_anchor(pattern) if isinstance(pattern, str) else None
    return anchor is not None and _is_condition(anchor)


def _delete_condition_elements(pattern: dict[str, Any]) -> None:
    for key in list(pattern):
        anchor = parse_anchor(key)
        if _delete_anchors(pattern[key], delete_scalar=anchor is not None and _is_condition(anchor)):
            del pattern[key]


def _delete_anchors(node: JSON, *, delete_scalar: bool) -> bool:
    """Remove the conditions from a node. Return whether the node is then empty."""
    if isinstance(node, dict):
        return _delete_in_map(node)
    return _delete_in_list(node) if isinstance(node, list) else delete_scalar


def _delete_in_map(node: dict[str, Any]) -> bool:
    kept_anchor = False
    for key, _ in _keys(node, _is_condition):
        if _delete_anchors(node[key], delete_scalar=True):
            del node[key]
        else:
            kept_anchor = True
    if kept_anchor:
        for key, anchor in _keys(node, _is_condition):
            _renamed(node, key, anchor.key)
    is_empty = True
    for key in list(node):
        if _delete_anchors(node[key], delete_scalar=False):
            del node[key]
        else:
            is_empty = False
    return is_empty


def _delete_in_list(node: list[Any]) -> bool:
    """Remove the conditions from a list. Kyverno deletes by the index that an item had before earlier deletions."""
    elements = list(node)
    for index, element in enumerate(elements):
        if _contains_anchor(element, _has_effect) or _delete_anchors(element, delete_scalar=False):
            # Go slices `node[:index]` out of range here, and Kyverno panics.
            if index >= len(node):
                raise GoPanicError(f"runtime error: slice bounds out of range [{index + 1}:{len(node)}]")
            del node[index]
    return not node and bool(elements)
