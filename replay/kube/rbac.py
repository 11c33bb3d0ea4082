"""The RBAC authorizer of the API server (`plugin/pkg/auth/authorizer/rbac`, `pkg/registry/rbac/validation`).

Besides RBAC, the group `system:masters` may do everything. Two more authorizers of a usual cluster look at what is not in
RBAC objects: the node authorizer, which knows which pods run where, so that a refusal of a node is not known here; and
webhooks, of which nothing is known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from replay.json import JSON
from replay.kube.attributes import Missing, PartialObject, UserInfo, field_of
from replay.kube.authorizer import AuthorizationAttributes, AuthorizationDecision
from replay.kube.gvk import GroupVersionKind
from replay.kube.lister import Lister

_GROUP, _VERSION = "rbac.authorization.k8s.io", "v1"
ROLE = GroupVersionKind(_GROUP, _VERSION, "Role")
ROLE_BINDING = GroupVersionKind(_GROUP, _VERSION, "RoleBinding")
CLUSTER_ROLE = GroupVersionKind(_GROUP, _VERSION, "ClusterRole")
CLUSTER_ROLE_BINDING = GroupVersionKind(_GROUP, _VERSION, "ClusterRoleBinding")

MASTERS_GROUP = "system:masters"
NODES_GROUP = "system:nodes"
NODE_PREFIX = "system:node:"


@dataclass(frozen=True, slots=True)
class _Grant:
    """The rules that a binding gives to a user, and how a reason names them; or why they could not be found.

    `unless` says why it is not known whether the user is a subject of the binding, None where it is one.
    """

    rules: Sequence[Mapping[str, Any] | Missing] = ()
    source: str = ""
    error: str = ""
    unless: Missing | None = None


class RBACAuthorizer:
    """Decides by the RBAC objects of a lister; the first rule that matches gives the reason, bindings sorted by name.

    (The server visits bindings in no fixed order, so that where several allow, its reason may name another.)
    """

    def __init__(self, lister: Lister) -> None:
        """Remember where the objects are."""
        self._lister = lister

    def authorize(self, attributes: AuthorizationAttributes) -> AuthorizationDecision | Missing:
        """The decision, or what of the cluster is not known.

        What is not known of a binding or role only matters as long as no other one allows.
        """
        if MASTERS_GROUP in attributes.user.groups:
            return AuthorizationDecision(allowed=True)
        errors: dict[str, None] = {}
        unknown: Missing | None = None
        for grant in self._grants(attributes.user, attributes.namespace):
            if isinstance(grant, Missing):
                unknown = grant
                continue
            allowed = _allows(grant, attributes)
            if isinstance(allowed, Missing):
                unknown = allowed
            elif allowed:
                return AuthorizationDecision(allowed=True, reason=f"RBAC: allowed by {grant.source}")
            elif grant.error:
                errors[grant.error] = None
        if unknown is not None:
            return unknown
        if NODES_GROUP in attributes.user.groups and attributes.user.username.startswith(NODE_PREFIX):
            return Missing("authorizer", "the node authorizer decides by the pods of the node")
        return AuthorizationDecision(allowed=False, reason=_refusal(list(errors)))

    def _grants(self, user: UserInfo, namespace: str) -> Iterator[_Grant | Missing]:
        yield from self._bound(CLUSTER_ROLE_BINDING, user, "")
        if namespace:
            yield from self._bound(ROLE_BINDING, user, namespace)

    def _bound(self, kind: GroupVersionKind, user: UserInfo, namespace: str) -> Iterator[_Grant | Missing]:
        bindings = self._lister.list(kind, namespace or None)
        if isinstance(bindings, Missing):
            yield bindings
            return
        for each in bindings:
            binding = each.value if isinstance(each, PartialObject) else each
            subject = _subject(binding, user, namespace)
            if subject is not None:
                yield self._grant(kind, binding, subject, namespace)

    def _grant(self, kind: GroupVersionKind, binding: JSON, subject: JSON, namespace: str) -> _Grant | Missing:
        ref = binding.get("roleRef") or {}
        missing = _missing_in(ref)
        rules = missing or self._rules(ref.get("kind", ""), ref.get("name", ""), namespace)
        if isinstance(rules, (Missing, _Grant)):
            return rules
        if isinstance(subject, Missing):
            return _Grant(rules, unless=subject)
        place = binding["metadata"]["name"] + (f"/{namespace}" if namespace else "")
        source = f'{kind.kind} "{place}" of {ref["kind"]} "{ref["name"]}" to {_subject_text(subject, namespace)}'
        return _Grant(rules, source)

    def _rules(self, kind: str, name: str, namespace: str) -> Sequence[Mapping[str, Any] | Missing] | _Grant | Missing:
        """The rules of a role, or a grant of nothing that says why there are none."""
        if kind == "ClusterRole":
            role = self._lister.get(CLUSTER_ROLE, "", name)
        elif kind == "Role":
            role = self._lister.get(ROLE, namespace, name)
        else:
            return _Grant(error=f'unsupported role reference kind: "{kind}"')
        if role is None:
            return _Grant(error=f'{kind.lower()}.{_GROUP} "{name}" not found')
        return role if isinstance(role, Missing) else field_of(role, "rules") or ()


def _allows(grant: _Grant, attributes: AuthorizationAttributes) -> bool | Missing:
    """Whether some rule of a grant covers a request, or why that is not known."""
    unknown: Missing | None = None
    for rule in grant.rules:
        missing = _missing_in(rule)
        if missing is not None:
            unknown = missing
        elif not isinstance(rule, Missing) and rule_allows(rule, attributes):
            return grant.unless or True
    return unknown or False


def rule_allows(rule: Mapping[str, Any], attributes: AuthorizationAttributes) -> bool:
    """Whether a PolicyRule covers a request (`RuleAllows`)."""
    if not _holds(rule.get("verbs"), attributes.verb):
        return False
    if not attributes.is_resource_request:
        return any(_url_matches(url, attributes.path) for url in rule.get("nonResourceURLs") or ())
    names = rule.get("resourceNames")
    return (
        _holds(rule.get("apiGroups"), attributes.api_group)
        and any(_resource_matches(entry, attributes) for entry in rule.get("resources") or ())
        and (not names or attributes.name in names)
    )


def _holds(entries: Sequence[str] | None, wanted: str) -> bool:
    return entries is not None and ("*" in entries or wanted in entries)


def _resource_matches(entry: str, attributes: AuthorizationAttributes) -> bool:
    subresource = attributes.subresource
    if not subresource:
        return entry in ("*", attributes.resource)
    return entry in ("*", f"{attributes.resource}/{subresource}", f"*/{subresource}")


def _url_matches(entry: str, path: str) -> bool:
    return entry in ("*", path) or (entry.endswith("*") and path.startswith(entry.rstrip("*")))


def _subject(binding: JSON, user: UserInfo, namespace: str) -> JSON | Missing | None:
    """The first subject of a binding that is the user; None if there is none, `Missing` if that is not known."""
    subjects = binding.get("subjects") or ()
    if isinstance(subjects, Missing):
        return subjects
    unknown: Missing | None = None
    for subject in subjects:
        missing = _missing_in(subject)
        if missing is not None:
            unknown = unknown or missing
        elif _applies(subject, user, namespace):
            return subject
    return unknown


def _missing_in(value: JSON | Missing) -> Missing | None:
    """The first part of a value of a `PartialObject` that is not known."""
    if isinstance(value, Missing):
        return value
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return next((missing for part in parts if (missing := _missing_in(part)) is not None), None)


def _applies(subject: JSON, user: UserInfo, namespace: str) -> bool:
    kind, name = subject.get("kind"), subject.get("name", "")
    if kind == "User":
        return bool(user.username == name)
    if kind == "Group":
        return name in user.groups
    home = subject.get("namespace") or namespace
    return kind == "ServiceAccount" and bool(home) and user.username == f"system:serviceaccount:{home}:{name}"


def _subject_text(subject: JSON, namespace: str) -> str:
    name = subject.get("name", "")
    if subject.get("kind") == "ServiceAccount":
        name = f"{name}/{subject.get('namespace') or namespace}"
    return f'{subject.get("kind")} "{name}"'


def _refusal(errors: Sequence[str]) -> str:
    if not errors:
        return ""
    return f"RBAC: {errors[0]}" if len(errors) == 1 else f"RBAC: [{', '.join(errors)}]"
