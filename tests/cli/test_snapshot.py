"""`replay snapshot` with a kubectl that is a script of ours."""

from __future__ import annotations

import os
from pathlib import Path

import orjson
import pytest
import typer
from typer.testing import CliRunner, Result

from replay.cli.basis import snapshot
from replay.errors import SnapshotError
from replay.reconstruct.snapshot import read_snapshot

SAMPLE = Path(__file__).parents[2] / "sample_audit" / "shop"
KUBECTL = """#!/bin/sh
echo "$@" >> "$(dirname "$0")/calls"
case "$*" in
*admissionregistration*) echo 'error: the server does not have it' >&2
  echo "error: the server doesn't have a resource type \\"$2\\"" >&2; exit 1;;
*namespaces\\ --all*) echo '{"apiVersion":"v1","kind":"List","items":[
  {"apiVersion":"v1","kind":"Namespace","metadata":{"name":"shop"}},
  {"apiVersion":"v1","kind":"Secret","metadata":{"name":"stray"},"data":{"a":"Yg=="}}]}';;
*configmaps*) echo "error: forbidden" >&2; exit 1;;
*) echo '{"apiVersion":"v1","kind":"List","items":[]}';;
esac
"""


@pytest.fixture
def kubectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "kubectl").write_text(KUBECTL)
    (folder / "kubectl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return folder / "calls"


def run(*arguments: str | Path) -> Result:
    app = typer.Typer()
    app.command()(snapshot)
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_only_what_the_set_needs_is_read(kubectl: Path, tmp_path: Path) -> None:
    """Plain reads, one for each kind; Secrets are not written even if they come."""
    out = tmp_path / "cluster.jsonl"
    result = run("--candidate", SAMPLE / "candidate", "--out", out, "--context", "prod")
    assert result.exit_code == 0, result.output
    calls = [line.split() for line in kubectl.read_text().splitlines()]
    assert {tuple(call[:2]) for call in calls} == {("--context=prod", "get")}
    kinds = [call[2] for call in calls if "admissionregistration" not in call[2]]
    assert [kind for kind in kinds if "gatekeeper" in kind or kind == "constraints"] == [
        "constraints",
        "configs.config.gatekeeper.sh",
        "expansiontemplate.expansion.gatekeeper.sh",
        "providers.externaldata.gatekeeper.sh",
        "assign.mutations.gatekeeper.sh",
        "assignimage.mutations.gatekeeper.sh",
        "assignmetadata.mutations.gatekeeper.sh",
        "modifyset.mutations.gatekeeper.sh",
        "syncsets.syncset.gatekeeper.sh",
        "constrainttemplates.templates.gatekeeper.sh",
    ]
    assert [kind for kind in kinds if kind.endswith(".kyverno.io")] == [
        "clusterpolicies.kyverno.io",
        "globalcontextentries.kyverno.io",
        "policies.kyverno.io",
        "policyexceptions.kyverno.io",
        *(
            f"{kind}.policies.kyverno.io"
            for kind in (
                "generatingpolicies",
                "imagevalidatingpolicies",
                "mutatingpolicies",
                "namespacedgeneratingpolicies",
                "namespacedimagevalidatingpolicies",
                "namespacedmutatingpolicies",
                "namespacedvalidatingpolicies",
                "policyexceptions",
                "validatingpolicies",
            )
        ),
    ]
    kinds = [kind for kind in kinds if not kind.endswith(".kyverno.io")]
    assert [kind for kind in kinds if "gatekeeper" not in kind and kind != "constraints"] == [
        "limitranges",
        "namespaces",
        "serviceaccounts",
        "customresourcedefinitions.apiextensions.k8s.io",
        "priorityclasses.scheduling.k8s.io",
    ]
    assert read_snapshot(out) == [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}]


def test_print_runs_nothing(kubectl: Path, tmp_path: Path) -> None:
    """The commands write a directory that --cluster reads."""
    result = run("--current", SAMPLE / "current", "--out", tmp_path / "cluster.jsonl", "--print", "--objects")
    assert result.exit_code == 0
    assert not kubectl.exists()
    lines = result.output.splitlines()
    assert lines[0].startswith(f"mkdir -p {tmp_path / 'cluster'}")
    assert all(line.startswith("kubectl get ") for line in lines[1:])
    assert "secrets" not in result.output
    assert any("kubectl get namespaces " in line for line in lines)
    assert any("kubectl get deployments.apps " in line for line in lines)


PARAMS = [
    ("a ConfigMap", "ConfigMap", "`kubectl get configmaps --all-namespaces --output=json` failed: error: forbidden"),
    ("a kind whose plural ends in -ies", "NetworkPolicy", ""),
    ("a Secret", "Secret", ""),
]


@pytest.mark.parametrize(("kind", "error"), [row[1:] for row in PARAMS], ids=[row[0] for row in PARAMS])
def test_parameters(kubectl: Path, tmp_path: Path, kind: str, error: str) -> None:
    """Parameters are read, Secrets as parameters are refused with a word; a failure leaves no half a file."""
    api_policy = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "p"},
        "spec": {
            "paramKind": {"apiVersion": "networking.k8s.io/v1" if kind == "NetworkPolicy" else "v1", "kind": kind},
            "matchConstraints": {
                "resourceRules": [
                    {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
                ]
            },
            "validations": [{"expression": "params.data.a == 'b'"}],
        },
    }
    binding = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "b"},
        "spec": {
            "policyName": "p",
            "validationActions": ["Deny"],
            "paramRef": {"name": "x", "parameterNotFoundAction": "Deny"},
        },
    }
    manifests = tmp_path / "set" / "api"
    manifests.mkdir(parents=True)
    for name, value in (("policy", api_policy), ("binding", binding)):
        (manifests / f"{name}.json").write_bytes(orjson.dumps(value))
    out = tmp_path / "cluster.jsonl"
    result = run("--candidate", tmp_path / "set", "--out", out)
    if error:
        assert isinstance(result.exception, SnapshotError)
        assert str(result.exception) == error
        assert not out.exists()
    elif kind == "NetworkPolicy":
        assert "get networkpolicies.networking.k8s.io --all-namespaces" in kubectl.read_text()
    else:
        assert "p takes Secrets as parameters, which a snapshot never holds" in result.output
        assert "secrets" not in kubectl.read_text()


def test_what_templates_of_gatekeeper_read_is_taken(kubectl: Path, tmp_path: Path) -> None:
    candidate = SAMPLE.parent / "gatekeeper" / "candidate"
    assert run("--candidate", candidate, "--out", tmp_path / "cluster.jsonl").exit_code == 0
    assert "get ingresses.networking.k8s.io " in kubectl.read_text()


def test_the_configuration_of_kyverno_is_taken(kubectl: Path, tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(
        "apiVersion: kyverno.io/v1\nkind: ClusterPolicy\nmetadata: {name: p}\nspec: {rules: [{name: r, match: "
        "{any: [{resources: {kinds: [Pod]}}]}, validate: {message: no, pattern: {spec: {hostPID: false}}}}]}\n"
    )
    run("--candidate", tmp_path / "policy.yaml", "--out", tmp_path / "cluster.jsonl")
    assert "get configmaps " in kubectl.read_text()
