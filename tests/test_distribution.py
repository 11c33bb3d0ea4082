"""The name of the distribution, and the commands that messages tell people to run."""

import re
from pathlib import Path

import pytest

from replay.distribution import install_command

ROOT = Path(__file__).parent.parent
PREFIXES = [
    ("a virtual environment", "/home/ann/.venv", "pip install 'kube-replay[prove]'"),
    ("pipx", "/home/ann/.local/share/pipx/venvs/kube-replay", "pipx install --force 'kube-replay[prove]'"),
    ("uv", "/home/ann/.local/share/uv/tools/kube-replay", "uv tool install 'kube-replay[prove]'"),
    ("pipx on Windows", "C:\\Users\\ann\\pipx\\venvs\\kube-replay", "pipx install --force 'kube-replay[prove]'"),
]


@pytest.mark.parametrize(("prefix", "command"), [row[1:] for row in PREFIXES], ids=[row[0] for row in PREFIXES])
def test_an_extra_is_installed_as_the_tool_was(prefix: str, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBE_REPLAY_IMAGE", raising=False)
    assert install_command("prove", prefix) == command


def test_an_image_is_built_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBE_REPLAY_IMAGE", "1")
    assert install_command("listen") == "podman build -f deploy/Containerfile --build-arg EXTRAS=listen ."


def test_nobody_is_told_to_install_another_project() -> None:
    """On package indexes `replay` belongs to somebody else."""
    places = [
        ROOT / "README.md",
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "replay").rglob("*.py"),
        *(ROOT / "deploy").rglob("*"),
        *(ROOT / ".github").rglob("*.yml"),
        *(ROOT / ".ci").iterdir(),
        ROOT / "action.yml",
        ROOT / ".pre-commit-hooks.yaml",
        ROOT / "CHANGELOG.md",
        ROOT / "CONTRIBUTING.md",
    ]
    wrong = re.compile(
        r"(?<!kube-)\breplay\[(?:prove|listen|bucket|dask|second-opinion|gatekeeper)|install(?: --?\S+)* '?replay\b(?!\w)"
        r"|REPLAY_PACKAGE: replay\b"
    )
    found = [
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path in places
        if path.is_file() and path.suffix not in {".lock", ".pyc"}
        for match in wrong.finditer(path.read_text("utf-8"))
    ]
    assert found == []
