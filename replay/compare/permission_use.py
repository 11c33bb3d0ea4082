"""Permissions that a log shows in use, and RBAC objects that grant only these."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct, field

from replay.audit.period import Period
from replay.authorization.access import Subject
from replay.authorization.manifest import RBACKey, rbac_key
from replay.compare.readiness import Confidence, Doubt, confidence
from replay.json import JSON
from replay.kube.authorizer import AuthorizationAttributes
from replay.kube.rbac import (
    CLUSTER_ROLE,
    RBAC_GROUP,
    ROLE,
    SERVICE_ACCOUNT,
    Permission,
    compacted,
    permission_asked,
    permissions_of,
    subject_key,
)
from replay.reconstruct.history.derived import instant

_UNLOGGED = frozenset(["approve", "attest", "bind", "escalate", "impersonate", "sign", "use"])
"""Verbs that no request has.

The server checks them in addition to the request, and its audit log does not record that.
"""


def is_unlogged(permission: Permission) -> bool:
    """Return whether a log can never show that a permission was needed."""
    return permission.verb in _UNLOGGED or permission.resource.endswith("/finalizers")


class PermissionUse(Struct):
    """Number of requests that needed a permission, with their first and last time.

    `asked` maps the exact permissions that were requested to the time of their first request.
    """

    requests: int = 0
    first: int = 0
    last: int = 0
    asked: dict[Permission, int] = field(default_factory=dict)

    def add(self, requests: int, first: int, last: int, asked: Permission) -> None:
        """Count requests that are alike."""
        self.first = min(self.first, first) if self.requests else first
        self.last = max(self.last, last)
        self.requests += requests
        self.asked[asked] = min(self.asked.get(asked, first), first)


class SubjectUse(Struct):
    """The permissions that one subject of a binding needed.

    `requests` counts those that the binding allowed. `allowed_before` counts those that it would have allowed if no
    ClusterRoleBinding had. The server checks ClusterRoleBindings first.
    """

    subject: Subject
    used: dict[Permission, PermissionUse] = field(default_factory=dict)
    requests: int = 0
    allowed_before: int = 0
    users: set[str] = field(default_factory=set)

    @property
    def last(self) -> int:
        """Time of the last request that needed the binding, or 0 for never."""
        return max((use.last for use in self.used.values()), default=0)

    @property
    def newest(self) -> int:
        """Time of the last request for something that was not requested before, or 0 for never."""
        return max((first for use in self.used.values() for first in use.asked.values()), default=0)

    @property
    def once(self) -> int:
        """Number of permissions that were needed only once."""
        return sum(use.requests == 1 for use in self.used.values())

    @property
    def wildcards(self) -> dict[Permission, set[Permission]]:
        """The wildcard permissions that were needed, with the exact permissions that were requested."""
        return {permission: set(use.asked) for permission, use in self.used.items() if permission.has_wildcard}

    def confidence(self, period: Period) -> Doubt:
        """Return the confidence that the other permissions are not needed. `period` is when the subject was bound."""
        idle = not self.used and not self.allowed_before
        doubts = (
            Doubt(idle, Confidence.LOW, "it made no request"),
            Doubt(self.once > 0, Confidence.MEDIUM, "a rule was needed a single time"),
        )
        return confidence(period, self.newest, "a rule was needed for the first time", doubts)


class BindingUse(Struct, frozen=True):
    """A binding with its role, the permissions that it grants, and what each subject needed of them.

    `is_shared` says that the role cannot be narrowed: the server or a controller writes its rules, or others use it
    too.
    """

    binding: JSON
    role: JSON
    permissions: tuple[Permission, ...]
    subjects: tuple[SubjectUse, ...]
    is_shared: bool = False

    @property
    def key(self) -> RBACKey:
        """Kind, namespace and name."""
        return rbac_key(self.binding)

    @property
    def name(self) -> str:
        """Name in reports: `namespace/name`, or the name alone."""
        _, namespace, name = self.key
        return f"{namespace}/{name}" if namespace else name

    def bound_in(self, period: Period) -> Period:
        """Return the part of a period in which the binding existed."""
        created = instant(self.binding["metadata"].get("creationTimestamp"))
        return Period(min(max(created, period.start), period.end), period.end)

    @property
    def role_name(self) -> str:
        """Name of the role in reports."""
        return f"{self.role['kind']} {self.role['metadata']['name']}"

    @property
    def used(self) -> frozenset[Permission]:
        """Permissions that any subject needed."""
        return frozenset(permission for each in self.subjects for permission in each.used)

    def unused(self, subject: SubjectUse) -> list[Permission]:
        """Return the permissions that a subject never needed, as far as a log can show it."""
        return [each for each in self.permissions if each not in subject.used and not is_unlogged(each)]

    def needed(self) -> Iterator[Permission]:
        """Yield the smallest set of permissions that covers everything needed.

        A wildcard is replaced by the exact permissions that were requested. Permissions that no log can show are kept.
        """
        for permission in self.permissions:
            uses = [subject.used[permission] for subject in self.subjects if permission in subject.used]
            if permission.has_wildcard:
                for use in uses:
                    yield from (each._replace(name=permission.name) for each in sorted(use.asked))
            elif uses or is_unlogged(permission):
                yield permission


class PermissionUses(Struct):
    """All bindings in question, over a period.

    `requests` counts those that RBAC allowed. `built_in` bindings belong to the server and are left out. The role of a
    `dangling` binding is unknown. `unexplained` counts, by reason, requests that the log says a binding allowed,
    although it does not exist or grants something else. `reviews` counts the questions of other servers about users.
    """

    log: str
    period: Period
    requests: int = 0
    bindings: tuple[BindingUse, ...] = ()
    built_in: int = 0
    dangling: int = 0
    unexplained: Counter[str] = field(default_factory=Counter)
    reviews: int = 0


_KEPT = ("name", "namespace", "labels", "annotations")
_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def narrowed(bindings: Sequence[BindingUse], names: Iterable[RBACKey] = ()) -> list[JSON]:
    """Return the roles and bindings that replace the current ones. `names` are keys that are already taken.

    A role keeps the rules that some subject of some binding needed. A binding keeps the subjects that needed it. If a
    role cannot be narrowed, the rules that a binding needs become a new role with a new binding.
    """
    taken = {rbac_key(each.binding) for each in bindings} | set(names)
    return [*_roles(bindings), *(obj for each in bindings for obj in _binding(each, taken))]


def _roles(bindings: Sequence[BindingUse]) -> Iterator[JSON]:
    """Yield the roles that can be narrowed, each once."""
    by_role: dict[RBACKey, list[BindingUse]] = {}
    for each in bindings:
        if not each.is_shared:
            by_role.setdefault(rbac_key(each.role), []).append(each)
    for _, own in sorted(by_role.items()):
        role = own[0].role
        needed = {permission for each in own if _needed_subjects(each) for permission in each.needed()}
        granted = {permission for rule in role.get("rules") or () for permission in permissions_of(rule)}
        if needed and needed != granted:
            yield _object(role["kind"], role["metadata"], {"rules": compacted(needed)})


def _binding(use: BindingUse, taken: set[RBACKey]) -> Iterator[JSON]:
    """Yield the objects that replace a binding."""
    kept, needed = _needed_subjects(use), set(use.needed())
    is_moved = use.is_shared and kept and needed != set(use.permissions)
    if is_moved:
        name = _free_name(use, taken)
        metadata = {"name": name, **({"namespace": use.key[1]} if use.key[1] else {})}
        kind = ROLE.kind if use.key[1] else CLUSTER_ROLE.kind
        yield _object(kind, metadata, {"rules": compacted(needed)})
        ref = {"apiGroup": RBAC_GROUP, "kind": kind, "name": name}
        yield _object(use.key[0], metadata, {"roleRef": ref, "subjects": kept})
    subjects = [] if is_moved else kept
    if subjects != list(use.binding.get("subjects") or ()):
        content = {"roleRef": use.binding["roleRef"], "subjects": subjects}
        yield _object(use.key[0], use.binding["metadata"], content)


def _needed_subjects(use: BindingUse) -> list[JSON]:
    """Return the subjects that needed a binding, or all subjects if a log cannot show the need."""
    subjects = list(use.binding.get("subjects") or ())
    if use.permissions and all(map(is_unlogged, use.permissions)):
        return subjects
    needed = {each.subject for each in use.subjects if each.used}
    keyed = ((each, subject_key(each, use.key[1])) for each in subjects)
    return [each for each, key in keyed if key is not None and Subject(*key) in needed]


def _free_name(use: BindingUse, taken: set[RBACKey]) -> str:
    """Return a name that no role or binding of the namespace has."""
    kind, namespace, name = use.key
    role = ROLE.kind if namespace else CLUSTER_ROLE.kind
    while (kind, namespace, name) in taken or (role, namespace, name) in taken:
        name += "-used"
    taken.add((kind, namespace, name))
    return name


def _object(kind: str, metadata: JSON, content: JSON) -> JSON:
    """Return an object without the fields that the server writes."""
    own = {name: metadata[name] for name in _KEPT if metadata.get(name)}
    if annotations := own.get("annotations"):
        own["annotations"] = {key: value for key, value in annotations.items() if key != _APPLIED}
    if not own.get("annotations"):
        own.pop("annotations", None)
    return {"apiVersion": f"{RBAC_GROUP}/v1", "kind": kind, "metadata": own, **content}


def objects_of(user: str, allowed: Iterable[AuthorizationAttributes]) -> Iterable[JSON]:
    """Yield a ClusterRole for cluster-scoped and all-namespace requests, and a Role for each namespace.

    Each comes with its binding.
    """
    places: dict[str, list[Permission]] = defaultdict(list)
    for each in allowed:
        places[each.namespace].append(permission_asked(each))
    for namespace in sorted(places):
        yield from _role_and_binding(user, namespace, compacted(places[namespace]))


def _role_and_binding(user: str, namespace: str, rules: list[JSON]) -> Iterable[JSON]:
    kind = "Role" if namespace else "ClusterRole"
    name = f"{user.rpartition(':')[2].rpartition('@')[0] or user.rpartition(':')[2]}-least".lower()
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    version = {"apiVersion": f"{RBAC_GROUP}/v1"}
    yield {**version, "kind": kind, "metadata": metadata, "rules": rules}
    ref = {"apiGroup": RBAC_GROUP, "kind": kind, "name": name}
    yield {**version, "kind": f"{kind}Binding", "metadata": metadata, "roleRef": ref, "subjects": [_subject_of(user)]}


def _subject_of(user: str) -> JSON:
    if not user.startswith(SERVICE_ACCOUNT):
        return {"apiGroup": RBAC_GROUP, "kind": "User", "name": user}
    namespace, _, name = user.removeprefix(SERVICE_ACCOUNT).partition(":")
    return {"kind": "ServiceAccount", "namespace": namespace, "name": name}
