"""Containers in a mutation's result that come from the inputs, and their Go types.

The server shows plain JSON (`map[string]interface {}`, `[]interface {}`) and typed Go objects to CEL alike (apiserver
`pkg/cel/common.SchemalessTypedToVal`), but a patch treats them differently. Results of compiled code no longer show the
difference. So a container is recognized by its identity.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, NamedTuple

from replay.admission.mutating.go_text import go_syntax, go_text
from replay.cel.value.values import TypedMap, untyped
from replay.cellib.activation import TYPED_SINCE
from replay.cellib.version import NEWEST, KubernetesVersion
from replay.go.format import GoValue
from replay.json import JSON
from replay.kube.attributes import PartialObject
from replay.kube.go_object import go_type_name
from replay.kube.gvk import GroupVersionKind
from replay.kube.schema import Schema, Schemas

_OBJECTS_INSIDE_SINCE = 35
"""First minor in which an `Object` may be inside a list or map of a JSON patch.

Source: `dynamic.ObjectVal.ConvertToNative`.
"""

_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
_OPAQUE = frozenset({"io.k8s.apimachinery.pkg.runtime.RawExtension", _META + "FieldsV1"})
"""Types that write their own JSON. Their content is plain JSON again."""

_TEXT: Mapping[str, Any] = {"type": "string"}
_GVK: Mapping[str, Any] = {"type": "object", "properties": {"group": _TEXT, "version": _TEXT, "kind": _TEXT}}
_GVR: Mapping[str, Any] = {"type": "object", "properties": {"group": _TEXT, "version": _TEXT, "resource": _TEXT}}
_KIND, _RESOURCE = {"$ref": _META + "GroupVersionKind"}, {"$ref": _META + "GroupVersionResource"}
_REQUEST = Schema(
    {"$ref": "io.k8s.api.admission.v1.AdmissionRequest"},
    {
        "io.k8s.api.admission.v1.AdmissionRequest": {
            "type": "object",
            "properties": {
                "kind": _KIND,
                "resource": _RESOURCE,
                "requestKind": _KIND,
                "requestResource": _RESOURCE,
                "userInfo": {"$ref": "io.k8s.api.authentication.v1.UserInfo"},
                "options": {"$ref": "io.k8s.apimachinery.pkg.runtime.RawExtension"},
            },
        },
        _META + "GroupVersionKind": _GVK,
        _META + "GroupVersionResource": _GVR,
        "io.k8s.api.authentication.v1.UserInfo": {
            "type": "object",
            "properties": {
                "username": _TEXT,
                "uid": _TEXT,
                "groups": {"type": "array", "items": _TEXT},
                "extra": {
                    "type": "object",
                    "additionalProperties": {"$ref": "io.k8s.api.authentication.v1.ExtraValue"},
                },
            },
        },
        "io.k8s.api.authentication.v1.ExtraValue": {"type": "array", "items": _TEXT},
    },
)
"""Schema of `request`, which no OpenAPI document describes (`k8s.io/api/admission/v1`)."""


@cache
def _schemas() -> Schemas:
    return Schemas()


class GoType(NamedTuple):
    """The Go type of a container: its schema and name."""

    schema: Schema

    @property
    def name(self) -> str:
        """Return the name that `%T` prints: `v1.ObjectMeta`, `map[string]string`, `[]string`."""
        return go_type_name(self.schema)

    @property
    def is_struct(self) -> bool:
        """Return whether the type is a struct, and not a map or slice."""
        return bool(self.schema.fields)


def is_go_object(value: Any, name: str) -> bool:
    """Return whether the server has a Go object under a name that may also be plain JSON."""
    return name == "namespaceObject" or isinstance(value, TypedMap)


class InputValues:
    """Containers that came with the request, as opposed to those that an expression created."""

    def __init__(
        self, bindings: Mapping[str, Any], kinds: Mapping[str, GroupVersionKind], server: KubernetesVersion = NEWEST
    ) -> None:
        """Keep the bindings of the expression that may be in its result.

        `kinds` are the kinds of bindings that are Go objects, by name. `request` always is one. `server` is the version
        whose rules apply.
        """
        self.are_plain = server.minor < TYPED_SINCE
        """A flag that all inputs are plain maps, which are passed on unchanged."""
        self.crashes = server.minor < _OBJECTS_INSIDE_SINCE
        """A flag that an `Object` inside a list or map of a patch crashes the server."""
        self._bindings = bindings
        self._kinds = kinds
        self._types: dict[int, GoType | None] | None = None
        self._ids: set[int] | None = None

    def _known(self) -> dict[int, GoType | None]:
        if self._types is None:
            self._types = {}
            for name, value in self._bindings.items():
                _collect(_plain(value), self._schema(name), self._types)
        return self._types

    def _schema(self, name: str) -> Schema | None:
        if self.are_plain:
            return None
        if name == "request":
            return _REQUEST
        kind = self._kinds.get(name)
        return None if kind is None else _schemas().for_kind(kind)

    def __contains__(self, value: object) -> bool:
        """Return whether a value is a list or dict of an input."""
        if not isinstance(value, dict | list):
            return False
        # Most results of a mutation are new containers, so types are computed only for those from the inputs.
        if self._ids is None:
            self._ids = set()
            for binding in self._bindings.values():
                _collect_ids(_plain(binding), self._ids)
        return id(value) in self._ids

    def go_type(self, value: object) -> GoType | None:
        """Return the Go type of a container, None if it is plain JSON or not from an input."""
        return self._known().get(id(value)) if value in self else None

    def go_value(self, value: JSON, go_type: GoType) -> GoValue:
        """Return a container of a Go type as structured merge sees it in a list or map made by an expression."""
        return GoValue(go_type.name, go_text(go_type.schema, value), value, go_syntax(go_type.schema, value))


def _plain(value: Any) -> Any:
    value = untyped(value)
    return value.value if isinstance(value, PartialObject) else value


def _collect_ids(value: Any, ids: set[int]) -> None:
    """Add the identity of each container of an input."""
    left = [value] if isinstance(value, dict | list) else []
    for container in left:  # the loop appends to the list
        ids.add(id(container))
        items = container.values() if isinstance(container, dict) else container
        left += [item for item in items if isinstance(item, dict | list)]


def _collect(value: Any, schema: Schema | None, types: dict[int, GoType | None]) -> None:
    """Add the Go type of each container of an input."""
    left: list[tuple[Any, Schema | None]] = [(value, schema)]
    while left:
        value, schema = left.pop()
        if not isinstance(value, dict | list):
            continue
        if schema is not None and (schema.name in _OPAQUE or not (schema.fields or schema.items or schema.values)):
            schema = None
        types[id(value)] = None if schema is None else GoType(schema)
        left += _parts(value, schema)


def _parts(value: dict[str, Any] | list[Any], schema: Schema | None) -> Iterable[tuple[Any, Schema | None]]:
    if isinstance(value, list):
        return [(item, schema and schema.items) for item in value]
    return [(item, schema and schema.field(name)) for name, item in value.items()]
