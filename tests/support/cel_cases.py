"""Single expressions with the answers of real API servers: where they are, and when a result is one of the answers."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from replay.cel.ast.walk import with_deep_stack

SHARED = Path(__file__).parents[2].parent / "shared"
CORPUS = SHARED / "cel" / "kubernetes" / "cases.jsonl.zst"
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
LONG_COST = 100_000
"""What a case costs that runs for a second rather than a millisecond: a few dozen do, and take longer than all others."""

Case = Mapping[str, Any]


def unpacked(path: Path) -> list[str]:
    """The lines of a corpus."""
    with pa.input_stream(str(path), compression="zstd") as stream:
        text: str = stream.read().decode()
    return text.splitlines()


def decoded(line: str) -> dict[str, Any]:
    """A case, however deeply nested."""
    case: dict[str, Any] = with_deep_stack(lambda: json.loads(line))
    return case


def is_long(case: Case) -> bool:
    """Whether a case evaluates for long."""
    return bool(case.get("out_of_budget")) or (case.get("cost") or 0) > LONG_COST


def comparable(value: Any) -> Any:
    """Doubles compare as numbers, maps without order."""
    if isinstance(value, dict):
        if set(value) == {"double"}:
            return {"double": repr(float(value["double"].replace("Infinity", "inf")))}
        return {key: comparable(item) for key, item in value.items()}
    return [comparable(item) for item in value] if isinstance(value, list) else value


def is_answered(case: Case, result: Case) -> bool:
    """Whether a result is what the server answers, or one of its answers where they vary with the order of maps."""
    if "panic" in case:
        return "error" in result or "compile_error" in result
    if "variants" in case:
        return any(_unordered(each) == _unordered(result) for each in case["variants"])
    return all(comparable(case.get(key)) == comparable(result.get(key)) for key in COMPARED)


def _unordered(outcome: Case) -> Any:
    """The value of an outcome, a list as a bag; its cost varies too."""
    value = comparable(outcome.get("value"))
    if isinstance(value, dict) and "list" in value:
        return Counter(json.dumps(item) for item in value["list"])
    return value
