"""How the code is cut: a file of `replay/` holds one idea that a reader can follow from top to bottom."""

from pathlib import Path

ROOT = Path(__file__).parent.parent
MOST_LINES = 600
"""The limit for one file. A longer file holds two ideas."""


def test_files_can_be_read_from_top_to_bottom() -> None:
    lengths = {
        str(path.relative_to(ROOT)): path.read_text(encoding="utf-8").count("\n")
        for path in (ROOT / "replay").rglob("*.py")
    }
    assert {name: length for name, length in lengths.items() if length > MOST_LINES} == {}
