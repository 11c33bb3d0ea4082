"""The words of the documentation and of `--help`: short sentences, and the terms of the glossary alone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.main import get_command

from replay.cli.app import app
from replay.cli.manual import ManualFormat, pages

ROOT = Path(__file__).parents[2]
PAGES = [
    *(
        ROOT / name
        for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "queries/README.md", "reports/README.md")
    ),
    *sorted((ROOT / "docs").rglob("*.md")),
]
MOST_WORDS = 20
"""The mean length of the sentences of a page."""
LONGEST = 45
"""Words of one sentence."""

PYTHON_TYPES = {"path", "str", "int", "float", "TEXT", "INTEGER", "FLOAT"}

FORBIDDEN = {
    "not decided": "undetermined",
    "in that world": "predicted outcome",
    "in the other world": "predicted outcome",
    "only follow": "consequence",
    "what follows": "consequence",
    "taken alone": "by itself",
    "left out": "skipped",
    "fidelity": "match with the log",
    "root finding": "direct finding",
    "held against": "compared with",
    "holds against": "compares with",
    "whoever": "anyone who",
    "nobody": "no …",
    "somebody": "someone",
    "otherwise than": "differently from",
    "decided otherwise": "decided differently",
    "stands in": "is in",
    "to blame": "caused",
}
"""Phrases that no page uses, and what it says in their place."""


def prose(text: str) -> list[str]:
    """Return the paragraphs and items of a Markdown page: no code, no table, no heading."""
    text = re.sub(r"```.*?```|<!--.*?-->", "", text, flags=re.DOTALL)
    pieces = re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )|\n(?=[#|>])", text)
    kept = [piece.strip() for piece in pieces if piece.strip() and piece.strip()[0] not in "#|<!>"]
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", re.sub(r"^(?:[-*]|\d+\.) ", "", piece)) for piece in kept]
    return [" ".join(re.sub(r"`[^`]*`", "Code", piece).replace("*", "").split()) for piece in plain]


def sentences(paragraphs: list[str]) -> list[list[str]]:
    """Return the words of each sentence."""
    parts = [part for paragraph in paragraphs for part in re.split(r"(?<=[.!?:;])\s+(?=[A-Z0-9])", paragraph)]
    return [part.split() for part in parts if len(part.split()) > 1]


def check_sentences(text: str) -> None:
    """Hold the sentences of a page to their lengths."""
    words = sentences(prose(text))
    assert sum(map(len, words)) <= MOST_WORDS * len(words)
    assert [" ".join(sentence) for sentence in words if len(sentence) > LONGEST] == []


def check_terms(text: str) -> None:
    """Find forbidden phrases outside of code."""
    plain = " ".join(re.sub(r"```.*?```|`[^`]*`", "", text, flags=re.DOTALL).lower().split())
    assert {phrase: better for phrase, better in FORBIDDEN.items() if phrase in plain} == {}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_sentences_of_a_page_are_short(page: Path) -> None:
    check_sentences(page.read_text("utf-8"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_uses_the_terms_of_the_glossary(page: Path) -> None:
    check_terms(page.read_text("utf-8"))


MANUAL = pages(get_command(app), ManualFormat.MARKDOWN)


@pytest.mark.parametrize("name", MANUAL)
def test_help_is_plain(name: str) -> None:
    check_sentences(MANUAL[name])
    check_terms(MANUAL[name])
    metavars = re.findall(r"^\| `(?:-\w, )?--[\w-]+ ([^`]+)` \|", MANUAL[name], re.MULTILINE)
    assert [metavar for metavar in metavars if metavar.startswith("<") or metavar in PYTHON_TYPES] == []
