"""Object in the validating phase of another set.

Between the phases the server sets fields: names, times, values of a REST strategy. The recorded object shows the
baseline's result. The difference between the two sets' mutations is applied to it.
"""

from __future__ import annotations

from replay.admission.conversion import Object
from replay.admission.effects import Changes, Patch
from replay.admission.partial_patch import known_part, touched_missing
from replay.go.format import parse_uint
from replay.json import JSON
from replay.kube.attributes import Missing, PartialObject
from replay.kube.json_patch import JSONPatchError, apply, escaped, tokens

_NOT_CARRIED = Missing(
    "object", "the log does not show which changes came from a mutating policy and which from the server"
)


def validated_object(reference: Object, mutated: Object, validated: Object, changes: Changes) -> Object:
    """Return `validated`, which the server made from `reference`, as if it were made from `mutated`.

    `Missing` if unknown.

    `changes` receives the difference between the two.
    """
    if mutated is reference:
        return validated
    missing = next((each for each in (mutated, validated, reference) if isinstance(each, Missing)), None)
    if missing is not None:
        return missing
    base, value = known_part(reference), known_part(validated)
    operations = _beside_others(changes(reference, mutated), base, value)
    if isinstance(validated, PartialObject):
        carried = touched_missing(value, operations) or _carried(base, value, operations)
        return carried if isinstance(carried, Missing) else PartialObject(carried, validated.missing)
    carried = _carried(base, value, operations)
    changes.note(validated, carried, operations)
    return carried


def _beside_others(operations: Patch, base: JSON, validated: JSON) -> Patch:
    """Return operations that keep the server's own entries of a map that the mutations add or remove as a whole."""
    foreign: list[JSON] = []
    for operation in operations:
        path, value = operation["path"], operation.get("value")
        own = _own_keys(_value_at(base, path), _value_at(validated, path)) if operation["op"] == "remove" else None
        if operation["op"] == "add" and isinstance(value, dict) and isinstance(_value_at(validated, path), dict):
            foreign += ({"op": "add", "path": f"{path}/{escaped(key)}", "value": each} for key, each in value.items())
        elif own is not None:
            foreign += ({"op": "remove", "path": f"{path}/{escaped(key)}"} for key in own)
        else:
            foreign.append(operation)
    return tuple(foreign)


def _own_keys(was: JSON, there: JSON) -> list[str] | None:
    """Return a map's remaining keys, or None if the server added none."""
    if isinstance(was, dict) and isinstance(there, dict) and there.keys() - was.keys():
        return [key for key in was if key in there]
    return None


def _carried(base: JSON, validated: JSON, operations: Patch) -> JSON | Missing:
    """Apply the mutations' patch to the server's result, which it made of `base`."""
    try:
        carried = apply(validated, operations)
    except JSONPatchError:
        return _NOT_CARRIED
    # If the server added items to a list, an index may name another item.
    for operation in operations:
        if not _same_lists(base, validated, operation["path"]):
            return _NOT_CARRIED
    return carried


def reference_object(original: Object, mutated: Object, validated: Object, changes: Changes) -> Object:
    """Return the object from which the server made `validated`.

    It is `mutated` if the record shows the baseline's mutations, else `original`. The given baseline may not have been
    in force, and then the record shows none of its mutations.
    """
    if isinstance(validated, Missing):
        return mutated
    operations = changes(original, mutated)
    if not operations:
        return mutated
    value = known_part(validated)
    is_shown = any(
        _shows(_value_at(value, operation["path"]), _value_at(known_part(mutated), operation["path"]))
        for operation in operations
    )
    return mutated if is_shown else original


def _shows(there: JSON, mutated: JSON) -> bool:
    """Return whether a value is the mutations' result. A map may have further entries."""
    if isinstance(there, dict) and isinstance(mutated, dict) and mutated:
        return all(key in there and there[key] == value for key, value in mutated.items())
    return bool(there == mutated)


def _value_at(value: JSON, path: str) -> JSON:
    """Return the value at a pointer, None if there is none."""
    for name in tokens(path):
        if isinstance(value, list):
            index = parse_uint(name)
            value = value[index] if index is not None and index < len(value) else None
        else:
            value = value.get(name) if isinstance(value, dict) else None
    return value


def _same_lists(one: JSON, other: JSON, path: str) -> bool:
    """Return whether a pointer's indices mean the same in both objects: all lists on its way have equal lengths."""
    for name in tokens(path)[:-1]:
        if isinstance(one, list) and isinstance(other, list):
            index = parse_uint(name)
            if len(one) != len(other) or index is None or index >= len(one):
                return False
            one, other = one[index], other[index]
        elif isinstance(one, dict) and isinstance(other, dict):
            one, other = one.get(name), other.get(name)
        else:
            return True
    return not isinstance(one, list) or (isinstance(other, list) and len(one) == len(other))
