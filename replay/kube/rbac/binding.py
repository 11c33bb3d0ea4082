"""Bindings by who they are for, and who is a subject of one (`k8s.io/kubernetes/pkg/registry/rbac/validation`)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from replay.json import JSON
from replay.kube.attributes import Missing, PartialObject, PerhapsAbsent, UserInfo

SERVICE_ACCOUNT = "system:serviceaccount:"
"""What the user names of service accounts begin with: namespace and name follow."""


class BoundRole(NamedTuple):
    """A binding for a user: the first subject that is the user, or why that is not known, or whether the binding is there.

    `is_partial` whether something of the binding is not known.
    """

    kind: str
    binding: JSON
    subject: JSON | Missing
    is_partial: bool

    @property
    def name(self) -> str:
        """The name of the binding."""
        return str(self.binding["metadata"]["name"])


class RoleBindings:
    """The bindings of a namespace, or those of the cluster, by who they are for.

    What is not known of a binding's subjects may make it anybody's; what may be a binding at all is in `missing`.
    """

    def __init__(self, kind: str, listed: Iterable[JSON | PartialObject | Missing], namespace: str) -> None:
        """All of `listed` are of one kind, and of `namespace` if they are of any."""
        self._kind = kind
        self.missing = tuple(
            each for each in listed if isinstance(each, Missing) and not isinstance(each, PerhapsAbsent)
        )
        bindings = [each for each in listed if isinstance(each, PerhapsAbsent) or not isinstance(each, Missing)]
        self._bindings = [_known_part(each) for each in bindings]
        self._doubts = {number: each for number, each in enumerate(bindings) if isinstance(each, PerhapsAbsent)}
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

    def of(self, user: UserInfo) -> Iterator[BoundRole]:
        """The bindings for a user, in the order given."""
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
    """What a user must have to be this subject: a name or a group; None if nobody is."""
    kind, name = subject.get("kind"), subject.get("name", "")
    if kind in ("User", "Group"):
        return kind, name
    home = subject.get("namespace") or namespace
    return ("User", f"{SERVICE_ACCOUNT}{home}:{name}") if kind == "ServiceAccount" and home else None


def _applies(subject: JSON, user: UserInfo, namespace: str) -> bool:
    key = subject_key(subject, namespace)
    return key is not None and (key[1] == user.username if key[0] == "User" else key[1] in user.groups)


def _subject(binding: JSON, user: UserInfo, namespace: str) -> JSON | Missing | None:
    """The first subject of a binding that is the user; None if there is none, `Missing` if that is not known."""
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


def _known_part(listed: JSON | PartialObject | PerhapsAbsent) -> JSON:
    """A binding, as far as it is known, if it is there."""
    if isinstance(listed, PartialObject):
        return listed.value
    return listed.object if isinstance(listed, PerhapsAbsent) else listed


def missing_in(value: JSON | Missing) -> Missing | None:
    """The first part of a value of a `PartialObject` that is not known."""
    if isinstance(value, Missing):
        return value
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return next((missing for part in parts if (missing := missing_in(part)) is not None), None)


def subject_text(subject: JSON, namespace: str) -> str:
    """A subject as reasons name it (`describeSubject`)."""
    name = subject.get("name", "")
    if subject.get("kind") == "ServiceAccount":
        name = f"{name}/{subject.get('namespace') or namespace}"
    return f'{subject.get("kind")} "{name}"'
