"""Cases of every form, found and decided: each row is a directory of files, and what is to be told of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from replay.case.case import CaseError
from replay.case.result import CaseReport, Status, not_run_text
from replay.pipeline.cases import CaseOptions, run_tests
from replay.reconstruct.record.known import path_from_text, rendered

HERE = Path(__file__).parent / "data"
POLICY = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: owner}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: ["*"], resources: [configmaps]}]
  validations: [{expression: "object == null || 'owner' in object.metadata.?labels.orValue({})", message: "who owns it?"}]
"""
BINDING = """\
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: owner}
spec: {policyName: owner, validationActions: [ACTIONS]}
"""
MUTATION = """\
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: owned}
spec:
  paramKind: {apiVersion: v1, kind: ConfigMap}
  reinvocationPolicy: Never
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
  mutations:
    - patchType: ApplyConfiguration
      applyConfiguration: {expression: "Object{metadata: Object.metadata{labels: {'owner': params.data.owner}}}"}
"""
OWNED = "{apiVersion: v1, kind: ConfigMap, metadata: {name: NAME, labels: {owner: o}}}\n"
BARE = "{apiVersion: v1, kind: ConfigMap, metadata: {name: NAME}}\n"
KYVERNO = """\
apiVersion: cli.kyverno.io/v1alpha1
kind: Test
metadata: {name: t}
policies: [policy.yaml]
resources: [resources.yaml]
variables: values.yaml
results:
  - {isValidatingAdmissionPolicy: true, kind: ConfigMap, policy: owner, resources: [good], result: pass}
  - {isValidatingAdmissionPolicy: true, kind: ConfigMap, policy: owner, resources: [bad, shop/bad], result: fail}
  - {isValidatingAdmissionPolicy: true, kind: Secret, policy: owner, result: skip}
  - {kind: ConfigMap, policy: somebody-elses, rule: r, resources: [good], result: fail}
"""
SUITE = """\
apiVersion: test.gatekeeper.sh/v1alpha1
kind: Suite
tests:
  - name: owner
    template: policy.yaml
    cases:
      - {name: good, object: good.yaml, assertions: [{violations: no}]}
      - {name: bad, object: bad.yaml, assertions: [{violations: yes, message: who}]}
      - {name: unsaid, object: bad.yaml, assertions: [{violations: 1}]}
"""
KUBESCAPE = """\
[{"name": "good", "template": "cm.yaml", "expected": "pass", "field_change_list": ["metadata.labels.owner=o"]},
 {"name": "bad", "template": "cm.yaml", "expected": "fail"},
 {"name": "nonsense", "template": "cm.yaml", "expected": "maybe"}]
"""


def named(text: str, name: str) -> str:
    return text.replace("NAME", name)


FORMS: dict[str, tuple[dict[str, str], dict[str, list[str]]]] = {
    "kat, one file a part": (
        {
            "owner/policy.yaml": POLICY,
            "owner/binding.yaml": BINDING.replace("ACTIONS", "Deny"),
            "owner/tests/owner.good.allow.object.yaml": named(OWNED, "a"),
            "owner/tests/owner.bad.deny.object.yaml": named(BARE, "a"),
            "owner/tests/owner.bad.deny.message.txt": "who owns it?\n",
            "owner/tests/owner.gone.allow.oldObject.yaml": named(BARE, "a"),
            "owner/tests/owner.wrong.deny.request.yaml": f"operation: UPDATE\nobject: {named(OWNED, 'a')}",
            "owner/tests/owner.otherwise.deny.request.yaml": f"object: {named(OWNED, 'a')}",
        },
        {
            "owner.bad.deny": [],
            "owner.gone.allow": [],
            "owner.good.allow": [],
            "owner.otherwise.deny": ["verdict: expected denied, got admitted"],
            "owner.wrong.deny": ["`operation` is `UPDATE`, and the objects given are those of CREATE"],
        },
    ),
    "kat, warnings": (
        {
            "policy.yaml": POLICY + BINDING.replace("ACTIONS", "Warn"),
            "tests/bad.warn.object.yaml": named(BARE, "a"),
            "tests/bad.warn.warnings.txt": "who owns it?\n",
        },
        {"bad.warn": []},
    ),
    "kat, parameters and a mutated object": (
        {
            "policy.yaml": MUTATION,
            "tests/owned.bare.object.yaml": named(BARE, "a"),
            "tests/owned.bare.params.yaml": "{apiVersion: v1, kind: ConfigMap, metadata: {}, data: {owner: o}}",
            "tests/owned.bare.gold.yaml": named(OWNED, "a"),
            "tests/owned.no-gold.object.yaml": named(BARE, "a"),
            "tests/owned.no-gold.params.yaml": "{apiVersion: v1, kind: ConfigMap, metadata: {}, data: {owner: o}}",
        },
        {"owned.bare": [], "owned.no-gold": ["object.metadata.labels: expected nothing, got {'owner': 'o'}"]},
    ),
    "kyverno": (
        {
            "kyverno-test.yaml": KYVERNO,
            "policy.yaml": POLICY,
            "resources.yaml": f"{named(OWNED, 'good')}---\n{named(BARE, 'bad')}---\n"
            "{apiVersion: v1, kind: Secret, metadata: {name: s}}\n",
            "values.yaml": "{namespaceSelector: [{name: default, labels: {a: b}}]}\n",
        },
        {
            "owner ConfigMap/good pass": [],
            "owner ConfigMap/bad fail": [],
            "owner Secret/s skip": [],
            "somebody-elses r good fail": ["the files of the test hold no such policy"],
        },
    ),
    "gator with native policies": (
        {
            "suite.yaml": SUITE,
            "policy.yaml": POLICY,
            "good.yaml": named(OWNED, "good"),
            "bad.yaml": named(BARE, "bad"),
        },
        {"owner/good": [], "owner/bad": [], "owner/unsaid": []},
    ),
    "kubescape": (
        {
            "controls/C-1/tests.json": KUBESCAPE,
            "controls/C-1/policy.yaml": POLICY,
            "test-resources/cm.yaml": named(BARE, "a"),
            "test-resources/policy-binding.yaml": BINDING.removeprefix("---\n").replace(
                "[ACTIONS]", "[Deny], paramRef: {parameterNotFoundAction: Deny}"
            ),
            "test-resources/default-control-configuration.yaml": "{apiVersion: x/v1, kind: P, metadata: {name: p}}",
        },
        {"good": [], "bad": [], "nonsense": ["`maybe` is none of pass, fail, warn"]},
    ),
}


