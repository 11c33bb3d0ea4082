"""The labels by which kcp finds the objects that an APIExport may claim.

An object has one such label for each accepted claim of a binding on its resource. A client cannot set these labels. A
mutating plugin sets them after mutating webhooks and policies, and before any validation
(`kcp-dev/kcp/pkg/admission/permissionclaims`, `pkg/permissionclaim.Labeler.LabelsFor`).
"""

from __future__ import annotations

import hashlib
import string
from collections.abc import Iterator, Mapping

import orjson

from replay.json import JSON
from replay.kube.gvk import GroupResource
from replay.kube.selector import Requirement

CLAIMED = "claimed.internal.apis.kcp.io/"
"""Prefix of these labels. The rest of the key identifies the export, the value identifies the claim."""
EXPORT = "internal.apis.kcp.io/export"
"""Label of an APIBinding that identifies its export."""
_REFLEXIVE = "LstvmbbzVDDOn90ZbhzSQO5U3DMCf88h1pZ"
"""The label value on bindings to an export (`ToReflexiveAPIBindingLabelKeyAndValue`)."""
_BINDINGS = GroupResource("apis.kcp.io", "apibindings")
_EVENTS = GroupResource("", "events")
_NOT_STORED = frozenset(
    {
        *(
            GroupResource("authorization.k8s.io", f"{name}reviews")
            for name in ("localsubjectaccess", "selfsubjectaccess", "selfsubjectrules", "subjectaccess")
        ),
        *(GroupResource("authentication.k8s.io", name) for name in ("selfsubjectreviews", "tokenreviews")),
    }
)
_OPERATORS = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}
_DIGITS = string.digits + string.ascii_lowercase + string.ascii_uppercase


def claim_labels(binding: JSON, resource: GroupResource, name: str, labels: Mapping[str, str]) -> dict[str, str]:
    """Return the labels that a binding gives an object of a resource, by the object's name and other labels."""
    if resource in _NOT_STORED or not isinstance(binding, dict):
        return {}
    metadata = binding.get("metadata") or {}
    export = str((metadata.get("labels") or {}).get(EXPORT) or "")
    if not export:
        return {}
    resource_claimed = _EVENTS if resource.resource == "events" and resource.group == "events.k8s.io" else resource
    values = [
        _value(claim) for claim in _accepted(binding, resource_claimed) if _selects(claim.get("selector") or {}, labels)
    ]
    if not values and resource == _BINDINGS and metadata.get("name") == name:
        values = [_REFLEXIVE]
    # All claims of a binding have one label key, so the last one counts.
    return {CLAIMED + export: values[-1]} if values else {}


def _accepted(binding: JSON, resource: GroupResource) -> Iterator[JSON]:
    claims = (binding.get("spec") or {}).get("permissionClaims")
    for claim in claims if isinstance(claims, list) else ():
        if claim.get("state") == "Accepted" and (claim.get("group") or "", claim.get("resource")) == resource:
            yield claim


def _value(claim: JSON) -> str:
    """Return the label value of a claim (`ToLabelKeyAndValue`).

    It is made from group, resource and identity in the JSON of `PermissionClaim`.
    """
    group = {"group": claim["group"]} if claim.get("group") else {}
    identity = {"identityHash": claim["identityHash"]} if claim.get("identityHash") else {}
    # kcp hashes a claim without `verbs`, which Go writes as null.
    text = orjson.dumps({**group, "resource": claim["resource"], "verbs": None, **identity})
    return _base62(hashlib.sha224(text).digest())


def _base62(digest: bytes) -> str:
    """Return a digest as a number of base 62 (`math/big.Int.Text(62)`)."""
    number, text = int.from_bytes(digest, "big"), ""
    while number:
        number, digit = divmod(number, len(_DIGITS))
        text = _DIGITS[digit] + text
    return text


def _selects(selector: JSON, labels: Mapping[str, str]) -> bool:
    """Return whether a claim covers an object. An empty selector covers all, an invalid one none."""
    if selector.get("matchAll"):
        return True
    terms = [Requirement(key, "=", (value,)) for key, value in (selector.get("matchLabels") or {}).items()]
    for each in selector.get("matchExpressions") or ():
        if each.get("operator") not in _OPERATORS:
            return False
        terms.append(Requirement(each["key"], _OPERATORS[each["operator"]], tuple(each.get("values") or ())))
    return all(term.matches(labels) for term in terms)
