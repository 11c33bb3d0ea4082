"""Usage of a pod (`pkg/quota/v1/evaluator/core/pods.go`, `component-helpers/resource/helpers.go`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Final

from replay.admission.builtin.pod.resources import Amounts, add, amounts, raise_to, sum_of_containers
from replay.json import JSON
from replay.kube.pod import containers_of
from replay.kube.quantity import Quantity

ONE: Final = Quantity(1)
ENDED: Final = ("Failed", "Succeeded")
"""Phases of a finished pod."""
_COMPUTE: Final = ("cpu", "memory", "ephemeral-storage")
_POD_LEVEL: Final = ("cpu", "memory")
_HUGE_PAGES: Final = "hugepages-"
_DEVICE_CLASS: Final = "deviceclass.resource.kubernetes.io/"
_REQUESTS: Final = "requests."
_MUST_BE_SET: Final = frozenset({"cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"})
RESOURCES: Final = frozenset(
    {"count/pods", "pods", *_COMPUTE, *(f"{kind}.{name}" for kind in ("requests", "limits") for name in _COMPUTE)}
)


def counts_as_pod_resource(name: str) -> bool:
    """Return whether a name in a quota is a resource of pods."""
    if name in RESOURCES or name.startswith((_HUGE_PAGES, _REQUESTS + _HUGE_PAGES)):
        return True
    implicit = name.startswith(_REQUESTS + _DEVICE_CLASS)
    return (not _is_native(name) or implicit) and name.startswith(_REQUESTS)


def _is_native(name: str) -> bool:
    return "/" not in name or "kubernetes.io/" in name


def pod_usage(pod: JSON, now: int) -> dict[str, Quantity]:
    """Return a pod's usage at a time in microseconds. A finished pod counts only as an object (`PodUsageFunc`)."""
    usage = {"count/pods": ONE}
    return usage | _compute(_requests(pod), _limits(pod)) if is_charged(pod, now) else usage


def is_charged(pod: JSON, now: int) -> bool:
    """Return whether a pod is not finished (`QuotaV1Pod`). Without a time, a deletion counts as long over."""
    if (pod.get("status") or {}).get("phase") in ENDED:
        return False
    metadata = pod.get("metadata") or {}
    deletion, grace = metadata.get("deletionTimestamp"), metadata.get("deletionGracePeriodSeconds")
    if deletion is None or grace is None:
        return True
    end = datetime.fromisoformat(deletion).timestamp() + grace
    return bool(now) and now <= end * 1_000_000


def _compute(requests: Amounts, limits: Amounts) -> dict[str, Quantity]:
    """Return the usage of requests and limits (`podComputeUsageHelper`)."""
    usage = {"pods": ONE}
    for name in _COMPUTE:
        if name in requests:
            usage[name] = usage[_REQUESTS + name] = requests[name]
        if name in limits:
            usage[f"limits.{name}"] = limits[name]
    for name, value in requests.items():
        if name.startswith(_HUGE_PAGES):
            usage[name] = usage[_REQUESTS + name] = value
        if (not _is_native(name) and not name.startswith(_REQUESTS)) or name.startswith(_DEVICE_CLASS):
            usage[_REQUESTS + name] = value
    return usage


def missing_constraints(pod: JSON, required: Iterable[str]) -> str:
    """Return which containers omit a value that a quota counts, empty if none do (`podEvaluator.Constraints`)."""
    of_pod = (pod["spec"].get("resources") or {}) if pod["spec"].get("resources") else {}
    # Resources of the pod stand for those of all containers, which need not name theirs then.
    if any(_is_pod_level(name) for kind in ("requests", "limits") for name in of_pod.get(kind) or {}):
        return ""
    missing: dict[str, set[str]] = {}
    counted_names = _MUST_BE_SET.intersection(required)
    for container in containers_of(pod["spec"], "containers", "initContainers"):
        resources = container.get("resources") or {}
        usage = _compute(amounts(resources.get("requests")), amounts(resources.get("limits")))
        for name in counted_names - set(usage):
            missing.setdefault(name, set()).add(str(container.get("name") or ""))
    texts = [f"{name} for: {','.join(sorted(names))}" for name, names in sorted(missing.items())]
    return f"must specify {'; '.join(texts)}" if texts else ""


def _is_pod_level(name: str) -> bool:
    return name in _POD_LEVEL or name.startswith(_HUGE_PAGES)


def _requests(pod: JSON) -> dict[str, Quantity]:
    """Return the maximum of requested, allocated and actual resources, with overhead (`PodRequests`)."""
    spec, statuses, infeasible = pod["spec"], _statuses(pod), _is_resize_infeasible(pod)

    def from_spec(container: JSON) -> Amounts:
        return amounts((container.get("resources") or {}).get("requests"))

    def allocated(container: JSON) -> Amounts:
        resources_allocated = statuses.get(container.get("name"), {}).get("allocatedResources")
        return (
            amounts(resources_allocated)
            if resources_allocated is not None
            else {}
            if infeasible
            else from_spec(container)
        )

    def actuated(container: JSON) -> Amounts:
        resources_actual = (statuses.get(container.get("name"), {}).get("resources") or {}).get("requests")
        return amounts(resources_actual) if resources_actual is not None else allocated(container)

    # An infeasible resize will not happen, so the requested amounts do not count.
    ways = [actuated, allocated] if infeasible else [from_spec, actuated, allocated]
    total: dict[str, Quantity] = {}
    for way in ways if statuses or infeasible else [from_spec]:
        raise_to(total, sum_of_containers(spec, way))
    # Resources of the pod replace the sums of its containers (`PodRequests`).
    total |= dict(_pod_resources(spec, "requests"))
    add(total, amounts(spec.get("overhead")))
    return total


def _limits(pod: JSON) -> dict[str, Quantity]:
    """Return the maximum of requested and actual limits, with overhead if there is a limit (`PodLimits`)."""
    spec, statuses, infeasible = pod["spec"], _statuses(pod), _is_resize_infeasible(pod)

    def from_spec(container: JSON) -> Amounts:
        return amounts((container.get("resources") or {}).get("limits"))

    def actuated(container: JSON) -> Amounts:
        resources_actual = (statuses.get(container.get("name"), {}).get("resources") or {}).get("limits")
        return amounts(resources_actual) if resources_actual is not None else {} if infeasible else from_spec(container)

    total = sum_of_containers(spec, actuated)
    if not infeasible:
        raise_to(total, sum_of_containers(spec, from_spec))
    total |= dict(_pod_resources(spec, "limits"))
    overhead = amounts(spec.get("overhead")).items()
    # Overhead raises a limit only if there is one. Otherwise it would limit an unlimited pod.
    add(total, {name: value for name, value in overhead if name in total and total[name].sign})
    return total


def _pod_resources(spec: JSON, kind: str) -> Iterator[tuple[str, Quantity]]:
    pod_amounts = amounts((spec.get("resources") or {}).get(kind))
    return ((name, value) for name, value in pod_amounts.items() if _is_pod_level(name))


def _statuses(pod: JSON) -> dict[str, JSON]:
    status = pod.get("status") or {}
    container_statuses = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    return {each.get("name"): each for each in container_statuses}


def _is_resize_infeasible(pod: JSON) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    pending: JSON = next((each for each in conditions if each.get("type") == "PodResizePending"), {})
    return bool(pending.get("reason") == "Infeasible")
