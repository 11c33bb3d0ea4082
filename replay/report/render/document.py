"""The document model of all reports: facts, sections, tables and charts as plain values, with one renderer per format.

Numbers and sentences are decided where a document is made (`run_report`, `weekly_report`). Renderers only draw. Text
comes from untrusted logs. `inert` makes it harmless for terminals when a document is made, and each renderer escapes
for its own format.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from enum import StrEnum

from msgspec import Struct, field
from msgspec.structs import replace

MICROSECONDS = 1_000_000
ANCHOR = "policy-"
"""Prefix of policy anchors on a page."""
MOST_NAMES = 3
"""Maximum number of files in a heading. Of a directory of logs, only the first is named."""


class Tone(StrEnum):
    """Meaning of a fact or cell. Colour never carries it alone."""

    PLAIN = "plain"
    GOOD = "good"
    WARN = "warn"
    BAD = "bad"


class Align(StrEnum):
    """Alignment: numbers right, text left, code left in fixed width. Short text and IDs never break."""

    TEXT = "text"
    NUMBER = "number"
    CODE = "code"
    SHORT = "short"
    ID = "id"


class Fact(Struct, frozen=True):
    """One headline number, with its unit or an explanation."""

    label: str
    value: str
    note: str = ""
    tone: Tone = Tone.PLAIN


class Column(Struct, frozen=True):
    """A column. An `optional` one may move below its row."""

    title: str
    align: Align = Align.TEXT
    optional: bool = False


class Table(Struct, frozen=True):
    """Rows of text, parallel to the columns. `total` is the number of rows without a limit.

    `tones` is parallel to the rows, or empty. It emphasises what a cell says in words. `anchors` are the ids for links
    to rows, also parallel or empty. `foot` is a last row about all rows together. `rest` describes the rows that a
    limit left out. A page shows `page` rows at a time. If `is_one_line`, a terminal cuts cells so that no row wraps.
    """

    id: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    total: int = 0
    tones: tuple[Tone, ...] = ()
    foot: tuple[str, ...] = ()
    anchors: tuple[str, ...] = ()
    rest: str = ""
    page: int = 12
    is_one_line: bool = False

    @property
    def more(self) -> str:
        """The sentence about the rows that a limit left out, or ""."""
        rest = f" ({self.rest})" if self.rest else ""
        return f"… and {number(self.left_out)} more{rest}" if self.left_out else ""

    @property
    def left_out(self) -> int:
        """Number of rows that a limit left out."""
        return max(self.total - len(self.rows), 0)


class Listing(Struct, frozen=True):
    """Preformatted text such as a diff or a policy."""

    caption: str
    text: str


class Chart(Struct, frozen=True):
    """A drawing of `replay.report.render.charts`. `alternative` describes it in words.

    `kind` is `lines` (series over `labels`), `heat` (`series` are rows, `labels` columns) or `spans`. A chart of spans
    has a row for each series, over `labels`, with a start and an end in `spans` and a text in `notes`.
    """

    id: str
    kind: str
    title: str
    alternative: str
    labels: tuple[str, ...]
    series: Mapping[str, tuple[float, ...]]
    unit: str = "requests"
    spans: tuple[tuple[float, float], ...] = ()
    notes: tuple[str, ...] = ()


Block = Table | Listing | Chart


class Section(Struct, frozen=True):
    """A heading, a lead sentence, and blocks. A `quiet` section may be folded."""

    id: str
    title: str
    lead: str = ""
    blocks: tuple[Block, ...] = ()
    tone: Tone = Tone.PLAIN
    quiet: bool = False


class Document(Struct, frozen=True):
    """Whole report. `verdict` is its answer. `summary` has the tables before the table of contents."""

    title: str
    subtitle: str
    verdict: str
    tone: Tone
    facts: tuple[Fact, ...]
    sections: tuple[Section, ...] = field(default=())
    summary: tuple[Section, ...] = field(default=())


def policy_anchors(names: Sequence[str]) -> tuple[str, ...]:
    """Return anchors for a table's rows by policy, or none if a name prevents links.

    Anchors are unique and have no spaces. Hostile names get no link.
    """
    if len({*names}) < len(names) or any(" " in name for name in names):
        return ()
    return tuple(f"{ANCHOR}{name}" for name in names)


def without_empty(table: Table) -> Table:
    """Return the table without empty columns. A table without rows keeps its columns."""
    columns = [i for i in range(len(table.columns)) if not table.rows or any(row[i] for row in table.rows)]
    return replace(
        table,
        columns=tuple(table.columns[i] for i in columns),
        rows=tuple(tuple(row[i] for i in columns) for row in table.rows),
        foot=tuple(table.foot[i] for i in columns) if table.foot else (),
    )


def inert(text: str) -> str:
    r"""Return text from a log with control, format and surrogate characters as `\u{..}`, so that it moves no cursor.

    Bidirectional overrides are included, because they could make a name look like another.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_visible(char) for char in text)


