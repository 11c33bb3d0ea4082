"""Workflows, the manifests of package managers, and the wheel: built, checked, installed into bare environments, and run."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import zipfile
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import pytest
import yaml

from replay.distribution import VERSION

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
RELEASE = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text("utf-8"))
FILL = ROOT / "deploy" / "release" / "fill.py"
SAMPLE = ROOT / "sample_audit" / "shop"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")


def command(*words: str | Path, **settings: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*map(str, words)], capture_output=True, text=True, check=False, **settings)


@pytest.mark.skipif(shutil.which("actionlint") is None, reason="actionlint is not installed")
def test_workflows_are_well_formed() -> None:
    done = command("actionlint", "-no-color", *WORKFLOWS)
    assert (done.returncode, done.stdout) == (0, "")


def test_no_workflow_puts_a_value_into_a_script() -> None:
    jobs = [job for path in WORKFLOWS for job in yaml.safe_load(path.read_text("utf-8"))["jobs"].values()]
    scripts = [step["run"] for job in jobs for step in job["steps"] if "run" in step]
    assert [script for script in scripts if "${{" in script] == []


def test_the_workflow_of_changes_runs_what_must_hold() -> None:
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text("utf-8"))["jobs"]
    assert "bash .ci/run" in [step.get("run") for step in jobs["all"]["steps"]]
    assert tuple(jobs["python"]["strategy"]["matrix"]["python"]) == PYTHONS
    classifiers = re.findall(r"Python :: (3\.\d+)\"", (ROOT / "pyproject.toml").read_text("utf-8"))
    assert tuple(classifiers) == PYTHONS


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """What the jobs of a release have built, by name."""
    place = tmp_path / "files"
    place.mkdir()
    platforms = [each["platform"] for each in RELEASE["jobs"]["plugin"]["strategy"]["matrix"]["include"]]
    names = [f"kube_replay-{VERSION}.tar.gz", f"kube_replay-{VERSION}-py3-none-any.whl", "kube-replay.cdx.json"]
    for name in (*names, *(f"kubectl-replay-{each}.tar.gz" for each in platforms)):
        (place / name).write_text(name)
    return place


def filled(files: Path) -> tuple[dict[str, Any], str]:
    """The manifest of krew and the formula of Homebrew."""
    done = command(sys.executable, FILL, "--files", files, "--out", files)
    assert done.returncode == 0, done.stderr
    return yaml.safe_load((files / "replay.yaml").read_text()), (files / "kube-replay.rb").read_text()


def test_manifests_of_package_managers_are_filled_from_what_was_built(files: Path) -> None:
    krew, formula = filled(files)
    urls = (ROOT / "pyproject.toml").read_text("utf-8")
    source = re.search(r'^Source = "(.+)"', urls, re.MULTILINE)
    assert source is not None
    base = f"{source[1]}/releases/download/v{VERSION}"
    assert [
        (each["selector"]["matchLabels"], each["uri"], each["sha256"], each["bin"])
        for each in krew["spec"]["platforms"]
    ] == [
        ({"os": system, "arch": arch}, f"{base}/{name}", hashlib.sha256(name.encode()).hexdigest(), "kubectl-replay")
        for system, arch in (("darwin", "arm64"), ("linux", "amd64"), ("linux", "arm64"))
        for name in (f"kubectl-replay-{system}-{arch}.tar.gz",)
    ]
    assert krew["spec"]["version"] == f"v{VERSION}"
    assert f'url "{base}/kube_replay-{VERSION}.tar.gz"' in formula
    assert f'sha256 "{hashlib.sha256(f"kube_replay-{VERSION}.tar.gz".encode()).hexdigest()}"' in formula
    assert "$" not in formula.replace("#{", "")
    assert (files / "notes.md").read_text().startswith("### Added")


@pytest.mark.skipif(shutil.which("validate-krew-manifest") is None, reason="validate-krew-manifest is not installed")
def test_krew_takes_its_manifest(files: Path) -> None:
    filled(files)
    done = command("validate-krew-manifest", "-manifest", files / "replay.yaml", "-skip-install")
    assert done.returncode == 0, done.stderr


REFUSED = [
    ("another tag", ["--check-tag", "v9.9.9"], "the tag is v9.9.9, and the version v"),
    ("no plugin", ["--files", "only-sdist"], "only-sdist: no kubectl-replay-OS-ARCH.tar.gz"),
    ("no sdist", ["--files", "empty"], "kube_replay-.*"),
]


@pytest.mark.parametrize(("words", "message"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_what_no_release_is_made_of(words: list[str], message: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "only-sdist").mkdir()
    (tmp_path / "only-sdist" / f"kube_replay-{VERSION}.tar.gz").touch()
    done = command(sys.executable, FILL, *words, "--out", ".", cwd=tmp_path)
    assert (done.returncode, done.stderr.startswith(message)) == (1, True), done.stderr


def test_the_tag_of_the_version_is_taken() -> None:
    assert command(sys.executable, FILL, "--check-tag", f"v{VERSION}").returncode == 0


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout in which the commands of the job that builds a release have run."""
    place = tmp_path_factory.mktemp("release") / "checkout"
    ignored = shutil.ignore_patterns(".venv", ".git", "__pycache__", ".*_cache", ".hypothesis", ".tools")
    shutil.copytree(ROOT, place, ignore=ignored)
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    for step in RELEASE["jobs"]["build"]["steps"]:
        if "run" in step:
            environment = {**os.environ, "PATH": path, "TAG": f"v{VERSION}"}
            done = command("bash", "-euo", "pipefail", "-c", step["run"], cwd=place, env=environment)
            assert done.returncode == 0, (step["name"], done.stdout, done.stderr)
    return place


