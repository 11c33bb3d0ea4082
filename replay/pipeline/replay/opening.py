"""What quotas are taken to have in use when a log begins: what the snapshot says of them, or of the objects that they count."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from replay.admission.builtin.resource_quota.plugin import RESOURCE_QUOTA, ResourceQuota
from replay.json import JSON
from replay.kube.admissionregistration import ManifestSet
from replay.kube.discovery import Discovery
from replay.kube.gvk import GroupResource, split_api_version
from replay.kube.overlay import objects_by_kind
from replay.reconstruct.cluster import Cluster, key_of

_MICROSECONDS = 1_000_000


class Counted(NamedTuple):
    """An object that may count for a quota."""

    resource: GroupResource
    object: JSON


def open_books(plugin: ResourceQuota, manifests: ManifestSet, cluster: Cluster, begin: int) -> None:
    """Charge new quotas of a set with the objects of the snapshot that were there before `begin` (microseconds)."""
    for (namespace, name), quota in _new_quotas(manifests, cluster):
        plugin.begin(
            namespace, name, quota, [(each.resource, each.object) for each in _there(cluster, namespace, begin)]
        )


def _new_quotas(manifests: ManifestSet, cluster: Cluster) -> Iterator[tuple[tuple[str, str], JSON]]:
    quota_names = {key[2:] for key in cluster.keys(RESOURCE_QUOTA)}
    for name, quota in objects_by_kind(manifests.objects).get(("", "ResourceQuota"), {}).items():
        if name not in quota_names:
            yield name, quota


def _there(cluster: Cluster, namespace: str, begin: int) -> Iterator[Counted]:
    """The objects of a namespace that were created before an instant, as the snapshot has them."""
    kinds = _resources(cluster.discovery)
    for obj in cluster.snapshot:
        group, kind, own, _ = key_of(obj)
        created = (obj.get("metadata") or {}).get("creationTimestamp")
        if own == namespace and (group, kind) in kinds and isinstance(created, str) and _time(created) < begin:
            yield Counted(kinds[group, kind], obj)


def _resources(discovery: Discovery) -> Mapping[tuple[str, str], GroupResource]:
    return {(each.kind.group, each.kind.kind): each.resource.group_resource for each in discovery}


def _time(text: str) -> int:
    try:
        return round(datetime.fromisoformat(text).timestamp() * _MICROSECONDS)
    except ValueError:
        return 0


def assumptions(sets: Sequence[ManifestSet], cluster: Cluster) -> Iterator[str]:
    """What was assumed of usage over time, in a sentence each."""
    new = sorted({"/".join(name) for manifests in sets for name, _ in _new_quotas(manifests, cluster)})
    if any(each.name in ("ResourceQuota", "EventRateLimit") for manifests in sets for each in manifests.builtin):
        yield (
            "quotas and rate limits were followed in the order of admission, one request after the other: what was refused "
            "is not charged, what is tried again because of it is not added, and nothing is recalculated meanwhile"
        )
    for name in new:
        namespace = name.partition("/")[0]
        kinds = {split_api_version(str(obj.get("apiVersion")))[0] + str(obj.get("kind")) for obj in cluster.snapshot}
        own = [obj for obj in cluster.snapshot if key_of(obj)[2] == namespace]
        begin = "what the snapshot has there from before the log" if own and "Pod" in kinds else "nothing"
        yield f"ResourceQuota {name} is taken to begin with {begin} in use"