def _visible(char: str) -> str:
    if char.isprintable() or char == " ":
        return char
    if char in "\n\t":
        return "⏎" if char == "\n" else " "
    return f"\\u{{{ord(char):x}}}" if unicodedata.category(char)[0] in "CZ" else char


def number(value: int) -> str:
    """Return an integer with thousands separated by commas."""
    return f"{value:,}"


def share(part: int, is_whole: int) -> str:
    """Return a percentage. It is 100 % only for all, and 0 % only for none."""
    if not is_whole:
        return "\u2013"
    if part in (0, is_whole):
        return "100 %" if part else "0 %"
    value = min(max(100 * part / is_whole, 0.01), 99.99)
    return f"{value:.1f} %" if 0.1 <= value <= 99.9 else f"{value:.2f} %"


def size(octets: int) -> str:
    """Return bytes in the largest decimal unit that keeps a whole part."""
    value = float(octets)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" or value >= 10 else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:,.1f} TB"


def moment(microseconds: int, zone: tzinfo = UTC) -> str:
    """Return a time to the second, with its zone."""
    at = datetime.fromtimestamp(microseconds // MICROSECONDS, tz=zone)
    return f"{at:%Y-%m-%d %H:%M:%S} {at.tzname()}"


def minute(microseconds: int, zone: tzinfo = UTC) -> str:
    """Return a time to the minute without its zone, for tables whose heading names it."""
    return f"{datetime.fromtimestamp(microseconds // MICROSECONDS, tz=zone):%Y-%m-%d %H:%M}"


def zone_name(microseconds: int, zone: tzinfo = UTC) -> str:
    """Return the short name of a zone at an instant."""
    return datetime.fromtimestamp(microseconds // MICROSECONDS, tz=zone).tzname() or ""


def span(microseconds: int) -> str:
    """Return a length of time in its two largest units."""
    seconds = microseconds // MICROSECONDS
    for unit, length, small, part in (("d", 86400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1)):
        if seconds >= length:
            rest = seconds % length // part
            return f"{seconds // length} {unit} {rest} {small}" if rest else f"{seconds // length} {unit}"
    return f"{seconds} s"


def few(names: Sequence[str], most: int = MOST_NAMES) -> str:
    """Return up to `most` names. If there are more, return the first and the number of others."""
    shown = [inert(name) for name in names]
    return ", ".join(shown) if len(shown) <= most else f"{shown[0]} and {number(len(shown) - 1)} more"


def log_name(joined: str) -> str:
    """Return the short name of a log, as `few` does. `joined` lists its files, separated by commas."""
    return few(joined.split(", "))


def plural(count: int, noun: str, many: str = "") -> str:
    """Return a count with its noun, as in `1 request`, `2 requests`. `many` is an irregular plural."""
    return f"{number(count)} {noun if count == 1 else many or noun + 's'}"
