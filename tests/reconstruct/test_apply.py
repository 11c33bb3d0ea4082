"""Apply configurations, where nothing but they and the object before are recorded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from replay.audit.event import RequestRecord
from replay.kube.attributes import Basis, Missing
from replay.kube.discovery import builtin_discovery
from replay.reconstruct.mutation_input import patched
from replay.reconstruct.record.exchange import Exchange
from replay.reconstruct.record.known import Known

Record = Callable[..., RequestRecord]
OTHER = {"manager": "other", "operation": "Update", "fieldsV1": {"f:metadata": {"f:labels": {"f:b": {}}}}}
URI = "/api/v1/namespaces/shop/configmaps/c?fieldManager=me"
REFERENCE = {"resource": "configmaps", "name": "c"}


def owned(fields: dict[str, Any], **entry: str) -> dict[str, Any]:
    return {"manager": "me", "operation": "Apply", "fieldsV1": fields, **entry}


def config_map(managed: list[Any] | None, **parts: Any) -> dict[str, Any]:
    metadata = {"name": "c", "namespace": "shop", **parts.pop("metadata", {})}
    if managed is not None:
        metadata["managedFields"] = managed
    return {"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata, **parts}


def applied(record: Record, before: dict[str, Any], **parts: Any) -> Known | Missing:
    """The object after a refused apply of a ConfigMap with some parts."""
    refused = record("patch", code=422, message="denied", uri=URI, ref=REFERENCE, request=config_map(None, **parts))
    return patched(Exchange(refused, builtin_discovery()), Known(before, Basis.RECORDED))


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
    ("managed", "metadata"),
    [
        (None, {}),
        ([owned({"f:data": {"f:b": {}}})], {}),
        ([owned({"f:metadata": {"f:ownerReferences": {'k:{"uid":"u"}': {}}}})], {}),
        ([owned({"f:metadata": {"f:finalizers": {'v:"other"': {}}}})], {}),
    ],
    ids=["managed fields are omitted", "a field", "an item with a key", "an item of a set"],
)
def test_what_it_leaves_out_may_go_away(managed: Any, metadata: dict[str, Any], pod_record: Record) -> None:
    before = config_map(managed, data={"b": "2"}, metadata=metadata)
    assert isinstance(applied(pod_record, before, data={"a": "3"}), Missing)


def test_a_list_that_is_merged_by_item_stays_open(pod_record: Record) -> None:
    before = config_map([OTHER], metadata={"finalizers": ["e"]})
    found = applied(pod_record, before, data={"a": "1"}, metadata={"finalizers": ["f"]})
    assert isinstance(found, Known)
    assert found.value["data"] == {"a": "1"}
    assert {hole.path for hole in found.holes} == {("metadata", "managedFields"), ("metadata", "finalizers")}
