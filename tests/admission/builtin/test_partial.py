"""Plugins and objects that are known only in part: a plugin's answer is that about the whole object, or it is unknown.

An unknown field of any object, at any depth, never ends in an error about its Python type.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest
from msgspec.structs import replace

from replay.admission.builtin.plugin import Plugin, PluginCluster
from replay.admission.builtin.pod.service_account import ServiceAccount
from replay.admission.builtin.resource_quota.plugin import ResourceQuota
from replay.admission.builtin.run import PluginResult, ask
from replay.case.plugin import PluginConfig, PluginWorld, configured_plugin, read_config
from replay.kube.admission_request import attributes_of
from replay.kube.attributes import Attributes, Missing, Operation, PartialObject, UserInfo
from replay.kube.gvk import GroupVersionKind, GroupVersionResource
from replay.kube.lister import Lister
from replay.kube.plugin import MOUNT_PATH
from replay.reconstruct.snapshot import numbered_lines, read_snapshot
from tests.admission.builtin.test_corpus import CONFIGS, SHARED

DRAWS = 60
"""Fields that are made unknown for each configuration."""
UNKNOWN = "it was made unknown"

JSONPath = tuple[str | int, ...]


def paths(value: Any, at: JSONPath = ()) -> Iterator[JSONPath]:
    """Every place in an object but the object itself."""
    items: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*at, key)
        yield from paths(inner, (*at, key))


def without(value: Any, path: JSONPath) -> PartialObject:
    """An object of which one place is not known."""
    missing = Missing("object." + ".".join(map(str, path)), UNKNOWN)
    value = copy.deepcopy(value)
    inner = value
    for part in path[:-1]:
        inner = inner[part]
    inner[path[-1]] = missing
    return PartialObject(value, (missing,))


class PartialLister:
    """A lister whose objects lack one field each, drawn at random."""

    def __init__(self, lister: Lister, draw: random.Random) -> None:
        self._lister = lister
        self._draw = draw

    def get(self, kind: GroupVersionKind, namespace: str, name: str) -> Any:
        return self._partial(self._lister.get(kind, namespace, name))

    def list(self, kind: GroupVersionKind, namespace: str | None) -> Sequence[Any] | Missing:
        objects = self._lister.list(kind, namespace)
        return objects if isinstance(objects, Missing) else [self._partial(each) for each in objects]

    def _partial(self, value: Any) -> Any:
        places = list(paths(value)) if isinstance(value, dict) else []
        return without(value, self._draw.choice(places)) if places else value


def told(result: PluginResult) -> Any:
    return orjson.loads(orjson.dumps(result, default=lambda each: getattr(each, "__dict__", str(each))))


def attempts(config: Path) -> Iterator[tuple[Plugin, Attributes, PluginCluster, Attributes, PluginCluster]]:
    """A plugin, then attributes and cluster as they are, then with one unknown field."""
    draw = random.Random(config.name)
    read = read_config(config, config.parent.name)
    world = PluginWorld(read, read_snapshot(SHARED / "recordings" / "shop" / "cluster.jsonl.zst"))
    cases = [orjson.loads(line) for _, line in numbered_lines(config.parent / "requests.jsonl.zst")]
    for _ in range(DRAWS):
        attributes = attributes_of(draw.choice(cases)["request"])
        world.mention(attributes.namespace)
        partial, cluster = attributes, world.cluster
        field = draw.choice(["object", "old_object", "cluster"])
        if field == "cluster":
            cluster = replace(world.cluster, lister=PartialLister(world.lister, draw))
        else:
            value = getattr(attributes, field)
            places = list(paths(value)) if isinstance(value, dict) else []
            if places:
                partial = replace(attributes, **{field: without(value, draw.choice(places))})
        yield configured_plugin(read), attributes, world.cluster, partial, cluster


@pytest.mark.shared
@pytest.mark.slow
@pytest.mark.skipif(not CONFIGS, reason="the corpus is not beside the checkout")
@pytest.mark.parametrize("config", CONFIGS, ids=lambda path: f"{path.parent.name} {path.stem.removeprefix('config-')}")
def test_an_answer_is_that_of_the_whole_object_or_unknown(config: Path) -> None:
    for plugin, attributes, cluster, partial, partial_cluster in attempts(config):
        fresh = copy.deepcopy(plugin)
        found = ask(plugin, partial, partial_cluster)
        if found.unknown is not None:
            assert "not of its kind" not in found.unknown.reason
            continue
        whole = ask(fresh, attributes, cluster)
        assert found.allowed == whole.allowed
        if attributes.resource.resource == "pods" or plugin.name != "PodSecurity":
            # Pod Security never refuses other objects: where their fields are unknown, it does not warn either.
            assert found.validate == whole.validate


QUOTA = {
    "apiVersion": "v1",
    "kind": "ResourceQuota",
    "metadata": {"name": "q", "namespace": "n"},
    "status": {"used": {}},
}
SERVICE = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s", "namespace": "n", "resourceVersion": "1"}}


@pytest.mark.parametrize(
    ("name", "is_known"), [("services", True), ("count/services", True), ("services.loadbalancers", False)]
)
def test_a_quota_of_a_number_of_objects_reads_none_of_an_update(name: str, is_known: bool) -> None:
    hard = {name: "1"}
    quota = {**QUOTA, "spec": {"hard": hard}, "status": {"hard": hard, "used": hard}}
    world = PluginWorld(PluginConfig("ResourceQuota"), [quota])
    world.mention("n")
    kind, resource = GroupVersionKind("", "v1", "Service"), GroupVersionResource("", "v1", "services")
    old = PartialObject({**SERVICE, "spec": Missing("oldObject.spec", UNKNOWN)}, (Missing("oldObject.spec", UNKNOWN),))
    new = {**SERVICE, "spec": {"type": "LoadBalancer"}}
    attributes = Attributes(
        Operation.UPDATE, kind, resource, "", "n", "s", UserInfo("jane"), object=new, old_object=old
    )
    found = ask(ResourceQuota.configured(None, {}), attributes, world.cluster)
    assert (found.unknown is None) is is_known


@pytest.mark.parametrize(
    ("mounts", "is_known"),
    [
        pytest.param([{"name": "own", "mountPath": MOUNT_PATH}], True, id="each container has a mount"),
        pytest.param([], False, id="a container lacks the mount"),
    ],
)
def test_the_service_account_reads_volumes_only_to_mount_the_token(mounts: Any, is_known: bool) -> None:
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a", "namespace": "n"}}
    world = PluginWorld(PluginConfig("ServiceAccount"), [account])
    world.mention("n")
    name = Missing("object.spec.volumes[0].name", UNKNOWN)
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "n"},
        "spec": {
            "serviceAccountName": "a",
            "containers": [{"name": "c", "volumeMounts": mounts}],
            "volumes": [{"name": name}],
        },
    }
    attributes = Attributes(
        Operation.CREATE,
        GroupVersionKind("", "v1", "Pod"),
        GroupVersionResource("", "v1", "pods"),
        "",
        "n",
        "p",
        UserInfo("jane"),
        object=PartialObject(pod, (name,)),
    )
    found = ask(ServiceAccount.configured(None, {}), attributes, world.cluster)
    assert (found.unknown is None) is is_known
