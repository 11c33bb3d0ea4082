"""Single expressions with what a real API server answers: some of every area here, all where the shared corpora are."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from replay.cel.ast.depth import with_room
from replay.errors import ReplayError
from replay.json import decode_json
from replay.pipeline.cases import results

HERE = Path(__file__).parent / "data" / "cases.jsonl"
CORPUS = Path(__file__).parents[2].parent / "shared" / "cel" / "kubernetes" / "cases.jsonl.zst"
COMPARED = (
    "compile_error",
    "compile_error_on_create",
    "type",
    "value",
    "error",
    "out_of_budget",
    "cost",
    "decision",
    "patch",
    "patch_error",
    "variable_types",
    "variable_compile_errors",
    "estimated",
)


def comparable(value: Any) -> Any:
    """Doubles compare as numbers, maps without order."""
    if isinstance(value, dict):
        if set(value) == {"double"}:
            return {"double": repr(float(value["double"].replace("Infinity", "inf")))}
        return {key: comparable(item) for key, item in value.items()}
    return [comparable(item) for item in value] if isinstance(value, list) else value


def differences(lines: Iterable[str]) -> list[str]:
    """What differs from the recorded answers."""
    lines = list(lines)
    found = []
    for line, result in zip(lines, results(lines), strict=True):
        case = with_room(lambda: json.loads(line))  # noqa: B023 - called at once
        if not with_room(lambda: is_answered(case, result)):  # noqa: B023
            wanted = {key: case[key] for key in COMPARED if key in case}
            found.append(f"{case['id']} {case['expr'][:200]}\n  wanted {wanted}\n  got {result}"[:2000])
    return found


def is_answered(case: Mapping[str, Any], result: Mapping[str, Any]) -> bool:
    """Whether a result is what the server answers, or one of its answers where they vary with the order of maps."""
    if "panic" in case:
        return "error" in result or "compile_error" in result
    if "variants" in case:
        return any(comparable_unordered(each) == comparable_unordered(result) for each in case["variants"])
    return all(comparable(case.get(key)) == comparable(result.get(key)) for key in COMPARED)


def comparable_unordered(outcome: Mapping[str, Any]) -> Any:
    """The value of an outcome, a list as a bag; its cost varies too."""
    value = comparable(outcome.get("value"))
    if isinstance(value, dict) and "list" in value:
        return Counter(json.dumps(item) for item in value["list"])
    return value


def test_every_area() -> None:
    assert differences(HERE.read_text().splitlines()) == []


@pytest.mark.shared
def test_whole_corpus() -> None:
    if not CORPUS.is_file():
        pytest.skip("the shared corpora are not here")
    with pa.input_stream(str(CORPUS), compression="zstd") as stream:
        text: str = stream.read().decode()
    assert differences(text.splitlines()) == []


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
