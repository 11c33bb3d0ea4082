"""Kept requests have equal keys only if policies that read parts of them decide them alike."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from replay.admission.effects import UNCHANGED, Admitted
from replay.admission.validating.plugin import ValidatingAdmission
from replay.cellib.version import NEWEST
from replay.kube.admissionregistration import (
    LabelSelector,
    ManifestSet,
    MatchResources,
    Rule,
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
    Validation,
)
from replay.kube.attributes import Attributes, Missing, Operation, UserInfo
from replay.kube.discovery import builtin_discovery
from replay.kube.gvk import GroupVersionKind, GroupVersionResource
from replay.pipeline.replay.kept_input import KeptRequest, kept_row
from replay.pipeline.replay.request_key import RequestKeys
from replay.reconstruct.cluster import Cluster
from replay.reconstruct.request import ReplayRequest
from replay.world.decide import MutatedRequest
from tests.pipeline.test_kept_input import RECORD

IMAGES = "object.spec.containers.all(c, c.image.startsWith('a/'))"
LABEL = "has(object.metadata.labels) && object.metadata.labels.all(key, key != 'x')"
USER = "request.userInfo.username != 'bob'"
TEAM = "namespaceObject.metadata.labels.team == 'pay'"


def namespace(**labels: str) -> dict[str, Any]:
    return {"kind": "Namespace", "metadata": {"name": "shop", "labels": labels}}


def pod(*images: str, name: str = "web", **metadata: Any) -> dict[str, Any]:
    containers = [{"name": f"c{number}", "image": image, "env": [name]} for number, image in enumerate(images)]
    return {"kind": "Pod", "metadata": {"name": name, **metadata}, "spec": {"containers": containers}}


CREATION = Attributes(
    Operation.CREATE,
    GroupVersionKind("", "v1", "Pod"),
    GroupVersionResource("", "v1", "pods"),
    *("", "shop", "web", UserInfo("ann", groups=("devs",))),
    object=pod("a/x"),
    namespace_object=namespace(team="pay"),
)
LABELLED = Admitted(carried=({"op": "add", "path": "/metadata/labels", "value": {"x": "y"}},), is_same=False)
HOLE = Missing("object.spec", "it is not in the log")


def kept(attributes: Attributes = CREATION, candidate: Admitted = UNCHANGED, **changes: Any) -> KeptRequest:
    changed = replace(attributes, **changes)
    return KeptRequest(kept_row(MutatedRequest(ReplayRequest(RECORD, changed, changed, {}), [[UNCHANGED, candidate]])))


def keys_of(expression: str, **constraints: Any) -> RequestKeys:
    match = MatchResources(resource_rules=(Rule(("*",), ("*",), ("*",), ("*",)),), **constraints)
    policy = ValidatingAdmissionPolicy("p", static=True, match_constraints=match, validations=(Validation(expression),))
    binding = ValidatingAdmissionPolicyBinding("b", static=True, policy_name="p", validation_actions=("Deny",))
    manifests = ManifestSet((policy, binding))
    return RequestKeys(ValidatingAdmission([ManifestSet(), manifests], NEWEST, builtin_discovery()))


CLUSTER = Cluster((), {})
EQUAL: dict[str, tuple[str, KeptRequest, bool]] = {
    "another name and environment": (IMAGES, kept(object=pod("a/x", name="other"), name="other"), True),
    "another user, whom nobody reads": (IMAGES, kept(user_info=UserInfo("bob")), True),
    "another image": (IMAGES, kept(object=pod("b/x")), False),
    "one more image": (IMAGES, kept(object=pod("a/x", "a/x")), False),
    "an image that is null": (IMAGES, kept(object=pod(None)), False),  # type: ignore[arg-type]
    "no containers": (IMAGES, kept(object={"kind": "Pod", "spec": {}}), False),
    "null instead of a list": (IMAGES, kept(object={"kind": "Pod", "spec": {"containers": None}}), False),
    "no object": (IMAGES, kept(object=None, old_object=pod("a/x"), operation=Operation.DELETE), False),
    "another mutation": (IMAGES, kept(candidate=LABELLED), False),
    "another refusal": (IMAGES, kept(candidate=Admitted(is_refused=True)), False),
    "another kind": (IMAGES, kept(kind=GroupVersionKind("apps", "v1", "Deployment")), False),
    "another label": (LABEL, kept(object=pod("a/x", labels={"a": "b"})), False),
    "another value of no label": (LABEL, kept(object=pod("a/y")), True),
    "another user": (USER, kept(user_info=UserInfo("bob")), False),
    "another group": (USER, kept(user_info=UserInfo("ann")), True),
    "another team": (TEAM, kept(namespace_object=namespace(team="web")), False),
    "another request": ("request.name == 'web'", kept(name="other"), False),
    "another operation": ("request.operation == 'CREATE'", kept(operation=Operation.UPDATE), False),
}


@pytest.mark.parametrize(("expression", "other", "is_equal"), EQUAL.values(), ids=EQUAL)
def test_a_key_has_what_is_read(expression: str, other: KeptRequest, *, is_equal: bool) -> None:
    keys = keys_of(expression)
    own = keys.key(kept(), CLUSTER)
    assert own is not None
    assert (keys.key(other, CLUSTER) == own) is is_equal


NONE: dict[str, tuple[RequestKeys, KeptRequest]] = {
    "an object that is not known": (keys_of(IMAGES), kept(object=HOLE)),
    "an unknown part of the request": (keys_of(IMAGES), kept(missing=(Missing("request.name", "none"),))),
    "an object of another form": (keys_of(IMAGES), kept(object={"kind": "Pod", "spec": ["containers"]})),
    "a text instead of a list": (keys_of(IMAGES), kept(object={"kind": "Pod", "spec": {"containers": "a/x"}})),
    "an authorizer": (keys_of("authorizer.path('/').check('get').allowed()"), kept()),
    "labels of the object": (keys_of(IMAGES, object_selector=LabelSelector({"a": "b"})), kept()),
    "no namespace": (keys_of(IMAGES), kept(namespace_object=None)),
    "objects laid over the cluster": (RequestKeys(None), kept()),
}


@pytest.mark.parametrize(("keys", "request_kept"), NONE.values(), ids=NONE)
def test_what_depends_on_more_has_no_key(keys: RequestKeys, request_kept: KeptRequest) -> None:
    assert keys.key(request_kept, CLUSTER) is None
