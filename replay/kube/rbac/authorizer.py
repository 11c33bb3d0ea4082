"""The RBAC authorizer of the API server (`plugin/pkg/auth/authorizer/rbac`, `pkg/registry/rbac/validation`).

RoleBindings are found by their subjects, so that it does not matter how many there are for others.
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
from replay.kube.rbac.binding import BoundRole, RoleBindings, missing_in, subject_key, subject_text
from replay.kube.rbac.kind import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, RBAC_GROUP, ROLE, ROLE_BINDING

MASTERS_GROUP = "system:masters"
NODES_GROUP = "system:nodes"
NODE_PREFIX = "system:node:"


class Grant(Struct, frozen=True):
    """The rules that a binding gives to a user, and how a reason names them; or why they could not be found.

    `binding` is its kind, namespace and name, `subject` what of the user is bound (`subject_key`). `unless` says why it is not known whether the user is a subject of the binding,
    None where it is one; `is_partial` whether something of the rules is not known.
    """

    rules: Sequence[Mapping[str, Any] | Missing] = ()
    source: str = ""
    error: str | None = None
    binding: tuple[str, str, str] = ("", "", "")
    subject: tuple[str, str] | None = None
    unless: Missing | None = None
    is_partial: bool = False


class RBACVerdict(NamedTuple):
    """Which bindings allow a request, of the whole cluster or else of the namespace.

    `refusal` is the reason where none does, `missing` what might allow it all the same.
    """

    allowing: tuple[Grant, ...] = ()
    refusal: str = ""
    missing: tuple[Missing, ...] = ()

    @property
    def reasons(self) -> tuple[str, ...]:
        """The reasons that the server may give, one for each binding: it visits those of one kind in no fixed order."""
        return tuple(f"RBAC: allowed by {grant.source}" for grant in self.allowing)


_UNKNOWN_GROUPS = Missing("authorizer", "the groups of the user are not in the log")


class Grants:
    """All that bindings give to a user in a namespace, in the order of their names, cluster-wide ones first.

    One object wherever the same bindings give the same roles, so that it can be compared by its identity.
    """

    __slots__ = ("_verdicts", "grants", "missing", "names")

    def __init__(self, grants: tuple[Grant, ...], missing: tuple[Missing, ...]) -> None:
        """`missing` says which bindings and roles are not known."""
        self.grants = grants
        self.missing = missing
        rules = [rule for grant in grants for rule in grant.rules if not isinstance(rule, Missing)]
        self.names = frozenset(name for rule in rules for name in _known_names(rule))
        """The names of objects that rules tell apart: all others are alike."""
        self._verdicts: dict[tuple[str, ...], RBACVerdict] = {}

    @property
    def verdicts(self) -> Iterable[RBACVerdict]:
        """Everything that was decided so far."""
        return self._verdicts.values()

    def decide(self, attributes: AuthorizationAttributes) -> RBACVerdict:
        """Which bindings allow a request of the user in the namespace; equal requests are decided once."""
        key: tuple[str, ...]
        if attributes.is_resource_request:
            name = attributes.name if attributes.name in self.names else ""
            key = (attributes.verb, attributes.api_group, attributes.resource, attributes.subresource, name)
        else:
            key = (attributes.verb, attributes.path)
        verdict = self._verdicts.get(key)
        if verdict is None:
            verdict = self._verdicts[key] = _verdict(self, attributes)
        return verdict


def names_told_apart(roles: Iterable[JSON | PartialObject | Missing]) -> frozenset[str]:
    """The names of objects that rules of some roles tell apart; what else there is among `roles` has no rules."""
    role_objects = [role.value if isinstance(role, PartialObject) else role for role in roles]
    listed = [role.get("rules") or () for role in role_objects if not isinstance(role, Missing)]
    rules = [rule for each in listed if not isinstance(each, Missing) for rule in each]
    return frozenset(name for rule in rules if not isinstance(rule, Missing) for name in _known_names(rule))


_Resolutions = dict[tuple[object, ...], tuple[Grants, object]]
"""Grants by the identity of what gives them, each with what must live as long."""


class RoleResolver:
    """Which rules a user has by the objects of a lister, which must not change (`DefaultRuleResolver`)."""

    def __init__(self, lister: Lister, base: RoleResolver | None = None) -> None:
        """Nothing is read before it is asked for.

        With a `base` the objects of `lister` are those that it lacks: bindings are in one of them, a role of `lister` counts.
        """
        self._lister = lister
        self._base = base
        self._bindings: dict[str, RoleBindings | Missing] = {}
        self._bound: dict[tuple[str, tuple[str, ...], str], tuple[tuple[BoundRole, ...], tuple[Missing, ...]]] = {}
        self._grants: dict[tuple[object, ...], Grants] = {}
        self._resolutions: _Resolutions = base.resolutions if base is not None else {}

    @property
    def resolutions(self) -> _Resolutions:
        """The grants that all resolvers with the same base have in common."""
        return self._resolutions

    @property
    def verdicts(self) -> Iterator[RBACVerdict]:
        """Everything that was decided so far by all resolvers with the same base."""
        return (verdict for grants, _ in self._resolutions.values() for verdict in grants.verdicts)

    def decide(self, attributes: AuthorizationAttributes) -> RBACVerdict:
        """Return who allows a request. Equal requests are decided once."""
        return self.grants(attributes.user, attributes.namespace).decide(attributes)

    def grants(self, user: UserInfo, namespace: str) -> Grants:
        """Everything that applies to a user in a namespace; empty for the cluster."""
        key = (user.username, user.groups, user.missing, namespace)
        grants = self._grants.get(key)
        if grants is None:
            grants = self._grants[key] = self._resolved(user, namespace)
        return grants

    def _resolved(self, user: UserInfo, namespace: str) -> Grants:
        """The grants of a user, made anew only where a binding or a role is another."""
        bound, missing = self._all_bound(user, namespace)
        roles = [self._role(each) for each in bound]
        # Objects are told apart by their identity: those that are kept with the grants live as long as these.
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
        """The bindings for a user, those of the cluster first, and what there may be beside them."""
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
        """The bindings of the lister alone for a user, those of the cluster first, and what there may be beside them."""
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
            user_bindings = () if isinstance(bindings, Missing) else tuple(bindings.of(user))
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
        """A role, as `Lister.get`."""
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
    """A binding as a reason names it, for one of its subjects (`clusterRoleBindingDescriber`, `roleBindingDescriber`)."""
    ref, name = binding["roleRef"], binding["metadata"]["name"]
    named = f"{name}/{namespace}" if namespace else name
    return f'{kind} "{named}" of {ref["kind"]} "{ref["name"]}" to {subject_text(subject, namespace)}'


def _known_names(rule: Mapping[str, Any]) -> Sequence[str]:
    """Return the known `resourceNames` of a rule."""
    names = rule.get("resourceNames") or ()
    return () if isinstance(names, Missing) else [name for name in names if isinstance(name, str)]


def unused_bindings(resolver: RoleResolver, bindings: Iterable[JSON]) -> list[tuple[str, str, str]]:
    """The bindings (kind, namespace, name) that allowed nothing of `resolver.verdicts`; several may allow the same."""
    used = {grant.binding for verdict in resolver.verdicts for grant in verdict.allowing}
    own = {(each["kind"], each["metadata"].get("namespace") or "", each["metadata"]["name"]) for each in bindings}
    return sorted(own - used)


class RBACAuthorizer:
    """The group `system:masters`, then RBAC: all that can be told of a chain from RBAC objects alone.

    Two more authorizers of a usual cluster look at what is not in them: the node authorizer, which knows which pods run
    where, so that a refusal of a node is not known here; and webhooks, of which nothing is known.
    """

    def __init__(self, lister: Lister) -> None:
        """Remember where the objects are."""
        self._roles = RoleResolver(lister)

    def authorize(self, attributes: AuthorizationAttributes) -> AuthorizationDecision | Missing:
        """The decision, or what of the cluster is not known; of several bindings the first by name gives the reason."""
        if MASTERS_GROUP in attributes.user.groups:
            return AuthorizationDecision(allowed=True)
        verdict = self._roles.decide(attributes)
        if verdict.allowing:
            return AuthorizationDecision(allowed=True, reason=verdict.reasons[0])
        if verdict.missing:
            return verdict.missing[0]
        if NODES_GROUP in attributes.user.groups and attributes.user.username.startswith(NODE_PREFIX):
            return Missing("authorizer", "the node authorizer decides by the pods of the node")
        return AuthorizationDecision(allowed=False, reason=verdict.refusal)


MOST_AUTHORIZERS = 32
"""How many are remembered: each has all bindings of the cluster."""


class RBACAuthorizers:
    """Authorizers of a log's RBAC with some objects of another world: one for all requests between two changes."""

    def __init__(self) -> None:
        """Start empty."""
        self._authorizers: dict[tuple[int, str], tuple[object, list[Sequence[JSON]], RBACAuthorizer]] = {}

    def of(self, lister: Lister, namespace: str, others: object, world: Callable[[], Lister]) -> RBACAuthorizer:
        """The authorizer of requests about a namespace (empty for the cluster); `world` lists what `lister` does, but for `others`.

        INVARIANT: listers answer with the same object as long as nothing of a kind was written (`Lister.list`), and what is kept lives.
        """
        objects = _objects(lister, namespace)
        key = (id(others), namespace)
        entry = self._authorizers.get(key)
        if entry is not None and len(entry[1]) == len(objects) and all(map(operator.is_, entry[1], objects)):
            return entry[2]
        authorizer = RBACAuthorizer(world())
        if objects:
            if len(self._authorizers) >= MOST_AUTHORIZERS:
                del self._authorizers[next(iter(self._authorizers))]
            self._authorizers[key] = (others, objects, authorizer)
        return authorizer


