"""The manual: made from the code, and whole."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from typer.main import get_command
from typer.testing import CliRunner

from replay.cli.app import app
from replay.cli.manual import ManualFormat, pages

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
NAMES = [
    f"replay-{name}-{sub}" if sub else f"replay-{name}"
    for name, command in get_command(app).commands.items()  # type: ignore[attr-defined]
    for sub in (getattr(command, "commands", None) or ("",))
]


def test_every_command_has_a_page() -> None:
    made = pages(get_command(app), ManualFormat.MARKDOWN)
    assert set(made) == {"README.md", *(f"{name}.md" for name in NAMES)}


def test_a_page_for_man_of_each_command(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["manual", str(tmp_path)])
    assert (result.exit_code, {path.stem for path in tmp_path.iterdir()}) == (0, set(NAMES))
    page = (tmp_path / "replay-run.1").read_text()
    assert [line for line in page.splitlines() if line.startswith(".SH")] == [
        ".SH NAME",
        ".SH SYNOPSIS",
        ".SH DESCRIPTION",
        ".SH OPTIONS",
        ".SH EXAMPLES",
        ".SH EXIT CODE",
    ]
    assert "\n.B \\-\\-fail\\-on denied|lockout|mutated|undecided|removed|none\n" in page
    assert "batches" not in page  # an option for our own processes, which --help hides


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_groff_has_nothing_to_say_against_them(tmp_path: Path) -> None:
    for name, text in pages(get_command(app), ManualFormat.MAN).items():
        (tmp_path / name).write_text(text, "utf-8")
    found = sorted(map(str, tmp_path.iterdir()))
    done = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-z", *found], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_site_has_every_page() -> None:
    config = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))
    named = set(re.findall(r"[\w/-]+\.md", str(config["nav"])))
    there = {str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")}
    assert named - {"commands/README.md"} <= there
    assert {page for page in there - named if page.split("/")[0] != "decisions"} == set()


def test_the_site_is_built_and_no_link_is_dead(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def _anchors(path: Path) -> set[str]:
    """The anchors of a page, as code hosts make them."""
    titles = re.findall(r"^#+ (.+)$", path.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))], ids=lambda path: path.name)
def test_anchors_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]*)#([^)]+)\)", page.read_text("utf-8"))
    assert [link for link in links if link[1] not in _anchors(page.parent / link[0] if link[0] else page)] == []


@pytest.mark.parametrize("page", [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))], ids=lambda path: path.name)
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:|mailto:)([^)#\s]+)(?:#[^)]*)?\)", page.read_text("utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= 150


def test_the_pages_need_no_engine() -> None:
    """The wheel holds the pages, and its build has the libraries of its hook alone."""
    code = (
        "import sys\n"
        "from typer.main import get_command\n"
        "from replay.cli.app import app\n"
        "from replay.cli.manual import ManualFormat, pages\n"
        "assert pages(get_command(app), ManualFormat.MAN)\n"
        "print(sorted({'duckdb', 'polars', 'pyarrow', 're2'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
