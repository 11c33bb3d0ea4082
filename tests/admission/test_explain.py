"""What explanations say of each pass and of webhooks, on sets written for one point each."""

from __future__ import annotations

from typing import Any

import pytest

from replay.admission.chain import Chain
from replay.admission.explain.request import RequestExplanation, explained_request
from replay.admission.explain.webhook import SAME
from replay.cellib.version import NEWEST
from replay.json import JSON
from replay.kube.attributes import Attributes
from replay.kube.discovery import builtin_discovery
from replay.kube.lister import ObjectTracker
from replay.kube.schema import Schemas
from replay.manifests.manifest_set import manifest_set_from_objects
from tests.support.creation import creation_of_config_map

API = "admissionregistration.k8s.io/v1"
RULE: JSON = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"]}


def attributes(**changes: Any) -> Attributes:
    config_map = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "x", "namespace": "shop"},
        "data": {"a": "0"},
    }
    return creation_of_config_map(config_map, **{"name": "x", "options": {}, **changes})


def policy(name: str, *mutations: str, **spec: Any) -> list[JSON]:
    """A mutating policy of JSON patches and its binding."""
    steps = [{"patchType": "JSONPatch", "jsonPatch": {"expression": each}} for each in mutations]
    return [
        {
            "apiVersion": API,
            "kind": "MutatingAdmissionPolicy",
            "metadata": {"name": name},
            "spec": {
                "failurePolicy": "Fail",
                "reinvocationPolicy": "IfNeeded",
                "matchConstraints": {"resourceRules": [RULE]},
                "mutations": steps,
                **spec,
            },
        },
        {
            "apiVersion": API,
            "kind": "MutatingAdmissionPolicyBinding",
            "metadata": {"name": f"{name}-binding"},
            "spec": {"policyName": name},
        },
    ]


def webhook(name: str, phase: str = "Mutating", **fields: Any) -> JSON:
    common = {"clientConfig": {"url": "https://localhost"}, "sideEffects": "None", "admissionReviewVersions": ["v1"]}
    return {
        "apiVersion": API,
        "kind": f"{phase}WebhookConfiguration",
        "metadata": {"name": f"{name}-configuration"},
        "webhooks": [{"name": name, **common, "rules": [RULE], **fields}],
    }


def put(key: str, value: str) -> str:
    return f"[JSONPatch{{op: 'add', path: '/data/{key}', value: {value}}}]"


def explained(
    objects: list[JSON], asked: list[JSON] | None = None, request: Attributes | None = None
) -> RequestExplanation:
    """What a set does with a request; the chain has `asked` of it, all if None."""
    request = request or attributes()
    chain = Chain(
        [manifest_set_from_objects(objects if asked is None else asked, [])], NEWEST, builtin_discovery(), Schemas()
    )
    asking = chain.asking(request, request, ObjectTracker(), {})
    return explained_request(chain, asking, 0, manifest_set_from_objects(objects, []))


def outcomes(explanation: RequestExplanation) -> list[tuple[int, list[tuple[str, str]], tuple[str, ...]]]:
    return [
        (each.number, [(p.policy, b.outcome) for p in each.policies for b in p.bindings], each.webhooks)
        for each in explanation.passes
    ]


GROW = put("a", "object.data.a + '1'")
NO_MAP = (
    "Internal error occurred: "
    "json: cannot unmarshal string into Go struct field ConfigMap.data of type map[string]string"
)
PASSES: list[tuple[str, list[JSON], list[tuple[int, list[tuple[str, str]], tuple[str, ...]]]]] = [
    ("nothing", [], []),
    (
        "one that wants no second look",
        policy("a", GROW, reinvocationPolicy="Never"),
        [(1, [("a", "changes the object")], ())],
    ),
    (
        "again after its own change",
        policy("a", GROW),
        [(1, [("a", "changes the object")], ()), (2, [("a", "changes the object")], ())],
    ),
    (
        "a webhook too: a policy changes the object again",
        [*policy("a", GROW), webhook("w", reinvocationPolicy="IfNeeded")],
        [(1, [("a", "changes the object")], ()), (2, [("a", "changes the object")], ("w",))],
    ),
    (
        "a webhook that saw the last change",
        [*policy("a", GROW, reinvocationPolicy="Never"), webhook("w", reinvocationPolicy="IfNeeded")],
        [(1, [("a", "changes the object")], ())],
    ),
    (
        "an error refuses, after all policies of the pass",
        [*policy("a", "[JSONPatch{op: 'remove', path: '/x'}]"), *policy("b", GROW)],
        [
            (
                1,
                [
                    (
                        "a",
                        "failed: JSON Patch: error in remove for path: '/x': Unable to remove nonexistent key: x: missing value",
                    ),
                    ("b", "changes the object"),
                ],
                (),
            )
        ],
    ),
    (
        "refused at once: the next one is not asked",
        [*policy("a", "[JSONPatch{op: 'add', path: '/data', value: 'x'}]"), *policy("b", GROW)],
        [(1, [("a", f"refused: {NO_MAP}"), ("b", "not asked: `a` refuses the request")], ())],
    ),
]


