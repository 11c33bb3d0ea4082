"""`replay cel`: one expression, or a file of cases."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from replay.cli.cel import CEL_EPILOG, cel
from replay.errors import ReplayError

app = typer.Typer()
app.command(epilog=CEL_EPILOG)(cel)
runner = CliRunner()


@pytest.fixture
def deployment(tmp_path: Path) -> Path:
    path = tmp_path / "deployment.json"
    path.write_text('{"spec": {"replicas": 3, "ratio": 1.0}}')
    return path


ROWS = [
    ("a value", "object.spec.replicas <= 5", 0, "true\ntype: bool\ncost: 4\nreads: object.spec.replicas\n"),
    ("numbers keep their type", "object.spec.ratio", 0, "1.0\ntype: dyn\ncost: 3\nreads: object.spec.ratio\n"),
    ("a failing evaluation", "1 / 0", 1, "error: division by zero\ntype: int\ncost: 1\n"),
    ("written as in CEL", "[duration('90s'), duration('1h')]", 0, '[duration("90s"), duration("3600s")]\n'),
    (
        "a wrong expression",
        "objct",
        2,
        "compilation failed: ERROR: <input>:1:1: undeclared reference to 'objct' (in container '')\n | objct\n | ^\n",
    ),
]


@pytest.mark.parametrize(("expression", "code", "output"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_one_expression(deployment: Path, expression: str, code: int, output: str) -> None:
    result = runner.invoke(app, [expression, "--object", str(deployment)])
    assert (result.exit_code, result.stdout[: len(output)]) == (code, output)


DOCUMENTS = [
    ("YAML", "o.yaml", "spec:\n  replicas: 3 # three\n", 0, "true\n"),
    ("JSON that is called YAML", "o.yaml", '{"spec": {"replicas": 3}}', 0, "true\n"),
    ("YAML without a name for it", "o", "spec: {replicas: 3}", 0, "true\n"),
    ("two documents", "o.yaml", "a: 1\n---\na: 2\n", 1, "o.yaml: holds 2 documents; give one"),
    ("no JSON", "o.json", "spec: 1", 1, "o.json: is no JSON: "),
    ("no YAML", "o.yaml", "spec: [", 1, "o.yaml:"),
]


@pytest.mark.parametrize(
    ("name", "text", "code", "told"), [row[1:] for row in DOCUMENTS], ids=[row[0] for row in DOCUMENTS]
)
def test_documents(name: str, text: str, code: int, told: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    result = runner.invoke(app, ["object.spec.replicas == 3", "--object", str(tmp_path / name)])
    assert result.exit_code == code
    assert told in (result.stdout if code == 0 else str(result.exception))


def test_show_code(deployment: Path) -> None:
    result = runner.invoke(app, ["object.spec.replicas == 3", "--object", str(deployment), "--show-code"])
    assert "def evaluate(inputs, variables):" in result.stdout


def test_json(deployment: Path) -> None:
    result = runner.invoke(app, ["object.spec.replicas", "--object", str(deployment), "--json"])
    assert json.loads(result.stdout) == {
        "type": "dyn",
        "cost": 3,
        "value": {"int": "3"},
        "footprint": ["object.spec.replicas"],
    }


def test_an_older_version_refuses() -> None:
    assert runner.invoke(app, ["semver('1.2.3')"]).exit_code == 0
    assert runner.invoke(app, ["semver('1.2.3')", "--kubernetes-version", "1.30"]).exit_code == 2


def test_cases(tmp_path: Path) -> None:
    cases, out = tmp_path / "cases.jsonl", tmp_path / "out.jsonl"
    cases.write_text(
        '{"id": "a", "kind": "variable", "expr": "1 + 1"}\n\n{"id": "b", "kind": "validation", "expr": "1"}\n'
    )
    assert runner.invoke(app, ["--cases", str(cases), "--out", str(out)]).exit_code == 0
    assert [json.loads(line) for line in out.read_text().splitlines()] == [
        {"id": "a", "type": "int", "estimated": ["1", "1"], "value": {"int": "2"}, "cost": 1},
        {"id": "b", "compile_error": "must evaluate to bool but got int"},
    ]


def test_documents_that_cannot_be_used(tmp_path: Path) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text("{")
    for path, message in ((broken, "is no JSON"), (tmp_path / "absent.json", "cannot be read")):
        result = runner.invoke(app, ["1", "--object", str(path)])
        assert isinstance(result.exception, ReplayError)
        assert message in str(result.exception)


def test_help_has_an_example() -> None:
    assert "replay cel" in runner.invoke(app, ["--help"]).stdout