@pytest.mark.slow
def test_what_is_released(released: Path) -> None:
    (wheel,) = (released / "dist").glob("*.whl")
    assert sorted(path.name for path in (released / "dist").iterdir()) == [
        f"kube_replay-{VERSION}-py3-none-any.whl",
        f"kube_replay-{VERSION}.tar.gz",
    ]
    names = zipfile.ZipFile(wheel).namelist()
    info = f"kube_replay-{VERSION}"
    wanted = {"replay/py.typed", "replay/queries/README.md", f"{info}.dist-info/licenses/LICENSE"}
    wanted |= {f"{info}.data/data/share/man/man1/replay-{name}.1" for name in ("run", "trust", "store-info")}
    assert wanted <= set(names)
    assert [name for name in names if name.split("/")[0] not in ("replay", f"{info}.dist-info", f"{info}.data")] == []
    assert '"name": "polars"' in (released / "kube-replay.cdx.json").read_text()


def interpreters() -> list[Any]:
    """Each Python that the project supports, by its command; one that is not here is skipped."""
    roots = (Path.home() / ".pyenv" / "versions", Path("/opt/python"))
    found = []
    for version in PYTHONS:
        beside = [each / "bin" / "python" for root in roots for each in sorted(root.glob(f"{version}.*"))]
        name = next((str(each) for each in beside if each.exists()), shutil.which(f"python{version}"))
        is_own = f"{sys.version_info[0]}.{sys.version_info[1]}" == version
        skipped = pytest.mark.skipif(not (name or is_own), reason=f"there is no Python {version} here")
        found.append(pytest.param(sys.executable if is_own else name, id=version, marks=skipped))
    return found


LOCKED = ROOT / "deploy" / "requirements.lock"
LINKED = "the packages of this environment"


def environments() -> list[Any]:
    """The first and the last of the Pythons that are here, with what pip installs, and this one with its own packages.

    The workflow of changes runs all tests with each Python.
    """
    here = [each for each in interpreters() if not each.marks[0].args[0]]
    installed = {each.id: each.values[0] for each in (here[0], here[-1])}
    return [LINKED, *(pytest.param(python, id=id_, marks=pytest.mark.nightly) for id_, python in installed.items())]


def link_locked_packages(place: Path) -> None:
    """Put the locked packages of this environment into another one, and nothing else. Installing them takes half a minute."""
    (site,) = place.glob("lib/python*/site-packages")
    for name in set(re.findall(r"^([\w.-]+)==", LOCKED.read_text("utf-8"), re.MULTILINE)):
        with suppress(PackageNotFoundError):  # of another system
            package = distribution(name)
            for top in {path.parts[0] for path in package.files or ()} - {"..", "__pycache__"}:
                (site / top).symlink_to(str(package.locate_file(top)))


