"""Conversion of a value to Go's own types and back (cel-go `ref.Val.Value` and `types.NativeToValue`)."""

from __future__ import annotations

from replay.cel.value.values import EvalError, OpaqueValue, OptionalValue, TypeValue, Value


def through_go(value: Value) -> Value:
    """The same value, but for optionals, types and values of libraries.

    Optionals lose all their layers and types become their names. What a library wraps is nothing that CEL knows: it ends as
    an `EvalError`, which is returned, since it stands inside an optional.
    """
    while isinstance(value, OptionalValue):
        value = value.value if value.has_value else None
    if isinstance(value, TypeValue):
        return value.name
    if isinstance(value, OpaqueValue) and value.native_go_type:
        return EvalError(f"unsupported conversion to ref.Val: ({value.native_go_type}){value}")
    return value
