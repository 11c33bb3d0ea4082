from __future__ import annotations

import pytest

from replay.report.render.document import few, inert, log_name, moment, share, size, span


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("web-1", "web-1"),
        ("größe ✓", "größe ✓"),
        ("\x1b[31mred\x07", "\\u{1b}[31mred\\u{7}"),
        ("a\nb\tc\r", "a⏎b c\\u{d}"),
        ("abc\u202etxt.exe", "abc\\u{202e}txt.exe"),
        ("\ud800", "\\u{d800}"),
    ],
)
def test_inert(text: str, expected: str) -> None:
    assert inert(text) == expected


@pytest.mark.parametrize(
    ("part", "whole", "expected"),
    [
        (0, 0, "\u2013"),
        (0, 9, "0 %"),
        (9, 9, "100 %"),
        (1, 3, "33.3 %"),
        (99_999, 100_000, "99.99 %"),
        (1, 1_000_000, "0.01 %"),
    ],
)
def test_share_claims_all_and_none_only_where_true(part: int, whole: int, expected: str) -> None:
    assert share(part, whole) == expected


@pytest.mark.parametrize(
    ("octets", "expected"), [(7, "7 B"), (1500, "1.5 kB"), (62_000_000, "62 MB"), (3 * 10**15, "3,000.0 TB")]
)
def test_size(octets: int, expected: str) -> None:
    assert size(octets) == expected


@pytest.mark.parametrize(
    ("seconds", "expected"), [(5, "5 s"), (60, "1 min"), (200, "3 min 20 s"), (90_000, "1 d 1 h"), (7 * 86_400, "7 d")]
)
def test_span(seconds: int, expected: str) -> None:
    assert span(seconds * 1_000_000) == expected


def test_moment_names_its_zone() -> None:
    assert moment(1_795_233_776_000_000) == "2026-11-21 04:02:56 UTC"


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("audit.jsonl",), "audit.jsonl"),
        (("a", "b", "c"), "a, b, c"),
        (("a", "b", "c", "d"), "a and 3 more"),
        (tuple(f"audit-{i:04}.jsonl" for i in range(1200)), "audit-0000.jsonl and 1,199 more"),
        (("\x1b[31m",), "\\u{1b}[31m"),
    ],
)
def test_a_heading_names_few_files(names: tuple[str, ...], expected: str) -> None:
    assert few(names) == expected
    assert log_name(", ".join(names)) == expected
