"""What `replay check --migrate` writes for a rule, and why it does not write others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from replay.cli.app import app
from replay.kyverno.migrate.rule import migration

_SAMPLE = Path(__file__).parents[3] / "sample_audit" / "kyverno" / "cluster-policies"
_POD = {"any": [{"resources": {"kinds": ["Pod"], "operations": ["CREATE"]}}]}


def _policy(rule: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "kyverno.io/v1",
        "kind": "ClusterPolicy",
        "metadata": {"name": "p", "annotations": {"pod-policies.kyverno.io/autogen-controllers": "none"}},
        "spec": {"rules": [{"name": "r", "match": _POD, **rule}], **spec},
    }


def _deny(key: str, operator: str, value: Any) -> dict[str, Any]:
    return {"deny": {"conditions": {"all": [{"key": key, "operator": operator, "value": value}]}}}


def _loop(expression: str, **body: Any) -> dict[str, Any]:
    return {"foreach": [{"list": expression, **body}]}


# What stands in `validate`, and the expression that is written.
_EXPRESSIONS: list[tuple[str, dict[str, Any], str]] = [
    (
        "the namespace of the request",
        _deny("{{ request.namespace }}", "AnyIn", ["team-*", "dev"]),
        "!(request.namespace == 'dev' || request.namespace.startsWith('team-'))",
    ),
    (
        "a wildcard for all items",
        {"pattern": {"spec": {"containers": [{"image": "!*:latest"}]}}},
        (
            "object.?spec.?containers.orValue(null) != null && object.spec.containers.all(container, "
            "container.?image.orValue(null) != null && !container.image.endsWith(':latest'))"
        ),
    ),
    (
        "what may be absent",
        {"pattern": {"spec": {"=(hostNetwork)": False, "=(hostPID)": "false"}}},
        (
            "object.?spec.orValue(null) != null && !object.?spec.?hostNetwork.orValue(false) && "
            "!object.?spec.?hostPID.orValue(false)"
        ),
    ),
    (
        "what may not be there",
        {"pattern": {"spec": {"X(hostNetwork)": "null"}}},
        "object.?spec.orValue(null) != null && !object.?spec.?hostNetwork.hasValue()",
    ),
    (
        "alternatives",
        {"pattern": {"metadata": {"labels": {"app.kubernetes.io/name": "a | b | c*"}}}},
        (
            "object.?metadata.?labels[?'app.kubernetes.io/name'].orValue('') in ['a', 'b'] || "
            "object.?metadata.?labels[?'app.kubernetes.io/name'].orValue('').startsWith('c')"
        ),
    ),
    (
        "a range",
        {"pattern": {"spec": {"priority": "5-10"}}},
        "object.?spec.?priority.orValue(0) >= 5 && object.?spec.?priority.orValue(0) <= 10",
    ),
    (
        "a quantity, which an absent one is not above",
        {"pattern": {"spec": {"containers": [{"resources": {"limits": {"memory": "<=1Gi"}}}]}}},
        (
            "object.?spec.?containers.orValue(null) != null && object.spec.containers.all(container, "
            "container.?resources.?limits.orValue(null) != null && "
            "(container.?resources.?limits.?memory.orValue(null) == null || "
            "isQuantity(container.resources.limits.memory) && "
            "quantity(container.resources.limits.memory).compareTo(quantity('1Gi')) <= 0))"
        ),
    ),
    (
        "a condition for some items",
        {"pattern": {"spec": {"containers": [{"(name)": "web", "image": "r.io/*"}]}}},
        (
            "object.?spec.?containers.orValue(null) != null && "
            "object.spec.containers.all(container, container.?name.orValue('') != 'web' || "
            "container.?image.orValue('').startsWith('r.io/'))"
        ),
    ),
    (
        "one item at least",
        {"pattern": {"spec": {"^(containers)": [{"name": "proxy"}]}}},
        (
            "object.?spec.orValue(null) != null && "
            "(!object.?spec.?containers.hasValue() || object.?spec.?containers.orValue([]).exists(container, "
            "container.?name.orValue('') == 'proxy'))"
        ),
    ),
    (
        "one pattern of two",
        {"anyPattern": [{"spec": {"hostNetwork": True}}, {"spec": {"hostPID": True}}]},
        "object.?spec.?hostNetwork.orValue(false) || object.?spec.?hostPID.orValue(false)",
    ),
    (
        "a denial with a default",
        _deny("{{ request.object.spec.priority || `0` }}", "GreaterThan", 10),
        "object.?spec.?priority.orValue(0) <= 10",
    ),
    (
        "a denial whose path may be absent, which is an error and denies",
        _deny("{{ request.object.spec.restartPolicy }}", "NotEquals", "Always"),
        (
            "!(!object.?spec.?restartPolicy.hasValue() || "
            "object.?spec.?restartPolicy.hasValue() && object.spec.restartPolicy != 'Always')"
        ),
    ),
    (
        "a denial about all items",
        _deny("{{ request.object.spec.containers[].image }}", "AnyNotIn", ["r.io/*"]),
        (
            "!(object.?spec.?containers.hasValue() && "
            "object.?spec.?containers.orValue([]).exists(item, item.?image.hasValue() && !item.image.startsWith('r.io/')))"
        ),
    ),
    (
        "a pattern of the elements",
        _loop("request.object.spec.containers", pattern={"image": "r.io/*"}),
        ("!object.?spec.?containers.orValue([]).exists(element, !element.?image.orValue('').startsWith('r.io/'))"),
    ),
    (
        "conditions about the elements of two lists, with preconditions",
        _loop(
            "request.object.spec.[initContainers, containers][]",
            preconditions={"all": [{"key": "{{ element.image || '' }}", "operator": "NotEquals", "value": ""}]},
            **_deny("{{ element.tty || `false` }}", "Equals", True),
        ),
        (
            "!(object.?spec.?initContainers.orValue([]).exists(element, element.?image.orValue('') != '' && "
            "element.?tty.orValue(false)) || object.?spec.?containers.orValue([]).exists(element, "
            "element.?image.orValue('') != '' && element.?tty.orValue(false)))"
        ),
    ),
    (
        "CEL",
        {"cel": {"expressions": [{"expression": "object.spec.priority < 5", "message": "low"}]}},
        "object.spec.priority < 5",
    ),
]


@pytest.mark.parametrize(
    ("validation", "expression"), [row[1:] for row in _EXPRESSIONS], ids=[row[0] for row in _EXPRESSIONS]
)
def test_the_expression_of_a_rule(validation: dict[str, Any], expression: str) -> None:
    (migrated,) = migration([_policy({"validate": {"failureAction": "Enforce", "message": "no", **validation}})])
    assert migrated.reason == ""
    (written,) = migrated.policies[0]["spec"]["validations"]
    assert " ".join(written["expression"].split()) == expression


_LATEST = {"failureAction": "Enforce", "message": "no", "pattern": {"metadata": {"labels": {"app": "?*"}}}}
_VALIDATION = {"expression": "object.?metadata.?labels.?app.orValue('') != ''", "message": "no"}
_RULE = {
    "apiGroups": [""],
    "apiVersions": ["v1"],
    "operations": ["CREATE"],
    "resources": ["pods", "pods/ephemeralcontainers"],
}
_SPEC = {
    "validationActions": ["Deny"],
    "autogen": {"podControllers": {"controllers": []}},
    "matchConstraints": {"resourceRules": [_RULE]},
    "validations": [_VALIDATION],
}


def _match(**resources: Any) -> dict[str, Any]:
    return {"any": [{"resources": {"kinds": ["Pod"], "operations": ["CREATE"], **resources}}]}


def _conditions(expression: str) -> dict[str, Any]:
    return {"matchConditions": [{"name": "match", "expression": expression}]}


_SUBJECTS = [{"kind": "ServiceAccount", "namespace": "ci", "name": "*"}, {"kind": "Group", "name": "admins"}]

# A rule and fields of its policy's spec, and the fields of the spec that is written.
_SPECS: list[tuple[str, dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    ("a rule that denies", {}, {}, {}),
    ("one that audits", {"validate": {**_LATEST, "failureAction": "Audit"}}, {}, {"validationActions": ["Audit"]}),
    (
        "one that warns",
        {"validate": {**_LATEST, "failureAction": "Audit"}},
        {"emitWarning": True},
        {"validationActions": ["Audit", "Warn"]},
    ),
    ("errors that do not deny", {}, {"failurePolicy": "Ignore"}, {"failurePolicy": "Ignore"}),
    ("no background", {}, {"background": False}, {"evaluation": {"background": {"enabled": False}}}),
    (
        "updates, of which those of an old violation pass",
        {"match": _match(operations=["UPDATE", "CREATE"])},
        {},
        {
            "matchConstraints": {"resourceRules": [{**_RULE, "operations": ["CREATE", "UPDATE"]}]},
            "variables": [
                {
                    "name": "violatedBefore",
                    "expression": "request.operation == 'UPDATE' && oldObject.?metadata.?labels.?app.orValue('') == ''",
                }
            ],
            "validations": [{**_VALIDATION, "expression": f"{_VALIDATION['expression']} || variables.violatedBefore"}],
        },
    ),
    (
        "namespaces",
        {"match": _match(namespaces=["dev", "team-*"])},
        {},
        _conditions(
            "object.?metadata.?namespace.orValue('') == 'dev' ||\nobject.?metadata.?namespace.orValue('').startsWith('team-')"
        ),
    ),
    (
        "subjects that are left out",
        {"exclude": {"any": [{"subjects": _SUBJECTS}]}},
        {},
        _conditions(
            "!(request.?userInfo.?username.orValue('').startsWith('system:serviceaccount:ci:') ||\n"
            "request.?userInfo.?groups.orValue([]).exists(group, group == 'admins'))"
        ),
    ),
    (
        "labels of the namespace",
        {"match": _match(namespaceSelector={"matchLabels": {"env": "prod"}})},
        {},
        _conditions(
            "(namespaceObject == null ? {} : namespaceObject.?metadata.?labels.orValue({}))[?'env'].orValue('') == 'prod'"
        ),
    ),
    (
        "preconditions",
        {"preconditions": {"all": [{"key": "{{ request.operation }}", "operator": "NotEquals", "value": "DELETE"}]}},
        {},
        _conditions("request.operation != 'DELETE'"),
    ),
]


@pytest.mark.parametrize(("rule", "spec", "fields"), [row[1:] for row in _SPECS], ids=[row[0] for row in _SPECS])
def test_the_spec_of_a_rule(rule: dict[str, Any], spec: dict[str, Any], fields: dict[str, Any]) -> None:
    (migrated,) = migration([_policy({"validate": _LATEST, **rule}, **spec)])
    assert [each["spec"] for each in migrated.policies] == [{**_SPEC, **fields}]


def _merge(patch: dict[str, Any]) -> dict[str, Any]:
    return {"mutate": {"patchStrategicMerge": patch}}


def _json_patch(text: str) -> dict[str, Any]:
    return {"mutate": {"patchesJson6902": text}}


_LABELS = "(object.?metadata.?labels.orValue(null) == null ? [JSONPatch{op: 'add', path: '/metadata/labels', value: {}}] : [])"

# A mutating rule, and the expression of its patch.
_PATCHES: list[tuple[str, dict[str, Any], str]] = [
    (
        "labels, whose map is added once",
        _merge({"metadata": {"labels": {"x.io/app": "web", "b": "it's"}}}),
        (
            f"{_LABELS} + [JSONPatch{{op: 'add', path: '/metadata/labels/b', value: 'it\\'s'}}, "
            "JSONPatch{op: 'add', path: '/metadata/labels/x.io~1app', value: 'web'}]"
        ),
    ),
    (
        "a label that is not there",
        _merge({"metadata": {"labels": {"+(app)": "web"}}}),
        (
            f"{_LABELS} + (!object.?metadata.?labels.?app.hasValue() ? "
            "[JSONPatch{op: 'add', path: '/metadata/labels/app', value: 'web'}] : [])"
        ),
    ),
    (
        "fields of a map that is always there",
        _merge({"spec": {"priority": 5, "hostNetwork": False}}),
        (
            "[JSONPatch{op: 'add', path: '/spec/hostNetwork', value: false}, "
            "JSONPatch{op: 'add', path: '/spec/priority', value: 5}]"
        ),
    ),
    (
        "a JSON patch, whose `replace` fails where the field is absent",
        _json_patch("- {op: remove, path: /spec/priority}\n- {op: replace, path: /spec/restartPolicy, value: Never}"),
        (
            "(object.?spec.?priority.hasValue() ? [JSONPatch{op: 'remove', path: '/spec/priority'}] : []) + "
            "[JSONPatch{op: 'remove', path: '/spec/restartPolicy'}, "
            "JSONPatch{op: 'add', path: '/spec/restartPolicy', value: 'Never'}]"
        ),
    ),
]


@pytest.mark.parametrize(("rule", "expression"), [row[1:] for row in _PATCHES], ids=[row[0] for row in _PATCHES])
def test_the_patch_of_a_rule(rule: dict[str, Any], expression: str) -> None:
    (migrated,) = migration([_policy(rule)])
    assert migrated.reason == ""
    (written,) = migrated.policies[0]["spec"]["mutations"]
    assert written["patchType"] == "JSONPatch"
    assert " ".join(written["jsonPatch"]["expression"].split()) == expression


def test_the_policy_of_a_mutating_rule() -> None:
    """Its namespace and failure policy stay. The background scan does not report what it would change."""
    policy = _policy(
        {
            **_merge({"spec": {"priority": 5}}),
            "match": _match(names=["a"], operations=["CREATE", "DELETE"]),
            "preconditions": {
                "all": [{"key": "{{ request.object.spec.priority || `0` }}", "operator": "GreaterThan", "value": 5}]
            },
        },
        failurePolicy="Ignore",
    )
    policy["kind"], policy["metadata"]["namespace"] = "Policy", "shop"
    ((written,),) = (each.policies for each in migration([policy]))
    assert written == {
        "apiVersion": "policies.kyverno.io/v1",
        "kind": "NamespacedMutatingPolicy",
        "metadata": {"name": "p-r", "namespace": "shop"},
        "spec": {
            "failurePolicy": "Ignore",
            "evaluation": {"background": {"enabled": False}},
            "autogen": {"podControllers": {"controllers": []}},
            "matchConstraints": {"resourceRules": [_RULE]},
            **_conditions(
                "object.?metadata.?name.orValue(object.?metadata.?generateName.orValue('')) == 'a' &&\n"
                "object.?spec.?priority.orValue(0) > 5"
            ),
            "mutations": [
                {
                    "patchType": "JSONPatch",
                    "jsonPatch": {"expression": "[JSONPatch{op: 'add', path: '/spec/priority', value: 5}]"},
                }
            ],
        },
    }


def test_rules_that_mutate_the_same_resources_act_in_order() -> None:
    first, second, other = (
        {
            "name": name,
            "match": {"any": [{"resources": {"kinds": [kind]}}]},
            **_merge({"metadata": {"labels": {"a": name}}}),
        }
        for name, kind in (("first", "Pod"), ("second", "Pod"), ("other", "Secret"))
    )
    policy = _policy({})
    policy["spec"]["rules"] = [first, second, other]
    assert [each.reason for each in migration([policy])] == [
        "rule second mutates the same resources, and rules act in order",
        "rule first mutates the same resources, and rules act in order",
        "",
    ]


_EXCEPTION = {
    "apiVersion": "kyverno.io/v2",
    "kind": "PolicyException",
    "metadata": {"name": "e", "namespace": "x"},
    "spec": {"match": _POD, "exceptions": [{"policyName": "p", "ruleNames": ["r"]}]},
}

# A rule, fields of its policy's spec, and the reason.
_REASONS: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    (
        "the namespace of an object that has none",
        {
            "match": {"any": [{"resources": {"kinds": ["Namespace"]}}]},
            "validate": _deny("{{ request.namespace }}", "Equals", "a"),
        },
        {},
        "`request.namespace` is not read from the object, the operation, the namespace or the name of the user",
    ),
    (
        "a mutation of other objects",
        {
            "mutate": {
                "targets": [{"apiVersion": "v1", "kind": "Pod"}],
                "patchStrategicMerge": {"spec": {"priority": 5}},
            }
        },
        {},
        "it changes other objects: write a MutatingPolicy with targets",
    ),
    (
        "a mutation of elements",
        {"mutate": _loop("request.object.spec.containers", patchesJson6902="[]")},
        {},
        "its mutation has a foreach",
    ),
    (
        "a mutation with a warning",
        _merge({"spec": {"priority": 5}}),
        {"emitWarning": True},
        "it warns about what it changes",
    ),
    (
        "a merge of a list",
        _merge({"spec": {"containers": [{"name": "a"}]}}),
        {},
        "the patch of spec.containers is not a string, a number or a boolean",
    ),
    (
        "a merge that removes",
        _merge({"spec": {"priority": None}}),
        {},
        "the patch of spec.priority is not a string, a number or a boolean",
    ),
    (
        "a merge of an empty map",
        _merge({"spec": {"securityContext": {}}}),
        {},
        "the patch of spec.securityContext is not a map with fields",
    ),
    (
        "a merge of a number into a text",
        _merge({"spec": {"nodeName": 5}}),
        {},
        "the patch writes 5 to spec.nodeName, as a text if it replaces one",
    ),
    ("a merge with a directive", _merge({"spec": {"$patch": "delete"}}), {}, "the patch has a directive"),
    ("a merge with a condition", _merge({"spec": {"(hostPID)": True}}), {}, "the patch has the anchor `(hostPID)`"),
    ("a merge with a variable", _merge({"spec": {"nodeName": "{{ request.name }}"}}), {}, "the patch has variables"),
    (
        "a JSON patch of an item",
        _json_patch("- {op: add, path: /spec/containers/0/image, value: a}"),
        {},
        "its patch has an index: /spec/containers/0/image",
    ),
    (
        "a JSON patch that copies",
        _json_patch("- {op: copy, from: /spec/nodeName, path: /spec/x}"),
        {},
        "its patch has `copy`",
    ),
    ("a JSON patch that is none", _json_patch("a: b"), {}, "its patch is invalid"),
    (
        "two operations of which one needs the other",
        _json_patch("- {op: remove, path: /metadata/labels}\n- {op: add, path: /metadata/labels/a, value: b}"),
        {},
        "two of its patches change metadata.labels",
    ),
    (
        "a mutation whose preconditions fail",
        {
            **_merge({"spec": {"priority": 5}}),
            "preconditions": {
                "all": [{"key": "{{ request.object.spec.nodeName }}", "operator": "Equals", "value": "a"}]
            },
        },
        {},
        "its preconditions cannot be evaluated where a path is absent",
    ),
    ("Pod Security", {"validate": {"podSecurity": {"level": "baseline"}}}, {}, "CEL has no Pod Security Standards"),
    (
        "a context of a foreach",
        {
            "validate": _loop(
                "request.object.spec.containers",
                context=[{"name": "x", "variable": {"value": 1}}],
                pattern={"image": "a"},
            )
        },
        {},
        "its foreach has `context`",
    ),
    (
        "a list that is calculated",
        {"validate": _loop("keys(request.object.spec)", pattern={"image": "a"})},
        {},
        "`keys(request.object.spec)` is not a plain path",
    ),
    (
        "elements that are no objects",
        {"validate": _loop("request.object.metadata.finalizers", pattern="a")},
        {},
        "metadata.finalizers is not a list of objects",
    ),
    (
        "elements that cannot be evaluated, with a failure policy that ignores errors",
        {"validate": _loop("request.object.spec.containers", **_deny("{{ element.image }}", "Equals", "a"))},
        {"failurePolicy": "Ignore"},
        "its foreach stops at an element that cannot be evaluated, where a path is absent",
    ),
    ("a context", {"validate": _LATEST, "context": [{"name": "x", "variable": {"value": 1}}]}, {}, "it has a context"),
    (
        "a variable",
        {"validate": {"pattern": {"metadata": {"name": "{{ request.userInfo.username }}"}}}},
        {},
        "the pattern has variables",
    ),
    (
        "a duration",
        {"validate": {"pattern": {"metadata": {"annotations": {"ttl": ">1h"}}}}},
        {},
        "`>1h` of metadata.annotations.ttl is compared as a duration",
    ),
    (
        "an unknown field",
        {"validate": {"pattern": {"spec": {"nope": "x"}}}},
        {},
        "the schema does not have spec.nope",
    ),
    (
        "an unknown kind",
        {"validate": _LATEST, "match": {"any": [{"resources": {"kinds": ["Widget"]}}]}},
        {},
        "the kind `Widget` is not known: give its CustomResourceDefinition in --cluster",
    ),
    (
        "roles",
        {"validate": _LATEST, "exclude": {"any": [{"clusterRoles": ["cluster-admin"]}]}},
        {},
        "`clusterRoles` are those of bindings, which CEL does not see",
    ),
    (
        "a global anchor",
        {"validate": {"pattern": {"spec": {"<(hostNetwork)": True}}}},
        {},
        "the anchor of `<(hostNetwork)` decides about the whole rule",
    ),
    (
        "a function",
        {"validate": _deny("{{ length(request.object.spec.containers) }}", "GreaterThan", 1)},
        {},
        "`length(request.object.spec.containers)` is not a plain path",
    ),
    (
        "CEL about deletions",
        {
            "validate": {"cel": {"expressions": [{"expression": "object.spec.priority < 5"}]}},
            "match": {"any": [{"resources": {"kinds": ["Pod"]}}]},
        },
        {},
        "name CREATE and UPDATE as its operations: `object` is null on DELETE, and an empty map in policies",
    ),
]


@pytest.mark.parametrize(("rule", "spec", "reason"), [row[1:] for row in _REASONS], ids=[row[0] for row in _REASONS])
def test_why_a_rule_is_not_written(rule: dict[str, Any], spec: dict[str, Any], reason: str) -> None:
    assert [each.reason for each in migration([_policy(rule, **spec)])] == [reason]


def test_an_exception_names_the_policy() -> None:
    assert [each.reason for each in migration([_policy({"validate": _LATEST}), _EXCEPTION])] == [
        "PolicyException/e is about its policy"
    ]


def test_a_rule_for_pods_has_policies_for_their_controllers() -> None:
    policy = _policy({"validate": _LATEST})
    del policy["metadata"]["annotations"]
    (migrated,) = migration([policy])
    resources = [
        [resource for rule in each["spec"]["matchConstraints"]["resourceRules"] for resource in rule["resources"]]
        for each in migrated.policies
    ]
    assert [each["metadata"]["name"] for each in migrated.policies] == ["p-r", "p-r-controllers", "p-r-cronjob"]
    assert resources == [
        ["pods", "pods/ephemeralcontainers"],
        ["daemonsets", "deployments", "replicasets", "statefulsets", "jobs", "replicationcontrollers"],
        ["cronjobs"],
    ]


def test_what_is_printed_is_a_set(tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    written = tmp_path / "new" / "policies.yaml"
    result = CliRunner().invoke(app, ["check", str(_SAMPLE), "--migrate", "--out", str(written)])
    assert (result.exit_code, result.output) == (0, f"{written}: 5 policies of CEL for 3 of 3 rules\n")
    text = written.read_text("utf-8")
    names = [each["metadata"]["name"] for each in yaml.safe_load_all(text)]
    assert names == [
        "require-team-team",
        "disallow-privileged-containers",
        "disallow-privileged-containers-controllers",
        "disallow-privileged-containers-cronjob",
        "limit-replicas-five",
    ]
    assert text.startswith(
        "# 3 of 3 rules are written as policies of CEL.\n---\n# ClusterPolicy/require-team, rule team\n"
    )
    assert CliRunner().invoke(app, ["check", str(tmp_path / "new")]).exit_code == 0


def test_a_rule_that_is_not_written_is_a_comment(tmp_path: Path) -> None:
    policy = _policy({"name": "r\n- x", "validate": {"podSecurity": {"level": "baseline"}}})
    tmp_path.joinpath("p.json").write_text(json.dumps(policy))
    result = CliRunner().invoke(app, ["check", str(tmp_path), "--migrate"])
    assert (result.exit_code, result.output.splitlines()) == (
        0,
        [
            "# 0 of 1 rules are written as policies of CEL.",
            "# ClusterPolicy/p, rule r - x: not written, because CEL has no Pod Security Standards",
        ],
    )
    result = CliRunner().invoke(app, ["check", str(tmp_path), "--migrate", "--format", "json"])
    reason = "CEL has no Pod Security Standards"
    assert json.loads(result.output) == {"rules": [{"policy": "ClusterPolicy/p", "rule": "r\n- x", "reason": reason}]}


def test_a_set_without_rules(tmp_path: Path) -> None:
    tmp_path.joinpath("p.json").write_text(json.dumps(_EXCEPTION))
    result = CliRunner().invoke(app, ["check", str(tmp_path), "--migrate"])
    assert str(result.exception) == "--migrate found no rule of a ClusterPolicy or Policy"
