"""Mutating policies and the whole chain, on policies written for one point each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from replay.admission.chain import Chain
from replay.admission.change import Changes
from replay.admission.decision import Decision, Denial, Mutated, Verdict
from replay.admission.validated_object import validated_object
from replay.cellib.version import NEWEST
from replay.kube.attributes import JSON, Attributes, Missing, Operation, PartialObject, UserInfo
from replay.kube.authorizer import AuthorizationAttributes, AuthorizationDecision
from replay.kube.discovery import builtin_discovery
from replay.kube.gvk import GroupVersionKind, GroupVersionResource
from replay.kube.schema import Schemas
from replay.manifests.manifest_set import manifest_set_from_objects

API = "admissionregistration.k8s.io/v1"
EVERYTHING = {
    "resourceRules": [{"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "operations": ["*"]}],
    "matchPolicy": "Equivalent",
    "namespaceSelector": {},
    "objectSelector": {},
}
ADD_A = "Object{metadata: Object.metadata{labels: {'a': '1'}}}"
ADD_SIDECAR = (
    "[JSONPatch{op: 'add', path: '/spec/containers/-', value: Object.spec.containers{name: 'log', image: 'log:1'}}]"
)
PULL_ALWAYS = (
    "Object{spec: Object.spec{containers: object.spec.containers.map(c, "
    "Object.spec.containers{name: c.name, imagePullPolicy: 'Always'})}}"
)


class NobodyMay:
    def authorize(self, attributes: AuthorizationAttributes) -> AuthorizationDecision | Missing:  # noqa: ARG002
        return AuthorizationDecision(allowed=False)


class Objects:
    def __init__(self, objects: Sequence[JSON] = ()) -> None:
        self._objects = objects

    def get(self, kind: GroupVersionKind, namespace: str, name: str) -> JSON | Missing | None:
        return next((each for each in self.list(kind, namespace or None) if each["metadata"]["name"] == name), None)

    def list(self, kind: GroupVersionKind, namespace: str | None) -> list[JSON]:
        found = [each for each in self._objects if each["kind"] == kind.kind]
        return [each for each in found if namespace in (None, each["metadata"].get("namespace"))]


def policy(name: str, *mutations: str, **spec: Any) -> list[JSON]:
    """A mutating policy and its binding; a mutation that is a list is a JSON patch, any other an apply configuration."""
    steps = [
        {"patchType": "JSONPatch", "jsonPatch": {"expression": each}}
        if each.startswith(("[", "patch:"))
        else {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": each}}
        for each in mutations
    ]
    conditions = [{"name": f"c{i}", "expression": each} for i, each in enumerate(spec.pop("conditions", []))]
    binding = spec.pop("binding", {})
    defaults = {"failurePolicy": "Fail", "reinvocationPolicy": "Never", "matchConstraints": EVERYTHING}
    return [
        {
            "apiVersion": API,
            "kind": "MutatingAdmissionPolicy",
            "metadata": {"name": name},
            "spec": {**defaults, "mutations": steps, "matchConditions": conditions, **spec},
        },
        {
            "apiVersion": API,
            "kind": "MutatingAdmissionPolicyBinding",
            "metadata": {"name": f"{name}-binding"},
            "spec": {"policyName": name, **binding},
        },
    ]


def validating(name: str, expression: str) -> list[JSON]:
    return [
        {
            "apiVersion": API,
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": name},
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": EVERYTHING,
                "validations": [{"expression": expression}],
            },
        },
        {
            "apiVersion": API,
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": f"{name}-binding"},
            "spec": {"policyName": name, "validationActions": ["Deny"]},
        },
    ]


POD: JSON = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web", "namespace": "shop", "labels": {"app": "web"}},
    "spec": {
        "containers": [
            {
                "name": "web",
                "image": "web:1",
                "imagePullPolicy": "IfNotPresent",
                "resources": {},
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
            }
        ],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "securityContext": {},
        "schedulerName": "default-scheduler",
        "enableServiceLinks": True,
    },
    "status": {},
}
SIDECAR: JSON = {**POD["spec"]["containers"][0], "name": "log", "image": "log:1"}


def request(value: Any = POD, **changes: Any) -> Attributes:
    attributes = Attributes(
        operation=Operation.CREATE,
        kind=GroupVersionKind("", "v1", "Pod"),
        resource=GroupVersionResource("", "v1", "pods"),
        subresource="",
        namespace="shop",
        name="web",
        user_info=UserInfo("jane"),
        options={"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
        object=value,
        namespace_object={"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}},
    )
    return replace(attributes, **changes)


def decide(
    *sets: list[JSON], before: Attributes | None = None, after: Attributes | None = None, objects: Sequence[JSON] = ()
) -> list[Decision]:
    before = before or request()
    chain = Chain(
        [manifest_set_from_objects(each, []) for each in sets],
        NEWEST,
        builtin_discovery(),
        Schemas(),
        authorizer=lambda _: NobodyMay(),
    )
    return chain.decide(before, after or before, Objects(objects))


def add(path: str, value: JSON) -> JSON:
    return {"op": "add", "path": path, "value": value}


def replaced(path: str, value: JSON) -> JSON:
    return {"op": "replace", "path": path, "value": value}


def admitted(*mutated: tuple[str, JSON], patch: Sequence[JSON] | None = None) -> Decision:
    entries = tuple(Mutated(name, f"{name}-binding", (operation,)) for name, operation in mutated)
    total = tuple(patch) if patch is not None else tuple(operation for _, operation in mutated)
    return Decision(Verdict.ADMITTED, patch=total, mutated=entries)


def denied(name: str, message: str, reason: str = "Invalid", code: int = 403) -> Decision:
    return Decision(Verdict.DENIED, denials=(Denial(name, f"{name}-binding", None, message, reason, code),))


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


MISSING = Missing("object", "it is not recorded", "record it")
IMAGE = Missing("object.spec.containers[0].image", "it is not recorded")
LABELS = Missing("object.metadata.labels", "it is not recorded")


def known_but_for(missing: Missing, *path: str | int) -> PartialObject:
    def without(value: Any, keys: tuple[str | int, ...]) -> Any:
        if not keys:
            return missing
        copy = value.copy()
        copy[keys[0]] = without(value[keys[0]], keys[1:])
        return copy

    return PartialObject(without(POD, path), (missing,))


UNKNOWN: list[tuple[str, list[JSON], Any, Verdict, tuple[JSON, ...]]] = [
    ("object", policy("p", ADD_A), MISSING, Verdict.UNDETERMINED, ()),
    (
        "object, but the policy is skipped",
        policy("p", ADD_A, conditions=["request.name == 'x'"]),
        MISSING,
        Verdict.ADMITTED,
        (),
    ),
    (
        "a part that the mutation neither reads nor touches",
        policy("p", PULL_ALWAYS),
        known_but_for(IMAGE, "spec", "containers", 0, "image"),
        Verdict.ADMITTED,
        (replaced("/spec/containers/0/imagePullPolicy", "Always"),),
    ),
    (
        "a part that the mutation touches",
        policy("p", ADD_A),
        known_but_for(LABELS, "metadata", "labels"),
        Verdict.UNDETERMINED,
        (),
    ),
    (
        "a part that the mutation reads",
        policy("p", "Object{spec: Object.spec{nodeName: object.metadata.labels.app}}"),
        known_but_for(LABELS, "metadata", "labels"),
        Verdict.UNDETERMINED,
        (),
    ),
    (
        "a part that a condition reads",
        policy("p", ADD_A, conditions=["object.spec.containers[0].image == 'x'"]),
        known_but_for(IMAGE, "spec", "containers", 0, "image"),
        Verdict.UNDETERMINED,
        (),
    ),
    (
        "a part that a condition reads, and nothing would change",
        policy(
            "p",
            "Object{metadata: Object.metadata{labels: {'app': 'web'}}}",
            conditions=["object.spec.containers[0].image == 'x'"],
        ),
        known_but_for(IMAGE, "spec", "containers", 0, "image"),
        Verdict.ADMITTED,
        (),
    ),
]


@pytest.mark.parametrize(("name", "manifests", "value", "verdict", "patch"), UNKNOWN, ids=[row[0] for row in UNKNOWN])
def test_unknown_parts(name: str, manifests: list[JSON], value: Any, verdict: Verdict, patch: tuple[JSON, ...]) -> None:  # noqa: ARG001
    (decision,) = decide(manifests, before=request(value), after=request(POD))
    assert (decision.verdict, decision.patch) == (verdict, patch)
    assert bool(decision.undetermined) == (verdict is Verdict.UNDETERMINED)


def test_another_set_validates_the_object_as_the_server_would_have_made_it() -> None:
    stored = {**POD, "metadata": {**POD["metadata"], "uid": "u-1"}, "status": {"phase": "Pending"}}
    candidate = [
        *policy("p", ADD_A),
        *validating("v", "object.metadata.uid == 'u-1' && object.metadata.labels.a == '1'"),
        *validating("w", "object.status.phase != 'Pending'"),
    ]
    current, planned = decide(validating("v", "object.metadata.uid == 'u-1'"), candidate, after=request(stored))
    assert current == Decision(Verdict.ADMITTED)
    assert [denial.policy for denial in planned.denials] == ["w"]
    assert planned.patch == (add("/metadata/labels/a", "1"),)


READERS = [
    ("a new item is counted", "object.spec.containers.size() == 1"),
    ("a new item is looked at", "object.spec.containers.all(c, c.name == 'web')"),
    ("an index is any index", "object.spec.containers[0].image == 'web:1' && object.spec.containers.size() < 2"),
    ("a field that came is looked for", "!has(object.metadata.labels.a)"),
    ("a key that came is looked for", "!('a' in object.metadata.labels)"),
    ("the whole object is read", "object.metadata == {'name': 'web', 'namespace': 'shop', 'labels': {'app': 'web'}}"),
    ("another field is read", "object.spec.dnsPolicy == 'Default'"),
    ("a field above is looked for", "!has(object.metadata.labels)"),
    ("a value is compared by itself", "object.metadata.labels.app == 'web'"),
]


@pytest.mark.parametrize(("name", "expression"), READERS, ids=[row[0] for row in READERS])
def test_sets_share_what_does_not_read_the_difference(name: str, expression: str) -> None:  # noqa: ARG001
    check = validating("v", expression)
    mutating = [*policy("p", ADD_A, ADD_SIDECAR), *check]
    (alone,) = decide(mutating)
    plain, beside = decide(check, mutating)
    assert [plain] == decide(check)
    assert replace(beside, caused_by_mutation=(), healed_by_mutation=()) == alone


def test_what_the_set_in_force_mutated_is_not_carried_over_twice() -> None:
    stored = {**POD, "metadata": {**POD["metadata"], "labels": {"app": "web", "a": "1"}}}
    checked = validating("v", "object.metadata.labels == {'app': 'web', 'a': '1'}")
    unlabelled = validating("v", "object.metadata.labels == {'app': 'web'}")
    current, planned = decide([*policy("p", ADD_A), *checked], unlabelled, after=request(stored))
    assert (current.verdict, current.patch) == (Verdict.ADMITTED, (add("/metadata/labels/a", "1"),))
    assert (planned.verdict, planned.patch) == (Verdict.ADMITTED, ())


CARRIED: list[tuple[str, Any, Any, Any, Any]] = [
    ("same", {"a": 1}, {"a": 1}, {"a": 1, "uid": 1}, {"a": 1, "uid": 1}),
    ("difference", {"a": 1}, {"a": 2}, {"a": 1, "uid": 1}, {"a": 2, "uid": 1}),
    ("item", {"l": [1]}, {"l": [1, 2]}, {"l": [1]}, {"l": [1, 2]}),
    ("list of another length", {"l": [1]}, {"l": [1, 2]}, {"l": [0, 1]}, None),
    ("gone", {"a": {"b": 1}}, {"a": {"b": 2}}, {}, None),
    ("unknown part", {"a": 1}, {"a": 2}, PartialObject({"a": MISSING}, (MISSING,)), None),
    ("unknown part elsewhere", {"a": 1}, {"a": 2}, PartialObject({"a": 1, "u": MISSING}, (MISSING,)), "partial"),
    ("unknown mutation", {"a": 1}, MISSING, {"a": 1}, None),
]


@pytest.mark.parametrize(
    ("name", "reference", "mutated", "validated", "expected"), CARRIED, ids=[row[0] for row in CARRIED]
)
def test_validated_object(name: str, reference: Any, mutated: Any, validated: Any, expected: Any) -> None:  # noqa: ARG001
    got = validated_object(reference, mutated, validated, Changes())
    if expected is None:
        assert isinstance(got, Missing)
    elif expected == "partial":
        assert got == PartialObject({"a": 2, "u": MISSING}, (MISSING,))
    else:
        assert got == expected
