"""The API's schemas of kinds: types, merge behaviour, defaults, and the encoding of empty values.

Built-in kinds come from `data/schema.json`, made by `tests.tools.distill_schema` from the OpenAPI v3 documents of a
Kubernetes 1.37 API server. Custom kinds come from the `openAPIV3Schema` of their CustomResourceDefinition. Both are
OpenAPI nodes, so one class reads both. For a kind without either, `Schemas.for_kind` returns None.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from enum import StrEnum
from functools import cache, cached_property
from importlib.resources import files
from typing import Any

import orjson

from replay.identity import IdentityMemo
from replay.json import JSON
from replay.kube.attributes import Missing, PartialObject
from replay.kube.gvk import GroupVersionKind
from replay.kube.lister import Lister
from replay.kube.older_minor import gone_kinds, is_served, types_of

SchemaNode = Mapping[str, Any]

CRD = GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
OBJECT_META_FIELDS = (
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "managedFields",
)
"""The fields in the order of the Go type."""
_NO_NODE: SchemaNode = {}


class Encoding(StrEnum):
    """The way in which the Go type behind a field writes an empty value (`encoding/json` and the field's tag)."""

    OMIT_EMPTY = ""
    """Left out if null, false, zero, or an empty string, list or map."""
    POINTER = "pointer"
    """Left out only if null. An explicit zero or `{}` stays."""
    ALWAYS = "always"
    """Written even without a value: as zero, `{}`, or null for lists and maps."""
    NULL = "null"
    """A pointer that is written as null without a value."""


class Schema:
    """Schema of a place in an object: a field, a list item or the object, with references resolved."""

    def __init__(self, node: SchemaNode, types: Mapping[str, SchemaNode]) -> None:
        """Wrap an OpenAPI node. References in it are names in `types`."""
        self._node = node
        self._types = types
        self.name: str = node.get("$ref", "")
        """The name of the type, such as `io.k8s.api.core.v1.Container`. Empty for an inline type."""
        self._target: SchemaNode = types.get(self.name, _NO_NODE) if self.name else node

    def _own_or_target(self, key: str) -> Any:
        value = self._node.get(key)
        return self._target.get(key) if value is None else value

    @cached_property
    def type(self) -> str:
        """Return `object`, `array`, `string`, `integer`, `number` or `boolean`, or empty if any type is allowed."""
        return str(self._target.get("type", ""))

    @cached_property
    def format(self) -> str:
        """Return the OpenAPI `format`, empty if there is none."""
        return str(self._target.get("format", ""))

    @cached_property
    def fields(self) -> Mapping[str, Schema]:
        """Return the declared properties."""
        return {name: Schema(node, self._types) for name, node in self._target.get("properties", _NO_NODE).items()}

    @cached_property
    def is_text(self) -> bool:
        """Return whether any text is a value, and is written as it was read."""
        return self.type == "string" and not (self.name or self.format or self.fields)

    @cached_property
    def always_written(self) -> Mapping[str, Schema]:
        """Return the properties that are written even without a value."""
        always = {Encoding.ALWAYS, Encoding.NULL}
        return {name: field for name, field in self.fields.items() if field.encoding in always}

    @cached_property
    def with_default(self) -> Mapping[str, Schema]:
        """Return the properties for which the schema states a default."""
        return {name: field for name, field in self.fields.items() if field.default is not None}

    @cached_property
    def written_defaults(self) -> tuple[tuple[str, JSON], ...]:
        """Return the visible defaults of built-in kinds; `{}` and zero mean what the Go type writes anyway."""
        pointers = {Encoding.POINTER, Encoding.NULL}
        stated = ((name, field.default, field.encoding) for name, field in self.with_default.items())
        return tuple(
            (name, default)
            for name, default, encoding in stated
            if default != {} and (encoding in pointers or default not in ("", 0, False))
        )

    def field(self, name: str) -> Schema | None:
        """Return the schema of a property, else that of a map's values, else None."""
        return self.fields.get(name) or self.values

    @cached_property
    def values(self) -> Schema | None:
        """Return the schema of a map's values (`additionalProperties`), None if there is none or it is a boolean."""
        node = self._target.get("additionalProperties")
        return Schema(node, self._types) if isinstance(node, dict) else None

    @cached_property
    def allows_any_field(self) -> bool:
        """Return whether `additionalProperties` is true, or the object declares nothing at all."""
        additional = self._target.get("additionalProperties")
        return additional is True or (additional is None and not self._target.get("properties"))

    @cached_property
    def forbids_other_fields(self) -> bool:
        """Return whether `additionalProperties` is false."""
        return self._target.get("additionalProperties") is False

    @cached_property
    def items(self) -> Schema | None:
        """Return the schema of the items of a list, or None."""
        node = self._target.get("items")
        return None if node is None else Schema(node, self._types)

    @cached_property
    def list_type(self) -> str:
        """Return `x-kubernetes-list-type`: atomic, set or map. Empty if not stated, which means atomic."""
        return self._own_or_target("x-kubernetes-list-type") or ""

    @cached_property
    def map_keys(self) -> tuple[str, ...]:
        """Return `x-kubernetes-list-map-keys`."""
        return tuple(self._own_or_target("x-kubernetes-list-map-keys") or ())

    @cached_property
    def map_type(self) -> str:
        """Return `x-kubernetes-map-type`: atomic or granular. Empty if not stated, which means granular."""
        return self._own_or_target("x-kubernetes-map-type") or ""

    @cached_property
    def patch_strategy(self) -> str:
        """Return `x-kubernetes-patch-strategy`: `merge`, `replace` and `retainKeys`, comma-separated.

        A strategic merge patch uses it.
        """
        return self._own_or_target("x-kubernetes-patch-strategy") or ""

    @cached_property
    def patch_merge_key(self) -> str:
        """Return `x-kubernetes-patch-merge-key` of a strategic merge patch."""
        return self._own_or_target("x-kubernetes-patch-merge-key") or ""

    @cached_property
    def default(self) -> JSON:
        """Return the default that the schema states, or None."""
        return self._own_or_target("default")

    @cached_property
    def required(self) -> frozenset[str]:
        """Return the names of the required properties."""
        return frozenset(self._target.get("required", ()))

    def constraint(self, name: str) -> Any:
        """Return a constraint of a CustomResourceDefinition, or None.

        Its name is `minimum`, `maxLength`, `pattern`, `enum` and so on.
        """
        return self._own_or_target(name)

    @cached_property
    def nullable(self) -> bool:
        """Return whether null is a value of its own (custom kinds)."""
        return bool(self._own_or_target("nullable"))

    @cached_property
    def preserve_unknown_fields(self) -> bool:
        """Return `x-kubernetes-preserve-unknown-fields`."""
        return bool(self._own_or_target("x-kubernetes-preserve-unknown-fields"))

    @cached_property
    def int_or_string(self) -> bool:
        """Return whether the value is an integer or a string."""
        return self.format == "int-or-string" or bool(self._own_or_target("x-kubernetes-int-or-string"))

    @cached_property
    def encoding(self) -> Encoding:
        """Return how an empty value of this field is written (built-in kinds only)."""
        return Encoding(self._node.get("x-go-encoding", ""))


class Schemas:
    """The schemas of built-in kinds, and of the custom kinds of CustomResourceDefinitions."""

    def __init__(self, crds: Iterable[JSON] = (), minor: int | None = None) -> None:
        """Collect the schemas. `crds` are CustomResourceDefinitions (`apiextensions.k8s.io/v1`) as plain JSON.

        `minor` is the server's minor version. Without it, built-in kinds are those of the newest.
        """
        self._minor = minor
        types, self._names, self._foreign = _builtin() if minor is None else _builtin_of(minor)
        self.types = types
        """The built-in types by name."""
        self._group_versions = {(kind.group, kind.version) for kind in self._names}
        self._custom: dict[GroupVersionKind, Schema] = {}
        self._builtin: dict[GroupVersionKind, Schema] = {}
        self._definitions: dict[GroupVersionKind, str] = {}
        self._defined: IdentityMemo[dict[GroupVersionKind, Schema]] = IdentityMemo()
        self.lister: Lister | None = None
        """The lister of CustomResourceDefinitions at the time of a request. None uses their last known state."""
        self._crds = list(crds)
        for crd in self._crds:
            self._custom.update(_custom_schemas(crd, types))
            self._definitions.update(dict.fromkeys(_kinds(crd), str((crd.get("metadata") or {}).get("name") or "")))

    def with_crds(self, crds: Iterable[JSON]) -> Schemas:
        """Return these schemas and those of custom kinds that are not known."""
        added = [each for each in crds if not any(kind in self._definitions for kind in _kinds(each))]
        if not added:
            return self
        schemas = Schemas([*self._crds, *added], self._minor)
        schemas.lister = self.lister
        return schemas

    def seen_by(self, lister: Lister) -> Schemas:
        """Return these schemas with custom kinds as a lister shows their definitions.

        Definitions that it lacks stay as they are.
        """
        if not self._definitions:
            return self
        schemas = copy(self)
        schemas.lister = lister
        return schemas

    def _shown(self, kind: GroupVersionKind) -> Schema | None:
        """Return the schema of a custom kind by its definition at the time."""
        definition = self.lister.get(CRD, "", self._definitions[kind]) if self.lister is not None else None
        spec = known_spec(definition)
        if spec is None:
            return self._custom.get(kind)
        # The lister returns the identical `spec` until the definition is written again.
        schemas = self._defined.get((spec,))
        if schemas is None:
            schemas = self._defined.put((spec,), dict(_custom_schemas({"spec": spec}, self.types)))
        return schemas.get(kind)

    def for_kind(self, kind: GroupVersionKind) -> Schema | None:
        """Return the schema of a kind, None if there is none."""
        if self.lister is not None and kind in self._definitions:
            return self._shown(kind)
        schema = self._custom.get(kind) or self._builtin.get(kind)
        if schema is None and kind in self._names:
            schema = self._builtin[kind] = Schema({"$ref": self._names[kind]}, self.types)
        return schema

    def serves(self, group: str, version: str) -> bool:
        """Return whether a group version is built in."""
        return (group, version) in self._group_versions

    def is_foreign(self, kind: GroupVersionKind) -> bool:
        """Return whether no path in the OpenAPI document of the kind's own group version takes or returns the kind.

        Such kinds belong only to subresources of other groups: Scale, Eviction and TokenRequest.
        """
        return kind in self._foreign

    def is_custom(self, kind: GroupVersionKind) -> bool:
        """Return whether the kind is that of a CustomResourceDefinition, whose objects have no Go type."""
        return kind in self._definitions


@cache
def _builtin() -> tuple[Mapping[str, SchemaNode], Mapping[GroupVersionKind, str], frozenset[GroupVersionKind]]:
    data = orjson.loads((files("replay.kube") / "data" / "schema.json").read_bytes())
    names = {GroupVersionKind(*row[:3]): row[3] for row in data["kinds"]}
    return data["types"], names, frozenset(GroupVersionKind(*row) for row in data["foreign"])


@cache
def _builtin_of(
    minor: int,
) -> tuple[Mapping[str, SchemaNode], Mapping[GroupVersionKind, str], frozenset[GroupVersionKind]]:
    """Return the data of an older minor version: without later types, with those that are gone since."""
    types, names, foreign = _builtin()
    served = {kind: name for kind, name in names.items() if is_served(kind, minor)}
    return types_of(types, minor), {**served, **gone_kinds(minor)}, foreign


def known_spec(definition: JSON | PartialObject | Missing | None) -> JSON:
    """Return the spec of a definition, None if there is none or it is partly unknown."""
    if isinstance(definition, PartialObject):
        is_open = any(f"{each.path}.".startswith(f"{CRD.kind}.spec.") for each in definition.missing)
        return None if is_open else definition.value.get("spec")
    return definition.get("spec") if isinstance(definition, dict) else None


def _kinds(crd: JSON) -> list[GroupVersionKind]:
    """Return the kind in all versions that a definition names, served or not."""
    spec = crd.get("spec") or {}
    group, kind = spec.get("group", ""), spec.get("names", {}).get("kind", "")
    return [GroupVersionKind(group, version.get("name", ""), kind) for version in spec.get("versions") or ()]


def _custom_schemas(crd: JSON, types: Mapping[str, SchemaNode]) -> Iterable[tuple[GroupVersionKind, Schema]]:
    """Yield the schema of each served version (apiextensions-apiserver, pkg/controller/openapi/builder)."""
    spec = crd.get("spec") or {}
    for version in spec.get("versions") or ():
        declared = (version.get("schema") or {}).get("openAPIV3Schema") or {
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": True,
        }
        kind = GroupVersionKind(spec.get("group", ""), version.get("name", ""), spec.get("names", {}).get("kind", ""))
        if version.get("served"):
            yield kind, Schema(_as_resource(_with_embedded(declared)), types)


def _as_resource(node: SchemaNode) -> SchemaNode:
    """Return the node with the three fields that every object has."""
    common = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"$ref": OBJECT_META}}
    return {**node, "properties": {**node.get("properties", {}), **common}}


def _with_embedded(node: SchemaNode) -> SchemaNode:
    """Return the node with the fields of embedded resources declared, at any depth."""
    changed = dict(node)
    if isinstance(node.get("properties"), dict):
        changed["properties"] = {name: _with_embedded(field) for name, field in node["properties"].items()}
    for key in ("items", "additionalProperties"):
        if isinstance(node.get(key), dict):
            changed[key] = _with_embedded(node[key])
    return _as_resource(changed) if node.get("x-kubernetes-embedded-resource") else changed
