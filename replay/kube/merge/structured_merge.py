"""Structured merge: the effect of an `ApplyConfiguration` of a mutating policy on an object.

The rules are those of sigs.k8s.io/structured-merge-diff/v6 (typed/validate, typed/merge) as the API server uses them in
pkg/admission/plugin/policy/mutating/patch. The apply configuration must conform to the schema and may not touch atomic
lists, maps and structs. Then it is merged into the object, which keeps all other fields. Where the server visits a map
in Go's random order, names are visited sorted.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat
from typing import Any, NamedTuple

import orjson

from replay.json import JSON
from replay.kube.merge.atom import Atom, ListAtom, MapAtom
from replay.kube.merge.merge_key import MergeError, element_text, go_type_of, item_key, printed, value_syntax

_EXACT = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_SUBCLASS
_REMEMBERED, _LONGEST = 1024, 4096
"""The number of patches of a kind that are remembered as good, and the greatest bytes of one."""


_ABSENT: Any = object()
"""The absence of a value on one side of a merge. Null is a value."""


class _ValidationError(NamedTuple):
    path: str
    message: str

    def under(self, prefix: str) -> _ValidationError:
        return _ValidationError(prefix + self.path, self.message)

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


def apply_configuration(atom: Atom, live: JSON, patch: JSON, *, replaces_atomics: bool = False) -> JSON:
    """Return the object with the apply configuration merged in. Neither argument is changed.

    Both have `apiVersion` and `kind` of the kind that `atom` describes. The API server lets no policy touch an atomic
    value. With `replaces_atomics` the configuration may do so, as that of a client. Raise `MergeError`.
    """
    if not replaces_atomics:
        _check_patch(atom, patch)
    elif errors := list(_validate(atom, patch, allow_duplicates=False)):
        raise MergeError(f"failed to convert patch object to typed object: {_joined(errors)}")
    # The slower check runs only to find the texts of the errors.
    if not _conforms(atom, live) and (errors := list(_validate(atom, live, allow_duplicates=True))):
        raise MergeError(f"failed to convert original object to typed object: {_joined(errors)}")
    merged = _merge(atom, live, patch)
    return {} if merged is _ABSENT else merged


def merged(atom: Atom, live: JSON, configuration: JSON) -> JSON:
    """Return the object with a client's apply configuration merged in, which may set atomic values.

    Raise `MergeError`.
    """
    return _merge(atom, live, configuration)


def conforming(atom: Atom, configuration: JSON) -> None:
    """Raise `MergeError` if a client's apply configuration does not conform to its type."""
    if errors := list(_validate(atom, configuration, allow_duplicates=False)):
        raise MergeError(f"failed to create typed patch object: {_joined(errors)}")


def _check_patch(atom: Atom, patch: JSON) -> None:
    """Raise `MergeError` for a patch that does not conform or changes an atomic value. Good patches are remembered."""
    try:
        text = orjson.dumps(patch, option=_EXACT)
    except TypeError:  # values that JSON does not have
        text = b""
    if text and text in atom.good_patches:
        return
    if errors := list(_validate(atom, patch, allow_duplicates=False)):
        raise MergeError(f"failed to convert patch object to typed object: {_joined(errors)}")
    if atomics := list(_atomics(atom, patch, "")):
        message = "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: "
        raise MergeError(message + ", ".join(atomics))
    if text and len(text) <= _LONGEST and len(atom.good_patches) < _REMEMBERED:
        atom.good_patches.add(text)


def _joined(errors: list[_ValidationError]) -> str:
    return str(errors[0]) if len(errors) == 1 else "\n".join(["errors:", *(f"  {error}" for error in errors)])


