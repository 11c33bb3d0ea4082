"""Mutating policies and the whole chain, on policies written for one point each."""

from __future__ import annotations

import pytest

from replay.admission.decision import Decision, Denial, Mutated, Verdict
from replay.json import JSON
from replay.kube.attributes import Operation
from replay.kube.gvk import GroupVersionKind, GroupVersionResource
from tests.support.chain_sets import (
    ADD_A,
    ADD_SIDECAR,
    POD,
    PULL_ALWAYS,
    SIDECAR,
    add,
    admitted,
    decide,
    denied,
    policy,
    replaced,
    request,
    validating,
)

NOT_THERE = 'JSON Patch: remove operation does not apply: doc is missing path: "/x/y": missing value'
UNKNOWN_FIELD = (
    'Internal error occurred: strict decoding error: unknown field "spec.nope", unknown field "spec.containers[0].zap"'
)

ONE_SET: list[tuple[str, list[JSON], Decision]] = [
    ("apply configuration", policy("p", ADD_A), admitted(("p", add("/metadata/labels/a", "1")))),
    (
        "struct added by a JSON patch is defaulted",
        policy("p", ADD_SIDECAR),
        admitted(("p", add("/spec/containers/1", SIDECAR))),
    ),
    (
        "each mutation sees the one before",
        policy("p", ADD_A, "Object{metadata: Object.metadata{labels: {'b': object.metadata.labels['a'] + '!'}}}"),
        Decision(
            Verdict.ADMITTED,
            patch=(add("/metadata/labels/a", "1"), add("/metadata/labels/b", "1!")),
            mutated=(Mutated("p", "p-binding", (add("/metadata/labels/a", "1"), add("/metadata/labels/b", "1!"))),),
        ),
    ),
    (
        "policies in the order of their names",
        [
            *policy("b", "Object{spec: Object.spec{nodeName: 'b'}}"),
            *policy("a", "Object{spec: Object.spec{nodeName: 'a'}}"),
        ],
        admitted(
            ("a", add("/spec/nodeName", "a")),
            ("b", replaced("/spec/nodeName", "b")),
            patch=[add("/spec/nodeName", "b")],
        ),
    ),
    ("no change", policy("p", "Object{metadata: Object.metadata{labels: {'app': 'web'}}}"), Decision(Verdict.ADMITTED)),
    ("condition is false", policy("p", ADD_A, conditions=["false"]), Decision(Verdict.ADMITTED)),
    (
        "condition fails",
        policy("p", ADD_A, conditions=["object.spec.nope == 'x'"]),
        denied("p", "expression 'object.spec.nope == 'x'' resulted in error: no such key: nope"),
    ),
    (
        "condition fails, Ignore",
        policy("p", ADD_A, conditions=["object.nope"], failurePolicy="Ignore"),
        Decision(Verdict.ADMITTED),
    ),
    (
        "failing expression",
        policy("p", "Object{spec: Object.spec{nodeName: object.spec.nope}}"),
        denied(
            "p",
            "expression 'Object{spec: Object.spec{nodeName: object.spec.nope}}' resulted in error: no such key: nope",
        ),
    ),
    (
        "failing mutation, Ignore: the others count",
        policy("p", "[JSONPatch{op: 'remove', path: '/x/y'}]", ADD_A, failurePolicy="Ignore"),
        admitted(("p", add("/metadata/labels/a", "1"))),
    ),
    ("missing path", policy("p", "[JSONPatch{op: 'remove', path: '/x/y'}]"), denied("p", NOT_THERE)),
    (
        "atomic list",
        policy("p", "Object{spec: Object.spec{nodeSelector: {'a': 'b'}}}"),
        denied(
            "p",
            "error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: .spec.nodeSelector",
        ),
    ),
    (
        "field that the schema does not know",
        policy("p", "Object{spec: Object.spec{nope: 1}}"),
        denied(
            "p",
            "error applying patch: failed to convert patch object to typed object: .spec.nope: field not declared in schema",
        ),
    ),
    (
        "map literal in a list",
        policy("p", "Object{spec: Object.spec{containers: [{'name': 'x'}]}}"),
        denied(
            "p",
            "error applying patch: failed to convert patch object to typed object: .spec.containers: element 0: "
            "associative list with keys may not have non-map elements",
        ),
    ),
    (
        "type names must follow the fields",
        policy("p", "Object{spec: Object.wrong{nodeName: 'x'}}"),
        denied(
            "p",
            'type mismatch: unexpected type name "Object.wrong", expected "Object.spec", '
            "which matches field name path from root Object type",
        ),
    ),
    (
        "unknown fields in a JSON patch end the request, whatever failurePolicy says",
        policy(
            "p",
            "[JSONPatch{op: 'add', path: '/spec/nope', value: 1}, "
            "JSONPatch{op: 'add', path: '/spec/containers/0/zap', value: {'a': 'b'}}]",
            failurePolicy="Ignore",
        ),
        denied(
            "p",
            UNKNOWN_FIELD.replace(
                'spec.nope", unknown field "spec.containers[0].zap', 'spec.containers[0].zap", unknown field "spec.nope'
            ),
            "InternalError",
            500,
        ),
    ),
    (
        "wrong type in a JSON patch",
        policy("p", "[JSONPatch{op: 'add', path: '/spec/nodeName', value: 1}]"),
        denied(
            "p",
            "Internal error occurred: json: cannot unmarshal number into Go struct field PodSpec.spec.nodeName of type string",
            "InternalError",
            500,
        ),
    ),
    (
        "a test that fails changes nothing",
        policy(
            "p",
            "[JSONPatch{op: 'test', path: '/spec/nodeName', value: 'x'}, JSONPatch{op: 'remove', path: '/metadata/labels'}]",
        ),
        Decision(Verdict.ADMITTED),
    ),
    (
        "Never: what comes later is not seen",
        [*policy("a", PULL_ALWAYS), *policy("b", ADD_SIDECAR, conditions=["object.spec.containers.size() == 1"])],
        admitted(
            ("a", replaced("/spec/containers/0/imagePullPolicy", "Always")),
            ("b", add("/spec/containers/1", SIDECAR)),
        ),
    ),
    (
        "IfNeeded: once more after a later change",
        [
            *policy("a", PULL_ALWAYS, reinvocationPolicy="IfNeeded"),
            *policy("b", ADD_SIDECAR, conditions=["object.spec.containers.size() == 1"]),
        ],
        admitted(
            ("a", replaced("/spec/containers/0/imagePullPolicy", "Always")),
            ("b", add("/spec/containers/1", SIDECAR)),
            ("a", replaced("/spec/containers/1/imagePullPolicy", "Always")),
            patch=[
                replaced("/spec/containers/0/imagePullPolicy", "Always"),
                add("/spec/containers/1", {**SIDECAR, "imagePullPolicy": "Always"}),
            ],
        ),
    ),
    (
        "IfNeeded: its own change asks for one more pass, and no third",
        policy(
            "p",
            "Object{metadata: Object.metadata{labels: {'n': object.metadata.?labels.n.orValue('') + 'x'}}}",
            reinvocationPolicy="IfNeeded",
        ),
        admitted(
            ("p", add("/metadata/labels/n", "x")),
            ("p", replaced("/metadata/labels/n", "xx")),
            patch=[add("/metadata/labels/n", "xx")],
        ),
    ),
    (
        "validation sees what mutation left",
        [*policy("p", ADD_A), *validating("v", "object.metadata.labels.a != '1'")],
        Decision(
            Verdict.DENIED,
            denials=(
                Denial("v", "v-binding", 0, "failed expression: object.metadata.labels.a != '1'", "Invalid", 422),
            ),
            patch=(add("/metadata/labels/a", "1"),),
            mutated=(Mutated("p", "p-binding", (add("/metadata/labels/a", "1"),)),),
        ),
    ),
    (
        "a refusal of the mutating phase ends the request",
        [*policy("p", "[JSONPatch{op: 'remove', path: '/x/y'}]"), *validating("v", "false")],
        denied("p", NOT_THERE),
    ),
]


