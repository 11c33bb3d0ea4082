"""A recorded AdmissionReview is the request itself: nothing is rebuilt, nothing is missing."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from replay.audit.event import RequestRecord
from replay.audit.format.admission_review import REVIEW
from replay.kube.attributes import Attributes, Basis, Operation, UserInfo
from replay.kube.discovery import builtin_discovery
from replay.kube.gvk import GroupVersionKind, GroupVersionResource
from replay.reconstruct.history.effect import EffectKind, effect_of
from replay.reconstruct.rebuild import NULL
from replay.reconstruct.record.exchange import Exchange
from replay.reconstruct.request import Reached
from replay.reconstruct.request_fields import reviewed_request

Record = Callable[..., RequestRecord]
OBJECT, OLD = {"kind": "Pod", "metadata": {"name": "p", "uid": "u"}}, {"kind": "Pod", "metadata": {"name": "p"}}
REQUEST: dict[str, Any] = {
    "uid": "id-1",
    "kind": {"group": "", "version": "v1", "kind": "Pod"},
    "resource": {"group": "", "version": "v1", "resource": "pods"},
    "name": "p",
    "namespace": "n",
    "operation": "UPDATE",
    "userInfo": {"username": "alice", "uid": "1", "groups": ["g"], "extra": {"k": ["v"]}},
    "object": OBJECT,
    "oldObject": OLD,
    "options": {"kind": "UpdateOptions"},
}
ATTRIBUTES = Attributes(
    operation=Operation.UPDATE,
    kind=GroupVersionKind("", "v1", "Pod"),
    resource=GroupVersionResource("", "v1", "pods"),
    subresource="",
    namespace="n",
    name="p",
    user_info=UserInfo("alice", "1", ("g",), {"k": ("v",)}),
    options={"kind": "UpdateOptions"},
    object=OBJECT,
    old_object=OLD,
)


def exchange(pod_record: Record, code: int = 0, verb: str = "update", **review: Any) -> Exchange:
    body = json.dumps({"kind": "AdmissionReview", "request": REQUEST, **review})
    replaced = {"response_object": body, "response_kind": "AdmissionReview", "code": code}
    return Exchange(pod_record(verb, replace=replaced), builtin_discovery())


def test_the_request_is_as_the_webhook_had_it(pod_record: Record) -> None:
    told = exchange(pod_record)
    found = reviewed_request(told, NULL)
    assert told.record.response_kind == REVIEW
    assert (found.attributes, found.before_mutation) == (ATTRIBUTES, ATTRIBUTES)
    assert found.basis == {"object": Basis.RECORDED, "oldObject": Basis.RECORDED, "namespaceObject": None}
    assert found.reached is Reached.VALIDATION


def test_mutating_policies_begin_with_the_request_of_their_phase(pod_record: Record) -> None:
    mutating = {**REQUEST, "object": OLD}
    found = reviewed_request(exchange(pod_record, mutating=mutating, isValidated=False), NULL)
    assert isinstance(found.before_mutation, Attributes)
    assert (found.before_mutation.object, found.attributes.object) == (OLD, OBJECT)
    assert found.reached is Reached.UNKNOWN


def test_a_webhook_of_an_equivalent_version_has_the_objects_in_that_one(pod_record: Record) -> None:
    asked = {**REQUEST, "requestKind": {"group": "x", "version": "v2", "kind": "Pod"}, "requestSubResource": ""}
    found = reviewed_request(exchange(pod_record, request=asked), NULL)
    assert found.attributes == ATTRIBUTES


@pytest.mark.parametrize(
    ("code", "verb", "review", "kind"),
    [
        pytest.param(0, "update", {}, EffectKind.STATE, id="what was not refused is taken to be stored"),
        pytest.param(403, "update", {}, None, id="refused"),
        pytest.param(0, "update", {"request": {**REQUEST, "dryRun": True}}, None, id="dry run"),
        pytest.param(0, "update", {"isValidated": False}, EffectKind.UNKNOWN, id="no validating phase"),
        pytest.param(0, "delete", {"request": {**REQUEST, "object": None}}, EffectKind.UNKNOWN, id="deletion"),
    ],
)
def test_what_a_reviewed_write_leaves(
    code: int, verb: str, review: dict[str, Any], kind: EffectKind | None, pod_record: Record
) -> None:
    effect = effect_of(exchange(pod_record, code, verb, **review))
    assert (effect.kind if effect is not None else None) is kind
    if kind is EffectKind.STATE:
        assert effect is not None
        assert (effect.state, effect.uid) == (OBJECT, "u")
