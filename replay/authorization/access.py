"""Comparison of the access that subjects have under two states of RBAC, rule by rule: what is newly granted, and to whom.

A rule is new unless one rule that the subject has today covers it. The server asks the same before a user may grant the
rule (`ConfirmNoEscalation` of `k8s.io/kubernetes/pkg/registry/rbac/validation`). The access of a subject includes that
of the groups which follow from its name, such as `system:authenticated`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from msgspec import Struct, field

from replay.authorization.manifest import RBACKey, rbac_key
from replay.json import JSON
from replay.kube.rbac import (
    ALL,
    CLUSTER_ROLE_BINDING,
    RBAC_GROUP,
    SERVICE_ACCOUNT,
    Permission,
    PolicyRule,
    covers,
    permissions_of,
    rule_of,
    subject_key,
    uncovered,
)
from replay.kube.rbac_authorizer import MASTERS_GROUP

_SERVICE_ACCOUNTS = "system:serviceaccounts"
_AUTHENTICATED, _UNAUTHENTICATED, _ANONYMOUS = "system:authenticated", "system:unauthenticated", "system:anonymous"
_FULL = Permission(ALL, ALL, ALL)
_ESCALATE = tuple(Permission("escalate", RBAC_GROUP, each) for each in ("clusterroles", "roles"))
_BIND = tuple(Permission("bind", RBAC_GROUP, each) for each in ("clusterroles", "roles"))
_IMPERSONATE = tuple(Permission("impersonate", "", each) for each in ("users", "groups", "serviceaccounts"))
_REACH = (
    ("everything", (_FULL,)),
    ("any permission (escalate)", _ESCALATE),
    ("any role (bind)", _BIND),
    ("what others may do (impersonate)", _IMPERSONATE),
)
"""Permissions that lead to further permissions, with their description in reports."""


class Subject(NamedTuple):
    """A user or a group as the authorizer knows it. A service account is a user."""

    kind: str
    name: str

    @property
    def text(self) -> str:
        """Name of the subject in reports."""
        if self.kind == "User" and self.name.startswith(SERVICE_ACCOUNT):
            return f"ServiceAccount {self.name.removeprefix(SERVICE_ACCOUNT).replace(':', '/', 1)}"
        return f"{self.kind} {self.name}"


class RoleRef(NamedTuple):
    """A role, with the namespace in which it is looked up. The namespace of a ClusterRole is empty."""

    kind: str
    namespace: str
    name: str


class NewAccess(Struct, frozen=True):
    """New access of one subject, in one namespace or (empty) in the whole cluster.

    `sources` are the bindings that grant it. `leads_to` describes the further permissions that it gives. `reachable`
    says whether the subject can already grant it to itself.
    """

    subject: Subject
    namespace: str
    permissions: tuple[Permission, ...]
    sources: tuple[str, ...]
    leads_to: tuple[str, ...] = ()
    reachable: bool = False


class UnknownAccess(NamedTuple):
    """A subject that is newly bound to an unknown role."""

    subject: Subject
    namespace: str
    role: RoleRef
    source: str


class AccessChange(Struct, frozen=True):
    """The new grants of an RBAC change. `unknown` are the bindings whose effect is uncertain."""

    new: tuple[NewAccess, ...]
    unknown: tuple[UnknownAccess, ...]

    @property
    def is_empty(self) -> bool:
        """Whether the change certainly grants nothing new."""
        return not self.new and not self.unknown


class _Bound(NamedTuple):
    """A role that a binding grants to a subject."""

    role: RoleRef
    rules: tuple[PolicyRule, ...] | None
    source: str


class _State(Struct):
    """The grants of a state of RBAC, by subject and namespace."""

    bound: dict[tuple[Subject, str], list[_Bound]] = field(default_factory=lambda: defaultdict(list))

    def rules(self, subject: Subject, namespace: str) -> list[PolicyRule]:
        """Return all rules that apply to a subject in a namespace, including those of its implied groups."""
        places = ("", namespace) if namespace else ("",)
        holders = [subject, *implied_groups(subject)]
        bound = (each for holder in holders for place in places for each in self.bound.get((holder, place), ()))
        return [rule for each in bound for rule in each.rules or ()]


def new_access(current: Iterable[JSON], candidate: Iterable[JSON], *, is_whole: bool) -> AccessChange:
    """Return the access that the RBAC objects of `candidate` grant and those of `current` do not.

    `is_whole` says that the objects are complete: a role that is missing grants nothing.
    """
    before, after = _state(current), _state(candidate)
    new, unknown = [], []
    for (subject, namespace), bound in sorted(after.bound.items()):
        if subject == Subject("Group", MASTERS_GROUP):
            continue  # it may do everything, whatever RBAC says
        old = before.bound.get((subject, namespace), ())
        known = {each.role for each in old}
        unknown += [
            UnknownAccess(subject, namespace, each.role, each.source)
            for each in bound
            # Where the objects are not all of the cluster's, the role may exist there.
            if not is_whole and each.rules is None and each.role not in known
        ]
        # `own` covers these too. Dropping them first saves comparisons.
        had = {permission for each in old for rule in each.rules or () for permission in permissions_of(rule)}
        granted = _bindings_by_permission(bound)
        own = before.rules(subject, namespace)
        if permissions := uncovered(own, (each for each in granted if each not in had)):
            sources = tuple(dict.fromkeys(source for each in permissions for source in granted[each]))
            leads_to = tuple(_leads_to(permissions))
            new.append(NewAccess(subject, namespace, tuple(permissions), sources, leads_to, _may_grant_itself(own)))
    return AccessChange(tuple(new), tuple(unknown))


def implied_groups(subject: Subject) -> tuple[Subject, ...]:
    """Return the groups that follow from a subject's name (`k8s.io/apiserver/pkg/authentication`)."""
    names: tuple[str, ...] = (_AUTHENTICATED,)
    if subject.name in (_ANONYMOUS, _UNAUTHENTICATED):
        names = (_UNAUTHENTICATED,)
    elif subject.kind == "User" and subject.name.startswith(SERVICE_ACCOUNT):
        namespace = subject.name.removeprefix(SERVICE_ACCOUNT).partition(":")[0]
        names = (f"{_SERVICE_ACCOUNTS}:{namespace}", _SERVICE_ACCOUNTS, _AUTHENTICATED)
    elif subject.kind == "Group" and subject.name.startswith(f"{_SERVICE_ACCOUNTS}:"):
        names = (_SERVICE_ACCOUNTS, _AUTHENTICATED)
    return tuple(Subject("Group", name) for name in names if name != subject.name)