@pytest.mark.parametrize(("name", "manifests", "expected"), ONE_SET, ids=[row[0] for row in ONE_SET])
def test_one_set(name: str, manifests: list[JSON], expected: Decision) -> None:  # noqa: ARG001
    assert decide(manifests) == [expected]


def test_one_evaluation_for_each_parameter() -> None:
    manifests = policy(
        "p",
        "Object{metadata: Object.metadata{labels: {params.metadata.name: params.data.value}}}",
        paramKind={"apiVersion": "v1", "kind": "ConfigMap"},
        binding={"paramRef": {"selector": {}, "parameterNotFoundAction": "Deny"}},
    )
    objects = [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": "shop"},
            "data": {"value": name * 2},
        }
        for name in "xy"
    ]
    assert decide(manifests, objects=objects) == [
        admitted(("p", add("/metadata/labels/x", "xx")), ("p", add("/metadata/labels/y", "yy")))
    ]
    text = "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction"
    assert decide(manifests) == [denied("p", text, "Forbidden")]


def test_deletions_are_not_mutated() -> None:
    deletion = request(None, operation=Operation.DELETE, old_object=POD)
    assert decide(policy("p", ADD_A), before=deletion) == [Decision(Verdict.ADMITTED)]


def test_a_custom_kind_without_schema_is_undetermined() -> None:
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
    before = request(
        widget,
        kind=GroupVersionKind("example.com", "v1", "Widget"),
        resource=GroupVersionResource("example.com", "v1", "widgets"),
    )
    (decision,) = decide(policy("p", ADD_A), before=before)
    assert decision.verdict is Verdict.UNDETERMINED
    assert [(each.policy, each.reason) for each in decision.undetermined] == [
        ("p", "`object` is not known: the schema of its kind is not known")
    ]
