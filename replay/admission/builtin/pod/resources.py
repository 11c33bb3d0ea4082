"""Resources of a whole pod (`podRequests`, `podLimits` of the plugins; `component-helpers/resource`), and the plugins that bound them.

LimitRanger: container defaults, and bounds of containers, pods and claims. PodResizeValidator: a resize must fit on the
node, which must run Linux.

Sources: `plugin/pkg/admission/{limitranger,podresize}/admission.go`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from replay.admission.builtin.plugin import CREATE_UPDATE, Plugin, Refusal, Review, known
from replay.go.format import quote
from replay.json import JSON
from replay.kube.attributes import Operation
from replay.kube.gvk import GroupVersionKind
from replay.kube.plugin import (
    ANNOTATION,
    LIMIT_RANGE,
    NAMED_CONTAINERS,
    annotation,
    container_defaults,
    fill_containers,
)
from replay.kube.pod import generation_of
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


_MOST_MILLI: Final = ((1 << 63) - 1) // 1000
"""Largest amount whose thousandfold fits into an int64."""


class LimitRanger(Plugin):
    """Applies each LimitRange of the namespace in turn. Objects that are being deleted are ignored."""

    name = "LimitRanger"
    operations = CREATE_UPDATE
    concerns = (("", ("pods", "pods/resize", "persistentvolumeclaims")),)
    looks_up = (("", "LimitRange"),)

    def admit(self, review: Review) -> Refusal | None:
        """Set the missing requests and limits of a pod's containers, and list them in an annotation."""
        for limit_range in self._ranges(review):
            if review.attributes.resource.resource == "pods":
                _set_defaults(review.object, limit_range)
        return None

    def validate(self, review: Review) -> Refusal | None:
        """Refuse values outside a range's bounds. The server names any of several ranges."""
        refusals = []
        for limit_range in self._ranges(review):
            of_pod = review.attributes.resource.resource == "pods"
            errors_found = (
                _pod_errors(review.object, limit_range) if of_pod else _claim_errors(review.object, limit_range)
            )
            if errors := list(dict.fromkeys(errors_found)):
                # The server visits Go maps, so its messages have no fixed order. Sorted, they can be compared.
                text = errors[0] if len(errors) == 1 else f"[{', '.join(sorted(', '.join(errors).split(', ')))}]"
                refusals.append((review.forbidden(text), len(errors) > 1))
        if not refusals:
            return None
        first, is_in_any_order = refusals[0]
        variants = tuple(sorted({refusal.message for refusal, _ in refusals}))
        return Refusal(first.code, first.reason, first.message, is_in_any_order, variants if len(variants) > 1 else ())

    @staticmethod
    def _ranges(review: Review) -> list[JSON]:
        """Return the LimitRanges that apply to a request, by name, none if the plugin ignores the request."""
        attributes = review.attributes
        is_pod = (attributes.kind.group, attributes.kind.kind) == ("", "Pod")
        is_claim = (attributes.kind.group, attributes.kind.kind) == ("", "PersistentVolumeClaim")
        is_update = attributes.operation is Operation.UPDATE
        is_resize = attributes.subresource == "resize" and is_pod and is_update
        # Resources of a pod can only change by a resize, so other updates of pods are ignored (`SupportsAttributes`).
        if not is_resize and (attributes.subresource or not (is_pod or is_claim) or (is_pod and is_update)):
            return []
        if ((review.old_object or {}).get("metadata") or {}).get("deletionTimestamp") is not None:
            return []
        return list(known(review.cluster.list(LIMIT_RANGE, attributes.namespace)))


def _limits(limit_range: JSON, kind: str) -> list[JSON]:
    return [each for each in (limit_range.get("spec") or {}).get("limits") or () if each.get("type") == kind]


def _set_defaults(pod: JSON, limit_range: JSON) -> None:
    filled = fill_containers(pod["spec"], container_defaults(limit_range))
    if filled:
        annotations = pod["metadata"].get("annotations") or {}
        pod["metadata"]["annotations"] = {**annotations, ANNOTATION: annotation(filled)}


class _Bounded(NamedTuple):
    """A value to compare with a bound, and the noun of the message."""

    noun: str
    requests: Amounts
    limits: Amounts


def _pod_errors(pod: JSON, limit_range: JSON) -> Iterator[str]:
    for item in (limit_range.get("spec") or {}).get("limits") or ():
        if item.get("type") == "Container":
            for field, _ in NAMED_CONTAINERS:
                for container in pod["spec"].get(field) or ():
                    resources = container.get("resources") or {}
                    bounded = _Bounded(
                        "Container", amounts(resources.get("requests")), amounts(resources.get("limits"))
                    )
                    yield from _errors(item, bounded)
        elif item.get("type") == "Pod":
            bounded = _Bounded("Pod", pod_amounts(pod["spec"], "requests"), pod_amounts(pod["spec"], "limits"))
            yield from _errors(item, bounded)


def _errors(item: JSON, bounded: _Bounded) -> Iterator[str]:
    for field, check in (("min", _below), ("max", _above), ("maxLimitRequestRatio", _ratio)):
        for name, value in (item.get(field) or {}).items():
            if message := check(name, parse_quantity(str(value)), bounded):
                yield message


