"""What the API refuses of a pod (`pkg/apis/core/validation/validation.go`): rules that another world breaks."""

from __future__ import annotations

from replay.admission.builtin.pod.resources import amounts
from replay.json import JSON, FieldPath
from replay.kube.attributes import Missing
from replay.kube.quantity import Quantity, parse_quantity
from replay.reconstruct.record.known import Known, get

_MOST_SECONDS = 2**31 - 1
_DEADLINE = ("spec", "activeDeadlineSeconds")
_CONTAINERS = ("containers", "initContainers")
_COMPUTE = ("cpu", "memory")


def is_open(path: FieldPath, state: Known) -> bool:
    """Whether anything at, above or below a path of an object is not known."""
    return any(hole.path[: len(path)] == path or path[: len(hole.path)] == hole.path for hole in state.holes)


def is_invalid_pod(value: JSON) -> bool:
    """Whether a pod or pod template breaks a rule that mutations break.

    A container has an image (`validateContainerCommon`), requests no more than its limit (`ValidateContainerResourceRequirements`), and the
    deadline of a pod is a positive 32 bit number (`ValidatePodSpec`).
    """
    kind = value.get("kind") if isinstance(value, dict) else None
    spec = get(value, ("spec",)) if kind == "Pod" else get(value, ("spec", "template", "spec"))
    if not isinstance(spec, dict):
        return False
    deadline = spec.get("activeDeadlineSeconds")
    if isinstance(deadline, int) and not 0 < deadline <= _MOST_SECONDS:
        return True
    containers = [each for name in _CONTAINERS for each in spec.get(name) or ()]
    if any(isinstance(each, dict) and _requests_too_much(each) for each in containers):
        return True
    required = spec.get("containers")
    return isinstance(required, list) and any(isinstance(each, dict) and not each.get("image") for each in required)


def _requests_too_much(container: JSON) -> bool:
    resources = container.get("resources") or {}
    requests, limits = (resources.get(name) or {} for name in ("requests", "limits"))
    try:
        return any(
            parse_quantity(str(request)).compare(parse_quantity(str(limits[name]))) > 0
            for name, request in requests.items()
            if name in limits and not isinstance(request, Missing) and not isinstance(limits[name], Missing)
        )
    except (ValueError, AttributeError):
        return False


def extends_deadline(old: Known, new: Known) -> bool:
    """Whether an update moves the deadline of a pod, or takes it away (`ValidatePodUpdate`)."""
    before, after = (get(each.value, _DEADLINE) for each in (old, new))
    if not isinstance(before, int) or is_open(_DEADLINE, old) or is_open(_DEADLINE, new):
        return False
    return after is None or (isinstance(after, int) and after > before)


def changes_quality(old: Known, new: Known) -> bool:
    """Whether a resize changes the class of a pod's quality of service (`ValidatePodResize`)."""
    if any(is_open(("spec", name), each) for name in _CONTAINERS for each in (old, new)):
        return False
    try:
        return _quality(old.value) != _quality(new.value)
    except ValueError:  # no quantity: refused before
        return False


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
    return {key: value for key, value in found.items() if key in _COMPUTE and value.sign}


def _are_equal(requests: dict[str, Quantity], limits: dict[str, Quantity]) -> bool:
    """Whether requests are the limits; a request that is missing is."""
    return all(requests.get(name, limit).compare(limit) == 0 for name, limit in limits.items())
