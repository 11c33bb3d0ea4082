"""The text of an expression, addressed in code points."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Source:
    """Source text with a description (`<input>`) that error messages show before the position."""

    text: str
    description: str = "<input>"
    line_starts: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Index the lines once."""
        starts = [0, *(i + 1 for i, char in enumerate(self.text) if char == "\n")]
        object.__setattr__(self, "line_starts", tuple(starts))

    def location(self, offset: int) -> tuple[int, int]:
        """Return `(line, column)` of an offset. Lines count from 1, columns from 0, both in code points."""
        line = bisect_right(self.line_starts, offset)
        return line, offset - self.line_starts[line - 1]

    def snippet(self, line: int) -> str | None:
        """Return the text of a line without its line end, or None past the last line."""
        lines = self.text.split("\n")
        return lines[line - 1] if 1 <= line <= len(lines) else None
