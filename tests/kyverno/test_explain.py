"""Kyverno's policies in an explanation: which match, what each says, and where in it and the object that comes from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from replay.admission.chain import Chain
from replay.admission.explain.request import explained_request
from replay.cellib.version import NEWEST
from replay.cli.app import app
from replay.json import JSON
from replay.kube.admissionregistration import ManifestSet
from replay.kube.attributes import Attributes, Operation, UserInfo
from replay.kube.discovery import builtin_discovery
from replay.kube.gvk import GroupVersionKind, GroupVersionResource
from replay.kube.lister import ObjectLister
from replay.kube.schema import Schemas
from replay.manifests.set_loader import load_manifest_set

_SAMPLE = Path(__file__).parents[2] / "sample_audit"
_NAMESPACE = {
    "apiVersion": "v1",
    "kind": "Namespace",
    "metadata": {"name": "shop", "labels": {"kubernetes.io/metadata.name": "shop"}},
}
_POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web", "namespace": "shop", "labels": {"app": "web"}},
    "spec": {"containers": [{"name": "a", "image": "r.io/a:1"}, {"name": "b", "image": "nginx:latest"}]},
}
_ACCOUNT = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": "shop"}}
_PODS = {"any": [{"resources": {"kinds": ["Pod"]}}]}


def _rules(*rules: dict[str, Any], **spec: Any) -> dict[str, Any]:
    whole = [{"name": "r", "match": _PODS, **rule} for rule in rules]
    for rule in whole:
        if "validate" in rule:
            rule["validate"] = {"failureAction": "Enforce", "message": "no", **rule["validate"]}
    return {
        "apiVersion": "kyverno.io/v1",
        "kind": "ClusterPolicy",
        "metadata": {"name": "p"},
        "spec": {**spec, "rules": whole},
    }


def _cel(kind: str = "ValidatingPolicy", **spec: Any) -> dict[str, Any]:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    whole = {"matchConstraints": {"resourceRules": [rule]}, **spec}
    return {"apiVersion": "policies.kyverno.io/v1", "kind": kind, "metadata": {"name": "p"}, "spec": whole}


_SERVICES = {
    "apiVersion": "policies.kyverno.io/v1",
    "kind": "ValidatingPolicy",
    "metadata": {"name": "services"},
    "spec": {
        "matchConstraints": {
            "resourceRules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["services"]}
            ]
        },
        "validations": [{"expression": "false"}],
    },
}
_Told = list[tuple[str, str, tuple[str, ...]]]


def _explained(folder: Path, *objects: JSON) -> _Told:
    """The policies of Kyverno with their outcome, or why they do not match, and the place."""
    (folder / "kyverno").mkdir()
    for number, each in enumerate(objects):
        (folder / "kyverno" / f"{number}.json").write_text(json.dumps(each))
    manifests = load_manifest_set(folder, version=NEWEST)
    chain = Chain([ManifestSet(), manifests], NEWEST, builtin_discovery(), Schemas([]))
    attributes = Attributes(
        operation=Operation.CREATE,
        kind=GroupVersionKind("", "v1", "Pod"),
        resource=GroupVersionResource("", "v1", "pods"),
        subresource="",
        namespace="shop",
        name="web",
        user_info=UserInfo("ann"),
        object=_POD,
        namespace_object=_NAMESPACE,
    )
    asking = chain.asking(attributes, attributes, ObjectLister([_NAMESPACE, _ACCOUNT]), {})
    explained = explained_request(chain, asking, 1, manifests)
    policies = [*(policy for each in explained.passes for policy in each.policies), *explained.policies]
    return [
        (each.policy, binding.outcome if binding else each.mismatch, binding.place if binding else ())
        for each in policies
        if "/" in each.policy
        for binding in (each.bindings or (None,))
    ]


_LATEST = {"image": "!*:latest"}
_MISMATCH = "resource value 'nginx:latest' does not match '!*:latest' at path"
_R = "ClusterPolicy/p/r"
_ROWS: list[tuple[str, tuple[JSON, ...], _Told]] = [
    (
        "a pattern, and a rule for something else",
        (
            _rules(
                {"validate": {"pattern": {"spec": {"containers": [_LATEST]}}}},
                {"name": "s", "match": {"any": [{"resources": {"kinds": ["Service"]}}]}, "validate": {"pattern": {}}},
            ),
        ),
        [
            (
                _R,
                "denies: validation error: no. rule r failed at path /spec/containers/1/image/",
                (f"pattern: {_MISMATCH} /spec/containers/1/image/",),
            ),
            ("ClusterPolicy/p/s", "match.any[0].resources.kinds is [Service]", ()),
        ],
    ),
    (
        "an element of a foreach within one",
        (
            _rules(
                {
                    "validate": {
                        "foreach": [
                            {
                                "list": "request.object.spec.containers",
                                "foreach": [{"list": "[element]", "pattern": _LATEST}],
                            }
                        ]
                    }
                }
            ),
        ),
        [
            (
                _R,
                "denies: validation failure: validation failure: validation error: no. rule r failed at path /image/",
                (
                    "element 1 of request.object.spec.containers",
                    "element 0 of [element]",
                    f"pattern: {_MISMATCH} /image/",
                ),
            )
        ],
    ),
    (
        "each of several patterns",
        (
            _rules(
                {"validate": {"anyPattern": [{"spec": {"hostNetwork": True}}, {"metadata": {"labels": {"app": "x"}}}]}}
            ),
        ),
        [
            (
                _R,
                (
                    "denies: validation error: no. rule r[0] failed at path /spec/hostNetwork/ "
                    "rule r[1] failed at path /metadata/labels/app/"
                ),
                (
                    "anyPattern[0]: resource value '<nil>' does not match 'true' at path /spec/hostNetwork/",
                    "anyPattern[1]: resource value 'web' does not match 'x' at path /metadata/labels/app/",
                ),
            )
        ],
    ),
    (
        "the condition of a denial",
        (
            _rules(
                {
                    "validate": {
                        "deny": {
                            "conditions": {
                                "any": [
                                    {"key": "{{ request.operation }}", "operator": "Equals", "value": "DELETE"},
                                    {"key": "{{ request.object.metadata.name }}", "operator": "Equals", "value": "w*"},
                                ]
                            }
                        }
                    }
                }
            ),
        ),
        [(_R, "denies: no", ("{{ request.object.metadata.name }} Equals w* holds: the key is web",))],
    ),
    (
        "a rule that audits",
        (_rules({"validate": {"failureAction": "Audit", "pattern": {"spec": {"hostNetwork": True}}}}),),
        [
            (
                _R,
                "audits: validation error: no. rule r failed at path /spec/hostNetwork/",
                ("pattern: resource value '<nil>' does not match 'true' at path /spec/hostNetwork/",),
            )
        ],
    ),
    (
        "a rule that cannot be evaluated, and is ignored",
        (
            _rules(
                {
                    "validate": {
                        "message": "no",
                        "deny": {"conditions": {"all": [{"key": "{{ nope }}", "operator": "Equals", "value": "a"}]}},
                    }
                },
                failurePolicy="Ignore",
            ),
        ),
        [
            (
                _R,
                (
                    "cannot be evaluated, which is ignored: failed to check deny conditions: failed to substitute variables in "
                    'condition key: failed to resolve nope at path : JMESPath query failed: Unknown key "nope" in path'
                ),
                (),
            )
        ],
    ),
    (
        "what is left out",
        (_rules({"validate": {"pattern": {}}, "exclude": {"any": [{"subjects": [{"kind": "User", "name": "ann"}]}]}}),),
        [(_R, "`exclude` leaves the request out", ())],
    ),
    (
        "a mutation",
        (_rules({"mutate": {"patchStrategicMerge": {"metadata": {"labels": {"team": "a"}}}}}),),
        [(_R, "mutated Pod/web in namespace shop", ())],
    ),
    (
        "rules that make and change other objects",
        (
            _rules(
                {
                    "generate": {
                        "apiVersion": "v1",
                        "kind": "ConfigMap",
                        "namespace": "x",
                        "name": "of-{{ request.name }}",
                    }
                },
                {
                    "name": "s",
                    "mutate": {
                        "targets": [{"apiVersion": "v1", "kind": "Secret", "name": "y"}],
                        "patchStrategicMerge": {"metadata": {"labels": {"a": "b"}}},
                    },
                },
                {
                    "name": "t",
                    "match": {"any": [{"resources": {"kinds": ["Pod"], "names": ["x"]}}]},
                    "generate": {"apiVersion": "v1", "kind": "ConfigMap", "namespace": "x", "name": "y"},
                },
            ),
        ),
        [
            (_R, "makes ConfigMap x/of-web afterwards", ()),
            ("ClusterPolicy/p/s", "changes existing Secret y afterwards", ()),
            ("ClusterPolicy/p/t", "match.any[0].resources.names is [x]", ()),
        ],
    ),
    (
        "a GeneratingPolicy",
        (
            _cel(
                "GeneratingPolicy",
                generate=[
                    {
                        "expression": (
                            "generator.Apply('x', [{'apiVersion': dyn('v1'), 'kind': dyn('ConfigMap'), "
                            "'metadata': dyn({'name': 'c', 'namespace': 'x'})}])"
                        )
                    }
                ],
            ),
        ),
        [("GeneratingPolicy/p", "makes ConfigMap x/c afterwards", ())],
    ),
    (
        "a policy of CEL",
        (_cel(validations=[{"expression": "true"}, {"expression": "object.metadata.name == 'x'", "message": "no"}]),),
        [("ValidatingPolicy/p", "denies: no", ())],
    ),
    (
        "a policy of CEL whose condition does not hold",
        (_cel(matchConditions=[{"name": "c", "expression": "false"}], validations=[{"expression": "false"}]),),
        [("ValidatingPolicy/p", "skipped: a match condition does not hold", ())],
    ),
    (
        "a policy of CEL for other resources",
        (_cel(validations=[{"expression": "true"}]), _SERVICES),
        [
            ("ValidatingPolicy/p", "passes", ()),
            ("ValidatingPolicy/services", "its match constraints do not select the request", ()),
        ],
    ),
]


@pytest.mark.parametrize(("objects", "expected"), [row[1:] for row in _ROWS], ids=[row[0] for row in _ROWS])
def test_what_each_policy_says(objects: tuple[JSON, ...], expected: _Told, tmp_path: Path) -> None:
    assert _explained(tmp_path, *objects) == expected


def test_the_page_of_a_request_that_only_kyverno_decides() -> None:
    shop, kyverno = _SAMPLE / "shop", _SAMPLE / "kyverno"
    sets = ["--current", str(kyverno / "cluster-policies"), "--candidate", str(kyverno / "cel")]
    arguments = [str(shop / "audit.jsonl.zst"), "--cluster", str(shop / "cluster.jsonl.zst"), *sets]
    identity = "e22e2024-8a77-4c4e-913c-559a188fb16b"
    screen = CliRunner().invoke(app, ["explain", identity, *arguments]).output
    assert "Why the baseline denies the request" in screen
    result = CliRunner().invoke(app, ["explain", identity, "--full", *arguments])
    page = " ".join(result.output.split())
    assert "pattern: resource value '<nil>' does not match '?*' at path /metadata/labels/team/" in page
    assert "The baseline: denied 3 of 3 policies match." in page
    assert "ValidatingPolicy/require-team: skipped: a match condition does not hold" in page
    assert "object.metadata.namespace.startsWith('team-')" in page
    assert "first denial: ClusterPolicy/require-team/team (400): admission webhook" in page
    assert "called the validating webhook validate.kyverno.svc-fail" in page
