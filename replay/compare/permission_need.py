"""Permissions that requests needed, by the bindings that gave them at their time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from replay.authorization.access import Subject
from replay.authorization.chains import NO_GRAPH, Chains
from replay.authorization.manifest import RBACKey, rbac_key
from replay.compare.permission_use import BindingUse, PermissionUse, PermissionUses, SubjectUse
from replay.errors import ReplayError
from replay.json import JSON
from replay.kube.attributes import Missing
from replay.kube.authorizer import AuthorizationAttributes
from replay.kube.rbac import (
    CLUSTER_ROLE,
    CLUSTER_ROLE_BINDING,
    Permission,
    is_collected,
    missing_in,
    permission_asked,
    permissions_of,
    rule_of,
    subject_key,
)
from replay.kube.rbac_authorizer import Grant, Grants, rule_allows, source_text

_BOOTSTRAPPING = "kubernetes.io/bootstrapping"
BY_RBAC = "RBAC: allowed by "
_CREATING = frozenset(["patch", "update"])
_STREAMS = frozenset(["attach", "exec", "portforward"])


class UnusedQuestion(Struct, frozen=True):
    """The selected bindings: those of this user, service account or group, in these namespaces; all by default.

    `since` and `until` are the period, as for `replay report`.
    """

    subject: str | None = None
    namespaces: tuple[str, ...] = ()
    since: str | None = None
    until: str | None = None

    def asks(self, binding: JSON) -> bool:
        """Return whether the question selects a binding."""
        namespace = binding["metadata"].get("namespace") or ""
        if self.namespaces and not any(fnmatchcase(namespace, pattern) for pattern in self.namespaces):
            return False
        return self.subject is None or any(each.name == self.subject for each in _subjects(binding))


class _Mark(NamedTuple):
    """A permission of a subject of a binding."""

    binding: RBACKey
    subject: Subject
    permission: Permission


class _Needed(NamedTuple):
    """Permissions that allow a request, and the names of their bindings and of others that would have allowed it."""

    marks: tuple[_Mark, ...]
    sources: frozenset[str]
    others: frozenset[tuple[RBACKey, Subject]]


class PermissionNeeds(Struct):
    """The needed permissions of each binding and subject.

    `told` are grants by their name in a reason of the log. While RBAC was changing, the log shows more than its own
    writes.
    """

    chains: Chains
    told: Mapping[str, Grant]
    uses: dict[tuple[RBACKey, Subject], SubjectUse] = field(default_factory=dict)
    unexplained: Counter[str] = field(default_factory=Counter)
    _needed: dict[tuple[object, ...], _Needed] = field(default_factory=dict)

    def count(
        self,
        attributes: AuthorizationAttributes,
        rbac: int,
        told: tuple[bool, str | None],
        times: tuple[int, int, int],
    ) -> None:
        """Count equal requests. `told` says whether they created an object, and holds the reason in the log."""
        created, reason = told
        grants = self.chains.grants_of((rbac, NO_GRAPH), attributes.user, attributes.namespace)[0]
        marks, sources, others = self._needed_permissions(grants, attributes)
        source = (reason or "").removeprefix(BY_RBAC)
        # The log names a grant that the RBAC objects known for that time do not have.
        if source and source not in sources:
            grant = self.told.get(source)
            own = list(dict.fromkeys(_marks(grant, attributes))) if grant is not None else []
            marks = (*marks, *own)
            if not own:
                self.unexplained[source] += times[0]
        counted: set[tuple[RBACKey, Subject]] = set()
        for mark in marks:
            self._add(mark, attributes, times, counted)
        for other in _further_checks(attributes, created=created):
            for mark in self._needed_permissions(grants, other)[0]:
                self._add(mark, other, times, counted)
        for place in others - counted:
            self.uses.setdefault(place, SubjectUse(place[1])).allowed_before += times[0]

    def _add(
        self,
        mark: _Mark,
        attributes: AuthorizationAttributes,
        times: tuple[int, int, int],
        counted: set[tuple[RBACKey, Subject]],
    ) -> None:
        place = (mark.binding, mark.subject)
        own = self.uses.setdefault(place, SubjectUse(mark.subject))
        own.used.setdefault(mark.permission, PermissionUse()).add(*times, permission_asked(attributes))
        # Several permissions of one binding count as one request.
        if place not in counted:
            counted.add(place)
            own.requests += times[0]
            own.users.add(attributes.user.username)

    def _needed_permissions(self, grants: Grants, attributes: AuthorizationAttributes) -> _Needed:
        """Return the permissions among some grants that allow a request.

        Grants in a namespace count only if no cluster-wide grant allows it, in the server's order.
        """
        name = attributes.name if attributes.name in grants.names else ""
        key = (id(grants), permission_asked(attributes), name)
        entry = self._needed.get(key)
        if entry is None:
            own = [(grant, mark) for grant in grants.grants for mark in _marks(grant, attributes)]
            first = [each for each in own if each[0].binding[0] == CLUSTER_ROLE_BINDING.kind] or own
            others = frozenset((mark.binding, mark.subject) for grant, mark in own if (grant, mark) not in first)
            entry = self._needed[key] = _Needed(
                tuple(dict.fromkeys(mark for _, mark in first)), frozenset(grant.source for grant, _ in first), others
            )
        return entry


def named_grants(objects: Sequence[JSON]) -> Iterator[tuple[str, Grant]]:
    """Yield every subject of every binding as a grant, with the name that a reason gives it."""
    roles = {rbac_key(obj): obj for obj in objects}
    for binding in objects:
        role = roles.get(_role_key(binding)) if binding["kind"].endswith("Binding") else None
        namespace = binding["metadata"].get("namespace") or ""
        for subject in binding.get("subjects") or () if role is not None else ():
            source = source_text(binding["kind"], binding, subject, namespace)
            own = subject_key(subject, namespace)
            yield source, Grant((role or {}).get("rules") or (), source, binding=rbac_key(binding), subject=own)


def _marks(grant: Grant, attributes: AuthorizationAttributes) -> Iterator[_Mark]:
    """Yield the permissions of a grant that allow a request, nothing if it is uncertain that the user has them."""
    if grant.subject is None or grant.unless is not None:
        return
    for rule in grant.rules:
        if isinstance(rule, Missing) or (grant.is_partial and missing_in(rule) is not None):
            continue
        if rule_allows(rule, attributes):
            for permission in permissions_of(rule):
                # A rule gives many permissions. Only those count that allow the request by themselves.
                if rule_allows(rule_of(permission), attributes):
                    yield _Mark(grant.binding, Subject(*grant.subject), permission)


def _further_checks(attributes: AuthorizationAttributes, *, created: bool) -> Iterator[AuthorizationAttributes]:
    """Yield further permission checks of the server for a request, which have no event of their own.

    A user who creates an object by an apply or an update needs permission to create it
    (`k8s.io/apiserver/pkg/endpoints/handlers`). A user who opens a stream by GET needs permission to create one
    (`AuthorizePodWebsocketUpgradeCreatePermission`).
    """
    is_stream = attributes.verb == "get" and attributes.subresource in _STREAMS
    if is_stream or (created and attributes.verb in _CREATING):
        yield replace(attributes, verb="create")


def with_bindings(
    uses: PermissionUses,
    objects: Sequence[JSON],
    needed: dict[tuple[RBACKey, Subject], SubjectUse],
    question: UnusedQuestion,
) -> PermissionUses:
    """Return the uses with the selected bindings and their needed permissions."""
    roles = {rbac_key(obj): obj for obj in objects if not obj["kind"].endswith("Binding")}
    bindings = [obj for obj in objects if obj["kind"].endswith("Binding")]
    asked = [each for each in bindings if not _is_built_in(each) and question.asks(each)]
    if not asked:
        raise ReplayError("no binding is for it", path="--user" if question.subject else "--namespace")
    others = {_role_key(each) for each in bindings if each not in asked}
    shared = {key for key, role in roles.items() if key in others or _is_written_by_others(role, roles.values())}
    listed = []
    for binding in asked:
        role = roles.get(_role_key(binding))
        if role is None:
            uses.dangling += 1
            continue
        key, namespace = rbac_key(binding), binding["metadata"].get("namespace") or ""
        permissions = (each for rule in role.get("rules") or () for each in permissions_of(rule))
        # A RoleBinding gives no permissions for URLs.
        own = tuple(dict.fromkeys(each for each in permissions if not namespace or each.url is None))
        subjects = tuple(needed.get((key, each)) or SubjectUse(each) for each in _subjects(binding))
        listed.append(BindingUse(binding, role, own, subjects, _role_key(binding) in shared))
    uses.bindings = tuple(listed)
    uses.built_in = sum(map(_is_built_in, bindings))
    return uses


def _is_built_in(obj: JSON) -> bool:
    """Return whether a server recreates an object at its start.

    Source: `k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy`.
    """
    return _BOOTSTRAPPING in (obj["metadata"].get("labels") or {})


def _is_written_by_others(role: JSON, roles: Iterable[JSON]) -> bool:
    """Return whether narrowing a role would be undone, or would also narrow other roles."""
    if _is_built_in(role) or role.get("aggregationRule"):
        return True
    return role["kind"] == CLUSTER_ROLE.kind and is_collected(
        role, (each for each in roles if each["kind"] == CLUSTER_ROLE.kind)
    )


def _role_key(binding: JSON) -> RBACKey:
    ref = binding["roleRef"]
    namespace = str(binding["metadata"].get("namespace") or "") if ref["kind"] == "Role" else ""
    return str(ref["kind"]), namespace, str(ref["name"])


def _subjects(binding: JSON) -> list[Subject]:
    """Return the subjects of a binding, without repetitions."""
    namespace = binding["metadata"].get("namespace") or ""
    keys = (subject_key(each, namespace) for each in binding.get("subjects") or ())
    return list(dict.fromkeys(Subject(*key) for key in keys if key is not None))