def _validate(atom: Atom, value: JSON, *, allow_duplicates: bool) -> Iterator[_ValidationError]:
    """Yield the places where a value does not conform to its type (`typed.AsTyped`)."""
    fitting = atom.deduce(value)
    if fitting.map is not None:
        if isinstance(value, dict):
            yield from _validate_map(fitting.map, value, allow_duplicates)
        elif value is not None:
            yield _ValidationError("", f"expected map, got {printed(value)}")
    elif fitting.scalar is not None:
        yield from _validate_scalar(fitting.scalar, value)
    elif fitting.list is not None:
        if isinstance(value, list):
            yield from _validate_list(fitting.list, value, allow_duplicates)
        elif value is not None:
            yield _ValidationError("", f"expected list, got {printed(value)}")


def _conforms(atom: Atom, value: JSON) -> bool:
    """Return whether `_validate` would yield nothing with duplicates allowed.

    It is quicker, and most objects conform.
    """
    parts = [(atom, value)]
    for fitting, part in parts:
        kind = type(part)
        if kind is dict and fitting.map is not None:
            fields, other = fitting.map.fields, fitting.map.element
            for name, inner in part.items():
                declared = fields.get(name, other)
                if declared is None:
                    return False
                if type(inner) not in declared.fitting:
                    parts.append((declared, inner))
        elif kind is list and fitting.list is not None and fitting.map is None:
            element, keys = fitting.list.element, fitting.list.keys
            for item in part if fitting.list.associative else ():
                # An item of a set is its own key. The texts for items without a key come from `_validate`.
                is_named = isinstance(item, dict) and not item.keys().isdisjoint(keys)
                if not (is_named if keys else isinstance(item, str | int | float)):
                    return False
            parts += zip(repeat(element), part, strict=False)
        elif kind not in fitting.fitting and next(_validate(fitting, part, allow_duplicates=True), None) is not None:
            return False
    return True


def _validate_map(atom: MapAtom, value: dict[str, JSON], allow_duplicates: bool) -> Iterator[_ValidationError]:
    for name in sorted(value):
        inner = atom.fields.get(name, atom.element)
        if inner is None:
            # Upstream stops at the first unknown field.
            yield _ValidationError(f".{name}", "field not declared in schema")
            return
        for error in _validate(inner, value[name], allow_duplicates=allow_duplicates):
            yield error.under(f".{name}")


def _validate_list(atom: ListAtom, value: list[JSON], allow_duplicates: bool) -> Iterator[_ValidationError]:
    keys = set()
    for index, item in enumerate(value):
        element = f"[{index}]"
        if atom.associative:
            try:
                key = item_key(atom, item)
            except MergeError as missing:
                yield _ValidationError("", f"element {index}: {missing}")
                return
            element = element_text(key)
            if key in keys and not allow_duplicates:
                yield _ValidationError("", f"duplicate entries for key {element}")
            keys.add(key)
        for error in _validate(atom.element, item, allow_duplicates=allow_duplicates):
            yield error.under(element)


def _validate_scalar(scalar: str, value: JSON) -> Iterator[_ValidationError]:
    if value is None:
        return
    is_bool = isinstance(value, bool)
    is_number = isinstance(value, int | float) and not is_bool
    if scalar == "numeric" and not is_number:
        yield _ValidationError("", f"expected numeric (int or float), got {go_type_of(value)}")
    elif scalar == "string" and not isinstance(value, str):
        yield _ValidationError("", f"expected string, got &value.valueUnstructured{{Value:{value_syntax(value)}}}")
    elif scalar == "boolean" and not is_bool:
        yield _ValidationError("", f"expected boolean, got {printed(value)}")
    elif scalar == "untyped" and not isinstance(value, str | int | float):
        yield _ValidationError("", f"expected any scalar, got {printed(value)}")


def _atomics(atom: Atom, value: JSON, path: str) -> Iterator[str]:
    """Yield the paths of atomic lists, maps and structs that an apply configuration sets.

    Upstream (`findAtomics`) looks into declared fields and list items, not into the values of maps. That is kept.
    """
    if isinstance(value, dict) and atom.map is not None:
        if atom.map.atomic:
            yield path
        for name in sorted(value):
            if name in atom.map.fields:
                yield from _atomics(atom.map.fields[name], value[name], f"{path}.{name}")
    if isinstance(value, list) and atom.list is not None:
        if not atom.list.associative:
            yield path
        for index, item in enumerate(value):
            yield from _atomics(atom.list.element, item, f"{path}[{index}]")


