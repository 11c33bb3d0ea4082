"""Single expressions with what a real API server answers: some of every area here, all where the shared corpora are."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from replay.cel.ast.walk import with_deep_stack
from replay.errors import ReplayError
from replay.json import decode_json
from replay.pipeline.cel import results
from tests.support.cel_cases import COMPARED, CORPUS, decoded, is_answered, is_long, unpacked

HERE = Path(__file__).parent / "data" / "cases.jsonl"


def differences(lines: Iterable[str]) -> list[str]:
    """What differs from the recorded answers."""
    lines = list(lines)
    found = []
    for line, result in zip(lines, results(lines), strict=True):
        case = decoded(line)
        if not with_deep_stack(lambda: is_answered(case, result)):  # noqa: B023 - called at once
            wanted = {key: case[key] for key in COMPARED if key in case}
            found.append(f"{case['id']} {case['expr'][:200]}\n  wanted {wanted}\n  got {result}"[:2000])
    return found


def test_every_area() -> None:
    assert differences(HERE.read_text().splitlines()) == []


@pytest.mark.slow
@pytest.mark.shared
@pytest.mark.parametrize("long", [False, pytest.param(True, marks=pytest.mark.nightly)], ids=["short", "long"])
def test_whole_corpus(*, long: bool) -> None:
    """Those that reach the limits of cost run apart, and every second of them: many of a kind differ in what they call."""
    if not CORPUS.is_file():
        pytest.skip("the shared corpora are not here")
    lines = [line for line in unpacked(CORPUS) if is_long(decoded(line)) is long][:: 2 if long else 1]
    assert len(lines) > 30
    assert differences(lines) == []


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("nonsense", "1: not a case"),
        ("[1]", "1: not a case"),
        ('{"kind": "nope", "expr": "1"}', "1: not a case"),
        ("{}", "1: not a case"),
    ],
)
def test_a_line_that_is_no_case(line: str, message: str) -> None:
    with pytest.raises(ReplayError, match=message):
        list(results([line]))


NUMBERS = [
    ("an int", "9223372036854775807", 9223372036854775807),
    ("beyond int64", "9223372036854775808", 9.223372036854775808e18),
    ("a fraction of zero", "1.0", 1.0),
    ("an exponent", "1e3", 1000.0),
]


@pytest.mark.parametrize(("text", "number"), [row[1:] for row in NUMBERS], ids=[row[0] for row in NUMBERS])
def test_numbers_are_read_as_kubernetes_reads_them(text: str, number: float) -> None:
    value = decode_json(text)
    assert (type(value), value) == (type(number), number)