@pytest.mark.parametrize(("objects", "expected"), [row[1:] for row in PASSES], ids=[row[0] for row in PASSES])
def test_passes(objects: list[JSON], expected: list[tuple[int, list[tuple[str, str]], tuple[str, ...]]]) -> None:
    assert outcomes(explained(objects)) == expected


def test_each_mutation_sees_those_before_it() -> None:
    """Three of them: what the first two left is not taken for what the first one did."""
    explanation = explained(policy("a", GROW, GROW, GROW, reinvocationPolicy="Never"))
    steps = explanation.passes[0].policies[0].bindings[0].steps
    assert [str(step.value[0].fields["value"]) for step in steps if step.label.startswith("mutation")] == [
        "01",
        "011",
        "0111",
    ]


def test_a_mutation_that_was_never_evaluated_is_not_told() -> None:
    """The first of two ends the request."""
    explanation = explained(policy("a", "[JSONPatch{op: 'add', path: '/data', value: 'x'}]", GROW))
    binding = explanation.passes[0].policies[0].bindings[0]
    assert [step.label for step in binding.steps] == ["mutation 0 (JSONPatch)"]
    assert binding.outcome == f"refused: {NO_MAP}"


WEBHOOKS: list[tuple[str, JSON, Attributes, str]] = [
    ("called", webhook("w"), attributes(), ""),
    (
        "rules",
        webhook("w", rules=[{**RULE, "operations": ["DELETE"]}]),
        attributes(),
        "resourceRules: the operation is CREATE, the rule for configmaps has DELETE",
    ),
    (
        "namespaceSelector",
        webhook("w", namespaceSelector={"matchLabels": {"a": "b"}}),
        attributes(),
        "namespaceSelector: wants a=b; the namespace has none of these labels",
    ),
    (
        "objectSelector",
        webhook("w", objectSelector={"matchLabels": {"a": "b"}}),
        attributes(),
        "objectSelector: wants a=b; object has none of these labels",
    ),
    (
        "match conditions",
        webhook("w", matchConditions=[{"name": "c", "expression": "object.data.a == '1'"}]),
        attributes(),
        "skipped: matchCondition c is false",
    ),
    (
        "a side effect, and a dry run",
        webhook("w", sideEffects="Some"),
        attributes(dry_run=True),
        'the request is refused: admission webhook "w" does not support dry run',
    ),
]


@pytest.mark.parametrize("phase", ["Mutating", "Validating"])
@pytest.mark.parametrize(
    ("configuration", "request_", "reason"), [row[1:] for row in WEBHOOKS], ids=[r[0] for r in WEBHOOKS]
)
def test_webhooks(configuration: JSON, request_: Attributes, reason: str, phase: str) -> None:
    objects = [{**configuration, "kind": f"{phase}WebhookConfiguration"}]
    found = explained(objects, request=request_).webhooks
    assert [(each.webhook, each.phase, each.reason) for each in found] == [("w", phase.lower(), reason)]


def test_webhooks_that_are_left_out_say_so() -> None:
    objects = [webhook("w"), webhook("v", "Validating")]
    assert [each.reason for each in explained(objects, []).webhooks] == [SAME, SAME]


def test_nothing_comes_after_a_refusal() -> None:
    objects = [*policy("a", "[JSONPatch{op: 'remove', path: '/x'}]"), webhook("w"), webhook("v", "Validating")]
    expected = "not asked: `a` refuses the request"
    assert [each.reason for each in explained(objects).webhooks] == [expected, expected]
