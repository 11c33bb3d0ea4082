"""The RBAC authorizer of the API server (`plugin/pkg/auth/authorizer/rbac`, `pkg/registry/rbac/validation`).

Bindings are found by their subjects, so that it does not matter how many there are for others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

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
_SERVICE_ACCOUNT = "system:serviceaccount:"


@dataclass(frozen=True, slots=True)
class Grant:
    """The rules that a binding gives to a user, and how a reason names them; or why they could not be found.

    `binding` is its kind, namespace and name. `unless` says why it is not known whether the user is a subject of the binding,
    None where it is one; `is_partial` whether something of the rules is not known.
    """

    rules: Sequence[Mapping[str, Any] | Missing] = ()
    source: str = ""
    error: str = ""
    binding: tuple[str, str, str] = ("", "", "")
    unless: Missing | None = None
    is_partial: bool = False


class Grants(NamedTuple):
    """All that bindings give to a user in a namespace, in the order of their names, cluster-wide ones first.

    `missing` says which bindings and roles are not known; `names_matter` whether a rule looks at the name of the object.
    """

    found: tuple[Grant, ...]
    missing: tuple[Missing, ...]
    names_matter: bool


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


class _Bindings:
    """The bindings of a namespace, or those of the cluster, by who they are for.

    What is not known of a binding's subjects may make it anybody's; what may be a binding at all is in `missing`.
    """

    def __init__(self, listed: Iterable[JSON | PartialObject | Missing], namespace: str) -> None:
        self.missing = tuple(each for each in listed if isinstance(each, Missing))
        known = [each for each in listed if not isinstance(each, Missing)]
        self._bindings = [each.value if isinstance(each, PartialObject) else each for each in known]
        self._partial = {number for number, each in enumerate(known) if isinstance(each, PartialObject)}
        self._by_subject: dict[tuple[str, str], list[int]] = defaultdict(list)
        self._anybodys: list[int] = []
        for number, binding in enumerate(self._bindings):
            subjects = binding.get("subjects") or ()
            if number in self._partial and _missing_in(subjects) is not None:
                self._anybodys.append(number)
                continue
            for key in {_subject_key(subject, namespace) for subject in subjects}:
                if key is not None:
                    self._by_subject[key].append(number)
        self._namespace = namespace

    def of(self, user: UserInfo) -> Iterator[tuple[JSON, JSON | Missing]]:
        """The bindings for a user, each with the first subject that is the user, or why that is not known."""
        wanted = [("User", user.username), *(("Group", group) for group in user.groups)]
        numbers = {number for key in wanted for number in self._by_subject.get(key, ())}
        for number in sorted({*numbers, *self._anybodys}):
            binding = self._bindings[number]
            if number in self._partial:
                subject = _subject(binding, user, self._namespace)
            else:
                subject = next(each for each in binding["subjects"] if _applies(each, user, self._namespace))
            if subject is not None:
                yield binding, subject


class RoleResolver:
    """Which rules a user has by the objects of a lister, which must not change (`DefaultRuleResolver`)."""

    def __init__(self, lister: Lister) -> None:
        """Nothing is read before it is asked for."""
        self._lister = lister
        self._bindings: dict[str, _Bindings | Missing] = {}
        self._grants: dict[tuple[str, tuple[str, ...], str], Grants] = {}
        self._verdicts: dict[tuple[Any, ...], RBACVerdict] = {}

    @property
    def verdicts(self) -> Iterable[RBACVerdict]:
        """Everything that was decided so far."""
        return self._verdicts.values()

    def decide(self, attributes: AuthorizationAttributes) -> RBACVerdict:
        """Who allows a request; equal requests are decided once."""
        user = attributes.user
        grants = self.grants(user, attributes.namespace)
        key = (
            *(user.username, user.groups, attributes.namespace, attributes.verb, attributes.is_resource_request),
            *(attributes.api_group, attributes.resource, attributes.subresource),
            "" if attributes.is_resource_request else attributes.path,
            attributes.name if grants.names_matter else "",
        )
        found = self._verdicts.get(key)
        if found is None:
            found = self._verdicts[key] = _verdict(grants, attributes)
        return found

    def grants(self, user: UserInfo, namespace: str) -> Grants:
        """Everything that applies to a user in a namespace; empty for the cluster."""
        key = (user.username, user.groups, namespace)
        found = self._grants.get(key)
        if found is None:
            found = self._grants[key] = self._resolved(user, namespace)
        return found

    def _resolved(self, user: UserInfo, namespace: str) -> Grants:
        found: list[Grant] = []
        missing: list[Missing] = []
        for kind, place in ((CLUSTER_ROLE_BINDING, ""), (ROLE_BINDING, namespace)):
            if kind is ROLE_BINDING and not namespace:
                continue
            bindings = self._bound(kind, place)
            if isinstance(bindings, Missing):
                missing.append(bindings)
                continue
            missing += bindings.missing
            for binding, subject in bindings.of(user):
                grant = self._grant(kind, binding, subject, place)
                missing += [grant] if isinstance(grant, Missing) else []
                found += [grant] if isinstance(grant, Grant) else []
        rules = (rule for grant in found for rule in grant.rules)
        named = any(isinstance(rule, Missing) or rule.get("resourceNames") for rule in rules)
        return Grants(tuple(found), tuple(missing), named)

    def _bound(self, kind: GroupVersionKind, namespace: str) -> _Bindings | Missing:
        known = self._bindings.get(namespace)
        if known is None:
            listed = self._lister.list(kind, namespace or None)
            known = listed if isinstance(listed, Missing) else _Bindings(listed, namespace)
            self._bindings[namespace] = known
        return known

    def _grant(self, kind: GroupVersionKind, binding: JSON, subject: JSON | Missing, namespace: str) -> Grant | Missing:
        ref = binding.get("roleRef") or {}
        own = (kind.kind, namespace, binding["metadata"]["name"])
        role = _missing_in(ref) or self._role(ref.get("kind", ""), ref.get("name", ""), namespace)
        if isinstance(role, Missing):
            return role
        if isinstance(role, str):
            return Grant(error=role, binding=own)
        rules = field_of(role, "rules") or ()
        if isinstance(rules, Missing):
            return rules
        partial = isinstance(role, PartialObject)
        if isinstance(subject, Missing):
            return Grant(rules, binding=own, unless=subject, is_partial=partial)
        place = own[2] + (f"/{namespace}" if namespace else "")
        source = f'{kind.kind} "{place}" of {ref["kind"]} "{ref["name"]}" to {_subject_text(subject, namespace)}'
        return Grant(rules, source, binding=own, is_partial=partial)

    def _role(self, kind: str, name: str, namespace: str) -> JSON | PartialObject | Missing:
        """A role, or the server's text of why there is none."""
        if kind == "ClusterRole":
            role = self._lister.get(CLUSTER_ROLE, "", name)
        elif kind == "Role":
            role = self._lister.get(ROLE, namespace, name)
        else:
            return f'unsupported role reference kind: "{kind}"'
        return f'{kind.lower()}.{_GROUP} "{name}" not found' if role is None else role


