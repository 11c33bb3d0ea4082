"""Apply configurations, where nothing but they and the object before are recorded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from replay.audit.event import RequestRecord
from replay.kube.attributes import Basis, Missing
from replay.kube.discovery import builtin_discovery
from replay.kube.schema import Schemas
from replay.reconstruct.mutation_input import patched
from replay.reconstruct.record.exchange import Exchange
from replay.reconstruct.record.known import Known

Record = Callable[..., RequestRecord]
OTHER = {
    "manager": "other",
    "operation": "Update",
    "apiVersion": "v1",
    "fieldsV1": {"f:metadata": {"f:labels": {"f:b": {}}}},
}
URI = "/api/v1/namespaces/shop/configmaps/c?fieldManager=me"
REFERENCE = {"resource": "configmaps", "name": "c"}


def owned(fields: dict[str, Any], **entry: str) -> dict[str, Any]:
    return {"manager": "me", "operation": "Apply", "apiVersion": "v1", "fieldsV1": fields, **entry}


def config_map(managed: list[Any] | None, **parts: Any) -> dict[str, Any]:
    metadata = {"name": "c", "namespace": "shop", **parts.pop("metadata", {})}
    if managed is not None:
        metadata["managedFields"] = managed
    return {"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata, **parts}


def applied(record: Record, before: dict[str, Any], **parts: Any) -> Known | Missing:
    """The object after a refused apply of a ConfigMap with some parts."""
    refused = record("patch", code=422, message="denied", uri=URI, ref=REFERENCE, request=config_map(None, **parts))
    return patched(Exchange(refused, builtin_discovery()), Known(before, Basis.RECORDED), Schemas())


@pytest.mark.parametrize(
    "managed",
    [
        [OTHER],
        [OTHER, owned({"f:data": {"f:a": {}}})],
        [OTHER, owned({"f:data": {"f:gone": {}}}, subresource="status")],
        [OTHER, owned({"f:metadata": {"f:finalizers": {".": {}, 'v:"f"': {}}}})],
    ],
    ids=[
        "never applied",
        "what it owns is there still",
        "owned through a subresource",
        "an item of a list that is there",
    ],
)
def test_what_a_configuration_names_takes_its_value(managed: list[Any], pod_record: Record) -> None:
    before = config_map(managed, data={"a": "1", "b": "2"}, metadata={"labels": {"b": "x"}})
    found = applied(pod_record, before, data={"a": "3"}, metadata={"labels": {"a": "y"}, "finalizers": ["f"]})
    assert isinstance(found, Known)
    assert found.value["data"] == {"a": "3", "b": "2"}
    assert found.value["metadata"]["labels"] == {"a": "y", "b": "x"}
    assert found.value["metadata"]["finalizers"] == ["f"]
    assert [hole.path for hole in found.holes] == [("metadata", "managedFields")]


@pytest.mark.parametrize(
    ("managed", "left"),
    [
        ([owned({"f:data": {"f:b": {}}})], {"metadata": {"finalizers": ["e"]}}),
        ([owned({"f:metadata": {"f:finalizers": {'v:"e"': {}}}})], {"data": {"b": "2"}}),
        ([owned({"f:data": {"f:b": {}}}, manager="other")], {"data": {"b": "2"}, "metadata": {"finalizers": ["e"]}}),
    ],
    ids=["a field", "an item of a set", "another manager's field"],
)
def test_what_it_had_applied_and_leaves_out_goes_away(managed: Any, left: dict[str, Any], pod_record: Record) -> None:
    before = config_map(managed, data={"b": "2"}, metadata={"finalizers": ["e"]})
    found = applied(pod_record, before, data={"a": "3"})
    assert isinstance(found, Known)
    found = found.without(("metadata", "managedFields"))
    expected = config_map(None, data={"a": "3", **left.get("data", {})}, metadata=left.get("metadata", {}))
    assert found.value == expected


def test_without_managed_fields_what_it_leaves_out_may_go_away(pod_record: Record) -> None:
    assert isinstance(applied(pod_record, config_map(None, data={"b": "2"}), data={"a": "3"}), Missing)


def test_a_list_is_merged_by_item(pod_record: Record) -> None:
    before = config_map([OTHER], metadata={"finalizers": ["e"]})
    found = applied(pod_record, before, data={"a": "1"}, metadata={"finalizers": ["f"]})
    assert isinstance(found, Known)
    assert found.value["metadata"]["finalizers"] == ["e", "f"]
    assert [hole.path for hole in found.holes] == [("metadata", "managedFields")]
