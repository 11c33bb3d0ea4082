"""A decision of Gatekeeper as a suite for gator: what is written, what is decided of it, and what it cannot say."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from replay.admission.decision import Decision, Denial, Verdict
from replay.case.exported import Exported, UnrepresentableError
from replay.case.form.gator import gator_files
from replay.json import JSON
from replay.kube.attributes import Attributes, Operation, UserInfo
from replay.kube.gvk import GroupVersionKind, GroupVersionResource
from replay.pipeline.cases import CaseOptions, run_tests

REGO = """\
package needs
violation[{"msg": msg}] { msg := sprintf("%v (and more) lacks a team", [input.review.object.metadata.name]) }
"""
TEMPLATE = {
    "apiVersion": "templates.gatekeeper.sh/v1",
    "kind": "ConstraintTemplate",
    "metadata": {"name": "needs", "uid": "u", "resourceVersion": "7"},
    "spec": {
        "crd": {"spec": {"names": {"kind": "Needs"}}},
        "targets": [{"target": "admission.k8s.gatekeeper.sh", "rego": REGO}],
    },
    "status": {"created": True},
}
VALUE = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "shop"}}


def constraint(name: str, **spec: JSON) -> JSON:
    return {
        "apiVersion": "constraints.gatekeeper.sh/v1beta1",
        "kind": "Needs",
        "metadata": {"name": name},
        "spec": spec,
    }


def exported(policies: tuple[str, ...], *constraints: JSON) -> Exported:
    kind, resource = GroupVersionKind("", "v1", "ConfigMap"), GroupVersionResource("", "v1", "configmaps")
    namespace = {"metadata": {"name": "shop", "labels": {"team": "x"}}}
    attributes = Attributes(
        Operation.CREATE, kind, resource, "", "shop", "a", UserInfo("jane"), object=VALUE, namespace_object=namespace
    )
    denials = tuple(
        Denial(policy, "validation.gatekeeper.sh", None, "m", "Forbidden", 403, of_webhook=True) for policy in policies
    )
    decision = Decision(Verdict.DENIED, denials=denials)
    return Exported(
        name="a request",
        original=attributes,
        validated=attributes,
        decision=decision,
        engine_objects=(TEMPLATE, *constraints),
    )


def test_a_suite(tmp_path: Path) -> None:
    selector = {"namespaceSelector": {"matchLabels": {"team": "x"}}}
    files = gator_files(exported(("Needs/a", "Needs/b"), constraint("a", match=selector), constraint("b")))
    assert sorted(files) == [
        "constraint-a.yaml",
        "constraint-b.yaml",
        "inventory.yaml",
        "review.yaml",
        "suite.yaml",
        "template-needs.yaml",
    ]
    suite = yaml.safe_load(files["suite.yaml"])
    assert [test["cases"][0]["assertions"] for test in suite["tests"]] == [
        [{"violations": 1, "message": r"^a \(and more\) lacks a team$"}]
    ] * 2
    assert yaml.safe_load(files["template-needs.yaml"])["metadata"] == {"name": "needs"}
    for name, text in files.items():
        (tmp_path / name).write_text(text, "utf-8")
    report = run_tests(CaseOptions(paths=(tmp_path,)))
    assert [(result.name, result.lines) for result in report.results] == [
        ("Needs/a/a request [Rego]", ()),
        ("Needs/b/a request [Rego]", ()),
    ]


SCOPED = [{"action": "deny", "enforcementPoints": [{"name": "validation.gatekeeper.sh"}]}]
UNHOLDABLE = [
    ("nothing of Gatekeeper denies", ("p",), constraint("a"), "no constraint of Gatekeeper denies it"),
    (
        "another enforcement point",
        ("Needs/a",),
        constraint("a", enforcementAction="scoped", scopedEnforcementActions=SCOPED),
        "Needs/a does not act at the enforcement point of gator",
    ),
    (
        "an object that it expands to",
        ("Needs/a",),
        constraint("a", match={"kinds": [{"apiGroups": [""], "kinds": ["Pod"]}]}),
        "gator finds no violation of Needs/a",
    ),
]


@pytest.mark.parametrize(
    ("policies", "own", "message"), [row[1:] for row in UNHOLDABLE], ids=[row[0] for row in UNHOLDABLE]
)
def test_what_a_suite_cannot_say(policies: tuple[str, ...], own: JSON, message: str) -> None:
    with pytest.raises(UnrepresentableError, match=message):
        gator_files(exported(policies, own))
