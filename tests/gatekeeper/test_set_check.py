"""`replay check` of Gatekeeper's objects: each finding at its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from replay.authorization.check import check_whole_set
from replay.cellib.version import KubernetesVersion
from replay.gatekeeper.policy_set import with_gatekeeper

TEMPLATE = """\
apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: rule}
spec:
  crd:
    spec:
      names: {kind: Rule}
      validation: {openAPIV3Schema: {type: object, properties: {most: {type: integer}}}}
  targets:
    - target: admission.k8s.gatekeeper.sh
"""
REGO = '      rego: |\n        package rule\n        violation[{"msg": "m"}] {\n          BODY\n        }\n'
CONSTRAINT = """\
---
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: Rule
metadata: {name: one}
spec:
  parameters:
    most: MOST
"""
CEL = """\
      code:
        - engine: K8sNativeValidation
          source: {validations: [{expression: EXPRESSION}]}
"""
LOCATION = """\
apiVersion: mutations.gatekeeper.sh/v1
kind: Assign
metadata: {name: set}
spec:
  applyTo: [{groups: [""], versions: [v1], kinds: [Pod]}]
  location: spec.containers[name
  parameters: {assign: {value: 1}}
"""

NUMBERED = (
    LOCATION.replace("spec.containers[name", "'spec.ports[port: 80]'")
    .replace('""', "''")
    .replace("kinds: [Pod]", "kinds: [Service]")
)

DISALLOWED = "invalid ConstraintTemplate: invalid data references: check refs failed on module {{template}}: errors ({}):\ndisallowed ref {}\n"

ROWS = {
    "a list element with a number as key": (
        NUMBERED.replace("{value: 1}", "{value: {port: 80, name: http}}"),
        [
            (1, "error", "Assign/set"),
            "adding object to list with different key port: list key 80, object key 80",
        ],
    ),
    "nothing": (TEMPLATE + REGO.replace("BODY", "input.review") + CONSTRAINT.replace("MOST", "3"), []),
    "a forbidden builtin": (
        TEMPLATE + REGO.replace("BODY", 'http.send({"method": "get", "url": "http://x"})'),
        [
            (14, "error", "ConstraintTemplate/rule"),
            "unable to compile modules: 1 error occurred: template:3: rego_type_error: undefined function http.send",
        ],
    ),
    "a parameter of another type": (
        TEMPLATE + REGO.replace("BODY", "input.review") + CONSTRAINT.replace("MOST", "many"),
        [
            (22, "error", "Rule/one"),
            'schema validation failed: [].spec.parameters.most: Invalid value: "string": spec.parameters.most in body must be of type integer: "string"',
        ],
    ),
    "a constraint without its template": (
        CONSTRAINT.replace("MOST", "1"),
        [(2, "error", "Rule/one"), 'missing ConstraintTemplate: template "rule" not found'],
    ),
    "CEL that does not compile": (
        TEMPLATE + CEL.replace("EXPRESSION", "params.x == 1"),
        [
            (1, "warning", "ConstraintTemplate/rule"),
            "expression 'params.x == 1': compilation failed: ERROR: <input>:1:1: undeclared reference to 'params' (in container '')\n | params.x == 1\n | ^",
        ],
    ),
    "Rego that assigns to data": (
        TEMPLATE + REGO.replace("BODY", "data := 1"),
        [(1, "error", "ConstraintTemplate/rule"), DISALLOWED.format(1, "data")],
    ),
    "references to other data": (
        TEMPLATE + REGO.replace("BODY", 'data["foo-bar"].x[y] == data; y := input[data.foo]'),
        [(1, "error", "ConstraintTemplate/rule"), DISALLOWED.format(2, 'data["foo-bar"].x[y]\ndisallowed ref data')],
    ),
    "Rego that is not supported": (
        TEMPLATE + REGO.replace("BODY", "input[data.foo] == 1"),
        [
            (14, "warning", "ConstraintTemplate/rule"),
            "its requests are undetermined: template:3: unsupported: a reference to all of data.foo",
        ],
    ),
    "a bad location": (
        LOCATION,
        [
            (6, "error", "Assign/set"),
            "invalid location format `spec.containers[name` for Assign set: unexpected token: expected ':' following keyField name, got: EOF: \"\"",
        ],
    ),
}


@pytest.mark.parametrize(("text", "want"), ROWS.values(), ids=list(ROWS))
def test_what_is_wrong_is_found_at_its_line(text: str, want: list[object], tmp_path: Path) -> None:
    (tmp_path / "gatekeeper").mkdir()
    (tmp_path / "gatekeeper" / "rule.yaml").write_text(text)
    checked = with_gatekeeper(check_whole_set(tmp_path, KubernetesVersion(1, 34)))
    found = [
        item
        for each in checked.findings
        for item in ((each.position.line, each.severity.value, each.object), each.message)
    ]
    assert found == want
    assert checked.is_accepted == all(each.severity.value == "warning" for each in checked.findings)


def test_a_warning_is_hidden_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "gatekeeper").mkdir()
    (tmp_path / "gatekeeper" / "rule.yaml").write_text(TEMPLATE + CEL.replace("EXPRESSION", "nothing"))
    checked = with_gatekeeper(check_whole_set(tmp_path, KubernetesVersion(1, 34)), ["cel-does-not-compile"])
    assert (checked.findings, checked.silenced) == ((), 1)
