"""Pods that controllers would create only under the candidate, from the pod template of their owner.

A Deployment with a template that it never had in the log gets a new ReplicaSet
(`pkg/controller/deployment/util.FindNewReplicaSet`). That ReplicaSet creates pods of the template
(`pkg/controller.GetPodFromTemplate`), as a StatefulSet or a Job does itself (`pkg/controller/statefulset`,
`pkg/controller/job`). If the candidate refuses the pods, the controller keeps retrying.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import orjson

from replay.audit.event import RequestRecord
from replay.json import JSON
from replay.kube.attributes import UserInfo
from replay.reconstruct import reconstructor
from replay.reconstruct.record.exchange import Exchange
from replay.reconstruct.record.known import get
from replay.world.controller import JOB_CONTROLLER, REPLICASET_CONTROLLER, STATEFULSET_CONTROLLER
from replay.world.judge import Judge
from replay.world.owner import TEMPLATE, plain_template
from replay.world.request_adapter import RequestAdapter
from replay.world.state import Branch, DeferredObject, known_or_missing, spec
from replay.world.step import WorldStep

_UNANSWERED = 409


class _PodCreator(NamedTuple):
    """A controller's way of creating pods for a resource.

    `kind` is the kind of the pods' owner. `name` is the prefix of a pod's name, with `{}` for the name of the object.
    `added` are labels whose values the controller chooses. `none` are fields of the spec with the values for which no
    pods are wanted.
    """

    username: str
    api_version: str
    kind: str
    name: str
    added: tuple[str, ...]
    none: tuple[tuple[str, JSON], ...]

    @property
    def user(self) -> UserInfo:
        """The controller as a user."""
        return UserInfo(
            self.username, "", ("system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated")
        )


_POD_CREATORS = {
    ("apps", "deployments"): _PodCreator(
        REPLICASET_CONTROLLER,
        "apps/v1",
        "ReplicaSet",
        "{}-new",
        ("pod-template-hash",),
        (("paused", True), ("replicas", 0)),
    ),
    ("apps", "statefulsets"): _PodCreator(
        STATEFULSET_CONTROLLER,
        "apps/v1",
        "StatefulSet",
        "{}",
        ("apps.kubernetes.io/pod-index", "controller-revision-hash", "statefulset.kubernetes.io/pod-name"),
        (("replicas", 0),),
    ),
    ("batch", "jobs"): _PodCreator(
        JOB_CONTROLLER,
        "batch/v1",
        "Job",
        "{}",
        ("batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name", "controller-uid", "job-name"),
        (("suspend", True), ("parallelism", 0), ("completions", 0)),
    ),
}


class RefusedPods(NamedTuple):
    """An interval in which a controller's pods are refused, for an object that exists only under the candidate.

    `since` and `until` are sequence numbers. `until` is None if it lasts to the end of the log. `deployments` are UIDs
    of the log's Deployments that had the same `template` (`template_key`) at another time. In the log the controller
    may have been too late to create the ReplicaSet; here it has the time. If the log holds that ReplicaSet, its own
    requests tell about the pods.
    """

    username: str
    since: int
    until: int | None
    deployments: tuple[str, ...]
    template: bytes


class _LoggedTemplate(NamedTuple):
    """The pod template that an object of the log has after a request."""

    seq: int
    uid: str
    template: bytes


def creates_pods(record: RequestRecord) -> bool:
    """Return whether controllers create pods for the object of a request."""
    return (record.api_group, record.resource) in _POD_CREATORS


class ControllerPods:
    """The pods that one object gets only under the candidate.

    A Deployment gets them from its ReplicaSets, a StatefulSet or a Job directly.
    """

    def __init__(
        self, steps: Sequence[reconstructor.RebuildStep], judge: Judge, request_adapter: RequestAdapter
    ) -> None:
        """Start before the first of `steps`, which are all requests of an object that gets pods (`creates_pods`)."""
        record = steps[0].exchange.record
        self._maker = _POD_CREATORS[record.api_group, record.resource]
        self._steps = steps
        self._judge = judge
        self._adapter = request_adapter
        self._template = b""
        self._logged: list[_LoggedTemplate] | None = None
        self.refused: list[RefusedPods] = []

    def follow(self, step: WorldStep, branches: tuple[Branch, ...], *, is_alone: bool) -> None:
        """Process the object's state after a request. `is_alone` says that the object does not exist in the log."""
        # Each template of a Deployment has its own pods. Those of a logged StatefulSet or Job have requests of their
        # own.
        template = self._wanted(branches) if is_alone or self._maker.kind == "ReplicaSet" else None
        key = b"" if template is None else template_key(template)
        logged = [] if is_alone or template is None else self._templates_in_log()
        now = next((each for each in reversed(logged) if each.seq <= step.record.seq), None)
        if now is not None and now.template == key:
            key = b""  # the log has the requests for pods of this template
        if key == self._template:
            return
        self._template = key
        if self.refused and self.refused[-1].until is None:
            self.refused[-1] = self.refused[-1]._replace(until=step.record.seq)
        if key and self._is_refused(step, template):
            uids = tuple({each.uid for each in logged if each.template == key})
            self.refused.append(RefusedPods(self._maker.username, step.record.seq, None, uids, key))

    def _wanted(self, branches: tuple[Branch, ...]) -> JSON:
        """Return the template of the wanted pods if it is certain and may differ from the log's, None otherwise."""
        state = branches[0].state
        if len(branches) > 1 or state is None or (isinstance(state, DeferredObject) and not state.differs_at(TEMPLATE)):
            return None
        own_spec = spec(state)
        if not isinstance(own_spec, dict) or any(own_spec.get(name) == value for name, value in self._maker.none):
            return None
        return own_spec.get("template")

    def _templates_in_log(self) -> list[_LoggedTemplate]:
        """Return the templates that the object had in the log, in order."""
        if self._logged is None:
            shown = (
                (step.exchange.record, step.exchange.response.json)
                for step in self._steps
                if step.exchange.concerns_parent
            )
            templates = ((record, get(body, ("spec", "template"))) for record, body in shown)
            self._logged = [
                _LoggedTemplate(record.seq, record.response_uid, template_key(template))
                for record, template in templates
                if isinstance(template, dict)
            ]
        return self._logged

    def _is_refused(self, step: WorldStep, template: JSON) -> bool:
        request = step.in_namespace(self._adapter.creation(self._creation(step, template), step.lister))
        decision = self._judge.decide_adapted(request, step.lister)
        return bool(decision.denials) or self._judge.leaves_invalid(
            request, decision.patch, lambda: known_or_missing(self._judge.adapted_object(request, step.lister))
        )

    def _creation(self, step: WorldStep, template: JSON) -> Exchange:
        """Return the pod creation that the controller would send."""
        record, metadata, maker = step.record, template.get("metadata") or {}, self._maker
        name = maker.name.format(record.name)
        reference = {"apiVersion": maker.api_version, "kind": maker.kind, "name": name, "uid": "", "controller": True}
        own_metadata = {key: metadata[key] for key in ("annotations", "finalizers") if metadata.get(key)}
        pod = {
            "kind": "Pod",
            "apiVersion": "v1",
            "metadata": {
                **own_metadata,
                "generateName": f"{name}-",
                "namespace": record.namespace,
                "labels": {**(metadata.get("labels") or {}), **dict.fromkeys(maker.added, "new")},
                "ownerReferences": [{**reference, "blockOwnerDeletion": True}],
            },
            "spec": template.get("spec"),
        }
        request_record = record._replace(
            verb="create",
            request_uri=f"/api/v1/namespaces/{record.namespace}/pods",
            user=maker.user,
            caller=maker.username,
            api_group="",
            api_version="v1",
            resource="pods",
            subresource="",
            name="",
            object_uid="",
            code=_UNANSWERED,
            status_message="",
            status_reason="",
            annotations=None,
            request_object=orjson.dumps(pod).decode(),
            response_object=None,
        )
        return Exchange(request_record, self._adapter.reconstructor.cluster.discovery)


def template_key(template: JSON) -> bytes:
    """Return a key that is equal for equal pod templates, whether of a Deployment or of its ReplicaSet."""
    return orjson.dumps(plain_template(template), option=orjson.OPT_SORT_KEYS)
