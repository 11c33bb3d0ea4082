"""The object with which the mutating policies of a candidate begin, where mutators of the time may have changed it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from replay.audit.event import RequestRecord
from replay.kube.attributes import Attributes, Missing, Operation, PartialObject
from replay.reconstruct.cluster import Cluster
from replay.reconstruct.reconstructor import Reconstructor
from replay.reconstruct.record.exchange import Exchange

Record = Callable[..., RequestRecord]
CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.com", "uid": "c"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {"type": "object", "properties": {"size": {"type": "integer", "default": 3}}}
                        },
                    }
                },
            }
        ],
    },
}
WIDGETS = {"resource": "widgets", "apiGroup": "example.com", "apiVersion": "v1"}
MAPS = {"resource": "configmaps", "apiVersion": "v1"}
APPLY = "/api/v1/namespaces/shop/configmaps/web?fieldManager=me"
STORED = {"uid": "u", "resourceVersion": "6", "creationTimestamp": "2026-01-01T00:00:00Z", "namespace": "shop"}


def policies_on(*operations: Operation) -> Callable[[Exchange, Operation], bool]:
    return lambda _exchange, operation: operation in operations


ANY = policies_on(Operation.CREATE, Operation.UPDATE)


def before(records: list[RequestRecord], mutators: Callable[[Exchange, Operation], bool] = ANY) -> Any:
    """The object of the last request before mutation."""
    *_, last = Reconstructor(Cluster([CRD]), mutators=mutators).requests(records)
    found = last.before_mutation
    assert isinstance(found, Attributes)
    return found.object


def config_map(labels: dict[str, str], revision: str = "", **metadata: Any) -> dict[str, Any]:
    stored = {**STORED, "resourceVersion": revision} if revision else {}
    return {
        "kind": "ConfigMap",
        "apiVersion": "v1",
        "metadata": {"name": "web", **stored, "labels": labels, **metadata},
    }


def widget(spec: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "web", **metadata}, "spec": spec}


def test_an_apply_that_creates_is_its_configuration_with_defaults(pod_record: Record) -> None:
    """What a mutating policy of the time added stands in the response alone."""
    applied = pod_record(
        "patch",
        code=201,
        uri=APPLY,
        ref=MAPS,
        request=config_map({"a": "1"}),
        response=config_map({"a": "1", "by": "p"}, "6"),
    )
    assert before([applied]) == config_map({"a": "1"}, namespace="shop")
    uri = "/apis/example.com/v1/namespaces/shop/widgets/web?fieldManager=me"
    custom = pod_record(
        "patch", code=201, uri=uri, ref=WIDGETS, request=widget({}), response=widget({"size": 9}, **STORED)
    )
    assert before([custom]) == widget({"size": 3}, namespace="shop")


def test_an_apply_that_was_refused_is_its_configuration_too(pod_record: Record) -> None:
    created = pod_record("create", 2, code=201, ref=MAPS, response=config_map({}, "6"))
    refused = pod_record("patch", 0, code=422, uri=APPLY, ref=MAPS, request=config_map({"a": "1"}))
    records = Reconstructor(Cluster([CRD]), mutators=ANY).requests([refused, created])
    found = next(iter(records)).before_mutation
    assert isinstance(found, Attributes)
    assert found.operation is Operation.CREATE
    assert isinstance(found.object, PartialObject)
    assert found.object.value["metadata"]["labels"] == {"a": "1"}


def test_an_update_that_creates_is_its_body(pod_record: Record) -> None:
    """Its system fields are wiped by the store, not before admission."""
    body = config_map({"a": "1"}, creationTimestamp="2025-01-01T00:00:00Z")
    put = pod_record("update", code=201, ref=MAPS, request=body, response=config_map({"a": "1", "by": "p"}, "6"))
    assert before([put]) == config_map({"a": "1"}, creationTimestamp="2025-01-01T00:00:00Z", namespace="shop")


OLD = config_map({"a": "1"}, "5")
PATCH = {"metadata": {"labels": {"b": "2"}}}


@pytest.mark.parametrize(
    ("mutators", "response", "expected"),
    [
        pytest.param(ANY, config_map({"a": "1", "b": "2"}, "6"), {"a": "1", "b": "2"}, id="as asked for"),
        pytest.param(ANY, config_map({"a": "1", "b": "2", "by": "p"}, "6"), {"a": "1", "b": "2"}, id="a policy added"),
        pytest.param(ANY, config_map({"a": "0", "b": "3"}, "6"), {"a": "1", "b": "2"}, id="a policy changed"),
        pytest.param(
            policies_on(Operation.CREATE),
            config_map({"a": "1", "b": "2", "c": "3"}, "6"),
            {"a": "1", "b": "2", "c": "3"},
            id="no policy of updates",
        ),
    ],
)
def test_a_patch_is_what_it_makes_of_the_old_object(
    mutators: Callable[[Exchange, Operation], bool],
    response: dict[str, Any],
    expected: dict[str, str],
    pod_record: Record,
) -> None:
    created = pod_record("create", 0, code=201, ref=MAPS, response=OLD)
    found = before([created, pod_record("patch", 2, ref=MAPS, request=PATCH, response=response)], mutators)
    value = found.value if isinstance(found, PartialObject) else found
    assert value["metadata"]["labels"] == expected


def test_what_a_policy_may_have_changed_is_not_known_without_the_old_object(pod_record: Record) -> None:
    patched = pod_record("patch", 2, ref=MAPS, request=PATCH, response=config_map({"a": "1", "b": "2"}, "6"))
    found = before([patched])
    assert isinstance(found, PartialObject | Missing)
    missing = found if isinstance(found, Missing) else found.missing[0]
    assert missing.reason.startswith("a mutating policy or webhook may have changed the object")
