"""What only follows a denial: requests on objects that a candidate would not have let into being.

A root finding is a denied creation; later requests on that object, on what it controls, and on anything in a denied Namespace
would not have happened, and are counted apart.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from replay.kube.attributes import Attributes, Operation

Identity = tuple[str, str, str, str]
"""What keeps an object apart from others, its uid aside: group, resource, namespace, name."""


class Place(NamedTuple):
    """A position in the log."""

    seq: int
    item: int


class Subject(NamedTuple):
    """What a request is about: the object's identity and the uids of its owners.

    `uid` is empty where the log has none (a denied creation at the time).
    """

    group: str
    resource: str
    subresource: str
    namespace: str
    name: str
    uid: str
    owner_uids: tuple[str, ...]

    @property
    def identity(self) -> Identity:
        """The object without its uid."""
        return self.group, self.resource, self.namespace, self.name

    @property
    def label(self) -> str:
        """How a report names it."""
        return f"{self.resource} {self.namespace}/{self.name}" if self.namespace else f"{self.resource} {self.name}"


class Creation(NamedTuple):
    """A creation, and whether the candidate newly denies it."""

    place: Place
    subject: Subject
    denied: bool


def subject(attributes: Attributes) -> Subject:
    """The subject of a request from its attributes."""
    body = attributes.object if isinstance(attributes.object, dict) else attributes.old_object
    metadata = body.get("metadata") if isinstance(body, dict) else None
    metadata = metadata if isinstance(metadata, dict) else {}
    references = metadata.get("ownerReferences")
    owners = tuple(
        str(reference["uid"])
        for reference in (references if isinstance(references, list) else ())
        if isinstance(reference, dict) and reference.get("uid")
    )
    # A subresource's body (a Scale, a Binding) has a name but no uid of the object it belongs to.
    uid = "" if attributes.subresource else str(metadata.get("uid") or "")
    return Subject(
        attributes.resource.group,
        attributes.resource.resource,
        attributes.subresource,
        attributes.namespace,
        attributes.name or str(metadata.get("name") or ""),
        uid,
        owners,
    )


def relevant(creations: Iterable[Creation], denied: Container[Identity]) -> list[Creation]:
    """The creations that can matter for a cascade: denied, owned, or of an object that is `denied` at another time.

    The rest can be forgotten by whoever has seen the whole history of these objects.
    """
    return [c for c in creations if c.denied or c.subject.owner_uids or c.subject.identity in denied]


def _touched(creations: Sequence[Creation]) -> list[Creation]:
    """The creations that a denial can reach, whatever the order: of a large log most cannot be.

    Denied ones, what these own or, as namespaces, contain, directly or not, and all others of the same objects.
    """
    found = {c.subject.identity for c in creations if c.denied}
    uids: set[str] = set()
    reached = -1
    while len(found) != reached:
        reached = len(found)
        uids.update(c.subject.uid for c in creations if c.subject.identity in found)
        found.update(
            c.subject.identity
            for c in creations
            if not uids.isdisjoint(c.subject.owner_uids)
            or (c.subject.namespace and ("", "namespaces", "", c.subject.namespace) in found)
        )
    return [c for c in creations if c.subject.identity in found]


@dataclass(slots=True)
class Cascade:
    """The creations that a candidate newly denies, and what follows them.

    Built from the creations of the whole log in any order; an answer depends on positions alone. An object that is created again
    later, this time admitted, follows nothing.
    """

    by_uid: dict[str, tuple[Place, str]] = field(default_factory=dict)
    by_identity: dict[Identity, list[tuple[Place, str]]] = field(default_factory=dict)

    @staticmethod
    def of(creations: Iterable[Creation]) -> Cascade:
        """In the order of the log, so that what follows a denial hands it on to what it owns itself."""
        cascade = Cascade()
        for place, about, denied in sorted(_touched(list(creations))):
            label = cascade.follows(place, Operation.CREATE, about) or (about.label if denied else "")
            if label and about.uid:
                cascade.by_uid.setdefault(about.uid, (place, label))
            if about.name:
                cascade.by_identity.setdefault(about.identity, []).append((place, label))
        return cascade

    def follows(self, place: Place, operation: Operation, about: Subject) -> str:
        """The label of the denied creation that a request follows, empty for a root finding."""
        for uid in about.owner_uids:
            if (known := self.by_uid.get(uid)) and known[0] < place:
                return known[1]
        if about.namespace and (label := self._before(("", "namespaces", "", about.namespace), place)):
            return label
        if operation is Operation.CREATE and not about.subresource:
            return ""
        return self._before(about.identity, place)

    def _before(self, identity: Identity, place: Place) -> str:
        """What the last creation of an object before a place follows or is, empty if that one is admitted."""
        last = ""
        for at, label in self.by_identity.get(identity, ()):
            if at >= place:
                break
            last = label
        return last
