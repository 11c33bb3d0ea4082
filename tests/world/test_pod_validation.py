"""Rules of pods and services that an update in another world breaks."""

from __future__ import annotations

from typing import Any

import pytest

from replay.json import FieldPath
from replay.kube.attributes import Basis
from replay.kube.gvk import GroupResource
from replay.reconstruct.record.known import Hole, Known
from replay.world.pod_validation import changes_ephemeral, changes_quality, is_invalid_pod
from replay.world.validation import changes_immutable, lacks_fields


def known(spec: dict[str, Any], *open_paths: FieldPath) -> Known:
    return Known({"kind": "Pod", "spec": spec}, Basis.RECORDED, tuple(Hole(path, "open") for path in open_paths))


def pod(requests: dict[str, str], limits: dict[str, str]) -> Known:
    return known({"containers": [{"name": "c", "image": "i", "resources": {"requests": requests, "limits": limits}}]})


BOTH = {"cpu": "1", "memory": "1Gi"}
DEADLINE = ("spec", "activeDeadlineSeconds")


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(pod({}, {}), pod({"cpu": "1"}, {}), True, id="best effort becomes burstable"),
        pytest.param(pod({"cpu": "1"}, {}), pod({"cpu": "2"}, {}), False, id="burstable"),
        pytest.param(pod(BOTH, BOTH), pod({}, BOTH), False, id="a request that is missing is the limit"),
        pytest.param(pod(BOTH, BOTH), pod({"cpu": "500m"}, BOTH), True, id="guaranteed becomes burstable"),
        pytest.param(pod({"cpu": "0"}, {}), pod({"cpu": "1"}, {}), True, id="nothing is asked for"),
        pytest.param(pod({"cpu": "x"}, {}), pod({}, {}), False, id="no quantity"),
        pytest.param(known({}, ("spec",)), pod({"cpu": "1"}, {}), False, id="a pod that is not known"),
        pytest.param(
            known({"containers": [{"name": "c"}]}, ("spec", "containers", 0, "imagePullPolicy")),
            pod({"cpu": "1"}, {}),
            True,
            id="another field of a container is not known",
        ),
        pytest.param(
            known({"containers": [{"name": "c"}]}, ("spec", "containers", 0, "resources", "limits")),
            pod({"cpu": "1"}, {}),
            False,
            id="its resources are not known",
        ),
    ],
)
def test_quality_of_service(old: Known, new: Known, expected: bool) -> None:
    assert changes_quality(old, new) is expected


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(known({"activeDeadlineSeconds": 60}), known({"activeDeadlineSeconds": 90}), True, id="later"),
        pytest.param(known({"activeDeadlineSeconds": 60}), known({"activeDeadlineSeconds": 30}), False, id="earlier"),
        pytest.param(known({"activeDeadlineSeconds": 60}), known({}), True, id="taken away"),
        pytest.param(known({}), known({"activeDeadlineSeconds": 90}), False, id="new"),
        pytest.param(known({"activeDeadlineSeconds": 60}, DEADLINE), known({}), False, id="not known"),
    ],
)
def test_deadlines(old: Known, new: Known, expected: bool) -> None:
    assert changes_immutable(GroupResource("", "pods"), old, new) is expected


def debugged(image: str, *open_paths: FieldPath, **fields: str) -> Known:
    return known({"ephemeralContainers": [{"name": "d", "image": image, **fields}]}, *open_paths)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(debugged("i"), debugged("j"), True, id="another image"),
        pytest.param(debugged("i"), known({}), True, id="taken away"),
        pytest.param(known({}), debugged("i"), False, id="new"),
        pytest.param(debugged("i", imagePullPolicy="Always"), debugged("i"), False, id="a default is left out"),
        pytest.param(debugged("i", ("spec", "ephemeralContainers")), debugged("j"), False, id="not known"),
    ],
)
def test_ephemeral_containers(old: Known, new: Known, expected: bool) -> None:
    assert changes_ephemeral(old, new) is expected


def secured(kind: str, **context: Any) -> dict[str, Any]:
    spec = {
        "containers": [{"name": "c", "image": "i", "securityContext": {"allowPrivilegeEscalation": False, **context}}]
    }
    if kind == "Pod":
        return {"kind": kind, "spec": spec}
    template = {"template": {"spec": spec}}
    return {"kind": kind, "spec": {"jobTemplate": {"spec": template}} if kind == "CronJob" else template}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(secured("Pod"), False, id="may not escalate"),
        pytest.param(secured("Pod", privileged=True), True, id="may not escalate and is privileged"),
        pytest.param(secured("Deployment", capabilities={"add": ["CAP_SYS_ADMIN"]}), True, id="all capabilities"),
        pytest.param(secured("Deployment", capabilities={"add": ["SYS_ADMIN"]}), False, id="spelled otherwise"),
        pytest.param(secured("CronJob", privileged=True), True, id="the template of a CronJob"),
        pytest.param({"kind": "Pod", "spec": {"activeDeadlineSeconds": -1}}, True, id="a deadline below zero"),
    ],
)
def test_pods_that_are_invalid_by_themselves(value: dict[str, Any], expected: bool) -> None:
    assert is_invalid_pod(value) is expected


@pytest.mark.parametrize(
    ("ports", "expected"),
    [
        pytest.param([{"port": 1}], False, id="one port needs no name"),
        pytest.param([{"port": 1, "name": "a"}, {"port": 2}], True, id="one of two has none"),
        pytest.param([{"port": 1, "name": "a"}, {"port": 2, "name": "b"}], False, id="both have one"),
    ],
)
def test_ports_of_services(ports: list[dict[str, Any]], expected: bool) -> None:
    assert lacks_fields(GroupResource("", "services"), known({"ports": ports}), creates=False) is expected
