"""Objects of a request in the version that a policy matched (`admission.NewVersionedAttributes`)."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from replay.cel.value.values import TypedMap
from replay.json import JSON
from replay.kube.attributes import Attributes, Missing, PartialObject, field_of
from replay.kube.discovery import Discovery
from replay.kube.gvk import GroupVersionKind
from replay.kube.lister import Lister

Object = JSON | PartialObject | Missing | None

_CORE_EVENT = GroupVersionKind("", "v1", "Event")
_EVENTS_EVENT = GroupVersionKind("events.k8s.io", "v1", "Event")
_CRD = GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")

_EVENT_FIELDS = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
"""Fields of a core Event and their names in `events.k8s.io` (`k8s.io/kubernetes/pkg/apis/events/v1/conversion.go`)."""

_ALWAYS_IN_CORE_EVENT = ("reportingComponent", "reportingInstance")
"""Fields that a core Event always has. In `events.k8s.io` they are omitted if empty."""


class VersionedObjects(Struct, frozen=True):
    """`object` and `oldObject` in the version `kind`."""

    kind: GroupVersionKind
    object: Object
    old_object: Object


class ObjectConverter:
    """Converts the objects of requests to the kind that a policy matched."""

    def __init__(self, discovery: Discovery) -> None:
        """`discovery` says which kinds are custom."""
        self._discovery = discovery
        self._builtin_groups = {each.resource.group for each in discovery if not each.custom}

    def cel_value(self, obj: Object, kind: GroupVersionKind) -> Any:
        """Return an object as CEL gets it.

        Objects of built-in kinds are Go structs on the server, and behave like them.

        Kinds of subresources are not in the discovery, but their group is.
        """
        if obj is None or isinstance(obj, Missing) or kind.group not in self._builtin_groups:
            return obj
        struct: Any = obj
        return TypedMap(struct)  # a partly known object is wrapped as a whole, too

    def versioned(self, attributes: Attributes, kind: GroupVersionKind, lister: Lister) -> VersionedObjects:
        """Return both objects as `kind`. They become `Missing` if only the server's own code can convert them."""
        if kind == attributes.kind:
            return VersionedObjects(kind, attributes.object, attributes.old_object)
        by_name = self._is_converted_by_name(attributes.kind, kind, lister)
        is_event = {attributes.kind, kind} == {_CORE_EVENT, _EVENTS_EVENT}

        def convert(obj: Object, path: str) -> Object:
            if obj is None or isinstance(obj, Missing):
                return obj
            if by_name and not isinstance(obj, PartialObject):
                return {**obj, "apiVersion": kind.api_version}
            if is_event and not isinstance(obj, PartialObject):
                return _convert_event(obj, kind)
            versions = f"{attributes.kind.api_version} to {kind.api_version}"
            return Missing(
                path, f"the policy reads another API version, and only the API server can convert from {versions}"
            )

        return VersionedObjects(kind, convert(attributes.object, "object"), convert(attributes.old_object, "oldObject"))

    def _is_converted_by_name(self, source: GroupVersionKind, target: GroupVersionKind, lister: Lister) -> bool:
        """Return whether only `apiVersion` changes.

        Both are then versions of a custom resource with the conversion strategy `None`.
        """
        api_resource = self._discovery.of_kind(source)
        if api_resource is None or not api_resource.custom or source._replace(version=target.version) != target:
            return False
        crd = lister.get(_CRD, "", f"{api_resource.resource.resource}.{source.group}")
        if crd is None or isinstance(crd, Missing):
            return False
        return field_of(crd, "spec", "conversion", "strategy") in (None, "None")


def _convert_event(event: dict[str, Any], target: GroupVersionKind) -> dict[str, Any]:
    """Return an Event of either group as an Event of the other."""
    to_core = target == _CORE_EVENT
    names = {new: old for old, new in _EVENT_FIELDS.items()} if to_core else _EVENT_FIELDS
    converted = {names.get(name, name): value for name, value in event.items()}
    converted["apiVersion"] = target.api_version
    if to_core:
        return {**dict.fromkeys(_ALWAYS_IN_CORE_EVENT, ""), **converted}
    return {name: value for name, value in converted.items() if value != "" or name == "metadata"}
