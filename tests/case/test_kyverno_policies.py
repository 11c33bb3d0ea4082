"""Tests of Kyverno's command line about its own kinds of policies, decided by its engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from replay.cli.case import CaseResultFormat
from replay.pipeline.cases import CaseOptions, run_tests
from replay.report.case_results import FORMATS

_POLICIES = """
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: named}
spec:
  background: false
  rules:
  - name: team
    match: {any: [{resources: {kinds: [Pod, Service]}, subjects: [{kind: User, name: ann}]}]}
    context: [{name: allowed, configMap: {name: teams, namespace: default}}]
    validate:
      message: no team
      deny: {conditions: {all: [{key: "{{ request.object.metadata.labels.team || '' }}", operator: AnyNotIn, value: "{{ allowed.data.names }}"}]}}
  - name: image
    match: {any: [{resources: {kinds: [Pod]}}]}
    validate: {message: no latest, pattern: {spec: {containers: [{image: "!*:latest"}]}}}
  - name: label
    match: {any: [{resources: {kinds: [Pod], namespaceSelector: {matchLabels: {a: b}}}}]}
    mutate: {patchStrategicMerge: {metadata: {labels: {+(team): none}}}}
  - name: copy
    match: {any: [{resources: {kinds: [Namespace]}}]}
    generate: {apiVersion: v1, kind: ConfigMap, name: x, namespace: other, data: {}}
---
apiVersion: policies.kyverno.io/v1
kind: ValidatingPolicy
metadata: {name: cel}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [pods]}]}
  validations: [{expression: "request.operation == 'UPDATE' || has(object.metadata.labels)", message: labels}]
"""
_RESOURCES = """
{apiVersion: v1, kind: Pod, metadata: {name: good, labels: {team: a}}, spec: {containers: [{name: c, image: "x:1"}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: bad}, spec: {containers: [{name: c, image: "x:latest"}]}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: deployed}, spec: {template: {spec: {containers: [{name: c, image: "x:latest"}]}}}}
"""
_TEST = """
apiVersion: cli.kyverno.io/v1alpha1
kind: Test
metadata: {name: t}
policies: [policies.yaml]
resources: [resources.yaml]
variables: values.yaml
results:
- {policy: named, rule: team, kind: Pod, resources: [good], result: pass}
- {policy: named, rule: team, kind: Pod, resources: [bad], result: fail}
- {policy: named, rule: image, kind: Pod, resources: [default/good], result: pass}
- {policy: named, rule: image, kind: Pod, resources: [bad], result: pass}
- {policy: named, rule: image, kind: Deployment, result: fail}
- {policy: named, rule: label, kind: Pod, resources: [bad], patchedResources: patched.yaml, result: pass}
- {policy: named, rule: label, kind: Pod, resources: [good], patchedResources: patched.yaml, result: pass}
- {policy: named, rule: copy, kind: Namespace, resources: [ns], generatedResource: x.yaml, result: pass}
- {policy: cel, kind: Pod, resources: [bad], isValidatingPolicy: true, result: pass}
- {policy: cel, kind: Pod, resources: [bad], isValidatingPolicy: true, operation: UPDATE, result: pass}
- {policy: absent, kind: Pod, resources: [bad], result: pass}
- {policy: named, rule: image, kind: Pod, resources: [bad], result: denied}
"""
_VALUES = """
apiVersion: cli.kyverno.io/v1alpha1
kind: Values
globalValues: {request.operation: CREATE}
namespaceSelector: [{name: default, labels: {a: b}}]
policies: [{name: named, rules: [{name: team, values: {allowed.data.names: a}}]}]
"""
_PATCHED = """
{apiVersion: v1, kind: Pod, metadata: {name: bad, namespace: default, labels: {team: none}}, spec: {containers: [{name: c, image: "x:latest"}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: good, labels: {team: other}}, spec: {containers: [{name: c, image: "x:1"}]}}
"""


@pytest.fixture
def tests(tmp_path: Path) -> Path:
    folder = tmp_path / ".kyverno-test"
    folder.mkdir()
    files = {"policies": _POLICIES, "resources": _RESOURCES, "values": _VALUES, "patched": _PATCHED}
    for name, text in {**files, "kyverno-test": _TEST}.items():
        folder.joinpath(f"{name}.yaml").write_text(text)
    return tmp_path


def test_results(tests: Path) -> None:
    report = run_tests(CaseOptions(paths=(tests,)))
    assert [(result.name, result.status.value, *result.lines) for result in report.results] == [
        ("named team Pod/good pass", "passed"),
        # The label that an earlier rule added is no team either.
        ("named team Pod/bad fail", "passed"),
        ("named image Pod/good pass", "passed"),
        (
            "named image Pod/bad pass",
            "failed",
            "rule image: expected pass, got fail: validation error: no latest. rule image failed at path /spec/containers/0/image/",
        ),
        ("named image Deployment/deployed fail", "passed"),
        ("named label Pod/bad pass", "passed"),
        (
            "named label Pod/good pass",
            "failed",
            "the object is not the one in patched.yaml",
            "rule label: expected pass, got skip: no patches applied",
        ),
        ("named copy ns pass", "skipped", "objects are not generated"),
        # The pod has the label by then.
        ("cel Pod/bad pass", "passed"),
        ("cel Pod/bad pass", "passed"),
        ("absent bad pass", "skipped", "the files of the test hold no such policy"),
        ("named image", "error", "`denied` is none"),
    ]


def test_skipped_results_are_told_in_each_format(tests: Path) -> None:
    report = run_tests(CaseOptions(paths=(tests,), name="copy"))
    assert report.exit_code == 0
    shown = {form: "\n".join(FORMATS[form](report)) for form in CaseResultFormat}
    assert "1 objects are not generated" in shown[CaseResultFormat.TERMINAL]
    assert '<skipped message="objects are not generated" />' in shown[CaseResultFormat.JUNIT]
    assert "# SKIP objects are not generated" in shown[CaseResultFormat.TAP]
    assert '"skipped": 1' in shown[CaseResultFormat.JSON]
    assert "::error" not in shown[CaseResultFormat.GITHUB]


# What is changed in the policy, and how the line of its first result begins.
_REFUSED = [
    (
        "a variable that is not defined",
        ("no team", '"{{ nope }}"'),
        "the policy answers nothing: policy contains invalid variables: variable substitution failed",
    ),
    (
        "a user in background mode",
        ("background: false", "background: true"),
        "the policy answers nothing: only select variables are allowed in background mode.",
    ),
    (
        "a field that the schema does not have",
        ("pattern:", "patern:"),
        'the policy answers nothing: strict decoding error: unknown field "spec.',
    ),
]


@pytest.mark.parametrize(("change", "line"), [row[1:] for row in _REFUSED], ids=[row[0] for row in _REFUSED])
def test_a_policy_that_kyverno_refuses_fails_its_results(tests: Path, change: tuple[str, str], line: str) -> None:
    policies = tests / ".kyverno-test" / "policies.yaml"
    policies.write_text(policies.read_text().replace(*change))
    first = run_tests(CaseOptions(paths=(tests,))).results[0]
    assert (first.status.value, [each[: len(line)] for each in first.lines]) == ("failed", [line])
