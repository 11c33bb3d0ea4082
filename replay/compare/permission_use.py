"""What the bindings of a cluster give, and what of it the requests of a period needed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from msgspec import Struct, field

from replay.audit.period import Period
from replay.authorization.access import Subject
from replay.authorization.manifest import RBACKey, rbac_key
from replay.compare.confidence import Confidence, Doubt, confidence
from replay.json import JSON
from replay.kube.rbac.rule import Permission
from replay.reconstruct.history.derived import instant

_UNLOGGED = frozenset(["approve", "attest", "bind", "escalate", "impersonate", "sign", "use"])
"""Verbs that no request has: the server asks for them beside a request, and its audit log says nothing of it."""


def is_unlogged(permission: Permission) -> bool:
    """Whether a log can never show that a permission was needed."""
    return permission.verb in _UNLOGGED or permission.resource.endswith("/finalizers")


class PermissionUse(Struct):
    """How often a permission was needed, when first and last, and what exactly was asked for, with when that was first."""

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
    """What one subject of a binding needed.

    `requests` are those that the binding allowed it, `allowed_before` those that it would have allowed if no ClusterRoleBinding had:
    the server asks these first.
    """

    subject: Subject
    used: dict[Permission, PermissionUse] = field(default_factory=dict)
    requests: int = 0
    allowed_before: int = 0
    users: set[str] = field(default_factory=set)

    @property
    def last(self) -> int:
        """When it needed the binding last, 0 for never."""
        return max((use.last for use in self.used.values()), default=0)

    @property
    def newest(self) -> int:
        """When it asked for the first time for what it had not asked for before, 0 for never."""
        return max((first for use in self.used.values() for first in use.asked.values()), default=0)

    @property
    def once(self) -> int:
        """How many permissions it needed a single time."""
        return sum(use.requests == 1 for use in self.used.values())

    @property
    def wildcards(self) -> dict[Permission, set[Permission]]:
        """The wildcards that it needed, with what it asked for by each."""
        return {permission: set(use.asked) for permission, use in self.used.items() if permission.has_wildcard}

    def confidence(self, period: Period) -> Doubt:
        """How sure it is that the rest is not needed; `period` is that in which it was bound."""
        idle = not self.used and not self.allowed_before
        doubts = (
            Doubt(idle, Confidence.LOW, "it made no request"),
            Doubt(self.once > 0, Confidence.MEDIUM, "a rule was needed a single time"),
        )
        return confidence(period, self.newest, "a rule was needed for the first time", doubts)


class BindingUse(Struct, frozen=True):
    """A binding, its role, the permissions that the role gives by it, and what each subject needed of them.

    `is_shared` tells that its role cannot be narrowed: the server or a controller writes its rules, or others have them too.
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
        """As reports name it: one of a namespace after that."""
        _, namespace, name = self.key
        return f"{namespace}/{name}" if namespace else name

    def bound_in(self, period: Period) -> Period:
        """The part of a period in which the binding was there."""
        created = instant(self.binding["metadata"].get("creationTimestamp"))
        return Period(min(max(created, period.start), period.end), period.end)

    @property
    def role_name(self) -> str:
        """The role as reports name it."""
        return f"{self.role['kind']} {self.role['metadata']['name']}"

    @property
    def used(self) -> frozenset[Permission]:
        """What any subject needed."""
        return frozenset(permission for each in self.subjects for permission in each.used)

    def unused(self, subject: SubjectUse) -> list[Permission]:
        """What a subject never needed, as far as a log can show it."""
        return [each for each in self.permissions if each not in subject.used and not is_unlogged(each)]

    def needed(self) -> Iterator[Permission]:
        """The least that gives all that was needed: what was asked for where a rule has a wildcard, and what no log can show."""
        for permission in self.permissions:
            uses = [subject.used[permission] for subject in self.subjects if permission in subject.used]
            if permission.has_wildcard:
                for use in uses:
                    yield from (each._replace(name=permission.name) for each in sorted(use.asked))
            elif uses or is_unlogged(permission):
                yield permission


class PermissionUses(Struct):
    """All bindings that are asked about, over a period.

    `requests` are those that RBAC allowed; `built_in` bindings are the server's own and are left out; `dangling` ones have no
    role that is known. `unexplained` counts requests that the log says a binding allowed that is not there or gives something else, by its reason;
    `reviews` are the questions that other servers asked about users.
    """

    log: str
    period: Period
    requests: int = 0
    bindings: tuple[BindingUse, ...] = ()
    built_in: int = 0
    dangling: int = 0
    unexplained: Counter[str] = field(default_factory=Counter)
    reviews: int = 0
