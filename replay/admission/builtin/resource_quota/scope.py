"""Scopes of a quota, and the objects in them (`podMatchesScopeFunc`, `pvcMatchesScopeFunc`)."""

from __future__ import annotations

from collections.abc import Sequence

from replay.admission.builtin.pod.resources import is_best_effort
from replay.json import JSON


class ScopeError(Exception):
    """A selector that the server cannot parse. `str()` is its text."""


def selectors_of(quota: JSON) -> list[JSON]:
    """Return the scopes of a quota as selectors (`getScopeSelectorsFromQuota`)."""
    spec = quota.get("spec") or {}
    plain = [{"scopeName": scope, "operator": "Exists"} for scope in spec.get("scopes") or ()]
    return [*plain, *((spec.get("scopeSelector") or {}).get("matchExpressions") or ())]


def pod_is_in(selector: JSON, pod: JSON) -> bool:
    """Return whether a pod is in a scope. Raise ScopeError."""
    name, spec = selector.get("scopeName"), pod["spec"]
    if name in ("Terminating", "NotTerminating"):
        return is_terminating(pod) is (name == "Terminating")
    if name in ("BestEffort", "NotBestEffort"):
        return is_best_effort(pod) is (name == "BestEffort")
    if name == "CrossNamespacePodAffinity":
        return _crosses_namespaces(spec.get("affinity") or {})
    if name != "PriorityClass":
        return False
    own = spec.get("priorityClassName") or ""
    return bool(own) if selector.get("operator") == "Exists" else _selects(selector, [own] if own else [])


def is_terminating(pod: JSON) -> bool:
    """Return whether a pod has a deadline."""
    deadline = pod["spec"].get("activeDeadlineSeconds")
    return deadline is not None and deadline >= 0


def claim_is_in(selector: JSON, claim: JSON) -> bool:
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