def unused_bindings(resolvers: Iterable[RoleResolver], bindings: Iterable[JSON]) -> list[tuple[str, str, str]]:
    """The bindings (kind, namespace, name) that allowed nothing that the resolvers were asked; several may allow the same."""
    used = {grant.binding for resolver in resolvers for verdict in resolver.verdicts for grant in verdict.allowing}
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


def _verdict(grants: Grants, attributes: AuthorizationAttributes) -> RBACVerdict:
    """What is not known of a binding or role only matters as long as no other one allows."""
    missing = list(grants.missing)
    for kind in (CLUSTER_ROLE_BINDING.kind, ROLE_BINDING.kind):
        allowing: list[Grant] = []
        for grant in grants.found:
            if grant.binding[0] == kind:
                allowed = _allows(grant, attributes)
                missing += [allowed] if isinstance(allowed, Missing) else []
                allowing += [grant] if allowed is True else []
        if allowing:
            return RBACVerdict(tuple(allowing))
    errors = list(dict.fromkeys(grant.error for grant in grants.found if grant.error))
    return RBACVerdict((), _refusal(errors), tuple(missing))


def _allows(grant: Grant, attributes: AuthorizationAttributes) -> bool | Missing:
    """Whether some rule of a grant covers a request, or why that is not known."""
    unknown: Missing | None = None
    for rule in grant.rules:
        missing = _missing_in(rule) if grant.is_partial else None
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


def _subject_key(subject: JSON, namespace: str) -> tuple[str, str] | None:
    """What a user must have to be this subject: a name or a group; None if nobody is."""
    kind, name = subject.get("kind"), subject.get("name", "")
    if kind in ("User", "Group"):
        return kind, name
    home = subject.get("namespace") or namespace
    return ("User", f"{_SERVICE_ACCOUNT}{home}:{name}") if kind == "ServiceAccount" and home else None


def _applies(subject: JSON, user: UserInfo, namespace: str) -> bool:
    key = _subject_key(subject, namespace)
    return key is not None and (key[1] == user.username if key[0] == "User" else key[1] in user.groups)


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
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return next((missing for part in parts if (missing := _missing_in(part)) is not None), None)


def _subject_text(subject: JSON, namespace: str) -> str:
    name = subject.get("name", "")
    if subject.get("kind") == "ServiceAccount":
        name = f"{name}/{subject.get('namespace') or namespace}"
    return f'{subject.get("kind")} "{name}"'


def _refusal(errors: Sequence[str]) -> str:
    if not errors:
        return ""
    return f"RBAC: {errors[0]}" if len(errors) == 1 else f"RBAC: [{', '.join(errors)}]"
