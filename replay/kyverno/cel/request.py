"""AdmissionRequest as CEL policies see it (`pkg/utils/admission/resource.go`, `pkg/cel/engine`)."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from replay.admission.alike import PlainBindings, Projection, ProjectionKey
from replay.cel.value.timestamp import Timestamp
from replay.json import JSON
from replay.kube.attributes import Missing, PartialObject, field_of
from replay.kube.gvk import GroupVersionKind, GroupVersionResource
from replay.kyverno.rules.errors import UndeterminedError
from replay.kyverno.rules.go_value import as_map
from replay.matching.rules import NAMESPACES, RuleKey
from replay.matching.selectors import Labels

if TYPE_CHECKING:
    from replay.kube.attributes import Operation

Object = JSON | PartialObject | Missing
_NO_TIME = Missing("time.now()", "the time of the request is not known")
_WRITTEN_IF_SET = ("subResource", "requestKind", "requestResource", "requestSubResource", "name", "namespace")


class CELRequest:
    """Parts of a request. An absent object is an empty map."""

    def __init__(self, request: Mapping[str, Any], namespace: Object, time: Timestamp | Missing = _NO_TIME) -> None:
        """`namespace` is the Namespace object of the request, or None. `time` is the time of the request."""
        self.request = request
        self.time = time
        self.operation = str(request.get("operation") or "")
        self.name = str(request.get("name") or "")
        self.namespace = str(request.get("namespace") or "")
        self.subresource = str(request.get("subResource") or "")
        kind, resource = as_map(request.get("kind")), as_map(request.get("resource"))
        self.kind = GroupVersionKind(*(str(kind.get(part) or "") for part in ("group", "version", "kind")))
        self.resource = GroupVersionResource(
            *(str(resource.get(part) or "") for part in ("group", "version", "resource"))
        )
        self.namespace_object = namespace
        self._sent = self.object = self._extracted(request.get("object"))
        self.old_object = self._extracted(request.get("oldObject"))
        self.plain = _Plain(self)
        self.projections: dict[Projection, ProjectionKey | None] = {}

    def with_object(self, value: Object) -> CELRequest:
        """Return the request with another `object`. `request.object` stays the original object."""
        made = CELRequest(self.request, self.namespace_object, self.time)
        made.object = value
        return made

    @cached_property
    def rule_key(self) -> RuleKey:
        """Key of the request for match rules."""
        return RuleKey(self.resource, self.subresource, cast("Operation", self.operation), bool(self.namespace))

    @cached_property
    def labels(self) -> Labels | Missing:
        """Labels of the object."""
        return _labels(self.object)

    @cached_property
    def old_labels(self) -> Labels | Missing:
        """Labels of the old object."""
        return _labels(self.old_object)

    @cached_property
    def namespace_labels(self) -> Labels | Missing:
        """Labels that a namespace selector sees.

        They are those of the object itself if a Namespace is written. An absent Namespace has only the label with its name.
        """
        is_written = self.operation in ("CREATE", "UPDATE") and not self.subresource
        if self.resource.resource == NAMESPACES.resource and is_written:
            return self.labels
        if self.namespace_object is None:
            return {"kubernetes.io/metadata.name": self.namespace}
        return _labels(self.namespace_object)

    def _extracted(self, obj: Object) -> Object:
        """Return an object with its kind and namespace taken from the request."""
        if isinstance(obj, Missing):
            return obj
        if isinstance(obj, PartialObject):
            return PartialObject(self._named(obj.value), obj.missing)
        if obj is not None and not isinstance(obj, dict):
            raise UndeterminedError("the object of the request is not a JSON object")
        return {} if obj is None else self._named(obj)

    def _named(self, obj: JSON) -> JSON:
        named = {**obj, "apiVersion": self.kind.api_version, "kind": self.kind.kind}
        metadata = obj.get("metadata")
        is_namespace = self.kind.kind == "Namespace"
        if isinstance(metadata, Missing) or (is_namespace and not as_map(metadata).get("namespace")):
            return named
        if is_namespace:
            named["metadata"] = {key: value for key, value in metadata.items() if key != "namespace"}
        elif self.namespace:
            named["metadata"] = {**as_map(metadata), "namespace": self.namespace}
        return named

    def shown(self, *, extracted: bool) -> JSON | PartialObject:
        """Return `request` without empty fields.

        With `extracted`, its objects have kind and namespace set as `object` has.
        """
        return self._shown_extracted if extracted else self._shown

    @cached_property
    def _shown(self) -> JSON | PartialObject:
        return self._made(extracted=False)

    @cached_property
    def _shown_extracted(self) -> JSON | PartialObject:
        return self._made(extracted=True)

    def _made(self, *, extracted: bool) -> JSON | PartialObject:
        request = self.request
        shown: dict[str, Any] = {
            "uid": request.get("uid") or "",
            "kind": self.kind._asdict(),
            "resource": self.resource._asdict(),
            "operation": self.operation,
            "userInfo": {key: value for key, value in as_map(request.get("userInfo")).items() if value},
            "object": self._sent if extracted else request.get("object"),
            "oldObject": self.old_object if extracted else request.get("oldObject"),
            "options": request.get("options"),
        }
        shown |= {name: request[name] for name in _WRITTEN_IF_SET if request.get(name)}
        if request.get("dryRun") is not None:
            shown["dryRun"] = request["dryRun"]
        unknown: list[Missing] = []
        for name in ("object", "oldObject", "options"):
            value = shown[name]
            if isinstance(value, PartialObject):
                shown[name] = value.value
                unknown += [Missing(f"request.{each.path}", each.reason, each.fix) for each in value.missing]
            elif isinstance(value, Missing):
                unknown.append(value)
        return PartialObject(shown, tuple(unknown)) if unknown else shown

    def projected(self, reads: Projection) -> Hashable | None:
        """Return the values that expressions read, with the kind, as a key. Return None if there is no such projection."""
        if reads not in self.projections:
            self.projections[reads] = reads(self.plain)
        projected = self.projections[reads]
        return None if projected is None else (projected, self.kind)

    @cached_property
    def shown_namespace(self) -> Object:
        """Return the value of `namespaceObject`."""
        namespace = self.namespace_object
        if namespace is None or isinstance(namespace, Missing):
            return namespace
        if isinstance(namespace, PartialObject):
            return PartialObject(_whole(namespace.value), namespace.missing)
        return _whole(namespace)


class _Plain(PlainBindings):
    """Values of the names that policies of the API server know too."""

    def __init__(self, request: CELRequest) -> None:
        self._request = request

    def _made(self, name: str) -> Any:
        request = self._request
        if name == "object":
            return request.object
        if name == "oldObject":
            return request.old_object
        return request.shown(extracted=False) if name == "request" else request.shown_namespace


def _labels(obj: Object) -> Labels | Missing:
    if isinstance(obj, Missing):
        return obj
    labels: JSON | Missing = field_of(obj, "metadata", "labels")
    if isinstance(labels, Missing):
        return labels
    if not isinstance(labels, dict) or not all(isinstance(each, str | Missing | None) for each in labels.values()):
        return {}  # Go reads labels as texts, or not at all
    return {key: "" if value is None else value for key, value in labels.items()}


def _whole(namespace: JSON) -> JSON:
    """Return a Namespace with the fields that Go's type always writes."""
    return {**namespace, "spec": namespace.get("spec") or {}, "status": namespace.get("status") or {}}
