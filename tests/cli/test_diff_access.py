"""`replay diff --no-new-access`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from replay.cli.app import app
from replay.errors import ReplayError

SAMPLE = Path(__file__).parents[2] / "sample_audit" / "authorization"
TODAY, SNAPSHOT = SAMPLE / "developers-read-only", SAMPLE / "cluster.jsonl.zst"
BINDING = """
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: developers, namespace: prod-shop}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: %s}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: developers}]
"""
ROLE = """---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: shopkeeper}
rules:
- {apiGroups: [""], resources: [secrets], verbs: [get, list]}
- {apiGroups: [""], resources: [pods], verbs: [get]}
- {apiGroups: [rbac.authorization.k8s.io], resources: [roles], verbs: [escalate]}
"""
SCREEN = """\
New access  developers-read-only → next
The candidate grants new access to 1 subject.


Who is granted something new
  subject           namespace  new rules  by                               leads to
  Group developers  prod-shop          3  RoleBinding prod-shop/develope…  any permission (escalate)

What
  subject           namespace  newly may
  Group developers  prod-shop  get, list: secrets
  Group developers  prod-shop  escalate: roles.rbac.authorization.k8s.io

Next steps
  replay diff … --no-new-access --format json  every new rule, as RBAC writes it
  replay run LOG --current … --candidate …     what that does to recorded requests
"""
NOTHING = """\
New access  developers-read-only → next
The candidate grants nothing new.


Next steps
  replay diff … --no-new-access --format json  every new rule, as RBAC writes it
  replay run LOG --current … --candidate …     what that does to recorded requests
"""
UNKNOWN = """\
New access  developers-read-only → next
The candidate may grant new access: it binds roles that are not known.


Not known
  subject           namespace  role                    by
  Group developers  prod-shop  ClusterRole shopkeeper  RoleBinding prod-shop/developers of ClusterR…

Next steps
  replay diff … --no-new-access --format json            every new rule, as RBAC writes it
  replay diff … --no-new-access --cluster cluster.jsonl  with the roles of the cluster
  replay run LOG --current … --candidate …               what that does to recorded requests
"""


def diff(tmp_path: Path, text: str, *more: str, current: Path = TODAY) -> tuple[int, str]:
    candidate = tmp_path / "next"
    candidate.mkdir()
    (candidate / "rbac.yaml").write_text(text)
    arguments = ["diff", str(current), str(candidate), "--no-new-access", *more]
    result = CliRunner().invoke(app, arguments, env={"COLUMNS": "100"})
    if isinstance(result.exception, ReplayError):
        return 2, str(result.exception).replace(str(tmp_path), "")
    return result.exit_code, result.stdout


@pytest.mark.parametrize(
    ("text", "more", "code", "shown"),
    [
        pytest.param(BINDING % "shopkeeper" + ROLE, ["--cluster", str(SNAPSHOT)], 1, SCREEN, id="new access"),
        pytest.param(
            BINDING % "view", ["--cluster", str(SNAPSHOT)], 0, NOTHING, id="covered by a binding of the cluster"
        ),
        pytest.param(BINDING % "shopkeeper", [], 1, UNKNOWN, id="a role that is not known"),
    ],
)
def test_the_screen(tmp_path: Path, text: str, more: list[str], code: int, shown: str) -> None:
    assert diff(tmp_path, text, *more) == (code, shown)


def test_json(tmp_path: Path) -> None:
    code, output = diff(tmp_path, BINDING % "shopkeeper" + ROLE, "--cluster", str(SNAPSHOT), "--format", "json")
    subject = {"kind": "Group", "name": "developers"}
    rules = [
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list"]},
        {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"], "verbs": ["escalate"]},
    ]
    granted = {
        "subject": subject,
        "namespace": "prod-shop",
        "rules": rules,
        "by": ["RoleBinding prod-shop/developers of ClusterRole shopkeeper"],
        "leadsTo": ["any permission (escalate)"],
        "couldGrantItself": False,
    }
    assert (code, json.loads(output)) == (1, {"newAccess": [granted], "unknown": []})


def test_a_candidate_without_rbac(tmp_path: Path) -> None:
    policy = "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\nmetadata: {name: p}\n"
    message = "/next: the candidate says nothing about RBAC: give a set with rbac/, or RBAC objects"
    assert diff(tmp_path, policy) == (2, message)
