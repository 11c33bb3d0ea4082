"""Resources of a whole pod (`podRequests`, `podLimits` of the plugins; `component-helpers/resource`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from replay.json import JSON
from replay.kube.quantity import Quantity, parse_quantity

Amounts = Mapping[str, Quantity]
"""Quantities by resource name."""

_POD_LEVEL: Final = ("cpu", "memory")


def amounts(resource_list: Mapping[str, str] | None) -> dict[str, Quantity]:
    """Return a resource list with parsed quantities."""
    return {name: parse_quantity(str(value)) for name, value in (resource_list or {}).items()}


def pod_amounts(spec: JSON, kind: str) -> dict[str, Quantity]:
    """Return the `requests` or `limits` of a pod.

    The sum of containers and sidecars, or the need of one init container together with the sidecars before it,
    whichever is more. For CPU and memory, the pod's own resources take precedence.
    """
    total = sum_of_containers(spec, lambda container: amounts((container.get("resources") or {}).get(kind)))
    of_pod = amounts((spec.get("resources") or {}).get(kind))
    return total | {name: value for name, value in of_pod.items() if name in _POD_LEVEL}


def sum_of_containers(spec: JSON, amounts_of: Callable[[JSON], Amounts]) -> dict[str, Quantity]:
    """Return the containers' combined resources, given a function for each (`aggregateContainerResourcesByFn`)."""
    total: dict[str, Quantity] = {}
    for container in spec.get("containers") or ():
        add(total, amounts_of(container))
    sidecars: dict[str, Quantity] = {}
    start: dict[str, Quantity] = {}
    for container in spec.get("initContainers") or ():
        own = dict(amounts_of(container))
        # A sidecar keeps running, so it counts with the containers and with each later init container.
        if container.get("restartPolicy") == "Always":
            add(total, own)
            add(sidecars, own)
            own = sidecars
        else:
            add(own, sidecars)
        raise_to(start, own)
    raise_to(total, start)
    return total


def add(total: dict[str, Quantity], more: Amounts) -> None:
    """Add amounts to a sum, by name."""
    for name, value in more.items():
        total[name] = total[name].add(value) if name in total else value


def raise_to(total: dict[str, Quantity], other: Amounts) -> None:
    """Replace each amount by the greater of both."""
    for name, value in other.items():
        if name not in total or value.compare(total[name]) > 0:
            total[name] = value


def is_best_effort(pod: JSON) -> bool:
    """Return whether a pod requests no resources (`qos.GetPodQOS`). Its status decides first, then CPU and memory."""
    if quality := (pod.get("status") or {}).get("qosClass"):
        return bool(quality == "BestEffort")
    spec = pod["spec"]
    of_pod = spec.get("resources")
    every = [of_pod] if of_pod else [each.get("resources") for field in _FIELDS for each in spec.get(field) or ()]
    return all(_asks_for_nothing(each or {}) for each in every)


_FIELDS: Final = ("initContainers", "containers")


def _asks_for_nothing(resources: JSON) -> bool:
    amounts_of_kinds = (amounts(resources.get(kind)) for kind in ("requests", "limits"))
    return all(name not in each or each[name].sign == 0 for each in amounts_of_kinds for name in _POD_LEVEL)
