"""Usage of objects that count towards quotas (`pkg/quota/v1/evaluator/core`, `apiserver/pkg/quota/v1/generic`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Final

from msgspec import Struct

from replay.admission.builtin.plugin import Review
from replay.admission.builtin.pod.resources import Amounts, amounts, is_best_effort
from replay.admission.builtin.resource_quota.pod_usage import (
    ONE,
    counts_as_pod_resource,
    missing_constraints,
    pod_usage,
)
from replay.json import JSON
from replay.kube.attributes import Operation
from replay.kube.gvk import GroupResource
from replay.kube.quantity import Quantity

# Scopes of a quota, and the objects in them (`podMatchesScopeFunc`, `pvcMatchesScopeFunc`).


class ScopeError(Exception):
    """A selector that the server cannot parse. `str()` is its text."""


def selectors_of(quota: JSON) -> list[JSON]:
    """Return the scopes of a quota as selectors (`getScopeSelectorsFromQuota`)."""
    spec = quota.get("spec") or {}
    plain = [{"scopeName": scope, "operator": "Exists"} for scope in spec.get("scopes") or ()]
    return [*plain, *((spec.get("scopeSelector") or {}).get("matchExpressions") or ())]


def _pod_is_in(selector: JSON, pod: JSON) -> bool:
    """Return whether a pod is in a scope. Raise ScopeError."""
    name, spec = selector.get("scopeName"), pod["spec"]
    if name in ("Terminating", "NotTerminating"):
        return _is_terminating(pod) is (name == "Terminating")
    if name in ("BestEffort", "NotBestEffort"):
        return is_best_effort(pod) is (name == "BestEffort")
    if name == "CrossNamespacePodAffinity":
        return _crosses_namespaces(spec.get("affinity") or {})
    if name != "PriorityClass":
        return False
    own = spec.get("priorityClassName") or ""
    return bool(own) if selector.get("operator") == "Exists" else _selects(selector, [own] if own else [])


def _is_terminating(pod: JSON) -> bool:
    """Return whether a pod has a deadline."""
    deadline = pod["spec"].get("activeDeadlineSeconds")
    return deadline is not None and deadline >= 0


def _claim_is_in(selector: JSON, claim: JSON) -> bool:
    """Return whether a claim is in a scope. Raise ScopeError."""
    if selector.get("scopeName") != "VolumeAttributesClass":
        return False
    status = claim.get("status") or {}
    class_names = {
        claim["spec"].get("volumeAttributesClassName"),
        status.get("currentVolumeAttributesClassName"),
        (status.get("modifyVolumeStatus") or {}).get("targetVolumeAttributesClassName"),
    }
    names = sorted(name for name in class_names if name)
    return bool(names) if selector.get("operator") == "Exists" else _selects(selector, names)


def printed(selector: JSON) -> str:
    """Return a selector as Go prints the struct."""
    values = " ".join(selector.get("values") or ())
    return f"{{{selector.get('scopeName') or ''} {selector.get('operator') or ''} [{values}]}}"


def _selects(selector: JSON, names: Sequence[str]) -> bool:
    """Return whether a selector selects one of the names, or their absence."""
    operator, values = selector.get("operator") or "", selector.get("values") or ()
    if operator not in ("In", "NotIn", "DoesNotExist"):
        text = f'failed to parse and convert selector: "{operator}" is not a valid scope selector operator'
        raise ScopeError(f"error on matching scope {printed(selector)}: {text}")
    # Without a name, NotIn and DoesNotExist select the object.
    if not names:
        return operator != "In"
    return any((name in values) is (operator == "In") for name in names) and operator != "DoesNotExist"


def _crosses_namespaces(affinity: JSON) -> bool:
    terms: list[JSON] = []
    for kind in ("podAffinity", "podAntiAffinity"):
        rules = affinity.get(kind) or {}
        terms += rules.get("requiredDuringSchedulingIgnoredDuringExecution") or ()
        preferred = rules.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        terms += [each.get("podAffinityTerm") or {} for each in preferred]
    # An empty `namespaceSelector` selects all namespaces, so it counts too.
    return any(term.get("namespaces") or term.get("namespaceSelector") is not None for term in terms)


IGNORED: Final = frozenset(
    {
        GroupResource("", "bindings"),
        GroupResource("", "componentstatuses"),
        GroupResource("", "events"),
        GroupResource("events.k8s.io", "events"),
        GroupResource("authentication.k8s.io", "tokenreviews"),
        GroupResource("authentication.k8s.io", "selfsubjectreviews"),
        GroupResource("authorization.k8s.io", "subjectaccessreviews"),
        GroupResource("authorization.k8s.io", "selfsubjectaccessreviews"),
        GroupResource("authorization.k8s.io", "localsubjectaccessreviews"),
        GroupResource("authorization.k8s.io", "selfsubjectrulesreviews"),
    }
)
_ALIASES: Final = ("configmaps", "resourcequotas", "replicationcontrollers", "secrets")
_BY_CLASS: Final = ".storageclass.storage.k8s.io/"
_DEVICES: Final = ".deviceclass.resource.k8s.io/devices"
_MOST_DEVICES: Final = 32


def _in_no_scope(selector: JSON, obj: JSON) -> bool:
    del selector, obj
    return False


def _no_constraints(obj: JSON, required: Iterable[str]) -> str:
    del obj, required
    return ""


class Evaluator(Struct, frozen=True):
    """The rules of one resource: the relevant requests, the counted names of a quota, and the usage of an object.

    `is_in` tests scopes, and `constraints` returns the values that an object must specify and does not. `has_scopes`
    marks resources whose scopes can be limited.
    """

    handles: Callable[[Review], bool]
    counts: Callable[[str], bool]
    usage: Callable[[JSON, int], Amounts]
    is_in: Callable[[JSON, JSON], bool] = _in_no_scope
    constraints: Callable[[JSON, Iterable[str]], str] = _no_constraints
    has_scopes: bool = False
    reads_objects: bool = True
    """A flag that the usage depends on an object's content, and not only on its existence."""
    fixed: frozenset[str] = frozenset()
    """The names of which each object uses one, whatever it contains."""


