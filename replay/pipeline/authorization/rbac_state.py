"""RBAC as of the time of a request, under each set: what never changes is read once, what changes is laid over it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from replay.authorization.manifest import RBACKey, laid_over, rbac_key
from replay.json import JSON
from replay.kube.attributes import Missing, PartialObject
from replay.kube.gvk import GroupVersionKind
from replay.kube.lister import ObjectLister
from replay.kube.rbac.aggregation import aggregated
from replay.kube.rbac.authorizer import RoleResolver
from replay.kube.rbac.kind import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, RBAC_KINDS
from replay.pipeline.authorization.state import RBACState, StateLister, uncovered
from replay.reconstruct.cluster import Cluster

_LOST = "a write to it is not in the log"
_VANISHED = "a snapshot taken later does not hold it, and the log does not show when it was deleted"


class ChangingLister:
    """The objects of one time that are not there all the time, or may not be."""

    def __init__(self, states: Iterable[RBACState]) -> None:
        """If two objects have one identity, the later one counts."""
        self._states = dict(states)
        self._listed: dict[tuple[str, str], list[JSON | PartialObject | Missing]] | None = None

    def get(self, kind: GroupVersionKind, namespace: str, name: str) -> JSON | PartialObject | Missing | None:
        """See `Lister.get`."""
        return self._states.get((kind.kind, namespace, name))

    def list(self, kind: GroupVersionKind, namespace: str | None) -> Sequence[JSON]:
        """See `Lister.list`, sorted too."""
        if self._listed is None:
            self._listed = {}
            for key, value in sorted(self._states.items(), key=lambda item: item[0]):
                self._listed.setdefault(key[:2], []).append(value)
        if namespace is not None:
            return self._listed.get((kind.kind, namespace), ())
        return [value for key, values in self._listed.items() if key[0] == kind.kind for value in values]


class RBACStates:
    """RBAC under one set over the time of a log: what never changes is read once, what changes is laid over it."""

    def __init__(
        self,
        cluster: Cluster,
        constant: Iterable[RBACState],
        own: Sequence[JSON] | None,
        deleted: Collection[RBACKey] = frozenset(),
    ) -> None:
        """`own` are a set's objects over the cluster's, None if it has none; `deleted` are those that it deletes."""
        self._overlaid = frozenset(map(rbac_key, own or ())) | frozenset(deleted)
        self._aggregates = own is not None
        missing, objects, partial = _divided((key, value) for key, value in constant if key not in self._overlaid)
        laid = laid_over(objects, own, deleted)
        self._cluster_roles = [obj for obj in (*objects, *(own or ())) if obj["kind"] == CLUSTER_ROLE.kind]
        self._aggregated: dict[tuple[int, ...], list[RBACState]] = {}
        absent = {kind.kind: uncovered(kind) for kind in RBAC_KINDS if own is None and _is_uncovered(cluster, kind)}
        self.lister = StateLister(ObjectLister([*laid, *partial]), missing, absent)
        """What never changes."""
        self.base = RoleResolver(self.lister)

    def at(self, changing: Iterable[RBACState]) -> RoleResolver:
        """The rules of a time at which there are, or may be, these objects beside those that never change."""
        return RoleResolver(ChangingLister(self._changed(changing)), self.base)

    def objects_at(self, changing: Iterable[RBACState]) -> list[JSON]:
        """The objects of a time of which everything is known."""
        constant = (obj for kind in RBAC_KINDS for obj in self.lister.list(kind, None) if isinstance(obj, dict))
        state = {rbac_key(obj): obj for obj in constant}
        state |= {key: value for key, value in self._changed(changing) if isinstance(value, dict)}
        return [state[key] for key in sorted(state)]

    def _changed(self, changing: Iterable[RBACState]) -> list[RBACState]:
        own_states = [(key, value) for key, value in changing if key not in self._overlaid]
        return [*own_states, *self._collecting(own_states)]

    def _collecting(self, own_states: Sequence[RBACState]) -> Sequence[RBACState]:
        """The aggregated roles of a time, made where the set has a part in RBAC and the cluster roles change."""
        roles = [value for key, value in own_states if key[0] == CLUSTER_ROLE.kind] if self._aggregates else []
        if not roles:
            return ()
        # Equal values are one object, which `ChangingObject` keeps.
        key = tuple(map(id, roles))
        roles_with_rules = self._aggregated.get(key)
        if roles_with_rules is None:
            certain = [role for role in roles if not isinstance(role, Missing | PartialObject)]
            collected = [role for role in aggregated([*self._cluster_roles, *certain]) if role.get("aggregationRule")]
            unknown = _missing_role(roles)
            roles_with_rules = self._aggregated[key] = [
                (rbac_key(role), role if unknown is None else _with_unknown_rules(role, unknown)) for role in collected
            ]
        return roles_with_rules


def _missing_role(roles: Iterable[JSON | PartialObject | Missing]) -> Missing | None:
    """Return the first unknown part of some roles."""
    for role in roles:
        if isinstance(role, Missing):
            return role
        if isinstance(role, PartialObject):
            return role.missing[0]
    return None


def _with_unknown_rules(role: JSON, unknown: Missing) -> PartialObject:
    """An aggregated role to which a role that is not known may add rules."""
    return PartialObject({**role, "rules": [*(role.get("rules") or ()), unknown]}, (unknown,))


def _divided(states: Iterable[RBACState]) -> tuple[dict[RBACKey, Missing], list[JSON], list[PartialObject]]:
    """Objects by how much is known of them: nothing, all, or a part."""
    missing: dict[RBACKey, Missing] = {}
    objects: list[JSON] = []
    partial: list[PartialObject] = []
    for key, value in states:
        if isinstance(value, Missing):
            missing[key] = value
        elif isinstance(value, PartialObject):
            partial.append(value)
        else:
            objects.append(value)
    return missing, objects, partial


def _is_uncovered(cluster: Cluster, kind: GroupVersionKind) -> bool:
    """Whether there may be any object of a kind: roles of a namespace may well not be there at all."""
    return not any(map(cluster.is_covered, (kind,) if kind is CLUSTER_ROLE_BINDING else RBAC_KINDS))
