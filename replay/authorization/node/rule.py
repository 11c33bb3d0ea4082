"""The rules that every node has (`k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy.NodeRules`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

_READ = "get list watch"
_CERTIFICATES, _RESOURCE, _STORAGE = "certificates.k8s.io", "resource.k8s.io", "storage.k8s.io"

_ROWS: tuple[tuple[str, tuple[str, ...], str, int], ...] = (
    ("create", ("authentication.k8s.io",), "tokenreviews", 0),
    ("create", ("authorization.k8s.io",), "subjectaccessreviews localsubjectaccessreviews", 0),
    (_READ, ("",), "services", 0),
    (f"create {_READ}", ("",), "nodes", 0),
    ("update patch", ("",), "nodes/status nodes", 0),
    ("create update patch", ("", "events.k8s.io"), "events", 0),
    (f"{_READ} create delete", ("",), "pods", 0),
    ("update patch", ("",), "pods/status", 0),
    ("create", ("",), "pods/eviction", 0),
    (_READ, ("",), "secrets configmaps", 0),
    ("get", ("",), "persistentvolumeclaims persistentvolumes endpoints", 0),
    (f"create {_READ}", (_CERTIFICATES,), "certificatesigningrequests", 0),
    ("get create update patch delete", ("coordination.k8s.io",), "leases", 0),
    ("get", (_STORAGE,), "volumeattachments", 0),
    ("create", ("",), "serviceaccounts/token", 0),
    ("get update patch", ("",), "persistentvolumeclaims/status", 0),
    (_READ, (_STORAGE,), "csidrivers", 0),
    ("get create update patch delete", (_STORAGE,), "csinodes", 0),
    (_READ, ("node.k8s.io",), "runtimeclasses", 0),
    ("get", (_RESOURCE,), "resourceclaims", 34),
    ("deletecollection", (_RESOURCE,), "resourceslices", 34),
    (_READ, (_CERTIFICATES,), "clustertrustbundles", 37),
    ("get", ("",), "serviceaccounts", 34),
    (f"{_READ} create", (_CERTIFICATES,), "podcertificaterequests", 37),
)
"""Verbs, groups, resources, and the minor whose default it is."""


def node_rules(minor: int) -> tuple[Mapping[str, Sequence[str]], ...]:
    """The rules as PolicyRules, with the features that are on by default in a minor."""
    return tuple(
        {"verbs": verbs.split(), "apiGroups": groups, "resources": resources.split()}
        for verbs, groups, resources, since in _ROWS
        if since <= minor
    )
