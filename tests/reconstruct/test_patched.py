"""What a patch makes of an object, where nothing but the patch is recorded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from replay.audit.event import RequestRecord
from replay.kube.attributes import Basis, Missing, PartialObject
from replay.kube.discovery import builtin_discovery
from replay.kube.schema import Schemas
from replay.reconstruct.mutation_input import patched
from replay.reconstruct.record.exchange import Exchange
from replay.reconstruct.record.known import Hole, Known, attribute

Record = Callable[..., RequestRecord]


def pod(*containers: dict[str, Any]) -> dict[str, Any]:
    """A pod as the server writes it, as far as these patches go."""
    defaults = {"resources": {}, "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}
    filled = [{**defaults, "imagePullPolicy": "Always", **container} for container in containers]
    spec = {
        "containers": filled,
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
    }
    spec |= {"securityContext": {}, "schedulerName": "default-scheduler", "enableServiceLinks": True}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": spec, "status": {}}


A, B = {"name": "a", "image": "a"}, {"name": "b", "image": "b"}
ORDER = {"$setElementOrder/containers": [{"name": "a"}, {"name": "b"}]}


def result(record: RequestRecord, before: dict[str, Any], *holes: Hole) -> Any:
    known = patched(Exchange(record, builtin_discovery()), Known(before, Basis.RECORDED, holes), Schemas())
    return attribute(known, "object")


def paths(found: Any) -> set[str]:
    if isinstance(found, Missing):
        return {found.path}
    return {of.path for of in found.missing if not of.path.endswith("managedFields")}


@pytest.mark.parametrize(
    ("patch", "after"),
    [
        pytest.param(
            {"spec": {**ORDER, "containers": [B]}}, pod(A, B), id="strategic, with the defaults of a new container"
        ),
        pytest.param(
            {"spec": {**ORDER, "containers": [{"name": "a", "image": "c"}]}},
            pod({**A, "image": "c"}),
            id="strategic by key",
        ),
        pytest.param({"spec": {"containers": [pod(A)["spec"]["containers"][0]]}}, pod(A), id="both forms agree"),
        pytest.param(
            [{"op": "add", "path": "/spec/containers/1", "value": B}],
            pod(A, B),
            id="a JSON patch, and what it leaves out",
        ),
        pytest.param({"spec": {"terminationGracePeriodSeconds": None}}, pod(A), id="what is removed is defaulted"),
    ],
)
def test_a_patch_of_a_built_in_kind(patch: Any, after: dict[str, Any], pod_record: Record) -> None:
    found = result(pod_record("patch", code=403, request=patch), pod(A))
    assert isinstance(found, PartialObject)
    assert paths(found) == set()
    assert {**found.value, "metadata": {"name": "web"}} == after


def test_lists_without_a_directive_may_be_replaced_or_merged(pod_record: Record) -> None:
    found = result(pod_record("patch", code=403, request={"spec": {"containers": [B]}}), pod(A))
    assert paths(found) == {"object.spec.containers"}


def test_a_list_with_an_unknown_part_is_not_put_into_order(pod_record: Record) -> None:
    hole = Hole(("spec", "containers", 0, "image"), "why")
    found = result(pod_record("patch", code=403, request={"spec": {**ORDER, "containers": [B]}}), pod(A), hole)
    assert "object.spec.containers" in paths(found)
