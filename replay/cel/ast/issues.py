"""The issues of an expression: up to 100 findings with their positions, printed as the API server prints them.

The order, the limit and the caret lines are those of cel-go (`common/errors.go`, `common/error.go`).
"""

from __future__ import annotations

from msgspec import Struct, field

from replay.cel.ast.source import Source

MAX_ISSUES = 100
_MAX_SNIPPET_BYTES = 16384

NO_OFFSET = -2
"""The offset of an issue with the whole expression. It is printed as line -1, column 0."""

BEFORE_START = -1
"""The offset of nodes that recovery made up. It is printed as line 1, column 0."""


class Issue(Struct, frozen=True):
    """One finding: its node (0 if none), its offset in code points, and the text."""

    id: int
    offset: int
    message: str

    def location(self, source: Source) -> tuple[int, int]:
        """Return the line from 1 and the column from 0, in code points."""
        if self.offset >= 0:
            return source.location(self.offset)
        return (1, -1) if self.offset == BEFORE_START else (-1, -1)

    def to_display_string(self, source: Source) -> str:
        """Return `ERROR: <input>:1:5: message`, the source line and a caret under the position."""
        line, column = self.location(source)
        shown = f"ERROR: {source.description}:{line}:{column + 1}: {self.message}"
        snippet = source.snippet(line) if line > 0 else None
        if snippet is None or not source.text or len(snippet.encode("utf-8", "replace")) > _MAX_SNIPPET_BYTES:
            return shown
        snippet = snippet.replace("\t", " ")
        return f"{shown}\n | {snippet}\n | {_pointer(snippet, column)}"


def _pointer(snippet: str, column: int) -> str:
    """Return dots up to the caret. They are full-width under characters that take more than one byte in UTF-8."""
    column = max(column, 0)
    if snippet.isascii():
        return f"{'.' * min(column, len(snippet))}^"
    dots = "".join("." if char.isascii() else "．" for char in snippet[:column])  # noqa: RUF001 - full width is meant
    marked = snippet[column : column + 1]
    return dots + ("^" if not marked or marked.isascii() else "＾")  # noqa: RUF001 - full width is meant


class Issues(Struct):
    """The findings of one pass over one source, in the order of discovery. Those past the limit are only counted."""

    source: Source
    entries: list[Issue] = field(default_factory=list)
    count: int = 0

    def report(self, id_: int, offset: int, message: str) -> None:
        """Add a finding at an offset in code points (`NO_OFFSET` for none)."""
        self.count += 1
        if self.count <= MAX_ISSUES:
            self.entries.append(Issue(id_, offset, message))

    def __bool__(self) -> bool:
        """Return whether anything was found."""
        return self.count > 0

    def to_display_string(self) -> str:
        """Return all findings in source order, as `kubectl` would print them."""
        ordered = sorted(self.entries, key=lambda issue: issue.location(self.source))
        lines = [issue.to_display_string(self.source) for issue in ordered]
        if self.count > MAX_ISSUES:
            lines.append(f"{self.count - MAX_ISSUES} more errors were truncated")
        return "\n".join(lines)
