"""Hooks of `mkdocs build`: pages of the commands, files that pages link to, and anchors as code hosts make them."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath
from typing import Any

from mkdocs.structure.files import File
from typer.main import get_command

from replay.cli.app import app
from replay.cli.manual import ManualFormat, pages

ROOT = Path(__file__).parents[1]
BESIDE = "repository"
"""Where the site has files from outside of its pages."""
_LINK = re.compile(r"\]\(([^)#:\s]+)(#[^)]*)?\)")


def on_config(config: Any) -> None:
    """Name anchors as code hosts do."""
    config["mdx_configs"].setdefault("toc", {})["slugify"] = _anchor


def _anchor(text: str, _separator: str) -> str:
    return re.sub(r"[^\w\- ]", "", text.lower()).strip().replace(" ", "-")


def on_files(files: Any, config: Any) -> None:
    """Add a page for each command, and the files outside `docs/` that pages link to (Markdown as text, so that it is not rendered)."""
    documents = [file for file in files if file.is_documentation_page() and not file.inclusion.is_excluded()]
    outside = {
        path for file in documents for path in _targets(file.src_uri, Path(file.abs_src_path).read_text("utf-8"))
    }
    for path in sorted(outside):
        files.append(File.generated(config, _beside(path), abs_src_path=str(ROOT / path)))
    for name, text in pages(get_command(app), ManualFormat.MARKDOWN).items():
        files.append(File.generated(config, f"commands/{name}", content=text))


def on_page_markdown(markdown: str, *, page: Any, **_arguments: Any) -> str:
    """Let links lead to these files."""
    here = str(PurePosixPath(page.file.src_uri).parent)

    def replaced(found: re.Match[str]) -> str:
        path = _outside(page.file.src_uri, found[1])
        return f"]({relpath(_beside(path), here)})" if path else found[0]

    return _LINK.sub(replaced, markdown)


def _targets(page: str, markdown: str) -> set[str]:
    return {path for found in _LINK.finditer(markdown) if (path := _outside(page, found[1]))}


def _outside(page: str, link: str) -> str:
    """The path in the repository of what a link of a page leads to, where that is a file outside of the pages; else empty."""
    path = normpath(PurePosixPath("docs", page).parent / link)
    return path if not path.startswith(("docs/", "../")) and (ROOT / path).is_file() else ""


def _beside(path: str) -> str:
    return f"{BESIDE}/{path}{'.txt' if path.endswith('.md') else ''}"
