"""Values after an evaluation: without lazy parts, and small enough to walk as a tree."""

from __future__ import annotations

from typing import Final

from replay.cel.value.bounds import Steps, UndeterminedError
from replay.cel.value.concat import ConcatList
from replay.cel.value.values import ObjectValue, OptionalValue, Value

MAX_DEPTH: Final = 2_000
"""The deepest nesting of a value that is handed on; the server's encoders end at 10,000."""

_CONTAINERS = frozenset({list, tuple, dict, ConcatList, OptionalValue})


def materialized(value: Value) -> Value:
    """The value, with joined lists made plain ones; raises `UndeterminedError` where it is too large or too deep."""
    return _materialized(value, Steps(), MAX_DEPTH)


def _materialized(value: Value, steps: Steps, depth: int) -> Value:
    kind = type(value)
    if kind not in _CONTAINERS and not isinstance(value, ObjectValue):
        return value
    if not depth:
        raise UndeterminedError("its value is nested too deeply")
    if kind is OptionalValue:
        inner = _materialized(value.value, steps, depth - 1)
        return value if inner is value.value else OptionalValue(inner, value.has_value)
    if isinstance(value, ObjectValue):
        return kind(value.type_name, _materialized(dict(value.fields), steps, depth - 1))
    steps.take(len(value))
    if kind is dict:
        return {key: _materialized(item, steps, depth - 1) for key, item in value.items()}
    return [_materialized(item, steps, depth - 1) for item in value]
