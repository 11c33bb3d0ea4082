"""What Kyverno's background scan reports of objects at rest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from replay.cli.app import app
from replay.json import JSON

_PODS = {"any": [{"resources": {"kinds": ["Pod"]}}]}
_NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "labels": {"env": "prod"}}}
_OBJECTS: list[JSON] = [
    _NAMESPACE,
    {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "namespace": "shop", "uid": "u1", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "a", "image": "nginx:latest"}]},
    },
    {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "app", "namespace": "kube-system", "uid": "u2"},
        "spec": {"template": {"spec": {"containers": [{"name": "a", "image": "nginx:latest"}]}}},
    },
]


def _rule(validate: dict[str, Any], spec: dict[str, Any] | None = None, **rule: Any) -> dict[str, Any]:
    whole = {"name": "r", "match": _PODS, "validate": {"failureAction": "Audit", "message": "no", **validate}, **rule}
    return {
        "apiVersion": "kyverno.io/v1",
        "kind": "ClusterPolicy",
        "metadata": {"name": "p"},
        "spec": {**(spec or {}), "rules": [whole]},
    }


def _cel(name: str = "p", namespace: str = "", **spec: Any) -> dict[str, Any]:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    image = "object.spec.containers.all(c, !c.image.endsWith(':latest'))"
    return {
        "apiVersion": "policies.kyverno.io/v1",
        "kind": "NamespacedValidatingPolicy" if namespace else "ValidatingPolicy",
        "metadata": {"name": name, **({"namespace": namespace} if namespace else {})},
        "spec": {
            "matchConstraints": {"resourceRules": [rule]},
            "validations": [{"expression": image, "message": "no latest"}],
            **spec,
        },
    }


def _mutation(name: str, app: str) -> dict[str, Any]:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    labels = f'Object{{metadata: Object.metadata{{labels: Object.metadata.labels{{app: "{app}"}}}}}}'
    return {
        "apiVersion": "policies.kyverno.io/v1",
        "kind": "MutatingPolicy",
        "metadata": {"name": name},
        "spec": {
            "matchConstraints": {"resourceRules": [rule]},
            "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": labels}}],
        },
    }


_LATEST = {"pattern": {"spec": {"containers": [{"image": "!*:latest"}]}}}
_R, _FAILED = "ClusterPolicy/p/r", "validation error: no. rule r failed at path /spec/containers/0/image/"
_OTHERS = {"resourceFilters": "[*,prod-*,*]"}
_CONFIGURATION = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "kyverno", "namespace": "kyverno"},
    "data": _OTHERS,
}

# Objects of the set, and what is reported: the object, the policy and its message.
_ROWS: list[tuple[str, list[JSON], list[tuple[str, str, str]]]] = [
    ("a rule that audits, not in kube-system", [_rule(_LATEST)], [("web", _R, _FAILED)]),
    (
        "kube-system as well",
        [_rule(_LATEST), _CONFIGURATION],
        [
            ("web", _R, _FAILED),
            (
                "app",
                _R,
                "validation error: no. rule autogen-r failed at path /spec/template/spec/containers/0/image/",
            ),
        ],
    ),
    ("a policy out of admission", [_rule(_LATEST, {"admission": False})], [("web", _R, _FAILED)]),
    (
        "a rule for creations alone",
        [_rule(_LATEST, match={"any": [{"resources": {"kinds": ["Pod"], "operations": ["CREATE"]}}]})],
        [("web", _R, _FAILED)],
    ),
    (
        "a rule for updates alone",
        [_rule(_LATEST, match={"any": [{"resources": {"kinds": ["Pod"], "operations": ["UPDATE"]}}]})],
        [],
    ),
    (
        "labels of the namespace",
        [
            _rule(
                _LATEST,
                match={"any": [{"resources": {"kinds": ["Pod"], "namespaceSelector": {"matchLabels": {"env": "prod"}}}}]},
            )
        ],
        [("web", _R, _FAILED)],
    ),
    (
        "what cannot be evaluated",
        [_rule({"deny": {"conditions": {"any": [{"key": "{{ request.object.spec.nodeName }}", "operator": "Equals", "value": "a"}]}}})],
        [
            (
                "web",
                _R,
                (
                    "failed to check deny conditions: failed to substitute variables in condition key: failed to resolve "
                    'request.object.spec.nodeName at path : JMESPath query failed: Unknown key "nodeName" in path'
                ),
            )
        ],
    ),
    (
        "a mutation that is not applied, and one that is",
        [_mutation("a", "web"), _mutation("b", "nobody")],
        [("web", "MutatingPolicy/b", "mutation is not applied")],
    ),
    ("a policy of CEL", [_cel()], [("web", "ValidatingPolicy/p", "no latest")]),
    (
        "a policy of CEL out of admission",
        [_cel(evaluation={"admission": {"enabled": False}})],
        [("web", "ValidatingPolicy/p", "no latest")],
    ),
    (
        "policies of namespaces",
        [_cel(namespace="shop"), _cel(name="q", namespace="dev")],
        [("web", "NamespacedValidatingPolicy/shop/p", "no latest")],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("objects", "expected"), [row[1:] for row in _ROWS], ids=[row[0] for row in _ROWS])
def test_what_is_reported(objects: list[JSON], expected: list[tuple[str, str, str]], tmp_path: Path) -> None:
    found = json.loads(_scan(tmp_path, objects, "--json"))["findings"]
    assert [(each["name"], d["policy"], d["message"]) for each in found for d in each["denials"]] == expected


def _scan(folder: Path, objects: list[JSON], *options: str) -> str:
    (folder / "set").mkdir()
    for number, each in enumerate(objects):
        (folder / "set" / f"{number}.json").write_text(json.dumps(each))
    (folder / "cluster.jsonl").write_text("\n".join(map(json.dumps, _OBJECTS)))
    arguments = ["scan", str(folder / "cluster.jsonl"), "--candidate", str(folder / "set"), "--as", "background"]
    result = CliRunner().invoke(app, [*arguments, *options])
    return result.output or str(result.exception)


_OFF = [
    _rule(_LATEST, {"background": False}),
    _cel(evaluation={"background": {"enabled": False}}),
]


@pytest.mark.parametrize("policy", _OFF, ids=["a ClusterPolicy", "a policy of CEL"])
def test_a_set_that_scans_nothing(policy: JSON, tmp_path: Path) -> None:
    assert "the candidate holds no policy of Kyverno that scans in the background" in _scan(tmp_path, [policy])


def test_the_page(tmp_path: Path) -> None:
    page = " ".join(_scan(tmp_path, [_rule(_LATEST)]).split())
    assert (
        "each object in Kyverno's background scan 1 of 3 objects would be reported. They belong to 1 workload." in page
    )
    assert "Objects 3 created without a user Reported 1 1 of these are not reported by the baseline" in page
