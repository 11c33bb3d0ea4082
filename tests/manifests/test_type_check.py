"""The warnings about types are those of the real controller, for policies and custom kinds in `data/type_checking`.

`warnings.json` is what `TypeChecker` of k8s.io/apiserver v0.37.2 answered, with the OpenAPI definitions of Kubernetes 1.37 and without
the digits that it adds to the names of kinds.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from replay.cellib.version import NEWEST, KubernetesVersion
from replay.kube.discovery import builtin_discovery
from replay.kube.schema import Schemas
from replay.manifests.type_check import TypeChecker

DATA = Path(__file__).parent / "data" / "type_checking"
EXPECTED = json.loads((DATA / "warnings.json").read_text("utf-8"))


@cache
def policies() -> dict[str, Any]:
    text = (DATA / "policies.yaml").read_text("utf-8")
    return {policy["metadata"]["name"]: policy for policy in yaml.load_all(text, Loader=yaml.CSafeLoader)}


@cache
def checker(version: KubernetesVersion = NEWEST) -> TypeChecker:
    crds = list(yaml.load_all((DATA / "crds.yaml").read_text("utf-8"), Loader=yaml.CSafeLoader))
    return TypeChecker(builtin_discovery().with_crds(crds), Schemas(crds), version)


@pytest.mark.parametrize("name", EXPECTED)
def test_warnings_are_those_of_the_controller(name: str) -> None:
    found = checker().check(policies()[name])
    assert {each.field_ref: each.warning for each in found} == EXPECTED[name]


@pytest.mark.parametrize(
    ("name", "minor", "fields"),
    [
        pytest.param("keyword-field", 30, [0, 2], id="fields named like keywords are not found before 1.31"),
        pytest.param("keyword-field", 31, [2], id="and are since"),
        pytest.param(
            "params-of-no-known-kind", 35, [0, 1], id="params of an unknown kind are not declared before 1.36"
        ),
        pytest.param("params-of-no-known-kind", 36, [1], id="and are since"),
    ],
)
def test_what_minors_do_otherwise(name: str, minor: int, fields: list[int]) -> None:
    found = checker(KubernetesVersion(1, minor)).check(policies()[name])
    assert [each.field_ref for each in found] == [f"spec.validations[{index}].expression" for index in fields]


@pytest.mark.parametrize(
    ("resource", "expression", "warned"),
    [
        pytest.param("v1/pods", "object.spec.hostnameOverride == ''", [30, 33], id="a field since 1.34"),
        pytest.param("v1/pods", "has(object.spec.evictionResponders)", [30, 33, 34, 35, 36], id="a field since 1.37"),
        pytest.param("v1/pods", "has(object.spec.workloadRef)", [30, 33, 34, 36, 37], id="a field of 1.35 alone"),
        pytest.param(
            "v1/pods",
            "!has(object.spec.resourceClaims) || object.spec.resourceClaims.all(c, has(c.source))",
            [33, 34, 35, 36, 37],
            id="a field until 1.30",
        ),
        pytest.param(
            "resource.k8s.io/v1/resourceclaims", "object.spec.absent", [34, 35, 36, 37], id="a kind since 1.34"
        ),
        pytest.param(
            "flowcontrol.apiserver.k8s.io/v1beta3/flowschemas", "object.spec.absent", [30], id="a kind until 1.31"
        ),
    ],
)
def test_each_minor_has_its_own_fields_and_kinds(resource: str, expression: str, warned: list[int]) -> None:
    *group, version, name = resource.split("/")
    rule = {"apiGroups": ["".join(group)], "apiVersions": [version], "operations": ["*"], "resources": [name]}
    spec = {"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": expression}]}
    checkers = {
        minor: TypeChecker(builtin_discovery(minor), Schemas((), minor), KubernetesVersion(1, minor))
        for minor in (30, 33, 34, 35, 36, 37)
    }
    assert [minor for minor, each in checkers.items() if each.check({"spec": spec})] == warned


BOTH_KINDS = [("", "pods"), ("apps", "deployments")]


@pytest.mark.parametrize(
    ("expression", "resources", "can_fail"),
    [
        pytest.param("object.spec.nodename == 'a'", [("", "pods")], True, id="a field that is nowhere"),
        pytest.param("object.spec.priority == 'a'", [("", "pods")], True, id="a number and a text"),
        pytest.param("object.spec + 1 == 2", [("", "pods")], True, id="an object and a number"),
        pytest.param("object > oldObject", [("", "pods")], True, id="objects have no order"),
        pytest.param("object.spec.replicas > 1", BOTH_KINDS, True, id="a field that one kind lacks"),
        pytest.param("object.spec.?nodename.hasValue()", [("", "pods")], True, id="an optional that is nowhere"),
        pytest.param(
            "object.kind != 'Deployment' || object.spec.replicas > 1", BOTH_KINDS, False, id="behind the kind"
        ),
        pytest.param("object.kind == 'Pod' || object.spec.replicas > 1", BOTH_KINDS, False, id="behind another kind"),
        pytest.param(
            "object.kind in ['Deployment', 'Job'] ? object.spec.replicas > 1 : true",
            BOTH_KINDS,
            False,
            id="behind kinds",
        ),
        pytest.param(
            "['Deployment', 'Job'].all(kind, kind != object.kind) || object.spec.replicas > 1",
            BOTH_KINDS,
            False,
            id="behind a loop over kinds",
        ),
        pytest.param(
            "request.kind.kind != 'Deployment' || object.spec.replicas > 1", BOTH_KINDS, False, id="behind the request"
        ),
        pytest.param("!variables.scaled || object.spec.replicas > 1", BOTH_KINDS, False, id="behind a variable"),
        pytest.param("object.kind != 'Pod' || object.spec.replicas > 1", BOTH_KINDS, True, id="behind the wrong kind"),
        pytest.param("!has(object.spec.replicas) || object.spec.replicas > 1", BOTH_KINDS, False, id="behind has()"),
        pytest.param(
            "!has(object.spec.replica) || object.spec.replica > 1", BOTH_KINDS, True, id="behind has() of nothing"
        ),
        pytest.param("has(object.spec.template.spec)", BOTH_KINDS, True, id="has() of a field of what one kind lacks"),
        pytest.param(
            "object.spec.template.?spec.hasValue()", BOTH_KINDS, True, id="an optional field of what one kind lacks"
        ),
        pytest.param("object.spec.?replicas.orValue(1) > 0", BOTH_KINDS, False, id="an optional of one kind"),
        pytest.param(
            "(object.spec.containers + object.spec.?initContainers.orValue([])).all(c, c.name != 'a')",
            [("", "pods")],
            False,
            id="lists whose elements have types of two names",
        ),
        pytest.param(
            "object.spec.containers.all(c, !has(c.resources.limits) || 'cpu' in c.resources.limits)",
            [("", "pods")],
            False,
            id="quantities, which the declared types lack",
        ),
        pytest.param(
            "'annotations' in object.metadata", [("", "pods")], False, id="a field that is looked for as a key"
        ),
        pytest.param("object.spec.volumes == null", [("", "pods")], False, id="a comparison with null"),
        pytest.param(
            "authorizer.requestResource.check('get').allowed()", [("", "pods")], False, id="authorizer.requestResource"
        ),
        pytest.param(
            "object.spec.open.anything == 1", [("acme.test", "widgets")], False, id="a field that may be there"
        ),
    ],
)
def test_which_warnings_can_come_true(expression: str, resources: list[tuple[str, str]], can_fail: bool) -> None:
    rules = [
        {"apiGroups": [group], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": [resource]}
        for group, resource in resources
    ]
    spec = {
        "matchConstraints": {"resourceRules": rules},
        "variables": [{"name": "scaled", "expression": "object.kind == 'Deployment'"}],
        "validations": [{"expression": expression}],
    }
    assert [each.can_fail for each in checker().check({"spec": spec})] == [can_fail]


def test_a_message_is_evaluated_where_its_validation_is_false() -> None:
    message = "'replicas: ' + string(object.spec.replicas)"
    rules = [
        {"apiGroups": [group], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": [resource]}
        for group, resource in BOTH_KINDS
    ]
    validations = [
        {"expression": "object.kind != 'Deployment' || object.spec.paused", "messageExpression": message},
        {"expression": "object.kind == 'Deployment'", "messageExpression": message},
    ]
    found = checker().check({"spec": {"matchConstraints": {"resourceRules": rules}, "validations": validations}})
    assert [(each.field_ref, each.can_fail) for each in found] == [
        ("spec.validations[0].expression", False),
        ("spec.validations[0].messageExpression", False),
        ("spec.validations[1].messageExpression", True),
    ]
