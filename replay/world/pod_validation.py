"""Pod validation of the API (`pkg/apis/core/validation/validation.go`): rules that another object can break."""

from __future__ import annotations

from replay.admission.builtin.pod.resources import amounts
from replay.json import JSON, FieldPath
from replay.kube.attributes import Missing
from replay.kube.quantity import Quantity, parse_quantity
from replay.reconstruct.record.known import Known, get

_MOST_SECONDS = 2**31 - 1
_DEADLINE = ("spec", "activeDeadlineSeconds")
_CONTAINERS = ("containers", "initContainers")
EPHEMERAL = "ephemeralContainers"
CONTAINERS = (*_CONTAINERS, EPHEMERAL)
"""The fields of a pod's spec that hold containers."""
_COMPUTE = ("cpu", "memory")
_TEMPLATE = ("spec", "template")
_SPECS: dict[str, FieldPath] = {"Pod": ("spec",), "CronJob": ("spec", "jobTemplate", *_TEMPLATE, "spec")}
"""Path of a pod's spec by kind; otherwise it is in the template."""


def is_open(path: FieldPath, state: Known) -> bool:
    """Return whether any part at, above or below a path of an object is unknown."""
    return any(hole.path[: len(path)] == path or path[: len(hole.path)] == hole.path for hole in state.holes)


COMPARED = {"resize": _CONTAINERS, "ephemeralcontainers": (EPHEMERAL,)}
"""The fields of the spec that a write must not change freely, by subresource of pods.

The rules are in `ValidatePodResize` and `ValidatePodEphemeralContainersUpdate`.
"""


def is_invalid_pod(value: JSON) -> bool:
    """Return whether a pod or pod template breaks a rule that mutations typically break.

    A container needs an image (`validateContainerCommon`), requests at most its limit
    (`ValidateContainerResourceRequirements`), and is not privileged while privilege escalation is forbidden
    (`ValidateSecurityContext`). The deadline of a pod is a positive 32 bit number (`ValidatePodSpec`).
    """
    kind = value.get("kind") if isinstance(value, dict) else None
    spec = get(value, _SPECS.get(str(kind), (*_TEMPLATE, "spec")))
    if not isinstance(spec, dict):
        return False
    deadline = spec.get("activeDeadlineSeconds")
    if isinstance(deadline, int) and not 0 < deadline <= _MOST_SECONDS:
        return True
    containers = [(name, each) for name in CONTAINERS for each in spec.get(name) or () if isinstance(each, dict)]
    return any(is_invalid_container(name, each) for name, each in containers)


def is_invalid_container(name: str, container: dict[str, JSON]) -> bool:
    """Return whether a container breaks one of these rules. `name` is the field of the pod's spec that holds it."""
    if _requests_too_much(container) or _escalates_and_not(container):
        return True
    return name == "containers" and not container.get("image")


def _requests_too_much(container: JSON) -> bool:
    try:
        resources = container.get("resources") or {}
        requests, limits = (resources.get(name) or {} for name in ("requests", "limits"))
        return any(
            parse_quantity(str(request)).compare(parse_quantity(str(limits[name]))) > 0
            for name, request in requests.items()
            if name in limits and not isinstance(request, Missing) and not isinstance(limits[name], Missing)
        )
    except (ValueError, AttributeError, TypeError):
        # A value of another form is refused earlier. An unknown map has no items.
        return False


def _escalates_and_not(container: JSON) -> bool:
    """Return whether a container forbids privilege escalation, but is privileged or has CAP_SYS_ADMIN."""
    context = container.get("securityContext")
    if not isinstance(context, dict) or context.get("allowPrivilegeEscalation") is not False:
        return False
    added = get(context, ("capabilities", "add"))
    return context.get("privileged") is True or (isinstance(added, list) and "CAP_SYS_ADMIN" in added)


def extends_deadline(old: Known, new: Known) -> bool:
    """Return whether an update extends or removes the deadline of a pod (`ValidatePodUpdate`)."""
    before, after = (get(each.value, _DEADLINE) for each in (old, new))
    if not isinstance(before, int) or is_open(_DEADLINE, old) or is_open(_DEADLINE, new):
        return False
    return after is None or (isinstance(after, int) and after > before)


def changes_quality(old: Known, new: Known) -> bool:
    """Return whether a resize changes the quality of service class of a pod (`ValidatePodResize`)."""
    if any(_are_resources_open(each) for each in (old, new)):
        return False
    try:
        return _quality(old.value) != _quality(new.value)
    except ValueError:  # not a quantity, so the request is denied before
        return False


def _are_resources_open(pod: Known) -> bool:
    """Return whether the containers of a pod, or their requests, are unknown."""
    within = ("resources", "name")
    paths = (hole.path for hole in pod.holes if hole.path[:1] == ("spec",))
    return any(len(path) < 2 or (path[1] in _CONTAINERS and (len(path) < 4 or path[3] in within)) for path in paths)


def changes_ephemeral(old: Known, new: Known) -> bool:
    """Return whether an update changes or removes an ephemeral container (`ValidatePodEphemeralContainersUpdate`)."""
    path = ("spec", EPHEMERAL)
    if is_open(path, old) or is_open(path, new):
        return False
    left = {each.get("name"): each for each in get(new.value, path) or ()}
    return any(not _is_kept(each, left.get(each.get("name"))) for each in get(old.value, path) or ())


def _is_kept(before: JSON, after: JSON) -> bool:
    """Return whether a container is unchanged. A field that the write omits gets its old default."""
    return isinstance(after, dict) and all(before.get(name) == value for name, value in after.items())


def _quality(pod: JSON) -> str:
    """Return the class of a pod by its requests and limits of CPU and memory (`ComputePodQOS`)."""
    containers = [each for name in _CONTAINERS for each in get(pod, ("spec", name)) or ()]
    pairs = [(_compute(each, "requests"), _compute(each, "limits")) for each in containers]
    if not any(requests or limits for requests, limits in pairs):
        return "BestEffort"
    is_whole = all(len(limits) == len(_COMPUTE) and _are_equal(requests, limits) for requests, limits in pairs)
    return "Guaranteed" if is_whole else "Burstable"


def _compute(container: JSON, name: str) -> dict[str, Quantity]:
    found = amounts(get(container, ("resources", name)))
    # `ComputePodQOS` ignores amounts of zero.
    return {key: value for key, value in found.items() if key in _COMPUTE and value.sign}


def _are_equal(requests: dict[str, Quantity], limits: dict[str, Quantity]) -> bool:
    """Return whether requests equal the limits. A missing request defaults to its limit."""
    return all(requests.get(name, limit).compare(limit) == 0 for name, limit in limits.items())
