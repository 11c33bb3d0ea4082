"""Suites of gator over templates: every assertion and engine is a case of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from replay.case.result import Status
from replay.pipeline.cases import CaseOptions, run_tests

TEMPLATE = """\
apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: needs}
spec:
  crd:
    spec:
      names: {kind: Needs}
      validation:
        openAPIV3Schema:
          type: object
          properties: {labels: {type: array, items: {type: string}}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    code:
    - engine: K8sNativeValidation
      source:
        validations:
        - expression: variables.params.labels.all(l, has(object.metadata.labels) && l in object.metadata.labels)
          message: a label is missing
    - engine: Rego
      source:
        rego: |
          package needs
          violation[{"msg": msg}] {
            label := input.parameters.labels[_]
            not input.review.object.metadata.labels[label]
            msg := sprintf("label %v is missing", [label])
          }
          violation[{"msg": "taken"}] { data.inventory.cluster["v1"].Namespace[_].metadata.labels.taken }
"""
CONSTRAINT = """\
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: Needs
metadata: {name: two}
spec:
  parameters: {labels: LABELS}
"""
EXPANSION = """\
apiVersion: expansion.gatekeeper.sh/v1beta1
kind: ExpansionTemplate
metadata: {name: pods}
spec:
  applyTo: [{groups: [apps], versions: [v1], kinds: [Deployment]}]
  templateSource: spec.template
  generatedGVK: {group: '', version: v1, kind: Pod}
"""
OBJECTS = {
    "good.yaml": "{apiVersion: v1, kind: Pod, metadata: {name: p, labels: {a: x, b: y}}}",
    "bad.yaml": "{apiVersion: v1, kind: Pod, metadata: {name: p}}",
    "deployment.yaml": "{apiVersion: apps/v1, kind: Deployment, metadata: {name: d, labels: {a: x, b: y}}, spec: {template: {metadata: {labels: {a: x}}}}}",
    "taken.yaml": "{apiVersion: v1, kind: Namespace, metadata: {name: n, labels: {taken: 'yes'}}}",
    "review.yaml": (
        "{apiVersion: admission.k8s.io/v1, kind: AdmissionReview, request: {uid: u, operation: UPDATE, name: p, "
        "kind: {group: '', version: v1, kind: Pod}, resource: {group: '', version: v1, resource: pods}, userInfo: {}, "
        "object: {apiVersion: v1, kind: Pod, metadata: {name: p, labels: {a: x}}}}}"
    ),
}
ASSERTIONS = [
    ("no violation", "good.yaml", "violations: no", ""),
    ("a number with a message", "bad.yaml", "{violations: 2, message: 'label . is missing'}", "K8sNativeValidation"),
    ("yes where nothing is said", "bad.yaml", "message: missing", ""),
    ("an expected violation that is not there", "good.yaml", "violations: yes", "K8sNativeValidation Rego"),
    ("a review", "review.yaml", "violations: 1", ""),
    ("what a workload makes", "deployment.yaml", "{violations: 1, message: '^.Implied by pods. '}", ""),
]


def _suite(directory: Path, test: str, labels: str = "[a, b]") -> Path:
    (directory / "template.yaml").write_text(TEMPLATE, "utf-8")
    (directory / "constraint.yaml").write_text(CONSTRAINT.replace("LABELS", labels), "utf-8")
    (directory / "expansion.yaml").write_text(EXPANSION, "utf-8")
    for name, text in OBJECTS.items():
        (directory / name).write_text(text, "utf-8")
    head = "kind: Suite\napiVersion: test.gatekeeper.sh/v1alpha1\nmetadata: {name: s}\ntests:\n"
    named = "- {name: t, template: template.yaml, constraint: constraint.yaml, expansion: expansion.yaml, "
    (directory / "suite.yaml").write_text(f"{head}{named}{test}}}\n", "utf-8")
    return directory / "suite.yaml"


@pytest.mark.parametrize(
    ("file", "assertion", "failing"), [row[1:] for row in ASSERTIONS], ids=[r[0] for r in ASSERTIONS]
)
def test_an_assertion(tmp_path: Path, file: str, assertion: str, failing: str) -> None:
    suite = _suite(tmp_path, f"cases: [{{name: c, object: {file}, assertions: [{{{assertion.strip('{}')}}}]}}]")
    report = run_tests(CaseOptions(paths=(suite,)))
    assert [result.name for result in report.results] == ["t/c [K8sNativeValidation]", "t/c [Rego]"]
    failed = [result.name.partition("[")[2].rstrip("]") for result in report.results if result.status is Status.FAILED]
    assert failed == failing.split()


def test_an_inventory(tmp_path: Path) -> None:
    case = "{name: c, object: good.yaml, inventory: [taken.yaml], assertions: [{violations: 1, message: taken}]}"
    report = run_tests(CaseOptions(paths=(_suite(tmp_path, f"cases: [{case}]"),), name="Rego"))
    assert [result.status for result in report.results] == [Status.PASSED]


def test_a_constraint_that_its_schema_refuses(tmp_path: Path) -> None:
    report = run_tests(CaseOptions(paths=(_suite(tmp_path, "invalid: true", "text"),)))
    assert [(result.name, result.status) for result in report.results] == [
        ("t [K8sNativeValidation]", Status.PASSED),
        ("t [Rego]", Status.PASSED),
    ]
