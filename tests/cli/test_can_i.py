from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from replay.cli.app import app
from replay.errors import ReplayError

SAMPLE = Path(__file__).parents[2] / "sample_audit" / "authorization"
SET = ["--current", str(SAMPLE / "current"), "--cluster", str(SAMPLE / "cluster.jsonl.zst")]
WEBHOOKS = [f"--webhook={name}.example.com={SAMPLE / 'sars.jsonl.zst'}" for name in ("guard", "tier", "fallback")]


def invoke(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["can-i", *arguments])
    if isinstance(result.exception, ReplayError):
        return 2, str(result.exception)
    return result.exit_code, result.stdout


@pytest.mark.parametrize(
    ("question", "code", "answer"),
    [
        pytest.param(
            ["get", "pods", "--as", "root", "--as-group", "system:masters"], 0, "yes, by kubernetes.io/", id="masters"
        ),
        pytest.param(["get", "/healthz", "--as", "ann"], 0, "yes, by rbac", id="a path"),
        pytest.param(["delete", "nodes", "--as", "ann"], 1, "no", id="nobody allows"),
        pytest.param(
            ["get", "deployments", "--as", "x", "--as-group", "ci", "-n", "dev-1"],
            0,
            "yes, by rbac",
            id="the group is found",
        ),
        pytest.param(
            ["list", "pods", "--as", "system:node:node-0", "--as-group", "system:nodes"], 1, "no", id="a node"
        ),
        pytest.param(
            ["create", "configmaps", "--as", "x", "--as-group", "ci", "-n", "prod-shop"],
            1,
            "not known, by guard.example.com, yes if it has no opinion",
            id="a webhook that was never asked this",
        ),
    ],
)
def test_an_answer(question: list[str], code: int, answer: str) -> None:
    told, output = invoke(*question, *SET, *WEBHOOKS)
    assert (told, output.startswith(answer)) == (code, True), output


def test_an_answer_as_json_has_the_question_and_the_trace() -> None:
    _, output = invoke("get", "pods/web", "--as", "system:serviceaccount:a:b", "-n", "a", "--json", *SET)
    value = json.loads(output)
    assert value["attributes"]["groups"] == [
        "system:serviceaccounts",
        "system:serviceaccounts:a",
        "system:authenticated",
    ]
    assert value["attributes"]["name"] == "web"
    assert value["current"]["trace"] == value["trace"]


def test_cases_are_answered_in_their_order(tmp_path: Path) -> None:
    cases, out = tmp_path / "cases.jsonl", tmp_path / "out.jsonl"
    asked = [{"user": user, "groups": [], "verb": "get", "resourceRequest": False, "path": "/x"} for user in "aba"]
    cases.write_text("\n".join(map(json.dumps, asked)), encoding="utf-8")
    code, _ = invoke("--cases", str(cases), "--out", str(out), *SET)
    lines = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    assert code == 0
    assert [line["attributes"]["user"] for line in lines] == ["a", "b", "a"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["get", "pods"], "say what and who", id="nobody"),
        pytest.param(["get", "pods", "--as", "a"], "no set: give --current", id="no set"),
        pytest.param(
            ["get", "pods", "--as", "a", *SET, "--webhook", "x=y"],
            "neither chain has a webhook `x`",
            id="unknown webhook",
        ),
        pytest.param(
            ["get", "pods", "--as", "a", *SET, "--webhook", "x"], "is neither NAME=FILE nor NAME=URL", id="no file"
        ),
        pytest.param(
            ["get", "pods", "--as", "a", *SET, "--authorization-mode", "X"], "`X` is not a valid mode", id="no mode"
        ),
        pytest.param(["get", "pods", "--as", "a", *SET, "--as-extra", "x"], "`x` is not KEY=VALUE", id="no extra"),
        pytest.param(["--cases", __file__, *SET], "needs `--out FILE`", id="no output"),
        pytest.param(["--cases", __file__, "--out", "/dev/null", *SET], f"{__file__}:1: no case", id="no case"),
    ],
)
def test_a_question_that_cannot_be_asked(arguments: list[str], message: str) -> None:
    code, told = invoke(*arguments)
    assert (code, message in told, "\n" in told) == (2, True, False), told


def test_a_set_that_the_server_would_refuse(tmp_path: Path) -> None:
    (tmp_path / "authorization.yaml").write_text(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\nauthorizers: [{type: OPA, name: opa}]\n",
        encoding="utf-8",
    )
    code, told = invoke("get", "pods", "--as", "a", "--current", str(tmp_path))
    assert code == 2
    assert told.startswith(f'{tmp_path}/authorization.yaml: authorizers[0].type: Unsupported value: "OPA"')


def test_what_is_no_rbac_object_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "rbac").mkdir()
    (tmp_path / "rbac" / "a.yaml").write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n", encoding="utf-8")
    code, told = invoke("get", "pods", "--as", "a", "--current", str(tmp_path))
    assert (code, told.partition(": ")[2].startswith("Pod of `v1` is no RBAC object")) == (2, True)
