"""Looked-up objects that differ under the candidate: RBAC, parameters and definitions."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache

from msgspec import Struct

from replay.audit.event import RequestRecord, annotations_from_json
from replay.audit.place import LogPosition
from replay.authorization.question import attributes_from_uri
from replay.json import JSON
from replay.kube.attributes import Missing, PartialObject
from replay.kube.gvk import GroupVersionKind
from replay.kube.lister import Lister, ObjectKey
from replay.kube.rbac import RBAC_GROUP, ROLE
from replay.kube.rbac_authorizer import RBACAuthorizers
from replay.kube.schema import CRD, known_spec
from replay.reconstruct.record.known import Known, attribute, get
from replay.world.result import ABSENT, FORBIDDEN, UNKNOWN, CausingRequest, RequestEnd
from replay.world.state import SAME_BRANCHES, content
from replay.world.timeline import WorldChange, branches_at

LookupChanges = Mapping[ObjectKey, Sequence[WorldChange]]
"""Objects that differ at some time, with the times of their changes."""
DEFINITION = (CRD.group, CRD.kind)
_ALLOWED = re.compile(r'RBAC: allowed by (\w+) "([^"/]*)(?:/([^"]*))?" of (\w+) "([^"]*)"')
"""Reason of the RBAC authorizer. It names a RoleBinding with its namespace (`plugin/pkg/auth/authorizer/rbac`)."""
_OPEN = Missing("", "the object may be different under the candidate")
_FORBIDDEN = "forbid"
_ESCAPE = "\\u"
"""Start of a JSON escape. An escaped name cannot be searched as text."""
_PLAIN = re.compile(r"[\w.:-]+", re.ASCII)


class DifferingLookups(Struct, frozen=True, dict=True):
    """Looked-up objects that differ at one time (null if absent), and the request that caused it."""

    states: Mapping[ObjectKey, Known | Missing]
    causing_request: CausingRequest | None = None

    def may_end_differently(self, record: RequestRecord) -> bool:
        """Return whether a request may end differently before admission."""
        return bool(self.states) and (not self._serves(record) or self._may_authorize(record))

    def end_before_admission(
        self, record: RequestRecord, lister: Lister, authorizers: RBACAuthorizers
    ) -> RequestEnd | None:
        """Return how a request ends before admission, None if it ends as in the log.

        Objects outside `states` come from `lister`, the log's.
        """
        if not self._serves(record):
            return ABSENT
        return refused(record, lister, self.states, authorizers) if self._may_authorize(record) else None

    def redefines(self, record: RequestRecord, lister: Lister) -> bool:
        """Return whether a custom resource definition differs from the log's, which `lister` shows."""
        name = f"{record.resource}.{record.api_group}"
        if not self._served or name not in self._served:
            return False
        spec = known_spec(lister.get(CRD, "", name))
        return spec is None or known_spec(attribute(self.states[*DEFINITION, "", name], CRD.kind)) != spec

    def _serves(self, record: RequestRecord) -> bool:
        """Return whether a custom resource's version is served, as far as its definition is known."""
        served = self._served.get(f"{record.resource}.{record.api_group}") if self._served else None
        return served is None or record.api_version in served

    @cached_property
    def _served(self) -> dict[str, frozenset[str] | None]:
        """Return the versions served under the candidate by definition name. None if they are unknown."""
        return {key[3]: _served(state) for key, state in self.states.items() if key[:2] == DEFINITION}

    def _may_authorize(self, record: RequestRecord) -> bool:
        """Return whether RBAC may authorize a request differently from the log."""
        text = record.annotations or ""
        for sign in self._signs:
            if sign in text:
                is_forbidden, granted = _authorized(text)
                return is_forbidden or not granted.isdisjoint(self.states)
        return False

    @cached_property
    def _signs(self) -> tuple[str, ...]:
        """Return texts that occur in an annotation if RBAC may decide differently. Empty if no RBAC object differs.

        Most requests were allowed by other authorizers, and this search avoids parsing their annotations. A name that
        JSON may escape matches every annotation.
        """
        names = {key[3] for key in self.states if key[0] == RBAC_GROUP}
        return (_FORBIDDEN, _ESCAPE, *(name if _PLAIN.fullmatch(name) else "" for name in names)) if names else ()


def _served(definition: Known | Missing) -> frozenset[str] | None:
    """Return the versions that a definition serves, an empty set if it does not exist, None if unknown."""
    if isinstance(definition, Missing) or any(hole.path[:1] in ((), ("spec",)) for hole in definition.holes):
        return None
    versions = get(definition.value, ("spec", "versions"))
    return frozenset(str(each.get("name")) for each in versions or () if isinstance(each, dict) and each.get("served"))


SAME_LOOKUPS = DifferingLookups({})


