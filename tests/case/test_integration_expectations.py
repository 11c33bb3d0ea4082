"""What Kubernetes' own integration tests of admission expect (`test/integration/apiserver/cel` and `.../admissionwebhook` of 1.37).

The policies and requests are ours; each row is a kind of expectation there. The message of a denial is the policy's own.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from replay.case.result import CaseResult, Status
from replay.cellib.version import NEWEST
from replay.errors import ManifestError
from replay.manifests.set_loader import load_manifest_set
from replay.pipeline.cases import CaseOptions, run_tests

Object = dict[str, Any]

ADMISSION = "admissionregistration.k8s.io/v1"
CONFIG_MAPS = {"apiVersion": "v1", "kind": "ConfigMap"}
ADMITTED: Object = {"verdict": "admitted", "denials": [], "warnings": []}
NOT_SELECTED: Object = {"verdict": "admitted", "matches": False}


def denied(message: str, reason: str = "Invalid", code: int = 422) -> Object:
    """The expectation that the policy of the row denies."""
    return {"verdict": "denied", "policy": "p", "binding": "p", "message": message, "reason": reason, "code": code}


def failed(expression: str, error: str) -> str:
    return f"expression '{expression}' resulted in error: {error}"


def rule(resource: str, *operations: str, group: str = "", version: str = "v1", **more: Any) -> Object:
    found = {"apiGroups": [group], "apiVersions": [version], "resources": [resource]}
    return {"operations": list(operations or ("*",)), **found, **more}


def matching(resource: str, **more: Any) -> Object:
    """The match constraints of a policy about one resource."""
    return {"resourceRules": [rule(resource)], **more}


def named(kind: str, name: str, spec: Object) -> Object:
    return {"apiVersion": ADMISSION, "kind": kind, "metadata": {"name": name}, "spec": spec}


def validating(
    *expressions: str | Object, resource: str = "namespaces", binding: Object | None = None, **spec: Any
) -> list[Object]:
    """A policy `p` about a resource, and its binding."""
    validations = [{"expression": each} if isinstance(each, str) else each for each in expressions]
    spec = {"matchConstraints": matching(resource), "failurePolicy": "Fail", "validations": validations} | spec
    bound = {"policyName": "p", "validationActions": ["Deny"]} | (binding or {})
    return [named("ValidatingAdmissionPolicy", "p", spec), named("ValidatingAdmissionPolicyBinding", "p", bound)]


def mutating(*mutations: str, name: str = "m", bindings: tuple[Object, ...] = ({},), **spec: Any) -> list[Object]:
    """A policy about Endpoints, and its bindings; a list is a JSON patch."""
    written = [
        {"patchType": "JSONPatch", "jsonPatch": {"expression": each}}
        if each.lstrip().startswith("[")
        else {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": each}}
        for each in mutations
    ]
    default = {"matchConstraints": matching("endpoints"), "failurePolicy": "Fail", "reinvocationPolicy": "Never"}
    bound = [
        named("MutatingAdmissionPolicyBinding", f"{name}-{index}", {"policyName": name, **each})
        for index, each in enumerate(bindings)
    ]
    return [named("MutatingAdmissionPolicy", name, {**default, "mutations": written, **spec}), *bound]


def namespace(name: str) -> Object:
    return {"object": {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}}


def config_map(
    name: str, *, labels: Object | None = None, data: Object | None = None, namespace: str = "default"
) -> Object:
    metadata = {"name": name, "namespace": namespace, **({"labels": labels} if labels else {})}
    return {**CONFIG_MAPS, "metadata": metadata, **({"data": data} if data else {})}


def endpoints(*, labels: Object | None = None, annotations: Object | None = None, **fields: Any) -> Object:
    metadata: Object = {"name": "e", "namespace": "default"}
    metadata |= {key: each for key, each in (("labels", labels), ("annotations", annotations)) if each}
    if "finalizers" in fields:
        metadata["finalizers"] = fields.pop("finalizers")
    return {"apiVersion": "v1", "kind": "Endpoints", "metadata": metadata, **fields}


def addresses(key: str, *ips: str) -> Object:
    return {key: [{"ip": each} for each in ips]}


def gets(expected: Object, request: Object | None = None) -> Object:
    """The request for Endpoints, and what the mutating policies make of it."""
    return {"object": request or endpoints(), "expect": {"verdict": "admitted", "object": expected}}


def panda(version: str = "v1", **spec: Any) -> Object:
    return {"apiVersion": f"zoo.example.com/{version}", "kind": "Panda", "metadata": {"name": "p"}, "spec": spec}


def definition() -> Object:
    """A custom kind with two versions, whose fields are not declared."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    versions = [{"name": each, "served": True, "storage": each == "v1", "schema": schema} for each in ("v1", "v2")]
    names = {"plural": "pandas", "singular": "panda", "kind": "Panda", "listKind": "PandaList"}
    spec = {"group": "zoo.example.com", "scope": "Cluster", "names": names, "versions": versions}
    kind = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    return {**kind, "metadata": {"name": "pandas.zoo.example.com"}, "spec": spec}


