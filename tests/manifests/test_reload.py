"""What a running server makes of a set that has changed."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from replay.cellib.version import NEWEST
from replay.cli.app import app
from replay.errors import ManifestError
from replay.manifests.drift import Reloaded, ReloadResult, reloaded
from replay.manifests.plugin import PluginName

VAP, MAP = PluginName.VALIDATING_ADMISSION_POLICY, PluginName.MUTATING_ADMISSION_POLICY
POLICY = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: p.static.k8s.io}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
  validations: [{expression: "EXPRESSION"}]
"""
ONE, OTHER, WRONG = (POLICY.replace("EXPRESSION", each) for each in ("true", "1 < 2", "nothing.there"))
ROWS: list[tuple[str, dict[str, str], dict[str, ReloadResult], int]] = [
    ("the same", {"vap/p.yaml": ONE}, {VAP: ReloadResult.EQUAL}, 0),
    ("another policy", {"vap/p.yaml": OTHER}, {VAP: ReloadResult.RELOADED}, 0),
    ("an empty directory", {"vap/README.md": "none"}, {VAP: ReloadResult.RELOADED}, 0),
    ("one that is refused", {"vap/p.yaml": WRONG}, {VAP: ReloadResult.KEPT}, 2),
    ("no directory", {"README.md": "none"}, {VAP: ReloadResult.GONE}, 2),
    (
        "a directory that it started without",
        {"vap/p.yaml": ONE, "map/README.md": "none"},
        {MAP: ReloadResult.UNREAD, VAP: ReloadResult.EQUAL},
        0,
    ),
]


def make(directory: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(text)
    return directory


@pytest.mark.parametrize(("files", "results", "code"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_what_a_running_server_does(
    files: dict[str, str], results: dict[str, ReloadResult], code: int, tmp_path: Path
) -> None:
    running, path = make(tmp_path / "running", {"vap/p.yaml": ONE}), make(tmp_path / "next", files)
    assert {each.plugin: each.result for each in reloaded(path, running, NEWEST)} == results
    run = CliRunner().invoke(app, ["check", str(path), "--reload-from", str(running)])
    assert run.exit_code == code
    assert [line for line in run.stdout.splitlines() if not line.startswith(" ")] == [
        f"{plugin}: {result.value}" for plugin, result in results.items()
    ]


def test_the_text_of_the_server_is_told(tmp_path: Path) -> None:
    running, path = make(tmp_path / "running", {"vap/p.yaml": ONE}), make(tmp_path / "next", {"vap/p.yaml": WRONG})
    (found,) = reloaded(path, running, NEWEST)
    assert isinstance(found, Reloaded)
    assert "undeclared reference to 'nothing'" in found.error


CHAIN = """\
apiVersion: apiserver.config.k8s.io/v1
kind: AuthorizationConfiguration
authorizers: [TYPES]
"""
NODE, RBAC = "{type: Node, name: node}", "{type: RBAC, name: rbac}"
CHAINS: list[tuple[str, str, str, int]] = [
    ("the same", f"{NODE}, {RBAC}", "accepted, equal to the loaded one", 0),
    ("another order", f"{RBAC}, {NODE}", "reloaded", 0),
    ("a type that must stay", NODE, "refused", 2),
]


@pytest.mark.parametrize(("types", "result", "code"), [row[1:] for row in CHAINS], ids=[row[0] for row in CHAINS])
def test_authorization_is_reloaded_too(types: str, result: str, code: int, tmp_path: Path) -> None:
    started = CHAIN.replace("TYPES", f"{NODE}, {RBAC}")
    running = make(tmp_path / "running", {"vap/p.yaml": ONE, "authorization.yaml": started})
    path = make(tmp_path / "next", {"vap/p.yaml": ONE, "authorization.yaml": CHAIN.replace("TYPES", types)})
    run = CliRunner().invoke(app, ["check", str(path), "--reload-from", str(running)])
    assert run.exit_code == code
    assert run.stdout.splitlines()[-1] == f"{path / 'authorization.yaml'}: {result}"


def test_a_set_that_no_server_runs_with(tmp_path: Path) -> None:
    running, path = make(tmp_path / "running", {"vap/p.yaml": WRONG}), make(tmp_path / "next", {"vap/p.yaml": ONE})
    with pytest.raises(ManifestError, match="no server runs with it"):
        list(reloaded(path, running, NEWEST))
    with pytest.raises(ManifestError, match="there is nothing that a server reloads"):
        list(reloaded(path, tmp_path, NEWEST))
