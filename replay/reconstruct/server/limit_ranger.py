"""Defaults that the plugin LimitRanger adds to a created pod, from the namespace's LimitRanges.

The rule is in `replay.kube.plugin.limit_range`. LimitRanger runs before all other plugins that change pods.
"""

from __future__ import annotations

from collections.abc import Iterator

from replay.json import JSON
from replay.kube.attributes import Missing, PartialObject
from replay.kube.lister import Lister
from replay.kube.plugin.limit_range import (
    ANNOTATION,
    CONTAINERS,
    LIMIT_RANGE,
    ContainerDefaults,
    annotation,
    container_defaults,
    fill_containers,
)
from replay.reconstruct.record.known import Hole, Known, get
from replay.reconstruct.server.pod_spec import own_spec


def with_limits(pod: Known, namespace: str, shown: JSON, lister: Lister) -> Known:
    """Return the pod with its defaults: those of the stored pod, otherwise those of the known LimitRanges."""
    if shown is not None:
        return _with_shown_limits(pod, shown)
    ranges = lister.list(LIMIT_RANGE, namespace)
    if isinstance(ranges, Missing) or any(isinstance(each, (Missing, PartialObject)) for each in ranges):
        return pod.with_holes(_holes(pod, "another request changed a LimitRange of the namespace at the same time"))
    defaults = [each for each in map(container_defaults, ranges) if any(each.values())]
    # The plugin applies them in the order of its cache, which is random.
    if len(defaults) > 1:
        return pod.with_holes(
            _holes(pod, "several LimitRanges set defaults, and the server applies them in random order")
        )
    return _with_defaults(pod, defaults[0]) if defaults else pod


def _with_defaults(pod: Known, defaults: ContainerDefaults) -> Known:
    spec = own_spec(pod.value)
    annotation_parts = fill_containers(spec, defaults)
    if not annotation_parts:
        return pod
    fields = {field: spec[field] for field, _ in CONTAINERS if field in spec}
    return pod.with_fields(("spec",), fields).with_value(
        ("metadata", "annotations", ANNOTATION), annotation(annotation_parts)
    )


def _with_shown_limits(pod: Known, shown: JSON) -> Known:
    """Return the values that the stored pod's containers have and the client did not send.

    There are none without the annotation.
    """
    path = ("metadata", "annotations", ANNOTATION)
    text = get(shown, path)
    # A client that sends the annotation, as in a copy of a pod, also sends the values. So it shows no addition.
    if text is None or get(pod.value, path) == text:
        return pod
    fields: dict[str, JSON] = {}
    for field, _ in CONTAINERS:
        resources = {each.get("name"): each.get("resources") for each in get(shown, ("spec", field)) or ()}
        containers = [_filled(each, resources.get(each.get("name"))) for each in get(pod.value, ("spec", field)) or ()]
        if containers:
            fields[field] = containers
    return pod.with_fields(("spec",), fields).with_value(path, text)


def _filled(container: JSON, shown: JSON) -> JSON:
    own = container.get("resources") or {}
    filled = {
        kind: {**(values or {}), **(own.get(kind) or {})} for kind, values in (shown or {}).items() if kind != "claims"
    }
    return {**container, "resources": {**own, **filled}} if filled else container


def _holes(pod: Known, reason: str) -> Iterator[Hole]:
    yield Hole(("metadata", "annotations", ANNOTATION), reason)
    for field, _ in CONTAINERS:
        for index in range(len(get(pod.value, ("spec", field)) or ())):
            for kind in ("limits", "requests"):
                yield Hole(("spec", field, index, "resources", kind), reason)
