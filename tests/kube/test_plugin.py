"""Rows of what built-in mutating plugins write; whole results are compared."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from replay.kube.attributes import Missing, PartialObject
from replay.kube.plugin import (
    DEFAULTS,
    INGRESS_CLASS,
    MOUNT_PATH,
    STORAGE_CLASS,
    DefaultClass,
    annotation,
    container_defaults,
    fill_containers,
    global_default,
    token_source,
    token_volume_name,
    with_account,
    with_finalizer,
    with_not_ready_taint,
    with_token,
    with_tolerations,
)

LIMIT_RANGE = {
    "spec": {
        "limits": [
            {"type": "Container", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "100m", "memory": "1Mi"}},
            {"type": "Pod", "default": {"cpu": "9"}},
            {"type": "Container", "default": {"cpu": "2"}},
        ]
    }
}


@pytest.mark.parametrize(
    ("spec", "fields", "told"),
    [
        pytest.param({}, {}, [], id="no containers"),
        pytest.param(
            {"containers": [{"name": "a"}]},
            {
                "containers": [
                    {
                        "name": "a",
                        "resources": {"requests": {"cpu": "100m", "memory": "1Mi"}, "limits": {"cpu": "2"}},
                    }
                ]
            },
            ["cpu, memory request for container a", "cpu limit for container a"],
            id="a later item wins, names are sorted",
        ),
        pytest.param(
            {"containers": [{"resources": {"limits": {"cpu": "3"}, "requests": {"cpu": "1", "memory": "2Mi"}}}]},
            {},
            [],
            id="what is said stays",
        ),
        pytest.param(
            {
                "containers": [{"resources": {"limits": {"cpu": "3"}, "requests": {"cpu": "1", "memory": "2Mi"}}}],
                "initContainers": [{"resources": {"requests": {"cpu": "1", "memory": "1"}}}],
            },
            {"initContainers": [{"resources": {"requests": {"cpu": "1", "memory": "1"}, "limits": {"cpu": "2"}}}]},
            ["cpu limit for init container "],
            id="only the field that changes",
        ),
    ],
)
def test_defaults_of_containers(spec: Any, fields: Any, told: list[str]) -> None:
    filled = copy.deepcopy(spec)
    assert (fill_containers(filled, container_defaults(LIMIT_RANGE)), filled) == (told, {**spec, **fields})


def test_what_was_filled_in_is_told() -> None:
    assert annotation(["a", "b"]) == "LimitRanger plugin set: a; b"


_MOUNT = {"name": "t", "readOnly": True, "mountPath": MOUNT_PATH}
_OWN_MOUNT = {"name": "mine", "mountPath": MOUNT_PATH}
_VOLUME = {"name": "t", "projected": token_source()}


@pytest.mark.parametrize(
    ("spec", "fields"),
    [
        pytest.param({}, {}, id="no containers, no volume"),
        pytest.param({"containers": [{"volumeMounts": [_OWN_MOUNT]}]}, {}, id="something else is mounted there"),
        pytest.param(
            {"containers": [{}], "volumes": [{"name": "data"}]},
            {"containers": [{"volumeMounts": [_MOUNT]}], "volumes": [{"name": "data"}, _VOLUME]},
            id="after what the pod has",
        ),
        pytest.param(
            {"containers": [{"volumeMounts": [_OWN_MOUNT]}, {"name": "b"}]},
            {
                "containers": [{"volumeMounts": [_OWN_MOUNT]}, {"name": "b", "volumeMounts": [_MOUNT]}],
                "volumes": [_VOLUME],
            },
            id="where it lacks alone",
        ),
        pytest.param(
            {"initContainers": [{}], "volumes": [{"name": "kube-api-access-abcde"}]},
            {"initContainers": [{"volumeMounts": [{**_MOUNT, "name": "kube-api-access-abcde"}]}]},
            id="a volume that is there",
        ),
    ],
)
def test_the_token_of_a_pod(spec: Any, fields: Any) -> None:
    given = copy.deepcopy(spec)
    assert with_token(given, "t") == fields
    assert given == spec


def test_the_account_of_a_pod() -> None:
    assert [with_account({}), with_account({"serviceAccountName": "a"})] == [
        {"serviceAccountName": "default", "serviceAccount": "default"},
        {},
    ]
    assert [token_volume_name(None), token_volume_name({"volumes": [{}, {"name": "kube-api-access-x"}]})] == [
        None,
        "kube-api-access-x",
    ]


def _toleration(taint: str) -> dict[str, Any]:
    return {"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}


NOT_READY, UNREACHABLE = map(_toleration, DEFAULTS)


@pytest.mark.parametrize(
    ("spec", "fields"),
    [
        pytest.param({}, {"tolerations": [NOT_READY, UNREACHABLE]}, id="none"),
        pytest.param({"tolerations": [{"operator": "Exists"}]}, {}, id="everything"),
        pytest.param({"tolerations": [{"key": "", "effect": "NoExecute"}]}, {}, id="every key of the effect"),
        pytest.param(
            {"tolerations": [{"effect": "NoSchedule"}]},
            {"tolerations": [{"effect": "NoSchedule"}, NOT_READY, UNREACHABLE]},
            id="another effect",
        ),
        pytest.param({"tolerations": [UNREACHABLE]}, {"tolerations": [UNREACHABLE, NOT_READY]}, id="only what lacks"),
    ],
)
def test_tolerations(spec: Any, fields: Any) -> None:
    assert with_tolerations(spec, DEFAULTS) == fields


def test_what_is_written_on_creation() -> None:
    taint = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
    assert [
        with_finalizer({}, "f"),
        with_finalizer({"finalizers": ["e"]}, "f"),
        with_finalizer({"finalizers": ["f"]}, "f"),
    ] == [
        {"finalizers": ["f"]},
        {"finalizers": ["e", "f"]},
        {},
    ]
    assert [with_not_ready_taint({}), with_not_ready_taint({"taints": [{**taint, "value": "x"}]})] == [
        {"taints": [taint]},
        {},
    ]


def _class(name: str, created: str | None, **annotations: Any) -> Any:
    marks = {f"storageclass.kubernetes.io/{key.replace('_', '-')}": value for key, value in annotations.items()}
    return {"metadata": {"name": name, "creationTimestamp": created, "annotations": marks}}


@pytest.mark.parametrize(
    ("classes", "chosen"),
    [
        pytest.param([], None, id="none"),
        pytest.param([_class("a", "2026-01-01T00:00:00Z", is_default_class="false")], None, id="none is marked"),
        pytest.param(
            [
                _class("old", "2025-01-01T00:00:00Z", is_default_class="true"),
                _class("z", "2026-01-01T00:00:00Z", is_default_class="true"),
                _class("y", "2026-01-01T00:00:00Z", is_default_class="true"),
                _class("newest", "2027-01-01T00:00:00Z"),
            ],
            "y",
            id="the newest, then the first by name",
        ),
        pytest.param(
            [_class("a", None, is_default_class="true"), _class("b", "2026-01-01T00:00:00Z", is_default_class="true")],
            "b",
            id="without a time it is the oldest",
        ),
        pytest.param(
            [PartialObject(_class("a", None, is_default_class=Missing("", "?")), ())],
            Missing("", "another request changed a StorageClass at the same time"),
            id="a mark that is not known",
        ),
    ],
)
def test_the_default_class(classes: list[Any], chosen: str | Missing | None) -> None:
    assert STORAGE_CLASS.chosen(classes) == chosen


@pytest.mark.parametrize(
    ("default", "obj", "is_needed"),
    [
        pytest.param(STORAGE_CLASS, {}, True, id="nothing is said"),
        pytest.param(STORAGE_CLASS, {"spec": {"storageClassName": ""}}, False, id="the empty class"),
        pytest.param(
            INGRESS_CLASS,
            {"metadata": {"annotations": {"kubernetes.io/ingress.class": ""}}},
            False,
            id="old annotation",
        ),
    ],
)
def test_who_needs_a_class(default: DefaultClass, obj: Any, is_needed: bool) -> None:
    assert default.is_needed(obj) is is_needed


def test_the_global_default_priority() -> None:
    low, equal, plain = {"globalDefault": True}, {"globalDefault": True, "value": 0}, {"value": -1}
    assert global_default([plain, {"globalDefault": True, "value": 5}, low, equal]) is low
    assert global_default([plain]) is None