def _objects(lister: Lister, namespace: str) -> list[Sequence[JSON]]:
    """Return all RBAC objects of a namespace and the cluster; empty if some are unknown."""
    listed = [lister.list(kind, None) for kind in (CLUSTER_ROLE_BINDING, CLUSTER_ROLE)]
    listed += [lister.list(kind, namespace) for kind in (ROLE_BINDING, ROLE)] if namespace else []
    objects = [each for each in listed if not isinstance(each, Missing)]
    return objects if len(objects) == len(listed) else []


def _verdict(grants: Grants, attributes: AuthorizationAttributes) -> RBACVerdict:
    """Return the verdict. An unknown binding or role matters only if no other one allows."""
    missing = list(grants.missing)
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
    """Whether some rule of a grant covers a request, or why that is not known."""
    unknown: Missing | None = None
    for rule in grant.rules:
        missing = missing_in(rule) if grant.is_partial else None
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


def _holds(entries: Sequence[str] | None, value: str) -> bool:
    return entries is not None and ("*" in entries or value in entries)


def _resource_matches(entry: str, attributes: AuthorizationAttributes) -> bool:
    subresource = attributes.subresource
    if not subresource:
        return entry in ("*", attributes.resource)
    return entry in ("*", f"{attributes.resource}/{subresource}", f"*/{subresource}")


def _url_matches(entry: str, path: str) -> bool:
    return entry in ("*", path) or (entry.endswith("*") and path.startswith(entry.rstrip("*")))


def _refusal(errors: Sequence[str]) -> str:
    if not errors:
        return ""
    return f"RBAC: {errors[0]}" if len(errors) == 1 else f"RBAC: [{', '.join(errors)}]"
