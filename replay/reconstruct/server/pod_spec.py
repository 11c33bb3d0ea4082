"""Copy of a pod's spec that may be changed in place."""

from __future__ import annotations

from replay.json import JSON

_CONTAINERS = ("initContainers", "containers")


def own_spec(pod: JSON) -> dict[str, JSON]:
    """Return a pod's spec with copied containers, because states of the history share theirs."""
    spec = dict((pod or {}).get("spec") or {})
    for field in _CONTAINERS:
        if spec.get(field):
            spec[field] = [_own_container(each) for each in spec[field]]
    return spec


def _own_container(container: JSON) -> JSON:
    resources = container.get("resources")
    return {**container, "resources": dict(resources)} if resources else dict(container)