def _merge(atom: Atom, live: JSON, patch: JSON) -> JSON:
    """Return both sides merged, `_ABSENT` if nothing is left (`mergingWalker`). Values of the patch win.

    Parts that the patch does not name stay the identical objects.
    """
    if patch is _ABSENT:
        return live
    if isinstance(patch, (str, int, float)):
        return patch
    fitting = atom if atom.is_single else atom.deduce(patch)
    if fitting.map is not None:
        return _merge_maps(fitting.map, live, patch)
    if fitting.scalar is None and fitting.list is not None:
        return _merge_lists(fitting.list, live, patch)
    return patch


def _merge_maps(atom: MapAtom, live: JSON, patch: JSON) -> JSON:
    ours = live if isinstance(live, dict) else {}
    theirs = patch if isinstance(patch, dict) else {}
    if atom.atomic or (not ours and not theirs):
        return patch
    merged = dict(ours)
    for name, theirs_at in theirs.items():
        if isinstance(theirs_at, (str, int, float)):
            merged[name] = theirs_at
            continue
        inner = atom.fields.get(name, atom.element)
        assert inner is not None, "both sides conform"
        value = _merge(inner, ours.get(name, _ABSENT), theirs_at)
        if value is not _ABSENT:
            merged[name] = value
        else:
            merged.pop(name, None)
    return merged or _ABSENT


def _merge_lists(atom: ListAtom, live: JSON, patch: JSON) -> JSON:
    ours = live if isinstance(live, list) else []
    theirs = patch if isinstance(patch, list) else []
    if not atom.associative or (not ours and not theirs):
        return patch
    our_keys = [item_key(atom, item) for item in ours]
    their_keys = [item_key(atom, item) for item in theirs]
    by_key = dict(zip(their_keys, theirs, strict=True))
    # Duplicate items of the object are replaced by the new value, not merged with it. Null stands for them.
    own = {key: None if our_keys.count(key) > 1 else item for key, item in zip(our_keys, ours, strict=True)}
    merged = []
    for side, at in _merged_order(our_keys, their_keys):
        key = our_keys[at] if side == "ours" else their_keys[at]
        mine = ours[at] if side == "ours" else own.get(key, _ABSENT)
        item = _merge(atom.element, mine, _ABSENT if side == "ours" else by_key[key])
        if item is not _ABSENT:
            merged.append(item)
    return merged or _ABSENT


def _merged_order(ours: list[Any], theirs: list[Any]) -> list[tuple[str, int]]:
    """Return the items in order: one of ours that the patch does not name, or one of theirs, merged with ours if shared.

    Shared items keep the order of the patch, and the object's items between them stay there
    (`mergingWalker.visitListItems`).
    """
    our_set, their_set = set(ours), set(theirs)
    shared = iter([key for key in theirs if key in our_set])
    next_shared = next(shared, _ABSENT)
    merged_keys = set()
    order: list[tuple[str, int]] = []
    left, right = 0, 0
    while left < len(ours) or right < len(theirs):
        if left < len(ours) and right < len(theirs):
            if ours[left] == theirs[right]:
                merged_keys.add(ours[left])
                order.append(("theirs", right))
                left, right, next_shared = left + 1, right + 1, next(shared, _ABSENT)
                continue
            # This shared item comes later in the patch. It is merged there.
            if ours[left] in their_set and next_shared is not _ABSENT and next_shared != ours[left]:
                left += 1
                continue
        if left < len(ours):
            if ours[left] not in their_set:
                order.append(("ours", left))
                left += 1
                continue
            # This shared item came earlier in the patch. It is already merged.
            if ours[left] in merged_keys:
                left += 1
        if right < len(theirs):
            merged_keys.add(theirs[right])
            order.append(("theirs", right))
            if next_shared == theirs[right]:
                next_shared = next(shared, _ABSENT)
            right += 1
    return order
