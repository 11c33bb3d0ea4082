"""The RBAC authorizer of the API server (`plugin/pkg/auth/authorizer/rbac`, `pkg/registry/rbac/validation`).

RoleBindings are indexed by their subjects, so bindings for other users cost nothing.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import Struct

from replay.json import JSON
from replay.kube.attributes import Missing, PartialObject, UserInfo, field_of
from replay.kube.authorizer import AuthorizationAttributes, AuthorizationDecision
from replay.kube.gvk import GroupVersionKind
from replay.kube.lister import Lister
from replay.kube.rbac import (
    CLUSTER_ROLE,
    CLUSTER_ROLE_BINDING,
    RBAC_GROUP,
    ROLE,
    ROLE_BINDING,
    BoundRole,
    RoleBindings,
    missing_in,
    subject_key,
    subject_text,
)

MASTERS_GROUP = "system:masters"
NODES_GROUP = "system:nodes"
NODE_PREFIX = "system:node:"


class Grant(Struct, frozen=True):
    """The rules that a binding gives to a user, or the error why they could not be found.

    `source` names the binding in a reason. `binding` is its kind, namespace and name. `subject` is the bound name or
    group (`subject_key`). `unless` says why it is unknown whether the user is a subject, None if it is known.
    `is_partial` marks rules that are partly unknown.
    """

    rules: Sequence[Mapping[str, Any] | Missing] = ()
    source: str = ""
    error: str | None = None
    binding: tuple[str, str, str] = ("", "", "")
    subject: tuple[str, str] | None = None
    unless: Missing | None = None
    is_partial: bool = False


class RBACVerdict(NamedTuple):
    """The bindings that allow a request: those of the whole cluster, or else of the namespace.

    `refusal` is the reason if none allows it. `missing` are unknown parts that might allow it all the same.
    """

    allowing: tuple[Grant, ...] = ()
    refusal: str = ""
    missing: tuple[Missing, ...] = ()

    @property
    def reasons(self) -> tuple[str, ...]:
        """Return the reasons that the server may give, one for each binding.

        The server visits bindings of one kind in no fixed order.
        """
        return tuple(f"RBAC: allowed by {grant.source}" for grant in self.allowing)


_UNKNOWN_GROUPS = Missing("authorizer", "the log does not have the groups of the user")


class Grants:
    """All grants of bindings to a user in a namespace, sorted by binding name, cluster-wide ones first.

    The same bindings with the same roles give one object, so grants can be compared by identity.
    """

    __slots__ = ("_verdicts", "grants", "missing", "names")

    def __init__(self, grants: tuple[Grant, ...], missing: tuple[Missing, ...]) -> None:
        """Keep the grants. `missing` says which bindings and roles are unknown."""
        self.grants = grants
        self.missing = missing
        rules = [rule for grant in grants for rule in grant.rules if not isinstance(rule, Missing)]
        self.names = frozenset(name for rule in rules for name in _known_names(rule))
        """The object names that the rules distinguish. For all other names the verdict is the same."""
        self._verdicts: dict[tuple[str, ...], RBACVerdict] = {}

    @property
    def verdicts(self) -> Iterable[RBACVerdict]:
        """Return all verdicts so far."""
        return self._verdicts.values()

    def decide(self, attributes: AuthorizationAttributes) -> RBACVerdict:
        """Return which bindings allow a request of the user in the namespace. Equal requests are decided once."""
        key: tuple[str, ...]
        if attributes.is_resource_request:
            # A name that no rule names has the same verdict as any other such name.
            name = attributes.name if attributes.name in self.names else ""
            key = (attributes.verb, attributes.api_group, attributes.resource, attributes.subresource, name)
        else:
            key = (attributes.verb, attributes.path)
        verdict = self._verdicts.get(key)
        if verdict is None:
            verdict = self._verdicts[key] = _verdict(self, attributes)
        return verdict


def names_told_apart(roles: Iterable[JSON | PartialObject | Missing]) -> frozenset[str]:
    """Return the object names that the rules of some roles distinguish. Unknown roles have no rules."""
    role_objects = [role.value if isinstance(role, PartialObject) else role for role in roles]
    listed = [role.get("rules") or () for role in role_objects if not isinstance(role, Missing)]
    rules = [rule for each in listed if not isinstance(each, Missing) for rule in each]
    return frozenset(name for rule in rules if not isinstance(rule, Missing) for name in _known_names(rule))


_Resolutions = dict[tuple[object, ...], tuple[Grants, object]]
"""The grants by the identities of their bindings and roles, each with the objects that must live as long."""


class RoleResolver:
    """The rules of users by the RBAC objects of a lister, which must not change (`DefaultRuleResolver`)."""

    def __init__(self, lister: Lister, base: RoleResolver | None = None) -> None:
        """Read nothing yet.

        With a `base`, the objects of `lister` are those that the base lacks. A binding is in one of them. A role of
        `lister` wins.
        """
        self._lister = lister
        self._base = base
        self._bindings: dict[str, RoleBindings | Missing] = {}
        self._bound: dict[tuple[str, tuple[str, ...], str], tuple[tuple[BoundRole, ...], tuple[Missing, ...]]] = {}
        self._grants: dict[tuple[object, ...], Grants] = {}
        self._resolutions: _Resolutions = base.resolutions if base is not None else {}

    @property
    def resolutions(self) -> _Resolutions:
        """Return the grants that all resolvers with the same base share."""
        return self._resolutions

    @property
    def verdicts(self) -> Iterator[RBACVerdict]:
        """Return all verdicts so far of all resolvers with the same base."""
        return (verdict for grants, _ in self._resolutions.values() for verdict in grants.verdicts)

    def decide(self, attributes: AuthorizationAttributes) -> RBACVerdict:
        """Return who allows a request. Equal requests are decided once."""
        return self.grants(attributes.user, attributes.namespace).decide(attributes)

    def grants(self, user: UserInfo, namespace: str) -> Grants:
        """Return all grants of a user in a namespace, which is empty for the cluster."""
        key = (user.username, user.groups, user.missing, namespace)
        grants = self._grants.get(key)
        if grants is None:
            grants = self._grants[key] = self._resolved(user, namespace)
        return grants

    def _resolved(self, user: UserInfo, namespace: str) -> Grants:
        """Return the grants of a user. They are made again only if a binding or a role differs."""
        bound, missing = self._all_bound(user, namespace)
        roles = [self._role(each) for each in bound]
        # The key has identities (`id`), so the objects are kept with their grants: no other object can get the same id.
        key = (
            *(
                (id(each.binding), id(each.subject), role if isinstance(role, str) else id(role))
                for each, role in zip(bound, roles, strict=True)
            ),
            *missing,
        )
        resolution = self._resolutions.get(key)
        if resolution is None:
            results = [_grant(each, role, namespace) for each, role in zip(bound, roles, strict=True)]
            grants = tuple(grant for grant in results if isinstance(grant, Grant))
            absent = tuple(grant for grant in results if isinstance(grant, Missing))
            resolution = self._resolutions[key] = Grants(grants, (*missing, *absent)), (bound, roles)
        return resolution[0]

    def _all_bound(self, user: UserInfo, namespace: str) -> tuple[Sequence[BoundRole], tuple[Missing, ...]]:
        """Return the bindings for a user, those of the cluster first, and the unknown parts."""
        own, missing = self.own_bindings(user, namespace)
        if "groups" in user.missing:
            missing = (*missing, _UNKNOWN_GROUPS)
        if self._base is None:
            return own, missing
        below, missing_below = self._base.own_bindings(user, namespace)
        if own:
            below = tuple(sorted((*below, *own), key=lambda each: (each.kind != CLUSTER_ROLE_BINDING.kind, each.name)))
        return below, (*missing_below, *missing)

    def own_bindings(self, user: UserInfo, namespace: str) -> tuple[tuple[BoundRole, ...], tuple[Missing, ...]]:
        """Return the bindings of the lister alone for a user, those of the cluster first, and the unknown parts."""
        bindings_of_user, missing = self._bound_in(CLUSTER_ROLE_BINDING, "", user)
        if not namespace:
            return bindings_of_user, missing
        found_there, missing_there = self._bound_in(ROLE_BINDING, namespace, user)
        return (*bindings_of_user, *found_there), (*missing, *missing_there)

    def _bound_in(
        self, kind: GroupVersionKind, place: str, user: UserInfo
    ) -> tuple[tuple[BoundRole, ...], tuple[Missing, ...]]:
        key = (user.username, user.groups, place)
        entry = self._bound.get(key)
        if entry is None:
            bindings = self._bindings_of(kind, place)
            user_bindings = () if isinstance(bindings, Missing) else tuple(bindings.roles_for(user))
            entry = self._bound[key] = (
                user_bindings,
                ((bindings,) if isinstance(bindings, Missing) else bindings.missing),
            )
        return entry

    def _bindings_of(self, kind: GroupVersionKind, namespace: str) -> RoleBindings | Missing:
        bindings = self._bindings.get(namespace)
        if bindings is None:
            listed = self._lister.list(kind, namespace or None)
            bindings = listed if isinstance(listed, Missing) else RoleBindings(kind.kind, listed, namespace)
            self._bindings[namespace] = bindings
        return bindings

    def _role(self, bound: BoundRole) -> JSON | PartialObject | Missing:
        """Return the role of a binding, or the server's text for a missing one."""
        ref = bound.binding.get("roleRef") or {}
        missing = missing_in(ref) if bound.is_partial else None
        if missing is not None:
            return missing
        kind, name = ref.get("kind", ""), ref.get("name", "")
        namespace = bound.binding["metadata"].get("namespace") or ""
        if kind == "ClusterRole":
            role = self.role(CLUSTER_ROLE, "", name)
        elif kind == "Role":
            role = self.role(ROLE, namespace, name)
        else:
            return f'unsupported role reference kind: "{kind}"'
        return f'{kind.lower()}.{RBAC_GROUP} "{name}" not found' if role is None else role

    def role(self, kind: GroupVersionKind, namespace: str, name: str) -> JSON | PartialObject | Missing | None:
        """Return a role (see `Lister.get`)."""
        role = self._lister.get(kind, namespace, name)
        return self._base.role(kind, namespace, name) if role is None and self._base is not None else role