NATIVE_TEST = """\
apiVersion: cli.kyverno.io/v1alpha1
kind: Test
metadata: {name: t}
policies: [policy.yaml]
resources: [a.yaml]
results: [{kind: ConfigMap, policy: owner, resources: [a], result: RESULT}]
"""
UNTYPED = POLICY.replace("object == null ||", "obj == null ||")
UNKNOWN_FIELD = POLICY.replace("spec:", "spec:\n  failurePolice: Fail", 1)
IMPOSSIBLE = (
    'the API server refuses the policy: ValidatingAdmissionPolicy.admissionregistration.k8s.io "owner" is invalid: '
)
REFUSED: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "kat": (
        {"policy.yaml": UNTYPED, "tests/owner.a.deny.object.yaml": named(BARE, "a")},
        {"owner.a.deny": f"{IMPOSSIBLE}spec.validations[0].expression: Invalid value"},
    ),
    "kat, which takes a field that no server knows": (
        {"policy.yaml": UNKNOWN_FIELD, "tests/owner.a.deny.object.yaml": named(BARE, "a")},
        {},
    ),
    "kyverno": (
        {"kyverno-test.yaml": NATIVE_TEST, "policy.yaml": UNTYPED, "a.yaml": named(BARE, "a")},
        {"owner ConfigMap/a RESULT": f"{IMPOSSIBLE}spec.validations[0].expression: Invalid value"},
    ),
    "kyverno, which takes no field that no server knows": (
        {"kyverno-test.yaml": NATIVE_TEST, "policy.yaml": UNKNOWN_FIELD, "a.yaml": named(BARE, "a")},
        {"owner ConfigMap/a RESULT": 'unknown field "spec.failurePolice"'},
    ),
    "gator": (
        {"suite.yaml": SUITE, "policy.yaml": UNTYPED, "good.yaml": named(OWNED, "a"), "bad.yaml": named(BARE, "a")},
        dict.fromkeys(("owner/good", "owner/bad", "owner/unsaid"), f"{IMPOSSIBLE}spec.validations[0].expression"),
    ),
    "kubescape, an object that kubectl does not take": (
        {
            **FORMS["kubescape"][0],
            "test-resources/cm.yaml": "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, label: b}}",
        },
        dict.fromkeys(("good", "bad"), "has fields that a ConfigMap does not have: metadata.label")
        | {"nonsense": "`maybe` is none of"},
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_case_does_not_pass_with_what_its_server_refuses(name: str, tmp_path: Path) -> None:
    files, expected = REFUSED[name]
    report = report_of(tmp_path, {key: text.replace("RESULT", "fail") for key, text in files.items()})
    lines = {result.name: "".join(result.lines) for result in report.results if result.lines}
    expected = {key.replace("RESULT", "fail"): text for key, text in expected.items()}
    assert lines.keys() == expected.keys()
    assert [key for key, text in expected.items() if text not in lines[key]] == []
    assert report.exit_code == (bool(expected) if not name.startswith("kubescape") else 2)


NOT_RUN: dict[str, tuple[dict[str, str], dict[str, int]]] = {
    "suites without a policy that is decided": (
        {"a/suite.yaml": SUITE, "b/suite.yaml": SUITE, "a/policy.yaml": "{}", "b/policy.yaml": "{}"},
        {"gator suite without a native policy or ConstraintTemplate": 2},
    ),
    "tests of other tools": (
        {
            ".chainsaw-test/chainsaw-test.yaml": "{apiVersion: chainsaw.kyverno.io/v1alpha1, kind: Test, spec: {}}",
            "kuttl.yaml": "{apiVersion: kuttl.dev/v1beta1, kind: TestSuite}",
            "a_test.rego": "package a",
            ".git/suite.yaml": SUITE,
        },
        {"Rego test": 1, "chainsaw test": 1, "kuttl suite": 1},
    ),
}


@pytest.mark.parametrize("name", NOT_RUN)
def test_what_cannot_run_is_counted(name: str, tmp_path: Path) -> None:
    files, expected = NOT_RUN[name]
    runs = {"case/policy.yaml": POLICY, "case/tests/owner.a.deny.object.yaml": named(BARE, "a")}
    assert report_of(tmp_path / "with", {**files, **runs}).not_run == expected
    with pytest.raises(CaseError, match=f"no cases below it; found {not_run_text(expected)}; supported: kind: Cases"):
        report_of(tmp_path / "without", files)


def test_a_hidden_folder_of_a_tool_is_searched(tmp_path: Path) -> None:
    files = {
        "kyverno-test.yaml": NATIVE_TEST.replace("RESULT", "fail"),
        "policy.yaml": POLICY,
        "a.yaml": named(BARE, "a"),
    }
    report = report_of(tmp_path, {f"lib/.kyverno-test/{name}": text for name, text in files.items()})
    assert [(result.name, result.status) for result in report.results] == [("owner ConfigMap/a fail", Status.PASSED)]


def report_of(directory: Path, files: dict[str, str]) -> CaseReport:
    for name, text in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return run_tests(CaseOptions(paths=(directory,)))


@pytest.mark.parametrize("name", FORMS)
def test_cases_of_others(name: str, tmp_path: Path) -> None:
    files, expected = FORMS[name]
    report = report_of(tmp_path, files)
    assert {result.name: list(result.lines) for result in report.results} == expected
    assert list(report.forms) == [name.partition(",")[0].split()[0]]


def test_own_cases_are_decided_as_they_say() -> None:
    report = run_tests(CaseOptions(paths=(HERE,), coverage=True))
    assert [result for result in report.results if result.status is not Status.PASSED] == []
    assert len(report.results) == 12
    assert report.exit_code == 0
    assert report.coverage is not None
    assert [" ".join(item) for item in report.coverage.unreached] == ["limits validation 0 false"]


GARBAGE = [
    ("kat, a request that is a list", "kat", "tests/owner.a.deny.request.yaml", "[1]"),
    ("kat, an object that is a text", "kat", "tests/owner.a.deny.object.yaml", "text"),
    ("kat, an authorizer that is a mapping", "kat", "tests/owner.a.deny.authorizer.yaml", "{a: b}"),
    (
        "kyverno, results that are a text",
        "kyverno",
        "kyverno-test.yaml",
        KYVERNO.partition("results")[0] + "results: x",
    ),
    (
        "kyverno, a result that is a list",
        "kyverno",
        "kyverno-test.yaml",
        KYVERNO.partition("results")[0] + "results: [[]]",
    ),
    ("kyverno, resources that are numbers", "kyverno", "resources.yaml", "1"),
    ("gator, tests that are a number", "gator", "suite.yaml", SUITE.partition("tests")[0] + "tests: 5"),
    ("kubescape, a number for a test", "kubescape", "controls/C-1/tests.json", "[5]"),
    ("kubescape, no policy", "kubescape", "controls/C-1/policy.yaml", "[]"),
    ("a policy that is a number", "kat", "policy.yaml", "5"),
    ("no YAML", "kyverno", "policy.yaml", "{"),
]
WHOLE = {name.partition(",")[0].split()[0]: files for name, (files, _) in reversed(FORMS.items())}


@pytest.mark.parametrize(("form", "file", "text"), [row[1:] for row in GARBAGE], ids=[row[0] for row in GARBAGE])
def test_what_cannot_be_read_is_told(form: str, file: str, text: str, tmp_path: Path) -> None:
    files = {name.removeprefix("owner/"): content for name, content in WHOLE[form].items()}
    report = report_of(tmp_path, {**files, file: text})
    assert report.exit_code == 2
    assert all(result.lines for result in report.results if result.status is Status.ERROR)


def test_paths_of_objects_are_read_back() -> None:
    path = ("spec", "containers", 0, "resources", "a.b/c")
    assert path_from_text(rendered(path)) == path
    with pytest.raises(ValueError, match="nonsense"):
        path_from_text("nonsense")
