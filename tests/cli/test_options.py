"""The same options mean the same in every command."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from replay.cli.app import app
from replay.pipeline.project.format import Format

COMMANDS: dict[str, Any] = {
    (f"{name} {sub}" if sub else name): deep
    for name, command in get_command(app).commands.items()  # type: ignore[attr-defined]
    for sub, deep in (getattr(command, "commands", None) or {"": command}).items()
}
ALONE = {"parquet", "tap", "rbac", "man"}
"""Formats that one command has."""


def options(name: str) -> dict[str, Any]:
    return {option: each for each in COMMANDS[name].params for option in each.opts}


@pytest.mark.parametrize("name", COMMANDS)
def test_what_one_command_calls_so_all_do(name: str) -> None:
    found = options(name)
    if "logs" in found:
        assert {"--store", "--from", "--cluster-name"} <= set(found)
    assert ("--namespace" in found) is ("-n" in found)
    assert ("--since" in found) is ("--until" in found)
    assert ("--until" in found) is ("--to" in found)
    if "--format" in found:
        choices = {each.value for each in found["--format"].type_descriptor.choices}
        assert choices <= {each.value for each in Format} | ALONE
        assert {"man", "terminal"} & choices
        assert ("json" in choices) >= ("--json" in found)


@pytest.mark.parametrize("name", ["accept", "explain", "run"])
def test_all_that_a_rollout_changes(name: str) -> None:
    assert {"--candidate", "--add", "--apply", "--prune", "--current-version", "--down"} <= set(options(name))


@pytest.mark.parametrize("name", ["report", "scan"])
def test_some_namespaces_alone(name: str) -> None:
    assert "-n" in options(name)


@pytest.mark.parametrize("name", ["coverage", "lookup", "mutations", "run", "timeline", "verify"])
def test_some_requests_alone(name: str) -> None:
    """What tells of the requests of a log can be asked of some of them."""
    assert {"--namespace", "--user", "--since", "--until"} <= set(options(name))


def test_the_object_of_a_timeline(short_sample: Path) -> None:
    def printed(*arguments: str) -> tuple[int, str]:
        result = CliRunner().invoke(app, ["timeline", "Deployment", *arguments, str(short_sample), "--json"])
        return result.exit_code, result.stdout or str(result.exception)

    name = first_deployment(short_sample)
    namespace, _, own = name.partition("/")
    assert printed(name) == printed(own, "-n", namespace) == printed(name, "-n", namespace)
    code, text = printed(name, "-n", "elsewhere")
    assert code, text


def first_deployment(scenario: Path) -> str:
    rows = CliRunner().invoke(
        app,
        [
            "sql",
            "select \"namespace\", object_name from request where resource = 'deployments' and object_name <> '' limit 1",
            str(scenario),
            "--format",
            "json",
        ],
    )
    (row,) = json.loads(rows.stdout)
    return f"{row['namespace']}/{row['object_name']}"


@pytest.mark.slow
def test_coverage_of_some_requests(short_sample: Path) -> None:
    def of(*arguments: str) -> dict[str, Any]:
        result = CliRunner().invoke(app, ["coverage", str(short_sample), "--json", *arguments])
        assert result.exit_code == 0, result.output
        found: dict[str, Any] = json.loads(result.stdout)
        return found

    whole, some = of(), of("--user", "system:*")
    rest = of("--since", "2000-01-01T00:00Z", "--until", "0s")
    assert some["decided"]["of"] < whole["decided"]["of"] == rest["decided"]["of"]
    assert (whole["asked"], some["asked"]) == ("", "only user system:*")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["coverage", "lookup", "mutations"])
def test_reports_in_every_format(name: str, short_sample: Path) -> None:
    def printed(*arguments: str) -> str:
        result = CliRunner().invoke(app, [name, str(short_sample), *arguments])
        assert result.exit_code == 0, result.output
        return result.stdout

    assert printed("--format", "markdown").startswith("# ")
    assert printed("--format", "html").startswith("<!doctype html>")
    assert json.loads(printed("--format", "json")) == json.loads(printed("--json"))


@pytest.mark.parametrize("name", [name for name in COMMANDS if "logs" in {each.name for each in COMMANDS[name].params}])
def test_who_reads_a_log_lets_sets_say_of_which_server_they_are(name: str) -> None:
    """A version that an option has by default would be asked for, whatever the sets are of."""
    assert [each.default for each in COMMANDS[name].params if each.name == "kubernetes_version"] in ([], [None])


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_help_names_values_and_no_python_types(name: str) -> None:
    shown = CliRunner().invoke(app, [*name.split(), "--help"], env={"COLUMNS": "100"}).output
    assert re.findall(r"<[a-z ]*(?:str|path|int|float|list)[^>]*>", shown) == []
