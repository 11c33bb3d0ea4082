"""Objects in the version that a policy matched; the Events are as the server's own scheme converts them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from replay.admission.conversion import ObjectConverter, VersionedObjects
from replay.cel.value.values import TypedMap
from replay.json import JSON
from replay.kube.attributes import Attributes, Missing, Operation, UserInfo
from replay.kube.discovery import builtin_discovery
from replay.kube.gvk import GroupVersionKind, GroupVersionResource

CORE = GroupVersionKind("", "v1", "Event")
EVENTS = GroupVersionKind("events.k8s.io", "v1", "Event")
WIDGET = GroupVersionKind("example.com", "v1", "Widget")

CORE_EVENT = {
    "apiVersion": "v1",
    "kind": "Event",
    "metadata": {"name": "e", "namespace": "shop"},
    "involvedObject": {"kind": "Pod", "name": "web"},
    "reason": "Started",
    "message": "started",
    "source": {"component": "kubelet"},
    "firstTimestamp": "2026-11-21T03:03:20Z",
    "lastTimestamp": None,
    "count": 2,
    "type": "Normal",
    "eventTime": None,
    "reportingComponent": "kubelet",
    "reportingInstance": "",
}
EVENTS_EVENT = {
    "apiVersion": "events.k8s.io/v1",
    "kind": "Event",
    "metadata": {"name": "e", "namespace": "shop"},
    "regarding": {"kind": "Pod", "name": "web"},
    "reason": "Started",
    "note": "started",
    "deprecatedSource": {"component": "kubelet"},
    "deprecatedFirstTimestamp": "2026-11-21T03:03:20Z",
    "deprecatedLastTimestamp": None,
    "deprecatedCount": 2,
    "type": "Normal",
    "eventTime": None,
    "reportingController": "kubelet",
}


class Crds:
    """A lister that knows one CRD."""

    def __init__(self, strategy: str | None) -> None:
        self._crd: dict[str, Any] = {"spec": {"conversion": {"strategy": strategy}} if strategy else {"spec": {}}}
        self._crd["spec"] = {"conversion": {"strategy": strategy}} if strategy else {}

    def get(self, kind: GroupVersionKind, namespace: str, name: str) -> JSON | Missing | None:
        assert (kind.kind, namespace, name) == ("CustomResourceDefinition", "", "widgets.example.com")
        return self._crd

    def list(self, kind: GroupVersionKind, namespace: str | None) -> Sequence[JSON] | Missing:
        raise NotImplementedError(kind, namespace)


DISCOVERY = builtin_discovery().with_crds(
    [
        {
            "spec": {
                "group": "example.com",
                "scope": "Namespaced",
                "names": {"plural": "widgets", "kind": "Widget"},
                "versions": [{"name": "v1", "served": True}, {"name": "v2", "served": True}],
            }
        }
    ]
)


def convert(
    kind: GroupVersionKind, target: GroupVersionKind, obj: Any, old: Any = None, strategy: str | None = None
) -> VersionedObjects:
    resource = GroupVersionResource(kind.group, kind.version, f"{kind.kind.lower()}s")
    attributes = Attributes(Operation.UPDATE, kind, resource, "", "shop", "x", UserInfo(), object=obj, old_object=old)
    return ObjectConverter(DISCOVERY).versioned(attributes, target, Crds(strategy))


def test_the_kind_of_the_request_is_left_as_it_is() -> None:
    pod = {"kind": "Pod"}
    kind = GroupVersionKind("", "v1", "Pod")
    assert convert(kind, kind, pod).object is pod


def test_events_of_both_groups() -> None:
    assert convert(CORE, EVENTS, CORE_EVENT).object == EVENTS_EVENT
    assert convert(EVENTS, CORE, EVENTS_EVENT, None) == VersionedObjects(CORE, CORE_EVENT, None)


def test_custom_resources_without_conversion_change_their_version_alone() -> None:
    target = WIDGET._replace(version="v2")
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "spec": {"size": 1}}
    as_v2 = {"apiVersion": "example.com/v2", "kind": "Widget", "spec": {"size": 1}}
    assert convert(WIDGET, target, widget, widget) == VersionedObjects(target, as_v2, as_v2)
    assert convert(WIDGET, target, widget, strategy="None").object == as_v2


def test_what_needs_the_server_is_missing() -> None:
    target = WIDGET._replace(version="v2")
    reason = "the policy reads another API version, and only the API server can convert from example.com/v1 to example.com/v2"
    found = convert(WIDGET, target, {"kind": "Widget"}, None, "Webhook")
    assert found == VersionedObjects(target, Missing("object", reason), None)


def test_what_is_missing_stays_missing() -> None:
    missing = Missing("object", "no body")
    assert convert(CORE, EVENTS, missing).object is missing


def test_built_in_kinds_are_typed_for_cel() -> None:
    converter = ObjectConverter(DISCOVERY)
    scale = GroupVersionKind("autoscaling", "v1", "Scale")
    assert isinstance(converter.cel_value({}, scale), TypedMap)
    assert converter.cel_value({"a": 1}, WIDGET) == {"a": 1}
    assert converter.cel_value(None, scale) is None
