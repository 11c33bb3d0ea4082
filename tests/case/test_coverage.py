"""What no case reaches: a policy, the cases that it is tested on, and what is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from replay.pipeline.cases import CaseOptions, run_tests

POLICY = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {{name: p}}
spec:
  matchConstraints:
    resourceRules: [{{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}}]
  matchConditions: [{{name: named, expression: "object.metadata.name != 'skipped'"}}]
  validations: [{{expression: "{expression}"}}]
"""
CASES = "apiVersion: replay/v1\nkind: Cases\npolicies: [policy.yaml]\ncases:\n"
CASE = "  - {{name: {name}, object: {{apiVersion: v1, kind: ConfigMap, metadata: {{name: {name}}}, data: {data}}}, expect: {{warnings: []}}}}\n"
SKIPPED = "skipped", "{}"

ROWS: list[tuple[str, str, list[tuple[str, str]], list[str]]] = [
    (
        "all of it",
        "object.data.a == 'x' || object.data.b == 'w'",
        [("one", "{a: x, b: w}"), ("two", "{a: z, b: w}"), ("three", "{a: z, b: z}"), SKIPPED],
        [],
    ),
    (
        "the second operand",
        "object.data.a == 'x' || object.data.b == 'w'",
        [("one", "{a: x, b: w}"), SKIPPED],
        ['p|validation 0|`object.data.b == "w"`', "p|validation 0|false"],
    ),
    (
        "one side of a conditional",
        "object.data.a == 'x' ? object.data.b == 'w' : object.data.b == 'z'",
        [("one", "{a: x, b: w}"), ("two", "{a: x, b: z}"), SKIPPED],
        ['p|validation 0|`object.data.b == "z"`'],
    ),
    (
        "the body of a macro",
        "object.data.all(k, k == 'a' && object.data[k] == 'x')",
        [("one", "{b: x}"), SKIPPED],
        ['p|validation 0|`object.data[k] == "x"`', "p|validation 0|true"],
    ),
    ("never skipped", "false", [("one", "{}")], ["p|matchCondition named|false", "p|validation 0|true"]),
    ("never run", "false", [SKIPPED], ["p|matchCondition named|true", "p|validation 0|evaluated"]),
]


@pytest.mark.parametrize(("expression", "cases", "expected"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_what_no_case_reaches(
    expression: str, cases: list[tuple[str, str]], expected: list[str], tmp_path: Path
) -> None:
    (tmp_path / "policy.yaml").write_text(POLICY.format(expression=expression), "utf-8")
    text = CASES + "".join(CASE.format(name=name, data=data) for name, data in cases)
    (tmp_path / "cases.yaml").write_text(text, "utf-8")
    report = run_tests(CaseOptions(paths=(tmp_path,), coverage=True))
    assert report.coverage is not None
    assert ["|".join(item) for item in report.coverage.unreached] == expected