def _state(objects: Iterable[JSON]) -> _State:
    listed = {rbac_key(obj): obj for obj in objects}
    state = _State()
    for key, obj in sorted(listed.items(), key=lambda item: item[0]):
        if not key[0].endswith("Binding"):
            continue
        namespace = "" if key[0] == CLUSTER_ROLE_BINDING.kind else key[1]
        role = _role(obj, namespace)
        found = listed.get((role.kind, role.namespace, role.name))
        rules = None if found is None else tuple(_applying(found.get("rules") or (), namespace))
        for each in obj.get("subjects") or ():
            subject = subject_key(each, namespace)
            if subject is not None:
                state.bound[Subject(*subject), namespace].append(_Bound(role, rules, _source(key, role)))
    return state


def _role(binding: JSON, namespace: str) -> RoleRef:
    ref = binding["roleRef"]
    return RoleRef(ref["kind"], namespace if ref["kind"] == "Role" else "", ref["name"])


def _source(key: RBACKey, role: RoleRef) -> str:
    kind, namespace, name = key
    return f"{kind} {f'{namespace}/' if namespace else ''}{name} of {role.kind} {role.name}"


def _applying(rules: Sequence[PolicyRule], namespace: str) -> Iterator[PolicyRule]:
    """Yield the rules that a binding grants. A RoleBinding never grants access to URLs."""
    for rule in rules:
        yield {**rule, "nonResourceURLs": []} if namespace and rule.get("nonResourceURLs") else rule


def _bindings_by_permission(bound: Iterable[_Bound]) -> dict[Permission, list[str]]:
    """Return the granted permissions, each with its bindings."""
    sources: dict[Permission, list[str]] = defaultdict(list)
    for each in bound:
        for rule in each.rules or ():
            for permission in permissions_of(rule):
                sources[permission].append(each.source)
    return sources


def _leads_to(permissions: Sequence[Permission]) -> Iterator[str]:
    """Yield what the permissions lead to. Full access leads to nothing more."""
    rules = [rule_of(each) for each in permissions if each.url is None and each.name is None]
    for words, wanted in _REACH:
        if any(covers(rule, each) for rule in rules for each in wanted):
            yield words
            if wanted == (_FULL,):
                return


def _may_grant_itself(rules: Sequence[PolicyRule]) -> bool:
    """Return whether the rules let a subject write a role of any content, or bind any role.

    Such a subject can give itself any permission (`RoleEscalationAuthorized` and `BindingAuthorized` of
    `k8s.io/kubernetes/pkg/registry/rbac`).
    """

    def may(verb: str, *resources: str) -> bool:
        return any(covers(rule, Permission(verb, RBAC_GROUP, each)) for rule in rules for each in resources)

    writes_role = any(may(verb, "clusterroles", "roles") for verb in ("create", "update", "patch"))
    writes_binding = any(may("create", each) for each in ("clusterrolebindings", "rolebindings"))
    return (may("escalate", "clusterroles", "roles") and writes_role) or (
        may("bind", "clusterroles") and writes_binding
    )
