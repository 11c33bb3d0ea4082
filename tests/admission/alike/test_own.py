"""What tells an object from others of its kind: pods that differ in nothing else are decided once, unless somebody looks at it."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from replay.admission.alike.own import Content, content_of, patches_own, sets_own
from replay.admission.chain import Chain
from replay.cellib.version import NEWEST
from replay.json import JSON
from replay.kube.attributes import Attributes, Missing, PartialObject, UserInfo
from replay.kube.discovery import builtin_discovery
from replay.kube.object_lister import ObjectTracker
from replay.kube.schema import Schemas
from replay.manifests.manifest_set import manifest_set_from_objects
from tests.support.chain_sets import ADD_A, ADD_SIDECAR, POD, policy, request, validating


def pod(name: str = "web-abcde", token: str = "x1y2z", **parts: Any) -> JSON:
    """A pod of a controller, with the volume of its token; `parts` replace those of its metadata."""
    volume = f"kube-api-access-{token}"
    value = copy.deepcopy(POD)
    value["metadata"] |= {"name": name, "generateName": "web-", "uid": f"uid-of-{name}", **parts}
    value["spec"]["containers"][0]["volumeMounts"] = [{"name": volume, "mountPath": "/token", "readOnly": True}]
    value["spec"]["volumes"] = [{"name": volume, "projected": {"sources": [], "defaultMode": 420}}]
    return value


FIRST = pod()
OTHER = pod("web-fghij", "9k8j7", creationTimestamp="2026-01-01T00:00:00Z", resourceVersion="7", managedFields=[])
SAME_TOKEN = pod("web-fghij")


def patch(*operations: str) -> str:
    return "[" + ", ".join(f"JSONPatch{{{each}}}" for each in operations) + "]"


ALIKE = {
    "nobody looks": (policy("a", ADD_A), OTHER),
    "the end of a list": (policy("a", ADD_SIDECAR), OTHER),
    "a volume before that of the token": (
        policy("a", patch("op: 'add', path: '/spec/volumes/0', value: Object.spec.volumes{name: 'v'}")),
        OTHER,
    ),
    "another part is read": (policy("a", ADD_A, conditions=["object.spec.volumes.all(v, !has(v.hostPath))"]), OTHER),
    "the name of the request is not": (validating("v", "request.namespace == 'x'") + policy("a", ADD_A), OTHER),
    "another test": (
        policy("a", patch("op: 'replace', path: '/spec/priority', value: 1"), failurePolicy="Ignore")
        + policy("b", ADD_A),
        OTHER,
    ),
}
UNLIKE = {
    "a condition reads the name": (policy("a", ADD_A, conditions=["object.metadata.name == 'web-abcde'"]), OTHER),
    "a condition reads the name of the request": (
        policy("a", ADD_A, conditions=["request.name == 'web-abcde'"]),
        OTHER,
    ),
    "a validation reads the uid": (
        policy("a", ADD_A) + validating("v", "object.metadata.uid != 'uid-of-web-fghij'"),
        OTHER,
    ),
    "the name becomes a label": (
        policy("a", "Object{metadata: Object.metadata{labels: {'name': object.metadata.name}}}"),
        OTHER,
    ),
    "the volumes are read": (policy("a", ADD_A, conditions=["object.spec.volumes[0].name.endsWith('z')"]), OTHER),
    "the whole is read": (policy("a", ADD_A, conditions=["object.spec == object.spec"]), OTHER),
    "a patch tests the name": (
        policy(
            "a",
            patch(
                "op: 'test', path: '/metadata/name', value: 'web-abcde'",
                "op: 'add', path: '/metadata/labels/a', value: '1'",
            ),
        ),
        SAME_TOKEN,
    ),
    "a patch copies the name": (
        policy("a", patch("op: 'copy', from: '/metadata/name', path: '/metadata/labels/name'")),
        SAME_TOKEN,
    ),
    "a patch sets the name": (
        policy("a", patch("op: 'replace', path: '/metadata/name', value: 'web-abcde'")),
        SAME_TOKEN,
    ),
    "a configuration sets the name": (
        policy("a", "Object{metadata: Object.metadata{name: 'web-abcde'}}"),
        SAME_TOKEN,
    ),
    "another label": (policy("a", ADD_A), pod("web-fghij", labels={"app": "api"})),
    "another number": (policy("a", ADD_A), {**OTHER, "spec": {**OTHER["spec"], "priority": 1}}),
    "a part is not known": (
        policy("a", ADD_A),
        PartialObject(
            {**OTHER, "status": Missing("object.status", "it is not")}, (Missing("object.status", "it is not"),)
        ),
    ),
}


def chain(objects: list[JSON]) -> Chain:
    sets = [manifest_set_from_objects([], []), manifest_set_from_objects(objects, [])]
    return Chain(sets, NEWEST, builtin_discovery(), Schemas())


def created(value: Any, name: str = "") -> Attributes:
    return request(value, name=name, user_info=UserInfo("system:serviceaccount:kube-system:replicaset-controller"))


@pytest.mark.parametrize(
    ("objects", "other", "is_alike"),
    [(*row, True) for row in ALIKE.values()] + [(*row, False) for row in UNLIKE.values()],
    ids=[*ALIKE, *UNLIKE],
)
def test_of_alike_pods_the_first_is_decided(objects: list[JSON], other: Any, is_alike: bool) -> None:
    requests = [created(FIRST, "web-abcde"), created(other, "web-fghij")]
    together = chain(objects)
    decisions = [together.decide(each, each, ObjectTracker()) for each in requests]
    assert decisions == [chain(objects).decide(each, each, ObjectTracker()) for each in requests]
    assert (decisions[1][1] is decisions[0][1]) is is_alike


@pytest.mark.parametrize(
    ("value", "own", "with_token", "content"),
    [
        ({"kind": "Pod"}, ("name",), False, Content(b'{"kind":"Pod"}', ())),
        ({"metadata": {"name": 'a"b'}}, ("name",), False, Content(b'{"metadata":{}}', (b'a\\"b',))),
        ({"metadata": {"name": "p", "x": 1}}, ("name",), False, Content(b'{"metadata":{"x":1}}', (b"p",))),
        (
            {"metadata": {"name": "p", "uid": "u"}},
            (),
            False,
            Content(b'{"metadata":{"name":"p","uid":"u"}}', (b"p", b"u")),
        ),
        (
            {"a": {"name": "kube-api-access-abcde"}, "b": {"name": "kube-api-access-abcde"}},
            (),
            False,
            Content(b'{"a":{"name":\0},"b":{"name":\0}}', (b"kube-api-access-abcde",)),
        ),
        (
            {"a": {"name": "kube-api-access-abcde"}, "b": "kube-api-access-abcde"},
            (),
            False,
            Content(b'{"a":{"name":\0},"b":"kube-api-access-abcde"}', (b"kube-api-access-abcde",)),
        ),
        ({"a": "kube-api-access-abcde"}, (), True, Content(b'{"a":"kube-api-access-abcde"}', ())),
        ({"a": "kube-api-access-own"}, (), False, Content(b'{"a":"kube-api-access-own"}', ())),
    ],
    ids=[
        "no metadata",
        "a name with a quote",
        "name",
        "what is read stays",
        "token",
        "the same text elsewhere",
        "a token that is read",
        "no token",
    ],
)
def test_content(value: JSON, own: tuple[str, ...], with_token: bool, content: Content) -> None:
    assert content_of(value, own, with_token=with_token) == content


@pytest.mark.parametrize(
    ("operation", "is_of_own"),
    [
        ({"op": "add", "path": "/metadata/labels/a", "value": "1"}, False),
        ({"op": "remove", "path": "/spec/volumes/0"}, False),
        ({"op": "replace", "path": "/metadata/name", "value": "p"}, True),
        ({"op": "add", "path": "/metadata/managedFields/0", "value": {}}, True),
        ({"op": "remove", "path": "/metadata"}, True),
        ({"op": "replace", "path": "", "value": {}}, True),
        ({"op": "test", "path": "/spec/nodeName", "value": "n"}, True),
        ({"op": "move", "from": "/metadata/name", "path": "/metadata/labels/a"}, True),
        ({"op": "add", "path": "/spec/volumes/-", "value": {"name": "kube-api-access-abcde"}}, True),
        ({"op": "add", "path": "/spec/x", "value": {1}}, True),
    ],
    ids=["label", "index", "name", "managers", "metadata", "all", "test", "move", "token", "no JSON"],
)
def test_patches_of_own(operation: JSON, is_of_own: bool) -> None:
    assert patches_own([operation]) is is_of_own


@pytest.mark.parametrize(
    ("configuration", "is_of_own"),
    [
        ({"metadata": {"labels": {"name": "x"}}}, False),
        ({"spec": {"volumes": [{"name": "v"}]}}, False),
        ({"metadata": {"name": "x"}}, True),
        ({"spec": {"volumes": [{"name": "kube-api-access-abcde"}]}}, True),
    ],
    ids=["label", "volume", "name", "token"],
)
def test_configurations_of_own(configuration: JSON, is_of_own: bool) -> None:
    assert sets_own(configuration) is is_of_own