def custom(*mutations: str, request: Object, spec: Object) -> Object:
    """The request for a custom object, and the spec that the mutations make."""
    constraints = {"resourceRules": [rule("pandas", group="zoo.example.com")]}
    metadata = {"apiVersion": "zoo.example.com/v1", "kind": "Panda", "metadata": {"name": "p"}}
    return {
        "objects": [definition(), *mutating(*mutations, matchConstraints=constraints)],
        "object": request,
        "expect": {"verdict": "admitted", "object": {**metadata, "spec": spec}},
    }


def selected(resource: str, *, group: str = "", match_policy: str = "Equivalent", version: str = "v1") -> list[Object]:
    constraints = {"matchPolicy": match_policy, "resourceRules": [rule(resource, group=group, version=version)]}
    return validating("false", matchConstraints=constraints)


def answers(*rows: Object) -> Object:
    """The authorizer of a row; what it has no answer for is not allowed."""
    return {"authorizer": [{"decision": "allow", **each} for each in rows] or [{"decision": "deny"}]}


SUFFIX = "object.metadata.name.endsWith('k8s')"
NOT_THERE = "object.nonExistentProperty == 'someval'"
PARAM: Object = {"paramKind": CONFIG_MAPS}
BOUND_PARAM: Object = {"paramRef": {"name": "limits", "namespace": "default", "parameterNotFoundAction": "Deny"}}
BY_PARAM = "object.metadata.name.endsWith(params.data.suffix)"
STATUS = "authorizer.group('apps').resource('deployments').subresource('status').namespace('default').name('a').check('create')"
STATUS_RULE = {"group": "apps", "resource": "deployments", "subresource": "status", "verb": "create", "name": "a"}
OF_ACCOUNT = "authorizer.serviceAccount('default', 'extra').group('').resource('pods').check('visit').allowed()"
AUTHORIZED = " && ".join([f"{STATUS}.allowed()"] * 3)
OUT_OF_COST = "operation cancelled: actual cost limit exceeded"
NESTED = "true"
for _variable in "fedcba":
    NESTED = f"[1, 2, 3, 4, 5, 6, 7, 8, 9, 10].all({_variable}, {NESTED})"

VALIDATING = {
    "a suffix of the object's name is there": {"objects": validating(SUFFIX), **namespace("a-k8s"), "expect": ADMITTED},
    "a suffix of the request's name is there": {
        "objects": validating("request.name.endsWith('k8s')"),
        **namespace("a-k8s"),
        "expect": ADMITTED,
    },
    "an evaluation fails, Ignore": {
        "objects": validating(NOT_THERE, failurePolicy="Ignore"),
        **namespace("a"),
        "expect": ADMITTED,
    },
    "has() of params that no binding names": {
        "objects": validating(f"(has(params.metadata) && params.metadata.name == 'x') || {SUFFIX}", **PARAM),
        **namespace("a-k8s"),
        "expect": ADMITTED,
    },
    "null params beside another test": {
        "objects": validating(f"(params != null && params.metadata.name == 'x') || {SUFFIX}", **PARAM),
        **namespace("a-k8s"),
        "expect": ADMITTED,
    },
    "a Namespace has no namespaceObject": {
        "objects": validating("namespaceObject == null"),
        **namespace("a"),
        "expect": ADMITTED,
    },
    "a suffix is missing": {
        "objects": validating(SUFFIX),
        **namespace("a"),
        "expect": denied(f"failed expression: {SUFFIX}"),
    },
    "a reason of its own": {
        "objects": validating({"expression": SUFFIX, "reason": "Forbidden"}),
        **namespace("a"),
        "expect": denied(f"failed expression: {SUFFIX}", "Forbidden", 403),
    },
    "an evaluation fails, Fail": {
        "objects": validating(NOT_THERE),
        **namespace("a"),
        "expect": denied(failed(NOT_THERE, "no such key: nonExistentProperty")),
    },
    "params that no binding names are read": {
        "objects": validating("object.metadata.name.startsWith(params.metadata.name)", **PARAM),
        **namespace("a"),
        "expect": denied(failed("object.metadata.name.startsWith(params.metadata.name)", "no such key: metadata")),
    },
    "has() of params is false": {
        "objects": validating("has(params.metadata) && params.metadata.name == 'x'", **PARAM),
        **namespace("a"),
        "expect": denied("failed expression: has(params.metadata) && params.metadata.name == 'x'"),
    },
    "params are null": {
        "objects": validating("params != null", **PARAM),
        **namespace("a"),
        "expect": denied("failed expression: params != null"),
    },
    "a param decides, admitted": {
        "objects": validating(BY_PARAM, **PARAM, binding=BOUND_PARAM),
        "params": [config_map("limits", data={"suffix": "k8s"})],
        **namespace("a-k8s"),
        "expect": ADMITTED,
    },
    "a param decides, denied": {
        "objects": validating(BY_PARAM, **PARAM, binding=BOUND_PARAM),
        "params": [config_map("limits", data={"suffix": "k8s"})],
        **namespace("a"),
        "expect": denied(f"failed expression: {BY_PARAM}"),
    },
    "a custom object is the param": {
        "objects": [
            definition(),
            *validating(
                "params.spec.nameCheck == object.metadata.name",
                paramKind={"apiVersion": "zoo.example.com/v1", "kind": "Panda"},
                binding={"paramRef": {"name": "p", "parameterNotFoundAction": "Deny"}},
            ),
            panda(nameCheck="crd-test"),
        ],
        **namespace("crd-test"),
        "expect": ADMITTED,
    },
}

