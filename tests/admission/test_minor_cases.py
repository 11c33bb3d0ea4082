"""Single expressions with what the API servers of older minors answer: some of every area here, more where the corpora are."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from replay.cel.ast.walk import with_deep_stack
from replay.cellib.version import KubernetesVersion
from replay.pipeline.cel import results
from tests.support.cel_cases import CORPUS, SHARED, decoded, is_answered, is_long, unpacked

HERE = Path(__file__).parent / "data" / "minors.jsonl"
MINORS = tuple(range(30, 37))
RESULTS = (
    *("compile_error", "compile_error_on_create", "type", "value", "error", "out_of_budget", "cost", "variants"),
    *("variable_types", "variable_compile_errors", "decision", "patch", "patch_error", "panic"),
)
SHARE = 12
"""One in so many of the cases that are as in 1.37 is run."""
SLOW_SHARE = 3
"""The same for the slow test: which ones depends on the minor, so that each is run as two or three of the seven."""

_POINTER = "the server prints the expression as Go or protobuf does, with an address or spaces of its choice"
_OPTIONAL = "run-time errors of 1.30 call optional values `optional`"
EXPLAINED = {
    "optionals-331db9a20e5d": _POINTER,
    "macros-894ffb3241dc": _POINTER,
    "conversion-47218460fbfc": _OPTIONAL,
    "format-c610b421f17f": _OPTIONAL,
    "mutation-17f0bd6133a5": "one type provider is shared by all compilers of a 1.32 server, so what ran before decides",
    "mutation-338d54e1707c": "protobuf puts a space or a no-break space after `proto:`, whatever the build is",
    "cost-limits-ab1a5beffd7c": "new variables of 1.34 have no `lists.range`, so the new expression is dyn; the corpus has no line",
}
"""What is not reproduced, by id."""


def compared(outcome: Mapping[str, Any]) -> dict[str, Any]:
    """Without what the corpora of older minors do not have."""
    kept = {key: value for key, value in outcome.items() if key != "estimated"}
    if isinstance(kept.get("decision"), dict):
        kept["decision"] = {key: value for key, value in kept["decision"].items() if key != "evaluation"}
    return kept


def wrong(minor: int, rows: Iterable[tuple[str, Mapping[str, Any]]]) -> list[str]:
    """The ids of the cases, given as lines with what is expected, that a minor answers otherwise."""
    rows = list(rows)
    found = []
    for (_, expected), result in zip(
        rows, results((line for line, _ in rows), KubernetesVersion(1, minor)), strict=True
    ):
        if not with_deep_stack(lambda: is_answered(compared(expected), compared(result))):  # noqa: B023 - called at once
            found.append(expected["id"])
    return found


def expectations(minor: int, *, is_slow: bool) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The cases that differ in a minor and a share of the others; the slow test has a larger share, and what takes long.

    Of long ones that are as in 1.37, one in three is run, as one of the minors.
    """
    differing = {case["id"]: case for case in map(decoded, unpacked(SHARED / "minors" / f"cel-1.{minor}.jsonl.zst"))}
    skipped = set(json.loads((SHARED / "minors" / "not_evaluated.json").read_text())[f"1.{minor}"])
    for number, line in enumerate(unpacked(CORPUS)):
        case = decoded(line)
        changed = differing.get(case["id"])
        if is_long(changed or case):
            is_run = is_slow and (changed is not None or number % (SLOW_SHARE * len(MINORS)) == MINORS.index(minor))
        elif changed is not None:
            is_run = not is_slow
        else:
            is_run = not ((number - minor) % SLOW_SHARE if is_slow else number % SHARE)
        if case["id"] in skipped or not is_run:
            continue
        if changed is not None:
            inputs = {key: value for key, value in case.items() if key not in RESULTS}
            case = {**inputs, **{key: changed[key] for key in RESULTS if key in changed}}
        yield line, case


@pytest.mark.parametrize("minor", MINORS)
def test_every_area(minor: int) -> None:
    rows = [(line, case) for line in HERE.read_text().splitlines() if (case := decoded(line))["minor"] == minor]
    assert len(rows) > 1
    assert wrong(minor, rows) == []


def require_corpora() -> None:
    if not (SHARED / "minors").is_dir():
        pytest.skip("the shared corpora are not here")


@pytest.mark.shared
@pytest.mark.parametrize("minor", MINORS)
def test_what_differs_and_a_share_of_the_rest(minor: int) -> None:
    require_corpora()
    assert set(wrong(minor, expectations(minor, is_slow=False))) <= set(EXPLAINED)


@pytest.mark.shared
@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize("minor", MINORS)
def test_what_takes_long_and_more_of_the_rest(minor: int) -> None:
    require_corpora()
    assert set(wrong(minor, expectations(minor, is_slow=True))) <= set(EXPLAINED)
