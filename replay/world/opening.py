"""Assumed quota usage at the start of a log, from the snapshot's quotas or objects."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime

from replay.admission.builtin.resource_quota.book import CountedObject, QuotaBook
from replay.admission.builtin.resource_quota.plugin import RESOURCE_QUOTA
from replay.admission.ordered.registry import counts_requests
from replay.json import JSON
from replay.kube.admissionregistration import ManifestSet
from replay.kube.discovery import Discovery
from replay.kube.gvk import GroupResource, split_api_version
from replay.kube.overlay import objects_by_kind
from replay.reconstruct.cluster import Cluster, key_of

_MICROSECONDS = 1_000_000


def open_book(book: QuotaBook, namespaces: Collection[str] | None, cluster: Cluster, begin: int) -> None:
    """Enter the snapshot's objects that existed before `begin` (microseconds); `namespaces` None means all."""
    for namespace, counted in _objects_before(cluster, begin):
        if namespaces is None or namespace in namespaces:
            name = str(counted.object["metadata"]["name"])
            book.put(namespace, (str(counted.resource), name), counted)


def _new_quotas(manifests: ManifestSet, cluster: Cluster) -> Iterator[tuple[tuple[str, str], JSON]]:
    quota_names = {key[2:] for key in cluster.keys(RESOURCE_QUOTA)}
    for name, quota in objects_by_kind(manifests.objects).get(("", "ResourceQuota"), {}).items():
        if name not in quota_names:
            yield name, quota


def _objects_before(cluster: Cluster, begin: int) -> Iterator[tuple[str, CountedObject]]:
    """Yield the snapshot's objects that were created before a time, with their namespaces."""
    kinds = _resources(cluster.discovery)
    for obj in cluster.snapshot:
        group, kind, namespace, _ = key_of(obj)
        created = (obj.get("metadata") or {}).get("creationTimestamp")
        if namespace and (group, kind) in kinds and isinstance(created, str) and _time(created) < begin:
            yield namespace, CountedObject(kinds[group, kind], obj)


def _resources(discovery: Discovery) -> Mapping[tuple[str, str], GroupResource]:
    return {(each.kind.group, each.kind.kind): each.resource.group_resource for each in discovery}


def _time(text: str) -> int:
    try:
        return round(datetime.fromisoformat(text).timestamp() * _MICROSECONDS)
    except ValueError:
        return 0


def assumptions(sets: Sequence[ManifestSet], cluster: Cluster) -> Iterator[str]:
    """Yield assumptions about usage, one sentence each."""
    new = sorted({"/".join(name) for manifests in sets for name, _ in _new_quotas(manifests, cluster)})
    if counts_requests(sets):
        yield (
            "quotas and rate limits are followed in the order of admission; retries that a refusal would cause are not added"
        )
    for name in new:
        namespace = name.partition("/")[0]
        kinds = {split_api_version(str(obj.get("apiVersion")))[0] + str(obj.get("kind")) for obj in cluster.snapshot}
        own = [obj for obj in cluster.snapshot if key_of(obj)[2] == namespace]
        begin = "the objects of the snapshot" if own and "Pod" in kinds else "nothing: the snapshot has no pods"
        yield f"ResourceQuota {name} begins with {begin}"