WARNINGS = {
    "audit annotations, null is left out": {
        "objects": validating(
            resource="configmaps",
            auditAnnotations=[
                {"key": "example", "valueExpression": "'object name: ' + object.metadata.name"},
                {"key": "excluded", "valueExpression": "null"},
            ],
            validations=[],
        ),
        "object": config_map("a"),
        "expect": {**ADMITTED, "auditAnnotations": {"p/example": "object name: a"}},
    },
    "an audit annotation fails": {
        "objects": validating(
            resource="configmaps",
            auditAnnotations=[{"key": "example", "valueExpression": "string(params.metadata.name)"}],
            validations=[],
            **PARAM,
        ),
        "object": config_map("a"),
        "expect": denied(failed("string(params.metadata.name)", "no such key: metadata")),
    },
    "an audit annotation fails, Ignore": {
        "objects": validating(
            resource="configmaps",
            auditAnnotations=[{"key": "example", "valueExpression": "string(params.metadata.name)"}],
            validations=[],
            failurePolicy="Ignore",
            **PARAM,
        ),
        "object": config_map("a"),
        "expect": {**ADMITTED, "auditAnnotations": {}},
    },
    "a binding that warns": {
        "objects": validating(SUFFIX, resource="configmaps", binding={"validationActions": ["Warn"]}),
        "object": config_map("a"),
        "expect": {
            "verdict": "admitted",
            "warnings": [
                f"Validation failed for ValidatingAdmissionPolicy 'p' with binding 'p': failed expression: {SUFFIX}"
            ],
        },
    },
    "a binding that denies and audits": {
        "objects": validating(SUFFIX, resource="configmaps", binding={"validationActions": ["Deny", "Audit"]}),
        "object": config_map("a"),
        "expect": {
            **denied(f"failed expression: {SUFFIX}"),
            "auditAnnotations": {
                "validation.policy.admission.k8s.io/validation_failure": (
                    f'[{{"message":"failed expression: {SUFFIX}","policy":"p","binding":"p","expressionIndex":0,'
                    '"validationActions":["Deny","Audit"]}]'
                )
            },
        },
    },
}

CHECK = "params.data.fail != 'true' && (params.data.conditional == 'false' || object.metadata.name.startsWith(params.data.prefix))"


def several_bindings(name: str, label: str, expected: Object) -> Object:
    """One policy with three bindings, each for objects with a label of its own and with its own parameters."""
    policy, _ = validating(CHECK, resource="secrets", **PARAM)
    bindings = [
        named(
            "ValidatingAdmissionPolicyBinding",
            each,
            {
                "policyName": "p",
                "paramRef": {"name": each, "namespace": "default", "parameterNotFoundAction": "Deny"},
                "matchResources": {"objectSelector": {"matchExpressions": [{"key": each, "operator": "Exists"}]}},
                "validationActions": ["Deny"],
            },
        )
        for each in ("fails", "passes", "depends")
    ]
    params = [
        config_map("fails", data={"fail": "true"}),
        config_map("passes", data={"fail": "false", "conditional": "false"}),
        config_map("depends", data={"fail": "false", "conditional": "true", "prefix": "prefix-"}),
    ]
    metadata = {"name": name, "namespace": "default", "labels": {label: "x"}}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}
    return {"objects": [policy, *bindings], "params": params, "object": secret, "expect": expected}


