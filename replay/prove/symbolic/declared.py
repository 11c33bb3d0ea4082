"""Declared CEL types as schemas, so that facts about a type apply to its nodes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from replay.cel.value.types import Kind, Type
from replay.cellib.admission_types import STRUCT_FIELDS
from replay.kube.schema import Schema

_SCALARS = {Kind.STRING: "string", Kind.INT: "integer", Kind.BOOL: "boolean"}


@lru_cache(maxsize=512)
def schema_of(type_: Type) -> Schema | None:
    """The schema of a declared type, None where any value is one."""
    node = _node(type_)
    return Schema(node, {}) if node else None


def _node(type_: Type) -> Mapping[str, Any]:
    if type_.kind in _SCALARS:
        return {"type": _SCALARS[type_.kind]}
    if type_.kind is Kind.LIST:
        return {"type": "array", "items": _node(type_.parameters[0])}
    if type_.kind is Kind.MAP:
        values = _node(type_.parameters[1])
        return {"type": "object", "additionalProperties": values} if values else {}
    if type_.kind is Kind.STRUCT and type_.name in STRUCT_FIELDS:
        fields = {name: _node(field) for name, field in STRUCT_FIELDS[type_.name].items()}
        return {"type": "object", "properties": fields}
    return {}