@lru_cache(maxsize=1024)
def evaluator_of(resource: GroupResource) -> Evaluator:
    """Return the evaluator of a resource. Most resources only count objects."""
    special = _SPECIAL.get(resource)
    if special is not None:
        return special
    names = {count_name(resource): ONE}
    if not resource.group and resource.resource in _ALIASES:
        names[resource.resource] = ONE
    return Evaluator(_is_created, names.__contains__, lambda _, __: names, reads_objects=False)


def counted_resources(names: Iterable[str]) -> frozenset[GroupResource]:
    """Return the resources whose objects use something of a quota with some names."""
    counted: set[GroupResource] = set()
    for name in names:
        counted |= {resource for resource, evaluator in _SPECIAL.items() if evaluator.counts(name)}
        resource, _, group = name.removeprefix("count/").partition(".")
        if name.startswith("count/") or name in _ALIASES:
            counted.add(GroupResource(group, resource))
    return frozenset(counted)


def count_name(resource: GroupResource) -> str:
    """Return the name of a count quota, for example `count/deployments.apps` (`ObjectCountQuotaResourceNameFor`)."""
    return f"count/{resource.resource}.{resource.group}".removesuffix(".")


def _is_created(review: Review) -> bool:
    return not review.attributes.subresource and review.attributes.operation is Operation.CREATE


def _is_written(review: Review) -> bool:
    return not review.attributes.subresource and review.attributes.operation in (Operation.CREATE, Operation.UPDATE)


def _pod_handles(review: Review) -> bool:
    attributes = review.attributes
    if attributes.subresource == "resize":
        return attributes.operation is Operation.UPDATE
    if attributes.subresource:
        return False
    if attributes.operation is Operation.UPDATE:
        # A deadline moves the pod between the scopes Terminating and NotTerminating, so both quotas change.
        return _is_terminating(review.old_object) is not _is_terminating(review.object)
    return attributes.operation is Operation.CREATE


def _claim_handles(review: Review) -> bool:
    # `RequiresQuotaReplenish` compares two pointers that are never the same, so every update of the status counts.
    return review.attributes.subresource == "status" or _is_written(review)