MATCHING = {
    "a binding whose params deny": several_bindings(
        "a", "fails", {"verdict": "denied", "policy": "p", "binding": "fails", "message": f"failed expression: {CHECK}"}
    ),
    "a binding whose params admit": several_bindings("a", "passes", ADMITTED),
    "a binding that admits some names, one of them": several_bindings("prefix-a", "depends", ADMITTED),
    "a binding that admits some names, another": several_bindings(
        "a", "depends", {"verdict": "denied", "policy": "p", "binding": "depends"}
    ),
    "an object selector matches": {
        "objects": validating(
            "false", matchConstraints=matching("configmaps", objectSelector={"matchLabels": {"a": "b"}})
        ),
        "object": config_map("a", labels={"a": "b"}),
        "expect": denied("failed expression: false"),
    },
    "an object selector does not match": {
        "objects": validating(
            "false", matchConstraints=matching("configmaps", objectSelector={"matchLabels": {"a": "b"}})
        ),
        "object": config_map("a"),
        "expect": NOT_SELECTED,
    },
    "a namespace selector matches": {
        "objects": validating(
            "false",
            matchConstraints=matching(
                "configmaps",
                namespaceSelector={
                    "matchExpressions": [
                        {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["default"]}
                    ]
                },
            ),
        ),
        "object": config_map("a", namespace="other"),
        "namespace": {"name": "other", "labels": {"kubernetes.io/metadata.name": "other"}},
        "expect": denied("failed expression: false"),
    },
    "a namespace selector does not match": {
        "objects": validating(
            "false",
            matchConstraints=matching(
                "configmaps",
                namespaceSelector={
                    "matchExpressions": [
                        {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["default"]}
                    ]
                },
            ),
        ),
        "object": config_map("a"),
        "namespace": {"name": "default", "labels": {"kubernetes.io/metadata.name": "default"}},
        "expect": NOT_SELECTED,
    },
    "a name that a rule has": {
        "objects": validating("false", matchConstraints={"resourceRules": [rule("configmaps", resourceNames=["a"])]}),
        "object": config_map("a"),
        "expect": denied("failed expression: false"),
    },
    "a name that a rule lacks": {
        "objects": validating("false", matchConstraints={"resourceRules": [rule("configmaps", resourceNames=["a"])]}),
        "object": config_map("b"),
        "expect": NOT_SELECTED,
    },
    "a resource that is excluded": {
        "objects": validating("false", matchConstraints=matching("*", excludeResourceRules=[rule("configmaps")])),
        "object": config_map("a"),
        "expect": NOT_SELECTED,
    },
    "a resource beside one that is excluded": {
        "objects": validating("false", matchConstraints=matching("*", excludeResourceRules=[rule("secrets")])),
        "object": config_map("a"),
        "expect": denied("failed expression: false"),
    },
    "Equivalent, the version of the rule": {
        "objects": [definition(), *selected("pandas", group="zoo.example.com")],
        "object": panda("v1"),
        "expect": denied("failed expression: false"),
    },
    "Equivalent, another version": {
        "objects": [definition(), *selected("pandas", group="zoo.example.com")],
        "object": panda("v2"),
        "expect": denied("failed expression: false"),
    },
    "Exact, the version of the rule": {
        "objects": [definition(), *selected("pandas", group="zoo.example.com", match_policy="Exact")],
        "object": panda("v1"),
        "expect": denied("failed expression: false"),
    },
    "Exact, another version": {
        "objects": [definition(), *selected("pandas", group="zoo.example.com", match_policy="Exact")],
        "object": panda("v2"),
        "expect": NOT_SELECTED,
    },
    "policies never see a SelfSubjectReview": {
        "objects": selected("*", group="*", version="*"),
        "object": {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview", "metadata": {}},
        "expect": NOT_SELECTED,
    },
    "policies never see a SubjectAccessReview": {
        "objects": selected("*", group="*", version="*"),
        "object": {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "metadata": {},
            "spec": {"user": "a", "resourceAttributes": {"verb": "get", "resource": "pods"}},
        },
        "expect": NOT_SELECTED,
    },
    "a policy of the API is exempt from policies of the API": {
        "objects": selected("*", group="*", version="*"),
        "object": validating("true")[0],
        "expect": NOT_SELECTED,
    },
    "and so is a binding": {
        "objects": selected("*", group="*", version="*"),
        "object": validating("true")[1],
        "expect": NOT_SELECTED,
    },
}

TOO_EXPENSIVE = {
    "objects": validating(NESTED),
    **namespace("a"),
    "expect": denied(failed(NESTED, OUT_OF_COST)),
}
"""It takes a million steps, and as long as all other rows together."""
COSTS = {
    "an expression of the language is too expensive": TOO_EXPENSIVE,
    "an expression that asks the authorizer is too expensive": {
        "objects": validating(AUTHORIZED),
        **answers(STATUS_RULE),
        **namespace("a"),
        "expect": denied(failed(AUTHORIZED, OUT_OF_COST)),
    },
    "a variable is too expensive": {
        "objects": validating("variables.asked", variables=[{"name": "asked", "expression": AUTHORIZED}]),
        **answers(STATUS_RULE),
        **namespace("a"),
        "expect": denied(failed("variables.asked", f'composited variable "asked" fails to evaluate: {OUT_OF_COST}')),
    },
    "a match condition is too expensive": {
        "objects": validating("true", matchConditions=[{"name": "asked", "expression": AUTHORIZED}]),
        **answers(STATUS_RULE),
        **namespace("a"),
        "expect": denied(failed(AUTHORIZED, OUT_OF_COST)),
    },
    "many validations are too expensive together": {
        "objects": validating(*[f"{STATUS}.allowed()"] * 29),
        **answers(STATUS_RULE),
        **namespace("a"),
        "expect": denied(
            "validation failed due to running out of cost budget, no further validation rules will be run"
        ),
    },
}

AUTHORIZATION = {
    "the user may change the status of one object": {
        "objects": validating(f"{STATUS}.allowed()"),
        **answers(STATUS_RULE),
        **namespace("a"),
        "expect": ADMITTED,
    },
    "the user may not": {
        "objects": validating(f"{STATUS}.allowed()"),
        **answers(),
        **namespace("a"),
        "expect": denied(f"failed expression: {STATUS}.allowed()"),
    },
    "a verb of one's own, allowed": {
        "objects": validating("authorizer.requestResource.check('visit').allowed()"),
        **answers({"verb": "visit", "resource": "namespaces"}),
        **namespace("a"),
        "expect": ADMITTED,
    },
    "a verb of one's own, not allowed": {
        "objects": validating("authorizer.requestResource.check('visit').allowed()"),
        **answers(),
        **namespace("a"),
        "expect": denied("failed expression: authorizer.requestResource.check('visit').allowed()"),
    },
    "a service account that is named": {
        "objects": validating(OF_ACCOUNT),
        **answers({"verb": "visit", "resource": "pods", "user": "system:serviceaccount:default:extra"}),
        **namespace("a"),
        "expect": ADMITTED,
    },
    "the roles of another account do not count": {
        "objects": validating(OF_ACCOUNT),
        **answers({"verb": "visit", "resource": "pods", "user": "system:serviceaccount:default:other"}),
        **namespace("a"),
        "expect": denied(f"failed expression: {OF_ACCOUNT}"),
    },
    "equal questions have equal answers": {
        "objects": validating(
            "authorizer.requestResource.check('a').reason() == authorizer.requestResource.check('a').reason()"
        ),
        **answers({"verb": "a", "reason": "1"}),
        **namespace("a"),
        "expect": ADMITTED,
    },
}

NEW_ADDRESS = 'Object.subsets.addresses{ip: "10.0.0.1"}'
READY = "object.subsets[0].notReadyAddresses"
NOT_READY = endpoints(subsets=[addresses("notReadyAddresses", "1.2.3.4")])


def address_patch(value: str, *ips: str) -> Object:
    """A JSON patch that adds addresses, and those that are then there."""
    expected = endpoints(subsets=[addresses("notReadyAddresses", "1.2.3.4") | addresses("addresses", *ips)])
    patch = f'[JSONPatch{{op: "add", path: "/subsets/0/addresses", value: {value}}}]'
    return {"objects": mutating(patch), **gets(expected, NOT_READY)}


def finalizers(value: str, *expected: str) -> Object:
    """An apply configuration that sets finalizers, and those that are then there."""
    return {
        "objects": mutating(f"Object{{metadata: Object.metadata{{finalizers: {value}}}}}"),
        **gets(endpoints(finalizers=list(expected)), endpoints(finalizers=["k8s.example.com/old"])),
    }


def annotated(key: str, value: str) -> str:
    return f"Object{{metadata: Object.metadata{{annotations: {{{key}: {value}}}}}}}"


def counted(key: str) -> str:
    """A mutation that counts its invocations in the annotation `n`, and says that it ran."""
    count = 'optional.of(string(int(object.metadata.annotations["n"]) + 1))'
    return f'Object{{metadata: Object.metadata{{annotations: {{?"n": {count}, "{key}": "true"}}}}}}'


def by_label(value: str) -> Object:
    expression = f'object.metadata.?labels["stage"] == optional.of("{value}")'
    return {"matchConditions": [{"name": "stage", "expression": expression}]}


LABELLED = 'Object{metadata: Object.metadata{labels: {"applied": "yes"}}}'
FROM_PARAMS = "Object{metadata: Object.metadata{annotations: params.data}}"
ALLOW = {"parameterNotFoundAction": "Allow"}
NEW = 'Object.metadata{finalizers: ["k8s.example.com/new"]}.finalizers'
OLD = "object.metadata.finalizers"
TWO_PARAMS = [
    config_map("one", labels={"of": "m"}, data={"a": "1"}),
    config_map("two", labels={"of": "m"}, data={"b": "2", "c": "3"}),
]
CALLS = {
    "objects": [
        *mutating(counted("first"), name="m1", reinvocationPolicy="IfNeeded"),
        *mutating(counted("second"), name="m2", reinvocationPolicy="IfNeeded"),
        *mutating(counted("third"), name="m3"),
    ],
    **gets(
        endpoints(annotations={"n": "5", "first": "true", "second": "true", "third": "true"}),
        endpoints(annotations={"n": "0"}),
    ),
}

MUTATING = {
    "an annotation is added": {
        "objects": mutating(annotated('"a"', '"b"')),
        **gets(endpoints(annotations={"a": "b"})),
    },
    "a patch adds new objects": address_patch(f"[{NEW_ADDRESS}]", "10.0.0.1"),
    "a patch adds an object that is there": address_patch(f"[{READY}[0]]", "1.2.3.4"),
    "a patch adds a list that is there": address_patch(READY, "1.2.3.4"),
    "a patch adds two lists that are there": address_patch(f"{READY} + [{READY}[0]]", "1.2.3.4", "1.2.3.4"),
    "a patch adds a list that is there and a new one": address_patch(
        f"{READY} + [{NEW_ADDRESS}]", "1.2.3.4", "10.0.0.1"
    ),
    "a patch adds a new list and one that is there": address_patch(f"[{NEW_ADDRESS}] + {READY}", "10.0.0.1", "1.2.3.4"),
    "a patch adds two new lists": address_patch(
        f'[{NEW_ADDRESS}] + [Object.subsets.addresses{{ip: "10.0.0.2"}}]', "10.0.0.1", "10.0.0.2"
    ),
    "a set and a new list are applied": finalizers(f"{OLD} + {NEW}", "k8s.example.com/old", "k8s.example.com/new"),
    "a new list and a set are applied": finalizers(f"{NEW} + {OLD}", "k8s.example.com/new", "k8s.example.com/old"),
    "two new lists are applied to none": {
        "objects": mutating(f'Object{{metadata: Object.metadata{{finalizers: {NEW} + ["k8s.example.com/newer"]}}}}'),
        **gets(endpoints(finalizers=["k8s.example.com/new", "k8s.example.com/newer"])),
    },
    "a patch loops over the keys of labels": {
        "objects": mutating(
            '[JSONPatch{op: "add", path: "/metadata/labels/added", '
            'value: object.metadata.labels.all(k, k != "no") ? "true" : "false"}]'
        ),
        **gets(endpoints(labels={"a": "b", "added": "true"}), endpoints(labels={"a": "b"})),
    },
    "two policies": {
        "objects": [*mutating(annotated('"a"', '"1"')), *mutating(annotated('"b"', '"2"'), name="n")],
        **gets(endpoints(annotations={"a": "1", "b": "2"})),
    },
    "a parameter by name": {
        "objects": mutating(
            annotated('params.data["key"]', 'params.data["value"]'),
            bindings=({"paramRef": {"name": "one", **ALLOW}},),
            **PARAM,
        ),
        "params": [config_map("one", data={"key": "a", "value": "b"})],
        **gets(endpoints(annotations={"a": "b"})),
    },
    "parameters by selector": {
        "objects": mutating(
            FROM_PARAMS,
            bindings=({"paramRef": {"selector": {"matchLabels": {"of": "m"}}, "namespace": "default", **ALLOW}},),
            **PARAM,
        ),
        "params": TWO_PARAMS,
        **gets(endpoints(annotations={"a": "1", "b": "2", "c": "3"})),
    },
    "two bindings with a parameter each": {
        "objects": mutating(
            FROM_PARAMS,
            bindings=tuple({"paramRef": {"name": each, "namespace": "default", **ALLOW}} for each in ("one", "two")),
            **PARAM,
        ),
        "params": TWO_PARAMS,
        **gets(endpoints(annotations={"a": "1", "b": "2", "c": "3"})),
    },
    "variables, and mutations that see those before": {
        "objects": mutating(
            annotated('"one"', "variables.one"),
            '[JSONPatch{op: "test", path: "/metadata/annotations", value: {"one": variables.one}}, '
            'JSONPatch{op: "add", path: "/metadata/annotations/two", value: variables.two}]',
            annotated('"three"', '"3"'),
            variables=[
                {"name": "one", "expression": '"v" + "1"'},
                {"name": "two", "expression": 'variables.one.replace("1", "2")'},
            ],
        ),
        **gets(endpoints(annotations={"one": "v1", "two": "v2", "three": "3"})),
    },
    "a match condition is true": {
        "objects": mutating(LABELLED, **by_label("test")),
        **gets(endpoints(labels={"stage": "test", "applied": "yes"}), endpoints(labels={"stage": "test"})),
    },
    "a match condition is false": {
        "objects": mutating(LABELLED, **by_label("test")),
        **gets(endpoints(labels={"stage": "prod"}), endpoints(labels={"stage": "prod"})),
    },
    "the match condition of one of two policies is true": {
        "objects": [
            *mutating(annotated('"wrong"', '"1"'), name="n", **by_label("prod")),
            *mutating(LABELLED, **by_label("test")),
        ],
        **gets(endpoints(labels={"stage": "test", "applied": "yes"}), endpoints(labels={"stage": "test"})),
    },
    "policies that ask for it are invoked again": CALLS,
    "parameters that make policies be invoked again": {
        "objects": [
            *mutating(
                FROM_PARAMS,
                counted("m1"),
                name="m1",
                reinvocationPolicy="IfNeeded",
                bindings=({"paramRef": {"selector": {"matchLabels": {"of": "m"}}, **ALLOW}},),
                **PARAM,
            ),
            *mutating(
                FROM_PARAMS, counted("m2"), name="m2", bindings=({"paramRef": {"name": "three", **ALLOW}},), **PARAM
            ),
        ],
        "params": [*TWO_PARAMS, config_map("three", data={"d": "4"})],
        **gets(
            endpoints(annotations={"a": "1", "b": "2", "c": "3", "d": "4", "n": "5", "m1": "true", "m2": "true"}),
            endpoints(annotations={"n": "0"}),
        ),
    },
    "a mutation that does not fit, Ignore": {
        "objects": mutating('Object{spec: Object.spec{absent: "x"}}', failurePolicy="Ignore"),
        **gets(endpoints()),
    },
    "a container is applied beside another": {
        "objects": mutating(
            'Object{spec: Object.spec{containers: object.spec.containers + [Object.spec.containers{name: "b", image: "b:1"}]}}',
            matchConstraints=matching("pods"),
        ),
        "object": {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "a", "namespace": "default"},
            "spec": {"containers": [{"name": "a", "image": "a:1"}]},
        },
        "expect": {
            "verdict": "admitted",
            "object": {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "a", "namespace": "default"},
                "spec": {"containers": [{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:1"}]},
            },
        },
    },
    "the status of a Namespace": {
        "objects": mutating(
            'Object{status: Object.status{conditions: [Object.status.conditions{type: "NamespaceDeletionContentFailure", message: "m"}]}}',
            matchConstraints=matching("namespaces/status"),
        ),
        "subresource": "status",
        "operation": "UPDATE",
        "object": {
            **namespace("a")["object"],
            "status": {"conditions": [{"type": "NamespaceDeletionContentFailure", "status": "Unknown"}]},
        },
        "oldObject": namespace("a")["object"],
        "expect": {
            "verdict": "admitted",
            "object": {
                **namespace("a")["object"],
                "status": {
                    "conditions": [{"type": "NamespaceDeletionContentFailure", "status": "Unknown", "message": "m"}]
                },
            },
        },
    },
}

FOOD = 'Object.spec.foods{item: "b"}'
CUSTOM = {
    "a patch: objects of a custom object and a new one": custom(
        f'[JSONPatch{{op: "add", path: "/spec/foods", value: object.spec.foods + [{FOOD}]}}]',
        request=panda(foods=[{"item": "a"}]),
        spec={"foods": [{"item": "a"}, {"item": "b"}]},
    ),
    "a patch: a new object and those of a custom object": custom(
        f'[JSONPatch{{op: "add", path: "/spec/foods", value: [{FOOD}] + object.spec.foods}}]',
        request=panda(foods=[{"item": "a"}]),
        spec={"foods": [{"item": "b"}, {"item": "a"}]},
    ),
    "a patch: a list and a literal one": custom(
        '[JSONPatch{op: "add", path: "/spec/foods", value: object.spec.foods + ["b"]}]',
        request=panda(foods=["a"]),
        spec={"foods": ["a", "b"]},
    ),
    "applied: a list and a new one": custom(
        'Object{spec: Object.spec{foods: object.spec.foods + Object.spec{foods: ["b"]}.foods}}',
        request=panda(foods=["a"]),
        spec={"foods": ["a", "b"]},
    ),
    "applied: a new list and one that is there": custom(
        'Object{spec: Object.spec{foods: Object.spec{foods: ["b"]}.foods + object.spec.foods}}',
        request=panda(foods=["a"]),
        spec={"foods": ["b", "a"]},
    ),
    "applied: a list and a literal one": custom(
        'Object{spec: Object.spec{foods: object.spec.foods + ["b"]}}',
        request=panda(foods=["a"]),
        spec={"foods": ["a", "b"]},
    ),
    "applied: a map is merged": custom(
        'Object{spec: Object.spec{home: Object.spec.home{humid: "85%", warm: "20C"}}}',
        request=panda(home={"name": "forest", "warm": "22C"}),
        spec={"home": {"name": "forest", "warm": "20C", "humid": "85%"}},
    ),
    "a patch sets fields of an object": custom(
        '[JSONPatch{op: "add", path: "/spec/diet/second", value: "b"}, '
        'JSONPatch{op: "replace", path: "/spec/diet/daily", value: "25"}]',
        request=panda(diet={"first": "a", "daily": "15"}),
        spec={"diet": {"first": "a", "daily": "25", "second": "b"}},
    ),
    "a patch adds an object": custom(
        '[JSONPatch{op: "add", path: "/spec/home", value: Object.spec.home{name: "hill", safe: true}}]',
        request=panda(diet={"first": "a"}),
        spec={"diet": {"first": "a"}, "home": {"name": "hill", "safe": True}},
    ),
}


def static(*objects: Object) -> list[Object]:
    """The same objects as static manifests."""
    renamed = orjson.dumps(objects).replace(b'"p"', b'"p.static.k8s.io"')
    return orjson.loads(renamed)  # type: ignore[no-any-return]


NO_LABEL = "!has(object.metadata.labels) || !('no' in object.metadata.labels)"
NO_DATA = "!has(object.data) || !('no' in object.data)"
BY_STATIC = {"verdict": "denied", "policy": "p.static.k8s.io", "binding": "p.static.k8s.io"}
ALL_RESOURCES = static(*selected("*", group="*", version="*"))
OF_LABELS = static(*validating(NO_LABEL, resource="configmaps"))
OF_DATA = validating(NO_DATA, resource="configmaps")
LISTED = [{"apiVersion": "v1", "kind": "List", "items": OF_LABELS}]

STATIC: dict[str, tuple[list[Object], list[Object], Object, Object]] = {
    "a policy is in force from the start": (OF_LABELS, [], config_map("a", labels={"no": "1"}), BY_STATIC),
    "and admits what it is not about": (OF_LABELS, [], config_map("a"), ADMITTED),
    "a List of version v1": (LISTED, [], config_map("a", labels={"no": "1"}), BY_STATIC),
    "a policy of the API is decided about": (ALL_RESOURCES, [], validating("true")[0], BY_STATIC),
    "a binding of the API too": (ALL_RESOURCES, [], validating("true")[1], BY_STATIC),
    "policies never see a SelfSubjectReview": (
        ALL_RESOURCES,
        [],
        {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview", "metadata": {}},
        NOT_SELECTED,
    ),
    "beside a policy of the API, the static one denies": (
        OF_LABELS,
        OF_DATA,
        config_map("a", labels={"no": "1"}),
        BY_STATIC,
    ),
    "beside a static policy, that of the API denies": (
        OF_LABELS,
        OF_DATA,
        config_map("a", data={"no": "1"}),
        denied(f"failed expression: {NO_DATA}"),
    ),
    "the static one is first where both deny": (
        OF_LABELS,
        OF_DATA,
        config_map("a", labels={"no": "1"}, data={"no": "1"}),
        {**BY_STATIC, "denials": [{"policy": "p.static.k8s.io"}, {"policy": "p"}]},
    ),
}

TABLES = {
    "validating": VALIDATING,
    "warnings": WARNINGS,
    "matching": MATCHING,
    "cost": COSTS,
    "authorization": AUTHORIZATION,
    "mutating": MUTATING,
    "custom objects": CUSTOM,
}
ROWS = {f"{table}: {name}": row for table, rows in TABLES.items() for name, row in rows.items()}


def result_of(case: Object, directory: Path) -> CaseResult:
    path = directory / "cases.yaml"
    cases = [{"name": "a request", **case}]
    path.write_bytes(orjson.dumps({"apiVersion": "replay/v1", "kind": "Cases", "cases": cases}))
    (result,) = run_tests(CaseOptions(paths=(path,))).results
    return result


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if ROWS[name] is TOO_EXPENSIVE else []) for name in ROWS]
)
def test_a_request_ends_as_the_integration_tests_expect(name: str, tmp_path: Path) -> None:
    result = result_of(ROWS[name], tmp_path)
    assert (result.status, list(result.lines)) == (Status.PASSED, [])


