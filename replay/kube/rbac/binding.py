"""Bindings, indexed by their subjects (`k8s.io/kubernetes/pkg/registry/rbac/validation`)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from replay.json import JSON
from replay.kube.attributes import Missing, PartialObject, PossiblyAbsent, UserInfo

SERVICE_ACCOUNT = "system:serviceaccount:"
"""The prefix of service accounts' user names. Namespace and name follow it."""


class BoundRole(NamedTuple):
    """A binding for a user.

    `subject` is the first subject that is the user. It is `Missing` if it is unknown whether the user is one, or
    whether the binding exists. `is_partial` marks a binding that is partly unknown.
    """

    kind: str
    binding: JSON
    subject: JSON | Missing
    is_partial: bool

    @property
    def name(self) -> str:
        """Return the name of the binding."""
        return str(self.binding["metadata"]["name"])


class RoleBindings:
    """The bindings of a namespace or of the cluster, indexed by subject.

    A binding with unknown subjects may be anybody's. `missing` says what bindings there may be besides.
    """

    def __init__(self, kind: str, listed: Iterable[JSON | PartialObject | Missing], namespace: str) -> None:
        """Index the bindings. All of `listed` have one kind, and RoleBindings are all in `namespace`."""
        self._kind = kind
        self.missing = tuple(
            each for each in listed if isinstance(each, Missing) and not isinstance(each, PossiblyAbsent)
        )
        bindings = [each for each in listed if isinstance(each, PossiblyAbsent) or not isinstance(each, Missing)]
        self._bindings = [_known_part(each) for each in bindings]
        self._doubts = {number: each for number, each in enumerate(bindings) if isinstance(each, PossiblyAbsent)}
        self._partial = {number for number, each in enumerate(bindings) if isinstance(each, PartialObject)}
        self._by_subject: dict[tuple[str, str], list[int]] = defaultdict(list)
        self._anybodys: list[int] = []
        for number, binding in enumerate(self._bindings):
            subjects = binding.get("subjects") or ()
            if number in self._partial and missing_in(subjects) is not None:
                self._anybodys.append(number)
                continue
            for key in {subject_key(subject, namespace) for subject in subjects}:
                if key is not None:
                    self._by_subject[key].append(number)
        self._namespace = namespace

    def roles_for(self, user: UserInfo) -> Iterator[BoundRole]:
        """Yield the bindings for a user, in the order given."""
        if not self._bindings:
            return
        keys = [("User", user.username), *(("Group", group) for group in user.groups)]
        numbers = {number for key in keys for number in self._by_subject.get(key, ())}
        for number in sorted({*numbers, *self._anybodys}):
            binding = self._bindings[number]
            is_partial = number in self._partial
            if is_partial:
                subject = _subject(binding, user, self._namespace)
            else:
                subject = next(each for each in binding["subjects"] if _applies(each, user, self._namespace))
            if subject is not None:
                yield BoundRole(self._kind, binding, self._doubts.get(number, subject), is_partial)


def subject_key(subject: JSON, namespace: str) -> tuple[str, str] | None:
    """Return the name or group that a user must have to be this subject, or None if no user is."""
    kind, name = subject.get("kind"), subject.get("name", "")
    if kind in ("User", "Group"):
        return kind, name
    home = subject.get("namespace") or namespace
    return ("User", f"{SERVICE_ACCOUNT}{home}:{name}") if kind == "ServiceAccount" and home else None


def _applies(subject: JSON, user: UserInfo, namespace: str) -> bool:
    key = subject_key(subject, namespace)
    return key is not None and (key[1] == user.username if key[0] == "User" else key[1] in user.groups)


def _subject(binding: JSON, user: UserInfo, namespace: str) -> JSON | Missing | None:
    """Return the first subject of a binding that is the user, None if there is none, `Missing` if unknown."""
    subjects = binding.get("subjects") or ()
    if isinstance(subjects, Missing):
        return subjects
    unknown: Missing | None = None
    for subject in subjects:
        missing = missing_in(subject)
        if missing is not None:
            unknown = unknown or missing
        elif _applies(subject, user, namespace):
            return subject
    return unknown


def _known_part(listed: JSON | PartialObject | PossiblyAbsent) -> JSON:
    """Return the known part of a binding, as if it exists."""
    if isinstance(listed, PartialObject):
        return listed.value
    return listed.object if isinstance(listed, PossiblyAbsent) else listed


def missing_in(value: JSON | Missing) -> Missing | None:
    """Return the first unknown part of a value of a `PartialObject`, or None."""
    if isinstance(value, Missing):
        return value
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return next((missing for part in parts if (missing := missing_in(part)) is not None), None)


def subject_text(subject: JSON, namespace: str) -> str:
    """Return a subject as in reasons (`describeSubject`)."""
    name = subject.get("name", "")
    if subject.get("kind") == "ServiceAccount":
        name = f"{name}/{subject.get('namespace') or namespace}"
    return f'{subject.get("kind")} "{name}"'