OFFLINE = {"http_proxy": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9", "PIP_NO_INDEX": "1"}


@pytest.mark.slow
@pytest.mark.parametrize("python", environments())
def test_the_wheel_in_a_bare_environment(python: str, released: Path, tmp_path: Path) -> None:
    (wheel,) = (released / "dist").glob("*.whl")
    place = tmp_path / "bare"
    assert command(sys.executable if python == LINKED else python, "-m", "venv", place).returncode == 0
    if python == LINKED:
        link_locked_packages(place)
    else:
        lock = command(place / "bin" / "pip", "install", "-q", "--no-compile", "--require-hashes", "-r", LOCKED)
        assert lock.returncode == 0, lock.stderr
    assert command(place / "bin" / "pip", "install", "-q", "--no-deps", "--no-index", wheel).returncode == 0
    shutil.copytree(SAMPLE, tmp_path / "sample")
    environment = {"PATH": f"{place / 'bin'}:/usr/bin:/bin", "HOME": str(tmp_path), **OFFLINE}

    def run(*words: str | Path) -> tuple[int, str]:
        done = command(*words, cwd=tmp_path, env=environment)
        return done.returncode, done.stdout + done.stderr

    assert run("replay", "--version") == (0, f"replay {VERSION}\n")
    code, shown = run("replay", "run", "sample", "--brief")
    assert (code, "sample" in shown or "denied" in shown) == (1, True), shown
    assert run("replay", "check", "sample/candidate")[0] == 0
    assert run("replay", "diff", "sample/current", "sample/candidate")[0] in (0, 1)
    assert run("replay", "init")[0] == 0
    assert run("replay", "explain", "4643ba19-8f5c-4d9d-921a-eb6cb22bdb75", "sample")[0] == 0
    assert run("replay", "sql", "select count(*) from request", "sample/audit.jsonl.zst")[0] == 0
    assert run(place / "bin" / "python", "-c", "import replay; print(replay.cel.compile('1 + 1').evaluate())") == (
        0,
        "2\n",
    )
    assert (place / "share" / "man" / "man1" / "replay-run.1").exists()
    kubectl = tmp_path / "bin" / "kubectl"  # which looks for a plugin as kubectl does: `kubectl-NAME` on the path
    kubectl.parent.mkdir()
    kubectl.write_text('#!/bin/sh\nname=$1; shift; exec "kubectl-$name" "$@"\n')
    kubectl.chmod(0o755)
    assert run(kubectl, "replay", "--version") == (0, f"replay {VERSION}\n")
    assert "kubectl replay" in run(kubectl, "replay", "--help")[1]


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize("python", interpreters()[2:3])
def test_the_archive_that_krew_installs(python: str, released: Path, tmp_path: Path) -> None:
    """The step packs an archive whose plugin runs offline, without what else is installed."""
    steps = RELEASE["jobs"]["plugin"]["steps"]
    (packing,) = [each["run"] for each in steps if each.get("name") == "Pack the kubectl plugin"]
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    bin_.joinpath("python").symlink_to(python)
    environment = {**os.environ, "PATH": f"{bin_}{os.pathsep}{os.environ['PATH']}", "PLATFORM": "linux-amd64"}
    done = command("bash", "-euo", "pipefail", "-c", packing, cwd=released, env=environment)
    assert done.returncode == 0, done.stderr
    store = tmp_path / "store"  # where krew unpacks; it links the plugin into a directory of the path
    shutil.unpack_archive(released / "archives" / "kubectl-replay-linux-amd64.tar.gz", store)
    bin_.joinpath("kubectl-replay").symlink_to(store / "kubectl-replay")
    shutil.copytree(SAMPLE, tmp_path / "sample")
    for name in ("replay.py", "polars.py"):  # a checkout may hold files of these names
        tmp_path.joinpath(name).write_text("raise SystemExit('imported from the working directory')\n")
    offline = {"PATH": f"{bin_}:/usr/bin:/bin", "HOME": str(tmp_path), "KUBECTL_REPLAY_PYTHON": python, **OFFLINE}

    def run(*words: str, **changed: str) -> tuple[int, str]:
        done = command("kubectl-replay", *words, cwd=tmp_path, env={**offline, **changed})
        return done.returncode, done.stdout + done.stderr

    assert run("--version") == (0, f"replay {VERSION}\n")
    assert "kubectl replay" in run("--help")[1]
    assert run("run", "sample", "--brief")[0] == 1
    missing = "kubectl-replay: needs Python 3.13: install it, or name it in KUBECTL_REPLAY_PYTHON\n"
    assert run("--version", KUBECTL_REPLAY_PYTHON="python-that-is-not-here") == (127, missing)


def test_every_place_that_names_a_version_names_this_one() -> None:
    """Images of manifests and actions of examples carry the tag that the release workflow makes."""
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "deploy").glob("*.yaml")]
    tag = re.compile(r"(?:registry\.example\.com/kube-replay(?:-fleet)?:|example/replay@|rev: )(\S+)")
    named = {found for page in pages for found in tag.findall(page.read_text("utf-8"))}
    assert named == {f"v{VERSION}"}
    assert 'dynamic = ["version"]' in (ROOT / "pyproject.toml").read_text("utf-8")
