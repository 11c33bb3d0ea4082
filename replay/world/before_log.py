"""Objects from before the log that may exist under one set and not under the other.

At the beginning of the log, both sets are taken to have the same objects. If the candidate had been in force before, it
might have denied the creation of an existing object, or allowed that of a missing one. Where this decides how a request
ends, its line of `--outcomes` says `unknown`. Reports count consequences only from the beginning of the log.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from replay.admission.builtin.registry import BY_NAME
from replay.admission.builtin.resource_quota.evaluator import IGNORED, evaluator_of
from replay.admission.builtin.resource_quota.plugin import ResourceQuota
from replay.admission.decision import Decision
from replay.audit.event import RequestRecord
from replay.json import JSON
from replay.kube.attributes import Missing
from replay.kube.gvk import GroupResource
from replay.kube.overlay import GroupKind, NamespacedName
from replay.reconstruct.cluster import Cluster
from replay.reconstruct.operation import creates
from replay.reconstruct.record.known import GONE
from replay.world.existence import is_creation
from replay.world.judge import Judge
from replay.world.request_adapter import RequestAdapter
from replay.world.state import Branch
from replay.world.step import WorldStep

_NAMESPACE: GroupKind = ("", "Namespace")
_QUOTA: GroupKind = ("", "ResourceQuota")
_UNSEEN = Missing("", "the object may have existed before the log begins")
_Refuser = tuple[str, str]
"""Names of a policy and its binding. A built-in plugin has no binding."""


class StatesBeforeLog(Struct, frozen=True):
    """Finds the states of an object at its first request if the candidate had been in force before the log.

    `overlaid` are the objects of baseline and candidate that replace those of the cluster.
    """

    judge: Judge
    request_adapter: RequestAdapter
    cluster: Cluster
    snapshots: tuple[Mapping[GroupKind, Mapping[NamespacedName, JSON]], ...]

    def may_differ(self, first: RequestRecord) -> bool:
        """Return whether the object may have existed before the log, by its first request.

        The answer is false for namespaces and in kcp workspaces, which are not followed so far back.
        """
        is_namespace = not first.api_group and first.resource == "namespaces"
        if is_namespace or first.workspace or not first.name or self.cluster.is_new_in_log(first):
            return False
        return not is_creation(first) or already_exists(first)

    def branches(self, step: WorldStep) -> tuple[Branch, ...]:
        """Return the other states. There are none if both sets decide the creation of the object alike."""
        record, is_there = step.record, step.existed_before
        if not self.may_differ(record) or (not is_there and step.is_creation and step.exchange.succeeded):
            return ()
        is_open = creates(step.exchange) and not step.exchange.succeeded  # a failure does not show whether it existed
        request = self.request_adapter.creation_by_anyone(step.exchange, step.old if is_there else _UNSEEN)
        current, candidate = self.judge.decide(request, step.log_lister)
        ours, theirs = self._refusers(record, 1, candidate), self._refusers(record, 0, current)
        others = []
        if (is_there or is_open) and self._refuses_more(ours, theirs, record.namespace):
            others.append(Branch(GONE))
        if (not is_there or is_open) and not candidate.denials and self._refuses_more(theirs, ours, record.namespace):
            others.append(Branch(_UNSEEN))
        return tuple(others)

    def _refuses_more(self, refusers: set[_Refuser], others: set[_Refuser], namespace: str) -> bool:
        """Return whether a set may refuse a creation that the other set allows."""
        return any(each not in others or not self._sees_alike(each[0], namespace) for each in refusers)

    def _refusers(self, record: RequestRecord, number: int, decision: Decision) -> set[_Refuser]:
        """Return the policies and plugins that refuse a creation under one set, or may refuse it."""
        refusers = {(each.policy, each.binding) for each in decision.denials}
        refusers |= {(each.policy, each.binding) for each in decision.undetermined}
        resource = GroupResource(record.api_group, record.resource)
        for quota in self._added_objects(_QUOTA, number, record.namespace).values():
            hard = (quota.get("spec") or {}).get("hard") or {}
            if resource not in IGNORED and any(map(evaluator_of(resource).counts, hard)):
                refusers.add((ResourceQuota.name, ""))
        return refusers

    def _sees_alike(self, refuser: str, namespace: str) -> bool:
        """Return whether a plugin looks up the same objects in both sets. For policies this is always true."""
        kinds = BY_NAME[refuser].looks_up if refuser in BY_NAME else ()
        return all(self._added_objects(kind, 0, namespace) == self._added_objects(kind, 1, namespace) for kind in kinds)

    def _added_objects(self, kind: GroupKind, number: int, namespace: str) -> dict[NamespacedName, JSON]:
        """Return the objects of a kind that a set adds to a namespace, and its cluster-scoped ones."""
        objects = self.snapshots[number].get(kind, {})
        if kind == _NAMESPACE:
            return {name: obj for name, obj in objects.items() if name[1] == namespace}
        return {name: obj for name, obj in objects.items() if name[0] in (namespace, "")}


def already_exists(record: RequestRecord) -> bool:
    """Return whether a creation failed because the object exists."""
    return record.status_reason == "AlreadyExists"
