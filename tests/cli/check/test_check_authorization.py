from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from replay.cli.app import app

HEAD = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\n"
NODE_RBAC = f"{HEAD}authorizers:\n- {{type: Node, name: node}}\n- {{type: RBAC, name: rbac}}\n"
WEBHOOK = (
    HEAD + "authorizers:\n- type: Webhook\n  name: w\n  webhook:\n    timeout: 3s\n    subjectAccessReviewVersion: v1\n"
    "    failurePolicy: Deny\n    connectionInfo: {type: KubeConfigFile, kubeConfigFile: /srv/w.kubeconfig}\n"
)
KUBECONFIG = (
    "apiVersion: v1\nkind: Config\ncurrent-context: %s\nclusters: [{name: c, cluster: {server: https://x}}]\n"
    "contexts: [{name: c, context: {cluster: c}}]\n"
)


def invoke(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["check", *arguments])
    return result.exit_code, result.stdout


def written(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("kubeconfig", "error"),
    [
        pytest.param(KUBECONFIG % "c", "", id="fine"),
        pytest.param(
            KUBECONFIG % "d",
            "invalid configuration: [context was not found for specified context: d, cluster has no server defined]",
            id="no such context",
        ),
        pytest.param(
            "",
            "invalid configuration: no configuration has been provided, try setting KUBERNETES_MASTER environment variable",
            id="empty",
        ),
        pytest.param(
            "a: [",
            'error loading config file "/srv/w.kubeconfig": yaml: line 1: did not find expected node content',
            id="no YAML",
        ),
        pytest.param(
            "kind: Other\n",
            'error loading config file "/srv/w.kubeconfig": no kind "Other" is registered for version "v1" in scheme '
            '"pkg/runtime/scheme.go:111"',
            id="another kind",
        ),
        pytest.param(
            None,
            'authorizers[0].connectionInfo.kubeConfigFile: Invalid value: "/srv/w.kubeconfig": error loading file: stat '
            "/srv/w.kubeconfig: no such file or directory",
            id="missing",
        ),
    ],
)
def test_files_of_the_server_below_a_root(tmp_path: Path, kubeconfig: str | None, error: str) -> None:
    (tmp_path / "srv").mkdir()
    if kubeconfig is not None:
        written(tmp_path / "srv" / "w.kubeconfig", kubeconfig)
    file = written(tmp_path / "authorization.yaml", WEBHOOK)
    code, told = invoke("--authorization", file, "--kubeconfig-root", str(tmp_path), "--format", "json")
    value = json.loads(told)
    assert (code, value["ok"], value["error"]) == (2 if error else 0, not error, error)


def test_files_of_the_server_are_warnings_without_a_root(tmp_path: Path) -> None:
    code, told = invoke("--authorization", written(tmp_path / "a.yaml", WEBHOOK), "--format", "json")
    warnings = ["/srv/w.kubeconfig is a file of the server, which was not checked"]
    assert (code, json.loads(told)) == (0, {"ok": True, "error": "", "result": "accepted", "warnings": warnings})


def test_a_running_server_keeps_its_types(tmp_path: Path) -> None:
    running = written(tmp_path / "running.yaml", NODE_RBAC)
    file = written(tmp_path / "next.yaml", f"{HEAD}authorizers:\n- {{type: RBAC, name: rbac}}\n")
    code, told = invoke("--authorization", file, "--reload-from", running)
    assert code == 2
    assert told == f"{file}: missing required types: [Node]\n{file}: refused\n"
    assert invoke("--authorization", file)[0] == 0


def test_a_server_that_shall_call_itself_dies(tmp_path: Path) -> None:
    """The text of the server stands in JSON; what to do, which it does not say, in what people read."""
    file = written(
        tmp_path / "a.yaml", WEBHOOK.replace("KubeConfigFile, kubeConfigFile: /srv/w.kubeconfig", "InClusterConfig")
    )
    code, told = invoke("--authorization", file, "--format", "json")
    error = "invalid memory address or nil pointer dereference"
    result = {"ok": False, "error": error, "result": "panic (server dies)", "panic": error}
    assert (code, json.loads(told)) == (2, result)
    assert "`w`: connectionInfo.type InClusterConfig" in invoke("--authorization", file)[1]


def test_a_running_server_does_nothing_about_what_it_has(tmp_path: Path) -> None:
    """Whatever the version of the file: what counts is what it decodes to."""
    running = written(tmp_path / "running.yaml", NODE_RBAC.replace("/v1\n", "/v1beta1\n"))
    file = written(tmp_path / "next.yaml", NODE_RBAC)
    assert invoke("--authorization", file, "--reload-from", running) == (
        0,
        f"{file}: accepted, equal to the loaded one\n",
    )


def test_a_set_is_checked_with_its_authorization(tmp_path: Path) -> None:
    written(tmp_path / "authorization.yaml", f"{HEAD}authorizers:\n- {{type: RBAC, name: roles}}\n")
    (tmp_path / "rbac").mkdir()
    role = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: a}\n"
    binding = (
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: b}\n"
        "roleRef: {kind: ClusterRole, name: c}\n"
    )
    built_in = binding.replace("name: b", "name: d").replace("name: c", "name: edit")
    written(tmp_path / "rbac" / "all.yaml", f"{role}---\n{binding}---\n{built_in}")
    code, told = invoke(str(tmp_path))
    assert code == 2
    assert "expected name rbac for authorizer RBAC instead of roles" in told
    assert "ClusterRoleBinding `b` refers to ClusterRole `c`, which is not there" in told
    assert "edit" not in told


def test_nothing_to_check() -> None:
    assert invoke()[0] != 0
