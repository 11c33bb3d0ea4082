"""What is wrong with an expression: up to 100 findings with their place, printed as the API server prints them.

The order, the limit and the caret lines are those of cel-go (`common/errors.go`, `common/error.go`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from replay.cel.source import Source

MAX_ISSUES = 100
_MAX_SNIPPET_BYTES = 16384

NO_OFFSET = -1
"""The offset of an issue that concerns the whole expression; it is printed as line -1, column 0."""


@dataclass(frozen=True, slots=True)
class Issue:
    """One finding: the node it concerns (0 if it has none), its offset in code points, and the text."""

    id: int
    offset: int
    message: str

    def to_display_string(self, source: Source) -> str:
        """`ERROR: <input>:1:5: message`, the line of the source and a caret under the place."""
        if self.offset < 0:
            return f"ERROR: {source.description}:-1:0: {self.message}"
        line, column = source.location(self.offset)
        shown = f"ERROR: {source.description}:{line}:{column + 1}: {self.message}"
        snippet = source.snippet(line)
        if snippet is None or not source.text or len(snippet.encode("utf-8", "replace")) > _MAX_SNIPPET_BYTES:
            return shown
        snippet = snippet.replace("\t", " ")
        return f"{shown}\n | {snippet}\n | {_pointer(snippet, column)}"


def _pointer(snippet: str, column: int) -> str:
    """Dots up to the caret; full-width ones under characters that take more than one byte in UTF-8."""
    dots = "".join("." if char.isascii() else "．" for char in snippet[:column])  # noqa: RUF001 - full width is meant
    marked = snippet[column : column + 1]
    return dots + ("^" if not marked or marked.isascii() else "＾")  # noqa: RUF001 - full width is meant


@dataclass(slots=True)
class Issues:
    """The findings of one pass over one source, in the order of their discovery; those beyond the limit are counted."""

    source: Source
    found: list[Issue] = field(default_factory=list)
    count: int = 0

    def report(self, id_: int, offset: int, message: str) -> None:
        """Add a finding at an offset in code points (`NO_OFFSET` for none)."""
        self.count += 1
        if self.count <= MAX_ISSUES:
            self.found.append(Issue(id_, offset, message))

    def __bool__(self) -> bool:
        """Whether anything was found."""
        return self.count > 0

    def to_display_string(self) -> str:
        """All findings by their place in the source, as `kubectl` would show them."""
        place = self.source.location
        ordered = sorted(self.found, key=lambda issue: place(issue.offset) if issue.offset >= 0 else (-1, -1))
        lines = [issue.to_display_string(self.source) for issue in ordered]
        if self.count > MAX_ISSUES:
            lines.append(f"{self.count - MAX_ISSUES} more errors were truncated")
        return "\n".join(lines)