@pytest.mark.parametrize("name", STATIC)
def test_static_manifests_decide_as_the_integration_tests_expect(name: str, tmp_path: Path) -> None:
    objects, of_api, request, expected = STATIC[name]
    (tmp_path / "set/vap").mkdir(parents=True)
    (tmp_path / "set/vap/p.yaml").write_bytes(b"\n---\n".join(map(orjson.dumps, objects)))
    case = {"policies": ["set"], "objects": of_api, "object": request, "expect": expected}
    result = result_of(case, tmp_path)
    assert (result.status, list(result.lines)) == (Status.PASSED, [])


WEBHOOK = {
    "name": "a.example.com",
    "clientConfig": {"url": "https://127.0.0.1"},
    "admissionReviewVersions": ["v1"],
    "sideEffects": "None",
    "rules": [rule("configmaps")],
}


@pytest.mark.parametrize(
    "obj",
    [
        *static(*validating("true"), *mutating("Object{}", name="p")),
        *(
            {"apiVersion": ADMISSION, "kind": kind, "metadata": {"name": "p.static.k8s.io"}, "webhooks": [WEBHOOK]}
            for kind in ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration")
        ),
    ],
    ids=lambda obj: obj["kind"],
)
def test_the_api_refuses_names_of_static_manifests(obj: Object, tmp_path: Path) -> None:
    obj["metadata"]["name"] = "p.static.k8s.io"
    (tmp_path / "api").mkdir()
    (tmp_path / "api/p.yaml").write_bytes(orjson.dumps(obj))
    with pytest.raises(ManifestError, match="reserved for static manifest-based configurations"):
        load_manifest_set(tmp_path, version=NEWEST)