def _grant(bound: BoundRole, role: JSON | PartialObject | Missing, namespace: str) -> Grant | Missing:
    """Return what a binding grants, by its role or by the error for a missing role."""
    place = "" if bound.kind == CLUSTER_ROLE_BINDING.kind else namespace
    own = (bound.kind, place, bound.name)
    if isinstance(role, Missing):
        return role
    if isinstance(role, str):
        return Grant(error=role, binding=own)
    rules = field_of(role, "rules") or ()
    if isinstance(rules, Missing):
        return rules
    partial = isinstance(role, PartialObject)
    if isinstance(bound.subject, Missing):
        return Grant(rules, binding=own, unless=bound.subject, is_partial=partial)
    source = source_text(bound.kind, bound.binding, bound.subject, place)
    return Grant(rules, source, binding=own, subject=subject_key(bound.subject, place), is_partial=partial)


def source_text(kind: str, binding: JSON, subject: JSON, namespace: str) -> str:
    """Return a binding as in a reason, for one of its subjects.

    Source: `clusterRoleBindingDescriber`, `roleBindingDescriber`.
    """
    ref, name = binding["roleRef"], binding["metadata"]["name"]
    named = f"{name}/{namespace}" if namespace else name
    return f'{kind} "{named}" of {ref["kind"]} "{ref["name"]}" to {subject_text(subject, namespace)}'


