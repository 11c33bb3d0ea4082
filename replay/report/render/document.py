"""What every report is: facts, sections, tables and charts as plain values, drawn by one renderer per format.

Every number and every sentence is decided where a document is made (`run_report`, `weekly_report`); the renderers only draw.
Text comes from untrusted logs: `inert` makes it harmless for terminals when a document is made, and each renderer escapes for
its own format.
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
"""How many files a heading names; of a directory of logs it names the first alone."""


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
    """One headline number with its unit or explanation."""

    label: str
    value: str
    note: str = ""
    tone: Tone = Tone.PLAIN


class Column(Struct, frozen=True):
    """A column; `optional` ones may move below their row."""

    title: str
    align: Align = Align.TEXT
    optional: bool = False


class Table(Struct, frozen=True):
    """Rows of text, parallel to the columns; `total` is how many rows there would be without a limit.

    `tones` is parallel to the rows, or empty; it underlines what a cell of the row says in words. So are `anchors`, the ids by which a
    link leads to a row. `foot` is a last row with what all rows are together, `rest` what those are that a limit left out. A page shows
    `page` rows at a time.
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

    @property
    def more(self) -> str:
        """The sentence about the rows that a limit left out, empty where it left out none."""
        rest = f" ({self.rest})" if self.rest else ""
        return f"… and {number(self.left_out)} more{rest}" if self.left_out else ""

    @property
    def left_out(self) -> int:
        """How many rows a limit left out."""
        return max(self.total - len(self.rows), 0)


class Listing(Struct, frozen=True):
    """Preformatted text such as a diff or a policy."""

    caption: str
    text: str


class Chart(Struct, frozen=True):
    """A drawing by `replay.report.render.charts`; `alternative` says in words what it shows.

    `kind` is `lines` (series over `labels`), `heat` (`series` are rows, `labels` columns) or `spans` (a row for each of `series`, over
    `labels`, from one place between them to another; `spans` and the words beside each row, `notes`, are parallel to the series).
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
    """A heading, a sentence that says what follows, and blocks; `quiet` sections may be folded."""

    id: str
    title: str
    lead: str = ""
    blocks: tuple[Block, ...] = ()
    tone: Tone = Tone.PLAIN
    quiet: bool = False


class Document(Struct, frozen=True):
    """A whole report. `verdict` is its answer; `summary` has the tables before the table of contents."""

    title: str
    subtitle: str
    verdict: str
    tone: Tone
    facts: tuple[Fact, ...]
    sections: tuple[Section, ...] = field(default=())
    summary: tuple[Section, ...] = field(default=())


def policy_anchors(names: Sequence[str]) -> tuple[str, ...]:
    """Return anchors for a table's rows by policy; none if a name prevents links.

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
    r"""Text from a log with control, format and surrogate characters spelled as `\u{..}`: it can move no cursor.

    Bidirectional overrides count among them: they could make a name look like another.
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
    """An integer with thousands separated by commas."""
    return f"{value:,}"


def share(part: int, is_whole: int) -> str:
    """A percentage that says 100 % only for all, and 0 % only for none."""
    if not is_whole:
        return "\u2013"
    if part in (0, is_whole):
        return "100 %" if part else "0 %"
    value = min(max(100 * part / is_whole, 0.01), 99.99)
    return f"{value:.1f} %" if 0.1 <= value <= 99.9 else f"{value:.2f} %"


def size(octets: int) -> str:
    """Bytes in the largest decimal unit that keeps a whole part."""
    value = float(octets)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" or value >= 10 else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:,.1f} TB"


def moment(microseconds: int, zone: tzinfo = UTC) -> str:
    """A time to the second with its zone."""
    at = datetime.fromtimestamp(microseconds // MICROSECONDS, tz=zone)
    return f"{at:%Y-%m-%d %H:%M:%S} {at.tzname()}"


def minute(microseconds: int, zone: tzinfo = UTC) -> str:
    """A time to the minute without its zone, for tables whose heading names it."""
    return f"{datetime.fromtimestamp(microseconds // MICROSECONDS, tz=zone):%Y-%m-%d %H:%M}"


def zone_name(microseconds: int, zone: tzinfo = UTC) -> str:
    """The short name of a zone at an instant."""
    return datetime.fromtimestamp(microseconds // MICROSECONDS, tz=zone).tzname() or ""


def span(microseconds: int) -> str:
    """A length of time in its two largest units."""
    seconds = microseconds // MICROSECONDS
    for unit, length, small, part in (("d", 86400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1)):
        if seconds >= length:
            rest = seconds % length // part
            return f"{seconds // length} {unit} {rest} {small}" if rest else f"{seconds // length} {unit}"
    return f"{seconds} s"


def few(names: Sequence[str], most: int = MOST_NAMES) -> str:
    """Up to `most` names; of more the first, and how many others there are."""
    shown = [inert(name) for name in names]
    return ", ".join(shown) if len(shown) <= most else f"{shown[0]} and {number(len(shown) - 1)} more"


def log_name(joined: str) -> str:
    """The name of a log of several files, which `joined` lists separated by commas, as short as `few` has it."""
    return few(joined.split(", "))


def plural(count: int, noun: str, many: str = "") -> str:
    """`1 request`, `2 requests`; an irregular plural is given."""
    return f"{number(count)} {noun if count == 1 else many or noun + 's'}"
