"""The changes that kcp makes to an object between request and storage, besides those of an API server.

Its storage gives every object `kcp.io/cluster`. Its admission plugins label the objects that an APIExport may claim,
and the bindings to it (`kcp-dev/kcp/pkg/admission/permissionclaims`, `apibinding`). They set paths and owners
(`pathannotation`, `workspace`). They complete kcp's own kinds: finalizers of bindings and logical clusters,
initializers and phase of workspaces (`apibindingfinalizer`, `logicalclusterfinalizer`, `logicalcluster`).
"""

from __future__ import annotations

import hashlib
import re
import string
from collections.abc import Iterator, Mapping

import orjson

from replay.json import JSON
from replay.kcp.annotation import CLUSTER, PATH, annotation
from replay.kcp.user import MASTERS
from replay.kube.attributes import Missing, Operation, UserInfo
from replay.kube.gvk import GroupResource
from replay.kube.selector import Requirement

# The labels by which kcp finds the objects that an APIExport may claim.
# An object has one such label for each accepted claim of a binding on its resource. A client cannot set these labels. A mutating
# plugin sets them after mutating webhooks and policies, and before any validation (`kcp-dev/kcp/pkg/admission/permissionclaims`,
# `pkg/permissionclaim.Labeler.LabelsFor`).

CLAIMED = "claimed.internal.apis.kcp.io/"
"""Prefix of these labels. The rest of the key identifies the export, the value identifies the claim."""
_EXPORT = "internal.apis.kcp.io/export"
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
    export = str((metadata.get("labels") or {}).get(_EXPORT) or "")
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


_ANNOTATIONS = ("metadata", "annotations")
_OWNER = "experimental.tenancy.kcp.io/owner"
REQUIRED_GROUPS = (*_ANNOTATIONS, "authorization.kcp.io/required-groups")
"""Groups that a new workspace inherits from the workspace in which it is created."""
_PLUGIN_KEYS = (CLAIMED, "internal.apis.kcp.io/", "experimental.tenancy.kcp.io/", PATH)
"""The prefixes of labels and annotations that admission plugins of kcp set."""
_OWN_GROUPS = frozenset({"apis.kcp.io", "core.kcp.io", "tenancy.kcp.io", "topology.kcp.io"})
_FINISHED = (("metadata", "finalizers"), ("status", "conditions"), ("status", "initializers"), ("status", "phase"))
_PATHS = frozenset(
    {
        GroupResource("apis.kcp.io", "apibindings"),
        GroupResource("apis.kcp.io", "apiexports"),
        GroupResource("cache.kcp.io", "clustercachedresources"),
        GroupResource("tenancy.kcp.io", "workspacetypes"),
    }
)
"""Kinds that get the path of their workspace. For other kinds, a path from the client is corrected."""
_OF_BINDING: tuple[tuple[str, ...], ...] = (("metadata", "labels", _EXPORT), ("metadata", "finalizers"), ("status",))
_OF_LOGICAL_CLUSTER: tuple[tuple[str, ...], ...] = (("metadata", "finalizers"), ("status",))
_ESCAPED = re.compile(r"[<>&\u2028\u2029]")
"""Characters that Go escapes in JSON."""
_UNSEEN = Missing("", "a kcp plugin sets it, and the log does not show the value for a request that stored nothing")

BY_STORAGE = ("metadata", "annotations", CLUSTER)
"""The path that the storage sets on every object of a workspace."""


def set_unseen(
    resource: GroupResource, operation: Operation, user: UserInfo, path: str, obj: JSON
) -> dict[tuple[str, ...], JSON | Missing]:
    """Return what kcp's plugins set on a sent object, by path, except labels of claims and required groups.

    Only the stored object shows it. `path` is the path of the workspace.
    """
    values_set: dict[tuple[str, ...], JSON | Missing] = {}
    if resource in _PATHS or annotation(obj, PATH):
        values_set[*_ANNOTATIONS, PATH] = path or _UNSEEN
    if resource == GroupResource("apis.kcp.io", "apibindings"):
        values_set |= dict.fromkeys(_OF_BINDING, _UNSEEN)
    elif resource == GroupResource("core.kcp.io", "logicalclusters"):
        values_set = dict.fromkeys(_OF_LOGICAL_CLUSTER, _UNSEEN)
    elif creates_workspace(resource, operation):
        values_set["status",] = _UNSEEN
        values_set |= {} if MASTERS in user.groups else {(*_ANNOTATIONS, _OWNER): _owner(user)}
    return values_set


def creates_workspace(resource: GroupResource, operation: Operation) -> bool:
    """Return whether a request creates a workspace."""
    return resource == GroupResource("tenancy.kcp.io", "workspaces") and operation is Operation.CREATE


def _owner(user: UserInfo) -> str | Missing:
    """Return the creator of a workspace (`WorkspaceOwnerAnnotationValue`)."""
    extra = {key: list(values) for key, values in sorted(user.extra.items())}
    said = {"username": user.username, "uid": user.uid, "groups": list(user.groups), "extra": extra}
    text = orjson.dumps({key: value for key, value in said.items() if value}).decode()
    return _UNSEEN if _ESCAPED.search(text) else text


def set_by_plugins(group: str, attempt: JSON, stored: JSON) -> Iterator[tuple[str, ...]]:
    """Yield the paths that admission plugins of kcp set or remove, if either state of an object of a group has them."""
    for field, name in _FINISHED if group in _OWN_GROUPS else ():
        if name in ((stored or {}).get(field) or {}):
            yield field, name
    for obj in (attempt, stored):
        metadata = obj.get("metadata") if isinstance(obj, dict) else None
        for field in ("annotations", "labels"):
            keys = metadata.get(field) if isinstance(metadata, dict) else None
            for key in keys if isinstance(keys, dict) else ():
                if key.startswith(_PLUGIN_KEYS):
                    yield "metadata", field, key
