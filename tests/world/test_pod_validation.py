"""Rules of pods and services that an update in another world breaks."""

from __future__ import annotations

from typing import Any

import pytest

from replay.kube.attributes import Basis
from replay.kube.gvk import GroupResource
from replay.reconstruct.record.known import Hole, Known
from replay.world.pod_validation import changes_quality
from replay.world.validation import changes_immutable, lacks_fields


def known(spec: dict[str, Any], *open_paths: tuple[str, ...]) -> Known:
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