_SERVICES: Final = frozenset({"count/services", "services", "services.nodeports", "services.loadbalancers"})


def _service_usage(service: JSON, now: int) -> Amounts:
    del now
    spec = service.get("spec") or {}
    ports, kind = spec.get("ports") or (), spec.get("type")
    node_ports, balancers = 0, 0
    if kind in ("NodePort", "LoadBalancer"):
        node_ports, balancers = len(ports), int(kind == "LoadBalancer")
        # A balancer without allocated node ports uses only those that its client names.
        if balancers and spec.get("allocateLoadBalancerNodePorts") is False:
            node_ports = sum(1 for port in ports if port.get("nodePort"))
    return {
        "count/services": ONE,
        "services": ONE,
        "services.nodeports": Quantity(node_ports),
        "services.loadbalancers": Quantity(balancers),
    }


_CLAIMS: Final = ("persistentvolumeclaims", "requests.storage")


def _counts_as_claim(name: str) -> bool:
    is_own = name == "count/persistentvolumeclaims" or name in _CLAIMS
    return is_own or name.endswith(tuple(_BY_CLASS + each for each in _CLAIMS))


def _claim_usage(claim: JSON, now: int) -> Amounts:
    del now
    usage = {"persistentvolumeclaims": ONE, "count/persistentvolumeclaims": ONE}
    annotations = (claim.get("metadata") or {}).get("annotations") or {}
    named = claim["spec"].get("storageClassName")
    # The beta annotation has precedence over the field (`GetPersistentVolumeClaimClass`).
    storage_class = annotations.get("volume.beta.kubernetes.io/storage-class", named) or ""
    if (storage := _storage(claim)) is not None:
        usage["requests.storage"] = storage
    if storage_class:
        usage |= {f"{storage_class}{_BY_CLASS}{name}": usage[name] for name in _CLAIMS if name in usage}
    return usage


def _storage(claim: JSON) -> Quantity | None:
    """Return the larger of requested and allocated storage, in whole bytes."""
    request = amounts((claim["spec"].get("resources") or {}).get("requests")).get("storage")
    if request is None:
        return None
    allocated = amounts((claim.get("status") or {}).get("allocatedResources")).get("storage")
    most = allocated if allocated is not None and allocated.compare(request) > 0 else request
    whole_bytes = Quantity(most.rounded_up(), 0, most.format)
    return most if most.compare(whole_bytes) == 0 else whole_bytes


def _counts_as_device(name: str) -> bool:
    return name == "count/resourceclaims.resource.k8s.io" or name.endswith(_DEVICES)


def _device_usage(claim: JSON, now: int) -> Amounts:
    """Return devices by class. For alternatives, the largest number of each class counts."""
    del now
    total: dict[str, int] = {}
    for request in ((claim.get("spec") or {}).get("devices") or {}).get("requests") or ():
        most: dict[str, int] = {}
        exactly = request.get("exactly")
        for each in request.get("firstAvailable") or ([exactly] if exactly is not None else ()):
            name = f"{each.get('deviceClassName') or ''}{_DEVICES}"
            mode = each.get("allocationMode")
            number = each.get("count") or 0 if mode == "ExactCount" else _MOST_DEVICES if mode == "All" else 0
            most[name] = max(most.get(name, 0), number)
        for name, number in most.items():
            total[name] = total.get(name, 0) + number
    return {"count/resourceclaims.resource.k8s.io": ONE} | {name: Quantity(each) for name, each in total.items()}


_SPECIAL: Final = {
    GroupResource("", "pods"): Evaluator(
        _pod_handles, counts_as_pod_resource, pod_usage, _pod_is_in, missing_constraints, has_scopes=True
    ),
    GroupResource("", "services"): Evaluator(
        _is_written, _SERVICES.__contains__, _service_usage, fixed=frozenset({"count/services", "services"})
    ),
    GroupResource("", "persistentvolumeclaims"): Evaluator(
        _claim_handles, _counts_as_claim, _claim_usage, _claim_is_in, has_scopes=True
    ),
    GroupResource("resource.k8s.io", "resourceclaims"): Evaluator(_is_written, _counts_as_device, _device_usage),
}
