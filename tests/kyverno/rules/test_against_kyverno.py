"""Expressions, patterns and merges with the answers of the real module (kyverno v1.19.1, beside this file as JSON)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from replay.kyverno.rules.go_value import with_floats, with_integers
from replay.kyverno.rules.image import ImageDefaults
from replay.kyverno.rules.jmespath.library import kyverno_library
from replay.kyverno.rules.match_pattern import PatternError, match_pattern
from replay.kyverno.rules.response import GoPanicError, RuleError, UndeterminedError
from replay.kyverno.rules.strategic_merge import merge_with_anchors
from replay.kyverno.rules.substitution import substitute

_FOLDER = Path(__file__).parent


def _read(name: str) -> Any:
    return json.loads(_FOLDER.joinpath(name).read_text("utf-8"))


def _no_clock() -> Any:
    raise UndeterminedError("no clock")


_JMESPATH, _MERGES, _PATTERNS = _read("jmespath.json"), _read("merge.json"), _read("patterns.json")
_LIBRARY = kyverno_library(_no_clock, ImageDefaults())


@pytest.mark.parametrize("row", _JMESPATH["rows"], ids=lambda row: row["expression"][:60])
def test_expression(row: dict[str, Any]) -> None:
    try:
        got: dict[str, Any] = {"result": _LIBRARY.query(row["expression"]).search(with_floats(_JMESPATH["data"]))}
    except RuleError as error:
        got = {"error": str(error)}
    except GoPanicError as error:
        got = {"panic": str(error)}
    except UndeterminedError:
        pytest.skip("not decided")
    assert got == {key: value for key, value in row.items() if key != "expression"}


@pytest.mark.parametrize(("expression", "result"), [("o.*", [2, 1]), ("keys(o)", ["q", "p"]), ("values(o)", [2, 1])])
def test_maps_keep_the_order_of_the_object(expression: str, result: list[Any]) -> None:
    """The most probable order of a Go map of at most eight entries."""
    assert _LIBRARY.query(expression).search({"o": {"q": 2, "p": 1}}) == result


@pytest.mark.parametrize("row", _MERGES["rows"], ids=lambda row: f"{row['object']} {json.dumps(row['patch'])}"[:80])
def test_merge(row: dict[str, Any]) -> None:
    base = with_integers(_MERGES["objects"][row["object"]])
    try:
        got: dict[str, Any] = {"result": with_integers(merge_with_anchors(base, with_floats(row["patch"])))}
    except RuleError as error:
        got = {"error": str(error)}
    except GoPanicError as error:
        got = {"panic": str(error)}
    assert got == {key: value for key, value in row.items() if key not in ("object", "patch")}


@pytest.mark.parametrize("row", _PATTERNS, ids=lambda row: json.dumps(row["pattern"])[:60])
def test_pattern(row: dict[str, Any]) -> None:
    try:
        match_pattern(with_integers(row["object"]), with_floats(row["pattern"]))
        got: dict[str, Any] = {"result": True}
    except PatternError as error:
        got = {"error": str(error), "path": error.path, "skip": error.skip}
    assert got == {key: value for key, value in row.items() if key not in ("object", "pattern")}


class _Endless:
    """Variables that stand for themselves."""

    operation = "CREATE"

    def query(self, expression: str) -> str:
        return f"x {{{{ {expression} }}}}"


def test_variables_without_end_are_undetermined() -> None:
    with pytest.raises(UndeterminedError, match="without end"):
        substitute(_Endless(), "a {{ b }}")


def test_nesting_is_bounded() -> None:
    with pytest.raises(RuleError, match="nested"):
        _LIBRARY.query("(" * 5000 + "a" + ")" * 5000)