def _known_names(rule: Mapping[str, Any]) -> Sequence[str]:
    """Return the known `resourceNames` of a rule."""
    names = rule.get("resourceNames") or ()
    return () if isinstance(names, Missing) else [name for name in names if isinstance(name, str)]


def unused_bindings(resolver: RoleResolver, bindings: Iterable[JSON]) -> list[tuple[str, str, str]]:
    """Return the bindings (kind, namespace, name) that allowed nothing in `resolver.verdicts`.

    Several may allow the same request.
    """
    used = {grant.binding for verdict in resolver.verdicts for grant in verdict.allowing}
    own = {(each["kind"], each["metadata"].get("namespace") or "", each["metadata"]["name"]) for each in bindings}
    return sorted(own - used)


class RBACAuthorizer:
    """The authorizer chain as far as RBAC objects show it: the group `system:masters`, then RBAC.

    A usual cluster has two more authorizers. The node authorizer knows which pods run on a node, so a denial for a node
    stays unknown here. Webhooks are not considered.
    """

    def __init__(self, lister: Lister) -> None:
        """Keep the lister of the RBAC objects."""
        self._roles = RoleResolver(lister)

    def authorize(self, attributes: AuthorizationAttributes) -> AuthorizationDecision | Missing:
        """Return the decision, or the unknown part of the cluster.

        If several bindings allow, the first by name gives the reason.
        """
        # The server asks the authorizer of this group before RBAC, and it gives no reason.
        if MASTERS_GROUP in attributes.user.groups:
            return AuthorizationDecision(allowed=True)
        verdict = self._roles.decide(attributes)
        if verdict.allowing:
            return AuthorizationDecision(allowed=True, reason=verdict.reasons[0])
        if verdict.missing:
            return verdict.missing[0]
        if NODES_GROUP in attributes.user.groups and attributes.user.username.startswith(NODE_PREFIX):
            return Missing("authorizer", "the decision of the node authorizer depends on the pods of the node")
        return AuthorizationDecision(allowed=False, reason=verdict.refusal)


