"""Library functions in compiled code remember what they made of texts, and of nothing else."""

from __future__ import annotations

import pytest

from replay.cel.compiled.fastpath import LONG, REMEMBERED, LeaveError, remembering
from replay.cel.value.values import EvalError, Value


class Counted:
    """A function that counts how often it runs."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, value: Value, *_: Value) -> Value:
        self.calls += 1
        return EvalError("no") if value == "bad" else [type(value).__name__, value]


ROWS: list[tuple[str, list[tuple[Value, ...]], int]] = [
    ("a text that comes again", [("a",), ("a",)], 1),
    ("texts", [("a", "b"), ("a", "b"), ("a", "c")], 2),
    ("equal values that differ in type", [(1,), (1.0,), (True,), (1,)], 4),
    ("a text beside a number", [("a", 1), ("a", True), ("a", 1)], 3),
    ("a long text", [("x" * (LONG + 1),)] * 2, 2),
]


@pytest.mark.parametrize(("name", "calls", "runs"), ROWS, ids=[row[0] for row in ROWS])
def test_what_is_remembered(name: str, calls: list[tuple[Value, ...]], runs: int) -> None:  # noqa: ARG001
    function = Counted()
    remembered = remembering(function, None)
    for args in calls:
        found = remembered(*args)
        assert found == [type(args[0]).__name__, args[0]]
    assert function.calls == runs


def test_an_error_is_left_to_the_strict_engine_each_time() -> None:
    function = Counted()
    remembered = remembering(function, None)
    for _ in range(2):
        with pytest.raises(LeaveError):
            remembered("bad")
    assert function.calls == 2


def test_no_more_is_remembered_than_fits() -> None:
    function = Counted()
    remembered = remembering(function, None)
    for index in [*range(REMEMBERED + 1), 0, REMEMBERED]:
        remembered(str(index))
    assert function.calls == REMEMBERED + 2
