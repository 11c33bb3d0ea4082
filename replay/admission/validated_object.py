"""The object that the validating phase of another set gets.

Between the phases the server sets fields of its own: names, times, what a REST strategy fills in. What it made of the object
that the set in force left is recorded; the difference between that set's mutations and another's is applied to it.
"""

from __future__ import annotations

from replay.admission.json_patch import JSONPatchError, apply
from replay.admission.mutating import changes
from replay.admission.mutator import Object
from replay.admission.partial_patch import touched_missing
from replay.kube.attributes import JSON, Missing, PartialObject

_NOT_CARRIED = Missing(
    "object", "what a mutating policy changes cannot be told from what the server itself changed before validation"
)


def validated_object(reference: Object, mutated: Object, validated: Object) -> Object:
    """`validated`, which the server made of `reference`, as it would have made it of `mutated`; `Missing` if unknown."""
    if mutated is reference:
        return validated
    for each in (mutated, validated, reference):
        if isinstance(each, Missing):
            return each
    operations = changes(reference, mutated)
    known, base = _value(validated), _value(reference)
    touched = touched_missing(known, operations) if isinstance(validated, PartialObject) else None
    if touched is not None:
        return touched
    try:
        carried = apply(known, operations)
    except JSONPatchError:
        return _NOT_CARRIED
    if not all(_same_lists(base, known, operation["path"]) for operation in operations):
        return _NOT_CARRIED
    return PartialObject(carried, validated.missing) if isinstance(validated, PartialObject) else carried


def reference_object(before: Object, mutated: Object, validated: Object) -> Object:
    """What the server made `validated` of: `mutated`, if that shows the mutations of the set in force, else `before`.

    A set that is said to have been in force may not have been: then nothing of what it would mutate stands in the record.
    """
    if isinstance(validated, Missing):
        return mutated
    known = _value(validated)
    operations = changes(before, mutated)
    is_shown = any(
        _found(known, operation["path"]) == _found(_value(mutated), operation["path"]) for operation in operations
    )
    return mutated if is_shown or not operations else before


def _found(value: JSON, path: str) -> JSON:
    """What stands at a pointer, None if nothing does."""
    for key in path.split("/")[1:]:
        name = key.replace("~1", "/").replace("~0", "~")
        if isinstance(value, list):
            value = value[int(name)] if name.isdigit() and int(name) < len(value) else None
        else:
            value = value.get(name) if isinstance(value, dict) else None
    return value


def _value(value: Object) -> JSON:
    return value.value if isinstance(value, PartialObject) else value


def _same_lists(one: JSON, other: JSON, path: str) -> bool:
    """Whether every list that a pointer leads through has as many items in both objects: then its indices mean the same."""
    for key in path.split("/")[1:-1]:
        name = key.replace("~1", "/").replace("~0", "~")
        if isinstance(one, list) and isinstance(other, list):
            if len(one) != len(other) or not name.isdigit() or int(name) >= len(one):
                return False
            one, other = one[int(name)], other[int(name)]
        elif isinstance(one, dict) and isinstance(other, dict):
            one, other = one.get(name), other.get(name)
        else:
            return True
    return not isinstance(one, list) or (isinstance(other, list) and len(one) == len(other))