class LookupsInTime:
    """Looked-up objects that differ, combined once for each interval between two changes."""

    def __init__(self, changes: LookupChanges, namespaces: frozenset[str] | None = None) -> None:
        """Start from `changes`; nothing is combined yet.

        `namespaces` are those in which a request of any namespace may look up objects. None stands for all.
        """
        self._changes = changes
        self.namespaces = namespaces
        self._places = sorted({change.place for changes_of_object in changes.values() for change in changes_of_object})
        self._after: dict[tuple[int, str], DifferingLookups] = {}

    def __bool__(self) -> bool:
        """Return whether any object differs at any time."""
        return bool(self._changes)

    @property
    def changes(self) -> LookupChanges:
        """The objects that differ, with the times of their changes."""
        return self._changes

    def at(self, seq: int, namespace: str) -> DifferingLookups:
        """Return the differing objects that a request with this sequence number finds from its namespace."""
        place = LogPosition(seq, 0)
        key = bisect_left(self._places, place), namespace
        lister = self._after.get(key)
        if lister is None:
            lister = self._after[key] = self._put_together(place, namespace)
        return lister

    def _may_find(self, key: ObjectKey, namespace: str) -> bool:
        """Return whether a request in a namespace may look up an object. An expression may ask for any permission."""
        group, _, place, _ = key
        is_near = place in ("", namespace) or group == RBAC_GROUP
        return is_near or self.namespaces is None or place in self.namespaces

    def _put_together(self, place: LogPosition, namespace: str) -> DifferingLookups:
        states: dict[ObjectKey, Known | Missing] = {}
        causing_request: CausingRequest | None = None
        for key, object_changes in self._changes.items():
            branches = branches_at(object_changes, place) if self._may_find(key, namespace) else SAME_BRANCHES
            if branches != SAME_BRANCHES:
                # If several states are possible, the object is unknown.
                state = branches[0].state
                states[key] = _OPEN if len(branches) > 1 or state is None else content(state)
                causing_request = causing_request or next(
                    (branch.causing_request for branch in branches if branch.causing_request), None
                )
        return DifferingLookups(states, causing_request) if states else SAME_LOOKUPS


class WorldLister:
    """A `Lister` of the log with some objects of the candidate in place of the log's."""

    def __init__(self, lister: Lister, states: Mapping[ObjectKey, Known | Missing]) -> None:
        """Show `states` in place of the objects of `lister`."""
        self.origin = lister
        self._states = states

    def get(self, kind: GroupVersionKind, namespace: str, name: str) -> JSON | PartialObject | Missing | None:
        """See `Lister.get`."""
        state = self._states.get((kind.group, kind.kind, namespace, name))
        return self.origin.get(kind, namespace, name) if state is None else attribute(state, kind.kind)

    def list(self, kind: GroupVersionKind, namespace: str | None) -> Sequence[JSON] | Missing:
        """See `Lister.list`."""
        listed = self.origin.list(kind, namespace)
        own = {key: state for key, state in self._states.items() if key[:2] == (kind.group, kind.kind)}
        if isinstance(listed, Missing) or not own:
            return listed
        objects = [each for each in listed if not any(_has_key(each, key) for key in own)]
        here = (state for key, state in own.items() if namespace in (None, key[2]))
        objects += [
            attribute(state, kind.kind) for state in here if isinstance(state, Missing) or state.value is not None
        ]
        return objects


def _has_key(obj: JSON | PartialObject | Missing, key: ObjectKey) -> bool:
    value = obj.value if isinstance(obj, PartialObject) else obj
    metadata = value.get("metadata") if isinstance(value, dict) else None
    return isinstance(metadata, dict) and (metadata.get("namespace") or "", metadata.get("name")) == key[2:]


def refused(
    record: RequestRecord, lister: Lister, states: Mapping[ObjectKey, Known | Missing], authorizers: RBACAuthorizers
) -> RequestEnd | None:
    """Return the end of a request that the authorizers decide differently, None if they decide as in the log.

    The log holds no result of a request that it shows as forbidden: if the candidate allows it, its end is unknown.
    """
    is_forbidden, _ = _authorized(record.annotations)
    attributes = attributes_from_uri(record.user, record.verb, record.request_uri)
    authorizer = authorizers.authorizer_for(lister, attributes.namespace, states, lambda: WorldLister(lister, states))
    answer = authorizer.authorize(attributes)
    if isinstance(answer, Missing):
        return UNKNOWN
    # Allowed or forbidden, the answer is that of the log.
    if answer.allowed != is_forbidden:
        return None
    return UNKNOWN if is_forbidden else FORBIDDEN


@lru_cache(maxsize=4096)
def _authorized(annotations: str | None) -> tuple[bool, frozenset[ObjectKey]]:
    """Return whether the authorizers refused a request, and the keys of the binding and role that allowed it."""
    annotation_map = annotations_from_json(annotations)
    is_forbidden = annotation_map.get("authorization.k8s.io/decision") == _FORBIDDEN
    return is_forbidden, granting_objects(annotation_map.get("authorization.k8s.io/reason", ""))


@lru_cache(maxsize=1024)
def granting_objects(reason: str) -> frozenset[ObjectKey]:
    """Return the keys of the binding and the role that allowed a request, empty if another authorizer did."""
    match = _ALLOWED.match(reason)
    if match is None:
        return frozenset()
    binding, name, namespace, role, role_name = match.groups()
    place = namespace or ""
    # A ClusterRole has no namespace, even if a RoleBinding names it.
    role_place = place if role == ROLE.kind else ""
    return frozenset({(RBAC_GROUP, binding, place, name), (RBAC_GROUP, role, role_place, role_name)})
