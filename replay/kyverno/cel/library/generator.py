"""CEL function `generator.Apply`, which records the objects to create (`libs/generator`)."""

from __future__ import annotations

from replay.cel.declare.library import Function, Implementation, Library, Overload, VariableDecl
from replay.cel.value.equality import NO_SUCH_OVERLOAD, elements
from replay.cel.value.types import ANY, BOOL, STRING, list_type, map_type, opaque_type
from replay.cel.value.values import EvalError, OpaqueValue, Value
from replay.json import JSON
from replay.kyverno.cel.library.data import as_json
from replay.kyverno.rules.go_value import as_map

_GENERATOR = opaque_type("generator.Context")
_OBJECTS = list_type(map_type(STRING, ANY))


class _Generator(OpaqueValue):
    """Value of `generator`. It records objects in order."""

    __slots__ = ("objects",)
    cel_type = _GENERATOR

    def __init__(self, objects: list[JSON]) -> None:
        self.objects = objects

    def equal(self, other: Value) -> bool:
        """Return whether both are the same value."""
        if not isinstance(other, _Generator):
            raise EvalError(NO_SUCH_OVERLOAD)
        return self is other


def generator_binding(objects: list[JSON]) -> Value:
    """Return the value of `generator`, which appends to `objects`."""
    return _Generator(objects)


def _apply(generator: _Generator, namespace: str, objects: Value) -> bool:
    for each in elements(objects):
        obj = as_map(as_json(each))
        items = obj.get("items") if str(obj.get("kind") or "").endswith("List") else None
        for item in items if isinstance(items, list) else [obj]:
            metadata = {**as_map(as_map(item).get("metadata"))}
            if namespace:
                metadata["namespace"] = namespace
            generator.objects.append({**as_map(item), "metadata": metadata})
    return True


def _in(namespace: str) -> Implementation:
    return lambda generator, objects: _apply(generator, namespace, objects)


def generator_library(namespace: str) -> Library:
    """Return the library of `generator`. In a namespaced policy it creates objects only in the policy's namespace."""
    overload = (
        Overload("generator_apply_list", (_GENERATOR, _OBJECTS), BOOL, member=True, implementation=_in(namespace))
        if namespace
        else Overload(
            "generator_apply_string_list", (_GENERATOR, STRING, _OBJECTS), BOOL, member=True, implementation=_apply
        )
    )
    return Library(
        name="kyverno.generator",
        functions=(Function("Apply", (overload,)), Function("apply", (overload,))),
        variables=(VariableDecl("generator", _GENERATOR),),
    )
