"""What the API server refuses of Kyverno's objects, and that nothing else of them ends in a traceback."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replay.errors import ManifestError
from replay.kube.admission_request import PhaseRequests
from replay.kyverno.decide import decide
from replay.kyverno.policy_schema import schema_refusal

_POLICY: dict[str, Any] = {
    "apiVersion": "kyverno.io/v1",
    "kind": "ClusterPolicy",
    "metadata": {"name": "p", "annotations": {"pod-policies.kyverno.io/autogen-controllers": "Deployment"}},
    "spec": {
        "validationFailureAction": "Enforce",
        "webhookTimeoutSeconds": 5,
        "rules": [
            {
                "name": "pattern",
                "match": {"any": [{"resources": {"kinds": ["Pod"], "namespaceSelector": {"matchLabels": {"a": "b"}}}}]},
                "exclude": {"any": [{"subjects": [{"kind": "User", "name": "root"}]}, {"clusterRoles": ["admin"]}]},
                "context": [{"name": "size", "variable": {"value": 3, "jmesPath": "@"}}],
                "preconditions": {"all": [{"key": "{{ size }}", "operator": "GreaterThan", "value": 1}]},
                "validate": {"message": "no {{ size }}", "pattern": {"spec": {"=(hostNetwork)": False}}},
            },
            {
                "name": "loop",
                "match": {"any": [{"resources": {"kinds": ["Pod"], "operations": ["CREATE"]}}]},
                "validate": {
                    "foreach": [
                        {
                            "list": "request.object.spec.containers",
                            "deny": {
                                "conditions": {
                                    "any": [{"key": "{{ element.image }}", "operator": "In", "value": ["a"]}]
                                }
                            },
                        }
                    ]
                },
            },
            {
                "name": "standard",
                "match": {"any": [{"resources": {"kinds": ["Pod"]}}]},
                "validate": {"podSecurity": {"level": "baseline", "exclude": [{"controlName": "Host Ports"}]}},
            },
            {
                "name": "merge",
                "match": {"any": [{"resources": {"kinds": ["Pod"], "names": ["web*"]}}]},
                "mutate": {"patchStrategicMerge": {"metadata": {"labels": {"+(a)": "b"}}}},
            },
            {
                "name": "patch",
                "match": {"any": [{"resources": {"kinds": ["Pod"], "selector": {"matchLabels": {"a": "*"}}}}]},
                "mutate": {
                    "foreach": [
                        {
                            "list": "request.object.spec.containers",
                            "patchesJson6902": '[{"op": "add", "path": "/spec/containers/{{elementIndex}}/tty", "value": true}]',
                        }
                    ]
                },
            },
        ],
    },
}
_EXCEPTION: dict[str, Any] = {
    "apiVersion": "kyverno.io/v2",
    "kind": "PolicyException",
    "metadata": {"name": "e", "namespace": "shop"},
    "spec": {
        "exceptions": [{"policyName": "p", "ruleNames": ["loop*"]}],
        "match": {"any": [{"resources": {"kinds": ["Pod"], "names": ["web"]}}]},
        "conditions": {"any": [{"key": "{{ request.operation }}", "operator": "Equals", "value": "CREATE"}]},
        "podSecurity": [{"controlName": "Host Namespaces"}],
    },
}
_REQUEST: dict[str, Any] = {
    "uid": "u",
    "kind": {"group": "", "version": "v1", "kind": "Pod"},
    "resource": {"group": "", "version": "v1", "resource": "pods"},
    "operation": "CREATE",
    "namespace": "shop",
    "name": "web",
    "userInfo": {"username": "me", "groups": ["g"]},
    "object": {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "namespace": "shop", "labels": {"a": "b"}},
        "spec": {"hostNetwork": True, "containers": [{"name": "c", "image": "a"}]},
    },
}
_NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "labels": {"a": "b"}}}


def _at(path: str, value: Any) -> dict[str, Any]:
    made = copy.deepcopy(_POLICY)
    *before, last = [int(key) if key.isdigit() else key for key in path.split("/")]
    place: Any = made
    for key in before:
        place = place[key]
    place[last] = value
    return made


_MATCH = "spec/rules/0/match"
_ROWS = {
    "spec": ("spec", "x", 'spec: Invalid value: "string": spec in body must be of type object: "string"'),
    "kinds": (
        f"{_MATCH}/any/0/resources/kinds",
        "Pod",
        'spec.rules[0].match.any[0].resources.kinds: Invalid value: "string": spec.rules[0].match.any[0].resources.kinds in body must be of type array: "string"',
    ),
    "any and all": (
        f"{_MATCH}/all",
        [],
        '<nil>: Invalid value: "": "spec.rules[0].match" must not validate the schema (not)',
    ),
    "entry of nothing": (
        "spec/rules/0/context/0",
        {"name": "a"},
        '<nil>: Invalid value: "": "spec.rules[0].context[0]" must validate one and only one schema (oneOf). Found none valid',
    ),
    "action": (
        "spec/validationFailureAction",
        "deny",
        'spec.validationFailureAction: Unsupported value: "deny": supported values: "audit", "enforce", "Audit", "Enforce"',
    ),
    "integer": (
        "spec/rules/0/name",
        5,
        'spec.rules[0].name: Invalid value: "integer": spec.rules[0].name in body must be of type string: "integer"',
    ),
}


@pytest.mark.parametrize(("path", "value", "problem"), _ROWS.values(), ids=_ROWS)
def test_a_wrong_field_is_refused_in_the_words_of_the_server(path: str, value: Any, problem: str) -> None:
    assert schema_refusal(_at(path, value)) == f'ClusterPolicy.kyverno.io "p" is invalid: {problem}'


def test_other_refusals() -> None:
    assert schema_refusal(_POLICY) is None
    assert schema_refusal(_EXCEPTION) is None
    unknown = _at("spec/rules/0/validate/patern", {})
    assert schema_refusal(unknown) == 'strict decoding error: unknown field "spec.rules[0].validate.patern"'
    version = {**_POLICY, "apiVersion": "kyverno.io/v9"}
    assert schema_refusal(version) == 'no matches for kind "ClusterPolicy" in version "kyverno.io/v9"'


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in items:
        yield from _paths(each, (*path, key))


_PATHS = [
    (number, path)
    for number, obj in enumerate((_POLICY, _EXCEPTION))
    for path in _paths(obj)
    if path[0] not in ("apiVersion", "kind") and path not in (("metadata",), ("metadata", "name"))
]
_VALUES = st.one_of(
    st.sampled_from(["{{ nope }}", "{{ request.object }}", "{{ size }}{{", "*", "", "=(a)", 10**30, -1]),
    st.recursive(
        st.one_of(
            st.none(), st.booleans(), st.integers(-(10**6), 10**6), st.floats(allow_nan=False), st.text(max_size=5)
        ),
        lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)),
        max_leaves=5,
    ),
)


@pytest.mark.property
@settings(max_examples=300, deadline=None)
@given(st.sampled_from(_PATHS), _VALUES)
def test_any_value_in_any_field_is_refused_or_decided(
    tmp_path_factory: pytest.TempPathFactory, place: tuple[int, tuple[Any, ...]], value: Any
) -> None:
    objects = copy.deepcopy([_POLICY, _EXCEPTION])
    number, path = place
    holder: Any = objects[number]
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = value
    config = tmp_path_factory.getbasetemp() / "policy.yaml"
    config.write_bytes(b"\n---\n".join(map(orjson.dumps, objects)) if _is_json(objects) else b"")
    with suppress(ManifestError):  # a character that YAML does not allow
        for line in decide(config, iter([PhaseRequests("1", _REQUEST, _REQUEST)]), [_NAMESPACE]):
            assert "load" in line or line["id"] == "1"


def _is_json(value: Any) -> bool:
    try:
        orjson.dumps(value)
    except TypeError:
        return False
    return True
