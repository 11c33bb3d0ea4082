"""What the plugin LimitRanger adds to a pod that is created: the defaults of the namespace's LimitRanges.

`k8s.io/kubernetes/plugin/pkg/admission/limitranger` (`mergePodResourceRequirements`): only what a container does not say itself,
with an annotation that tells what was added. It comes before all other plugins that change pods.
"""

from __future__ import annotations

from collections.abc import Iterator

from replay.json import JSON
from replay.kube.attributes import Missing, PartialObject
from replay.kube.gvk import GroupVersionKind
from replay.kube.lister import Lister
from replay.reconstruct.record.known import Hole, Known, get

LIMIT_RANGE = GroupVersionKind("", "v1", "LimitRange")
ANNOTATION = "kubernetes.io/limit-ranger"
_FIELDS = (("containers", "container"), ("initContainers", "init container"))


def with_limits(pod: Known, namespace: str, shown: JSON, lister: Lister) -> Known:
    """The pod with its defaults: those that the stored pod shows, else those of the LimitRanges that are known."""
    if shown is not None:
        return _as_shown(pod, shown)
    ranges = lister.list(LIMIT_RANGE, namespace)
    if isinstance(ranges, Missing) or any(isinstance(each, (Missing, PartialObject)) for each in ranges):
        return pod.with_holes(_holes(pod, "the LimitRanges of its namespace were changing"))
    defaults = [each for each in map(_defaults, ranges) if any(each.values())]
    if len(defaults) > 1:
        return pod.with_holes(_holes(pod, "several LimitRanges have defaults, and they have no order"))
    return _with_defaults(pod, defaults[0]) if defaults else pod


def _defaults(limit_range: JSON) -> dict[str, dict[str, str]]:
    """Limits and requests of a container that says nothing; a later item of the list wins."""
    found: dict[str, dict[str, str]] = {"limits": {}, "requests": {}}
    for item in get(limit_range, ("spec", "limits")) or ():
        if item.get("type") == "Container":
            found["limits"].update(item.get("default") or {})
            found["requests"].update(item.get("defaultRequest") or {})
    return found


def _with_defaults(pod: Known, defaults: dict[str, dict[str, str]]) -> Known:
    told: list[str] = []
    fields: dict[str, JSON] = {}
    for field, noun in _FIELDS:
        containers = list(get(pod.value, ("spec", field)) or ())
        for index, container in enumerate(containers):
            resources = dict(container.get("resources") or {})
            for kind, word in (("requests", "request"), ("limits", "limit")):
                own = resources.get(kind) or {}
                added = {name: value for name, value in defaults[kind].items() if name not in own}
                if added:
                    resources[kind] = {**own, **added}
                    told.append(f"{', '.join(sorted(added))} {word} for {noun} {container.get('name', '')}")
            if resources != (container.get("resources") or {}):
                containers[index] = {**container, "resources": resources}
                fields[field] = containers
    if not told:
        return pod
    text = f"LimitRanger plugin set: {'; '.join(told)}"
    return pod.with_fields(("spec",), fields).with_value(("metadata", "annotations", ANNOTATION), text)


def _as_shown(pod: Known, shown: JSON) -> Known:
    """Where the stored pod carries the annotation, what its containers have and the client did not send."""
    path = ("metadata", "annotations", ANNOTATION)
    text = get(shown, path)
    if text is None or get(pod.value, path) == text:
        return pod
    fields: dict[str, JSON] = {}
    for field, _ in _FIELDS:
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
    for field, _ in _FIELDS:
        for index in range(len(get(pod.value, ("spec", field)) or ())):
            for kind in ("limits", "requests"):
                yield Hole(("spec", field, index, "resources", kind), reason)
