"""Declared types of `request`, `namespaceObject`, and of objects whose schema is known.

See apiserver `pkg/admission/plugin/cel/compile.go`, `pkg/cel/common/schemas.go` and `pkg/cel/types.go`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from replay.cel.value.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    Kind,
    Type,
    list_type,
    map_type,
    struct_type,
)
from replay.kube.schema import Schema

REQUEST_TYPE = struct_type("kubernetes.AdmissionRequest")
NAMESPACE_TYPE = struct_type("kubernetes.Namespace")
VARIABLES_TYPE = struct_type("kubernetes.variables")

_KIND = struct_type("kubernetes.GroupVersionKind")
_RESOURCE = struct_type("kubernetes.GroupVersionResource")
_USER_INFO = struct_type("kubernetes.UserInfo")
_METADATA = struct_type("kubernetes.NamespaceMetadata")
_SPEC = struct_type("kubernetes.NamespaceSpec")
_STATUS = struct_type("kubernetes.NamespaceStatus")
_CONDITION = struct_type("kubernetes.NamespaceCondition")
_STRINGS = list_type(STRING)

STRUCT_FIELDS: Mapping[str, Mapping[str, Type]] = {
    _KIND.name: {"group": STRING, "version": STRING, "kind": STRING},
    _RESOURCE.name: {"group": STRING, "version": STRING, "resource": STRING},
    _USER_INFO.name: {
        "username": STRING,
        "uid": STRING,
        "groups": _STRINGS,
        "extra": map_type(STRING, _STRINGS),
    },
    REQUEST_TYPE.name: {
        "kind": _KIND,
        "resource": _RESOURCE,
        "subResource": STRING,
        "requestKind": _KIND,
        "requestResource": _RESOURCE,
        "requestSubResource": STRING,
        "name": STRING,
        "namespace": STRING,
        "operation": STRING,
        "userInfo": _USER_INFO,
        "dryRun": BOOL,
        "options": DYN,
    },
    NAMESPACE_TYPE.name: {"metadata": _METADATA, "spec": _SPEC, "status": _STATUS},
    _METADATA.name: {
        "name": STRING,
        "generateName": STRING,
        "namespace": STRING,
        "labels": map_type(STRING, STRING),
        "annotations": map_type(STRING, STRING),
        "UID": STRING,
        "creationTimestamp": TIMESTAMP,
        "deletionGracePeriodSeconds": INT,
        "deletionTimestamp": TIMESTAMP,
        "generation": INT,
        "resourceVersion": STRING,
        "finalizers": _STRINGS,
    },
    _SPEC.name: {"finalizers": _STRINGS},
    _STATUS.name: {"conditions": list_type(_CONDITION), "phase": STRING},
    _CONDITION.name: {
        "status": STRING,
        "type": STRING,
        "lastTransitionTime": TIMESTAMP,
        "message": STRING,
        "reason": STRING,
    },
}
"""The fields of every declared type, by name."""


_SCALARS = {"boolean": BOOL, "number": DOUBLE, "integer": INT}
_TEXTS = {"byte": BYTES, "duration": DURATION, "date": TIMESTAMP, "date-time": TIMESTAMP}

_RESERVED = frozenset(
    [
        *("true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import"),
        *("let", "loop", "package", "namespace", "return", "var", "void", "while"),
    ]
)
_ESCAPED = re.compile(r"__|[-./]")
_ESCAPES = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_ESCAPABLE = re.compile(r"[A-Za-z_./-][A-Za-z0-9_./-]*")


class DeclaredKind(Mapping[str, Mapping[str, Type]]):
    """The struct types of one kind with their fields, by name: `Pod`, `Pod.spec`, `Pod.spec.containers.@idx`.

    The server adds random digits to the name of the kind. They are left out here.
    """

    def __init__(self, kind: str, schema: Schema, *, has_keywords: bool = True, has_hidden: bool = False) -> None:
        """`has_keywords`: fields named like keywords can be read under their own names, as since 1.31.

        `has_hidden`: fields without a type in the schema, such as quantities, are present with type dyn.
        """
        self._has_keywords = has_keywords
        self._has_hidden = has_hidden
        self._schemas: dict[str, tuple[Schema, frozenset[str]]] = {}
        self._fields: dict[str, Mapping[str, Type]] = {}
        self.type = self._declared(schema, kind, frozenset())
        """Type of the object, or None if its schema has no type that expressions see."""

    def __getitem__(self, name: str) -> Mapping[str, Type]:
        """Return the fields of a struct type, under their escaped names."""
        fields = self._fields.get(name)
        if fields is None:
            schema, around = self._schemas[name]
            fields = self._fields[name] = self._fields_of(schema, name, around)
        return fields

    def __iter__(self) -> Iterator[str]:
        """Return the names of the types that were reached so far."""
        return iter(self._schemas)

    def __len__(self) -> int:
        """Return the number of types that were reached so far."""
        return len(self._schemas)

    def _fields_of(self, schema: Schema, name: str, around: frozenset[str]) -> Mapping[str, Type]:
        is_open = self._has_hidden and (schema.allows_any_field or schema.preserve_unknown_fields)
        fields = _OpenFields() if is_open else _Fields() if self._has_keywords else dict[str, Type]()
        for field_name, field in schema.fields.items():
            escaped = escape(field_name)
            if escaped is not None:
                type_ = self._declared(field, f"{name}.{escaped}", around)
                if type_ is not None:
                    fields[escaped] = type_
        return fields

    def has(self, path: Iterable[str]) -> bool:
        """Return whether an object of the kind may have a field, by its path.

        A part without declared fields may have any field.
        """
        type_ = self.type
        for name in path:
            if type_ is None or type_.kind is not Kind.STRUCT:
                return True
            fields = self[type_.name]
            if name not in fields and fields.get(name) is None:
                return False
            type_ = fields.get(name)
        return True

    def _declared(self, schema: Schema, name: str, around: frozenset[str]) -> Type | None:
        """Return the type of a schema, or None if expressions do not see it. `around` are the enclosing named schemas."""
        declared = self._type(schema, name, around)
        return DYN if declared is None and self._has_hidden else declared

    def _type(self, schema: Schema, name: str, around: frozenset[str]) -> Type | None:
        if schema.int_or_string:
            return DYN
        if schema.name in around:
            # A circle ends in an object without fields.
            return self._struct(Schema({"type": "object"}, {}), name, around)
        around |= {schema.name} if schema.name else frozenset()
        match schema.type:
            case "array":
                inner = None if schema.items is None else self._declared(schema.items, f"{name}.@idx", around)
                return None if inner is None else list_type(inner)
            case "object" if schema.values is not None:
                inner = self._declared(schema.values, f"{name}.@elem", around)
                return None if inner is None else map_type(STRING, inner)
            case "object":
                return self._struct(schema, name, around)
        return _TEXTS.get(schema.format, STRING) if schema.type == "string" else _SCALARS.get(schema.type)

    def _struct(self, schema: Schema, name: str, around: frozenset[str]) -> Type:
        self._schemas[name] = schema, around
        return struct_type(name)


class _Fields(dict[str, Type]):
    """Fields by escaped name. Fields named like keywords also have their own names."""

    def get(self, key: str, default: Type | None = None, /) -> Type | None:  # type: ignore[override]
        """Return the type of a field."""
        type_ = super().get(key)
        return super().get(f"__{key}__", default) if type_ is None and key in _RESERVED else type_


class _OpenFields(_Fields):
    """Fields of an object that may have others than the declared ones, of type dyn."""

    def get(self, key: str, default: Type | None = None, /) -> Type | None:  # type: ignore[override]
        """Return the type of a field."""
        return super().get(key, default) or DYN


def escape(name: str) -> str | None:
    """Return a field's name as a CEL identifier, or None if it cannot be one (apiserver `pkg/cel/escaping.go`)."""
    if name in _RESERVED:
        return f"__{name}__"
    return _ESCAPED.sub(lambda match: _ESCAPES[match[0]], name) if _ESCAPABLE.fullmatch(name) else None
