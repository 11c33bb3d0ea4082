"""`metadata.generation` as the strategy of a kind sets it (`pkg/registry/*/strategy.go`, Kubernetes 1.37).

Kinds that count generations begin with 1 and add one if certain parts of the object change. `status` updates never
count. The strategies of aggregated API servers are unknown.
"""

from __future__ import annotations

from replay.json import JSON, FieldPath
from replay.kube.discovery import APIResource
from replay.kube.gvk import GroupResource
from replay.reconstruct.record.known import Hole, Known, get

_PATH = ("metadata", "generation")
_OPEN = "it is not known whether the change increases the generation"
_SPEC: tuple[FieldPath, ...] = (("spec",),)
_WEBHOOKS: tuple[FieldPath, ...] = (("webhooks",),)

_COUNTED: dict[tuple[str, str], tuple[FieldPath, ...]] = {
    ("", "pods"): _SPEC,
    ("", "podtemplates"): (("template",),),
    ("", "replicationcontrollers"): _SPEC,
    ("admissionregistration.k8s.io", "mutatingadmissionpolicies"): _SPEC,
    ("admissionregistration.k8s.io", "mutatingadmissionpolicybindings"): _SPEC,
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"): _WEBHOOKS,
    ("admissionregistration.k8s.io", "validatingadmissionpolicies"): _SPEC,
    ("admissionregistration.k8s.io", "validatingadmissionpolicybindings"): _SPEC,
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations"): _WEBHOOKS,
    ("apiextensions.k8s.io", "customresourcedefinitions"): _SPEC,
    ("apps", "daemonsets"): _SPEC,
    ("apps", "deployments"): (("spec",), ("metadata", "annotations")),
    ("apps", "replicasets"): _SPEC,
    ("apps", "statefulsets"): _SPEC,
    ("autoscaling", "horizontalpodautoscalers"): _SPEC,
    ("batch", "cronjobs"): _SPEC,
    ("batch", "jobs"): _SPEC,
    ("discovery.k8s.io", "endpointslices"): (("addressType",), ("endpoints",), ("ports",), ("metadata", "labels")),
    ("flowcontrol.apiserver.k8s.io", "flowschemas"): _SPEC,
    ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations"): _SPEC,
    ("networking.k8s.io", "ingressclasses"): _SPEC,
    ("networking.k8s.io", "ingresses"): _SPEC,
    ("networking.k8s.io", "networkpolicies"): _SPEC,
    ("policy", "poddisruptionbudgets"): _SPEC,
    ("resource.k8s.io", "deviceclasses"): _SPEC,
    ("resource.k8s.io", "devicetaintrules"): _SPEC,
    ("resource.k8s.io", "resourceslices"): _SPEC,
    ("scheduling.k8s.io", "priorityclasses"): (),
    ("storage.k8s.io", "csidrivers"): _SPEC,
}
"""Built-in resources that count generations, and the fields whose change counts.

A PriorityClass keeps its first generation.
"""

_NOT_BEGUN = frozenset({("storage.k8s.io", "csidrivers")})
"""Resources whose generation is not set on creation."""


def created(state: Known, resource: GroupResource, api_resource: APIResource | None) -> Known:
    """Return a new object with its first generation. A kind that counts none keeps what its client sent."""
    if api_resource is None:
        return state.with_holes([Hole(_PATH, "it is not known whether objects of this kind have a generation")])
    if api_resource.custom or (resource in _COUNTED and resource not in _NOT_BEGUN):
        return state.with_value(_PATH, 1)
    return state


def changed(state: Known, old: Known, resource: GroupResource, api_resource: APIResource | None) -> Known:
    """Return a changed object with the generation of the old one or the next. Its status must be final already."""
    old_generation = get(old.value, _PATH)
    if any(hole.path == _PATH for hole in old.holes) or not (old_generation is None or isinstance(old_generation, int)):
        return state.with_holes([Hole(_PATH, "the log does not show the generation before the request")])
    if api_resource is None:
        return state.with_holes([Hole(_PATH, _OPEN)])
    paths = _everything(state.value, old.value) if api_resource.custom else _COUNTED.get(resource, ())
    counts = _is_change(state, old, paths)
    if counts is None:
        return state.with_holes([Hole(_PATH, _OPEN)])
    if counts:
        return state.with_value(_PATH, (old_generation or 0) + 1)
    return state.without(_PATH) if old_generation is None else state.with_value(_PATH, old_generation)


def _everything(value: JSON, old: JSON) -> tuple[FieldPath, ...]:
    """Return all paths of a custom resource except metadata.

    Source: `customresource.customResourceStrategy.PrepareForUpdate`.
    """
    return tuple((name,) for name in sorted({*value, *old}) if name != "metadata")


def _is_change(state: Known, old: Known, paths: tuple[FieldPath, ...]) -> bool | None:
    """Return whether two objects differ at one of the paths, None if that depends on unknown parts.

    `Semantic.DeepEqual` treats an absent field as equal to an empty one of its Go type. JSON does not show which fields
    are pointers, for which that does not hold.
    """
    unclear = False
    for path in paths:
        one, other = get(state.value, path), get(old.value, path)
        if any(_overlaps(hole.path, path) for hole in (*state.holes, *old.holes)):
            unclear = True
        elif one != other:
            # A difference of empty values only may be equal for Go, which depends on whether the field is a pointer.
            if _without_empty(one) != _without_empty(other):
                return True
            unclear = True
    return None if unclear else False


def _overlaps(one: FieldPath, other: FieldPath) -> bool:
    return one[: len(other)] == other or other[: len(one)] == one


def _without_empty(value: JSON) -> JSON:
    """Return a value without everything that a Go type may omit."""
    if isinstance(value, dict):
        fields = {name: _without_empty(field) for name, field in value.items()}
        return {name: field for name, field in fields.items() if field} or None
    if isinstance(value, list):
        return [_without_empty(item) for item in value] or None
    return value or None