MOST_AUTHORIZERS = 32
"""The greatest number of remembered authorizers. Each has all bindings of the cluster."""


class RBACAuthorizers:
    """Authorizers of the log's RBAC with some objects under the candidate.

    Between two changes, all requests share one.
    """

    def __init__(self) -> None:
        """Start empty."""
        self._authorizers: dict[tuple[int, str], tuple[object, list[Sequence[JSON]], RBACAuthorizer]] = {}

    def authorizer_for(
        self, lister: Lister, namespace: str, others: object, world: Callable[[], Lister]
    ) -> RBACAuthorizer:
        """Return the authorizer for requests in a namespace, which is empty for the cluster.

        `world` returns a lister of the same objects except for `others`. INVARIANT: a lister returns the identical list
        until an object of the kind is written (`Lister.list`), and kept lists stay alive.
        """
        objects = _objects(lister, namespace)
        key = (id(others), namespace)
        entry = self._authorizers.get(key)
        if entry is not None and len(entry[1]) == len(objects) and all(map(operator.is_, entry[1], objects)):
            return entry[2]
        authorizer = RBACAuthorizer(world())
        if objects:
            if len(self._authorizers) >= MOST_AUTHORIZERS:
                # The oldest one goes first: the log is read in order, so it is the least likely to be needed again.
                del self._authorizers[next(iter(self._authorizers))]
            self._authorizers[key] = (others, objects, authorizer)
        return authorizer


def _objects(lister: Lister, namespace: str) -> list[Sequence[JSON]]:
    """Return all RBAC objects of a namespace and the cluster, empty if some are unknown."""
    listed = [lister.list(kind, None) for kind in (CLUSTER_ROLE_BINDING, CLUSTER_ROLE)]
    listed += [lister.list(kind, namespace) for kind in (ROLE_BINDING, ROLE)] if namespace else []
    objects = [each for each in listed if not isinstance(each, Missing)]
    return objects if len(objects) == len(listed) else []


def _verdict(grants: Grants, attributes: AuthorizationAttributes) -> RBACVerdict:
    """Return the verdict. An unknown binding or role matters only if no other one allows."""
    missing = list(grants.missing)
    # The server visits RoleBindings only if no ClusterRoleBinding allows the request (`VisitRulesFor`).
    for kind in (CLUSTER_ROLE_BINDING.kind, ROLE_BINDING.kind):
        allowing: list[Grant] = []
        for grant in grants.grants:
            if grant.binding[0] == kind:
                allowed = _allows(grant, attributes)
                missing += [allowed] if isinstance(allowed, Missing) else []
                allowing += [grant] if allowed is True else []
        if allowing:
            return RBACVerdict(tuple(allowing))
    errors = list(dict.fromkeys(grant.error for grant in grants.grants if grant.error))
    return RBACVerdict((), _refusal(errors), tuple(missing))


def _allows(grant: Grant, attributes: AuthorizationAttributes) -> bool | Missing:
    """Return whether a rule of a grant covers a request, or why that is unknown."""
    unknown: Missing | None = None
    for rule in grant.rules:
        missing = missing_in(rule) if grant.is_partial else None
        if missing is not None:
            unknown = missing
        elif not isinstance(rule, Missing) and rule_allows(rule, attributes):
            return grant.unless or True
    return unknown or False


def rule_allows(rule: Mapping[str, Any], attributes: AuthorizationAttributes) -> bool:
    """Return whether a PolicyRule covers a request (`RuleAllows`)."""
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


def _holds(entries: Sequence[str] | None, value: str) -> bool:
    return entries is not None and ("*" in entries or value in entries)


def _resource_matches(entry: str, attributes: AuthorizationAttributes) -> bool:
    subresource = attributes.subresource
    if not subresource:
        return entry in ("*", attributes.resource)
    return entry in ("*", f"{attributes.resource}/{subresource}", f"*/{subresource}")


def _url_matches(entry: str, path: str) -> bool:
    # The server removes all asterisks at the end (`strings.TrimRight`).
    return entry in ("*", path) or (entry.endswith("*") and path.startswith(entry.rstrip("*")))


def _refusal(errors: Sequence[str]) -> str:
    if not errors:
        return ""
    # Several errors are written as by `utilerrors.NewAggregate`.
    return f"RBAC: {errors[0]}" if len(errors) == 1 else f"RBAC: [{', '.join(errors)}]"