def _claim_errors(claim: JSON, limit_range: JSON) -> Iterator[str]:
    requests = amounts(((claim.get("spec") or {}).get("resources") or {}).get("requests"))
    bounded = _Bounded("PersistentVolumeClaim", requests, {})
    for item in _limits(limit_range, "PersistentVolumeClaim"):
        for name, value in (item.get("min") or {}).items():
            if message := _below(name, parse_quantity(str(value)), bounded):
                yield message
        for name, value in (item.get("max") or {}).items():
            if message := _request_above(name, parse_quantity(str(value)), bounded):
                yield message


def _values(request: Quantity | None, limit: Quantity | None, enforced: Quantity) -> tuple[int, int, int]:
    """Return all three in units, or in thousandths if all of them fit (`requestLimitEnforcedValues`)."""
    three = [each if each is not None else Quantity(0) for each in (request, limit, enforced)]
    units = [each.rounded_up() for each in three]
    fine = [each.rounded_up(-3) for each in three] if max(units) <= _MOST_MILLI else units
    return fine[0], fine[1], fine[2]


def _below(name: str, enforced: Quantity, bounded: _Bounded) -> str:
    request, limit = bounded.requests.get(name), bounded.limits.get(name)
    text = f"minimum {name} usage per {bounded.noun} is {enforced}"
    if request is None:
        # The two spaces are in the server's text.
        return f"{text}.  No request is specified"
    request_value, limit_value, least = _values(request, limit, enforced)
    if request_value < least:
        return f"{text}, but request is {request}"
    return f"{text}, but limit is {limit}" if limit is not None and limit_value < least else ""


def _above(name: str, enforced: Quantity, bounded: _Bounded) -> str:
    request, limit = bounded.requests.get(name), bounded.limits.get(name)
    text = f"maximum {name} usage per {bounded.noun} is {enforced}"
    if limit is None:
        return f"{text}.  No limit is specified"
    request_value, limit_value, most = _values(request, limit, enforced)
    if limit_value > most:
        return f"{text}, but limit is {limit}"
    return f"{text}, but request is {request}" if request is not None and request_value > most else ""


def _request_above(name: str, enforced: Quantity, bounded: _Bounded) -> str:
    request = bounded.requests.get(name)
    text = f"maximum {name} usage per {bounded.noun} is {enforced}"
    if request is None:
        return f"{text}.  No request is specified"
    value, _, most = _values(request, None, enforced)
    return f"{text}, but request is {request}" if value > most else ""


def _ratio(name: str, enforced: Quantity, bounded: _Bounded) -> str:
    request, limit = bounded.requests.get(name), bounded.limits.get(name)
    text = f"{name} max limit to request ratio per {bounded.noun} is {enforced}"
    request_value, limit_value, _ = _values(request, limit, enforced)
    if not request_value:
        return f"{text}, but no request is specified or request is 0"
    if not limit_value:
        return f"{text}, but no limit is specified or limit is 0"
    ratio = limit_value / request_value
    is_fine = enforced.rounded_up() <= _MOST_MILLI
    observed, most = (ratio * 1000, enforced.rounded_up(-3)) if is_fine else (ratio, enforced.rounded_up())
    return f"{text}, but provided ratio is {ratio:f}" if observed > float(most) else ""


_NODE: Final = GroupVersionKind("", "v1", "Node")
_SYSTEM: Final = "kubernetes.io/os"
_NOTHING: Final = Quantity(0, text="0")


class PodResizeValidator(Plugin):
    """Checks only bound pods whose generation shows a changed spec."""

    name = "PodResizeValidator"
    operations = frozenset({Operation.UPDATE})
    concerns = (("", ("pods/resize",)),)
    looks_up = (("", "Node"),)

    def validate(self, review: Review) -> Refusal | None:
        """Refuse a resize that does not fit."""
        if not review.is_resource("", "pods", "resize"):
            return None
        pod, old = review.object, review.old_object
        name = (pod.get("spec") or {}).get("nodeName")
        if not name or generation_of(pod) == generation_of(old):
            return None
        node = known(review.cluster.get(_NODE, "", name))
        if node is None:
            return review.forbidden(f"node {quote(name)} not found")
        system = ((node.get("metadata") or {}).get("labels") or {}).get(_SYSTEM, "linux")
        if system != "linux":
            return review.forbidden(
                f"pod resize is only supported on linux nodes, node {quote(name)} is {quote(system)}"
            )
        lacking = "; ".join(_lacking(pod["spec"], amounts((node.get("status") or {}).get("allocatable"))))
        return review.forbidden(f"node didn't have enough allocatable resources: {lacking}") if lacking else None


def _lacking(spec: JSON, allocatable: Amounts) -> Iterator[str]:
    """Yield resources that the pod requests and the node lacks; CPU in thousandths."""
    requests = pod_amounts(spec, "requests")
    add(requests, amounts(spec.get("overhead")))
    for name, scale in (("cpu", -3), ("memory", 0)):
        request, there = requests.get(name, _NOTHING), allocatable.get(name, _NOTHING)
        if request.compare(there) > 0:
            yield f"{name}, requested: {request.rounded_up(scale)}, allocatable: {there.rounded_up(scale)}"
