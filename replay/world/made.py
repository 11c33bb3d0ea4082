"""Pods that the ReplicaSet controller would make in the candidate's world alone: the template of their Deployment tells what they are.

A Deployment whose template the log never had there gets a ReplicaSet that is not in the log
(`pkg/controller/deployment/util.FindNewReplicaSet`), and that makes pods of the template (`pkg/controller.GetPodFromTemplate`). Where
the candidate refuses them, the controller tries again and again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import orjson

from replay.json import JSON
from replay.kube.attributes import Attributes, UserInfo
from replay.reconstruct import reconstructor
from replay.reconstruct.record.exchange import Exchange
from replay.reconstruct.record.known import Known, get
from replay.world.controller import REPLICASET_CONTROLLER
from replay.world.elsewhere import Elsewhere
from replay.world.judge import Judge
from replay.world.owner import TEMPLATE, plain_template
from replay.world.state import Branch, Later, content, known_of
from replay.world.step import Step
from replay.world.validation import breaks_metadata, breaks_rules

_USER = UserInfo(
    REPLICASET_CONTROLLER,
    "",
    ("system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"),
)
_HASH = "pod-template-hash"
_UNANSWERED = 409


class Refused(NamedTuple):
    """A ReplicaSet of this world alone whose pods are refused: from which request on, until which; None for the end of the log."""

    since: int
    until: int | None = None


class Made:
    """The ReplicaSets that one Deployment gets in this world alone."""

    def __init__(self, told: Sequence[reconstructor.Step], judge: Judge, elsewhere: Elsewhere) -> None:
        """`told` are all requests about the Deployment."""
        self._told = told
        self._judge = judge
        self._elsewhere = elsewhere
        self._template: JSON = None
        self._logged: set[bytes] | None = None
        self.refused: list[Refused] = []

    def follow(self, step: Step, branches: tuple[Branch, ...]) -> None:
        """The Deployment after a request."""
        template = self._wanted(branches)
        if template == self._template:
            return
        self._template = template
        if self.refused and self.refused[-1].until is None:
            self.refused[-1] = self.refused[-1]._replace(until=step.record.seq)
        if template is not None and _key(template) not in self._of_log() and self._is_refused(step, template):
            self.refused.append(Refused(step.record.seq))

    @staticmethod
    def _wanted(branches: tuple[Branch, ...]) -> JSON:
        """The template of which pods are wanted, where it is certain and may be another one than in the log."""
        state = branches[0].state
        if len(branches) > 1 or state is None or (isinstance(state, Later) and not state.differs_at(TEMPLATE)):
            return None
        here = content(state)
        spec = get(here.value, ("spec",)) if isinstance(here, Known) else None
        if not isinstance(spec, dict) or spec.get("paused") or not spec.get("replicas", 1):
            return None
        return spec.get("template")

    def _of_log(self) -> set[bytes]:
        """The templates that the Deployment had in the log: their pods are there, or were never wanted."""
        if self._logged is None:
            shown = (told.exchange.response.json for told in self._told if told.exchange.concerns_parent)
            templates = (get(body, ("spec", "template")) for body in shown)
            self._logged = {_key(each) for each in templates if isinstance(each, dict)}
        return self._logged

    def _is_refused(self, step: Step, template: JSON) -> bool:
        request = step.in_namespace(self._elsewhere.created(self._creation(step, template), step.lister))
        decision, made = self._judge.elsewhere(request, step.lister)
        before, after = request.before_mutation, known_of(made)
        if decision.denials or breaks_metadata(decision.patch):
            return True
        if not isinstance(before, Attributes) or not isinstance(after, Known):
            return False
        sent = known_of(before.object)
        schema = self._judge.schemas.for_kind(request.attributes.kind)
        return isinstance(sent, Known) and breaks_rules(schema, after, sent, decision.patch)

    def _creation(self, step: Step, template: JSON) -> Exchange:
        """The request that the controller would send."""
        record, metadata = step.record, template.get("metadata") or {}
        name = f"{record.name}-new"
        reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": "", "controller": True}
        kept = {key: metadata[key] for key in ("annotations", "finalizers") if metadata.get(key)}
        pod = {
            "kind": "Pod",
            "apiVersion": "v1",
            "metadata": {
                **kept,
                "generateName": f"{name}-",
                "namespace": record.namespace,
                "labels": {**(metadata.get("labels") or {}), _HASH: "new"},
                "ownerReferences": [{**reference, "blockOwnerDeletion": True}],
            },
            "spec": template.get("spec"),
        }
        sent = record._replace(
            verb="create",
            request_uri=f"/api/v1/namespaces/{record.namespace}/pods",
            user=_USER,
            caller=_USER.username,
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
        return Exchange(sent, self._elsewhere.reconstructor.cluster.discovery)


def _key(template: JSON) -> bytes:
    return orjson.dumps(plain_template(template), option=orjson.OPT_SORT_KEYS)
