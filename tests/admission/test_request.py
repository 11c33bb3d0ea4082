"""`request` as expressions see it."""

from __future__ import annotations

from msgspec.structs import replace

from replay.admission.request import admission_request
from replay.kube.attributes import Attributes, Missing, Operation, PartialObject, UserInfo
from replay.kube.gvk import GroupVersionKind, GroupVersionResource

EVENT = GroupVersionKind("events.k8s.io", "v1", "Event")
EVENTS = GroupVersionResource("events.k8s.io", "v1", "events")
REQUEST = Attributes(Operation.CREATE, EVENT, EVENTS, "", "", "", UserInfo(), options={"kind": "CreateOptions"})


def test_what_is_empty_is_absent() -> None:
    assert admission_request(REQUEST, EVENTS, EVENT) == {
        "uid": "",
        "kind": {"group": "events.k8s.io", "version": "v1", "kind": "Event"},
        "resource": {"group": "events.k8s.io", "version": "v1", "resource": "events"},
        "requestKind": {"group": "events.k8s.io", "version": "v1", "kind": "Event"},
        "requestResource": {"group": "events.k8s.io", "version": "v1", "resource": "events"},
        "operation": "CREATE",
        "userInfo": {},
        "object": None,
        "oldObject": None,
        "dryRun": False,
        "options": {"kind": "CreateOptions"},
    }


def test_everything_set_and_matched_as_another_resource() -> None:
    user = UserInfo("alice", "7", ("dev",), {"scopes": ("a", "b")})
    request = replace(REQUEST, subresource="status", namespace="shop", name="e", user_info=user, dry_run=True)
    core = GroupVersionResource("", "v1", "events")
    assert admission_request(request, core, GroupVersionKind("", "v1", "Event")) == {
        "uid": "",
        "kind": {"group": "", "version": "v1", "kind": "Event"},
        "resource": {"group": "", "version": "v1", "resource": "events"},
        "subResource": "status",
        "requestKind": {"group": "events.k8s.io", "version": "v1", "kind": "Event"},
        "requestResource": {"group": "events.k8s.io", "version": "v1", "resource": "events"},
        "requestSubResource": "status",
        "name": "e",
        "namespace": "shop",
        "operation": "CREATE",
        "userInfo": {"username": "alice", "uid": "7", "groups": ["dev"], "extra": {"scopes": ["a", "b"]}},
        "object": None,
        "oldObject": None,
        "dryRun": True,
        "options": {"kind": "CreateOptions"},
    }


def test_options_that_are_not_known() -> None:
    missing = Missing("request.options", "the log has no query")
    request = admission_request(replace(REQUEST, options=missing), EVENTS, EVENT)
    assert isinstance(request, PartialObject)
    assert request.missing == (missing,)
    assert request.value["options"] is missing


def test_a_generated_name_that_is_not_recorded_is_unknown() -> None:
    missing = Missing("request.name", "the event does not show the name")
    request = admission_request(replace(REQUEST, missing=(missing,)), EVENTS, EVENT)
    assert isinstance(request, PartialObject)
    assert request.value["name"] is missing
    assert request.missing == (missing,)


def test_parts_of_the_user_that_are_not_known() -> None:
    missing = (
        Missing("request.userInfo.groups", "the log does not tell"),
        Missing("request.dryRun", "the log does not tell"),
    )
    request = admission_request(replace(REQUEST, user_info=UserInfo("a"), missing=missing), EVENTS, EVENT)
    assert isinstance(request, PartialObject)
    assert request.missing == missing
    assert (request.value["userInfo"], request.value["dryRun"]) == ({"username": "a", "groups": missing[0]}, missing[1])
