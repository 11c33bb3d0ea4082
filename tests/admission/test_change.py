"""What changed between two states of an object, and that it is found out once."""

from __future__ import annotations

from typing import Any

import pytest

from replay.admission import effects
from replay.admission.effects import Changes, changes
from replay.kube.attributes import Missing, PartialObject

MISSING = Missing("object.b", "not recorded")
ADDED = ({"op": "add", "path": "/b", "value": 2},)

ROWS: list[tuple[str, Any, Any, tuple[Any, ...], bool]] = [
    ("equal", {"a": 1}, {"a": 1}, (), True),
    ("changed", {"a": 1}, {"a": 1, "b": 2}, ADDED, False),
    ("nothing before", None, {"a": 1}, (), False),
    ("not known", {"a": 1}, MISSING, (), False),
    ("partly known", PartialObject({"a": 1}, ()), PartialObject({"a": 1, "b": 2}, ()), ADDED, False),
    ("equal in what is known", PartialObject({"b": MISSING}, (MISSING,)), PartialObject({"b": MISSING}, ()), (), True),
]


@pytest.mark.parametrize(("name", "before", "after", "patch", "same"), ROWS, ids=[row[0] for row in ROWS])
def test_changes(name: str, before: Any, after: Any, patch: tuple[Any, ...], same: bool) -> None:  # noqa: ARG001
    known = Changes()
    for _ in range(2):
        assert (changes(before, after), known(before, after), known.is_same(before, after)) == (patch, patch, same)


def test_a_pair_is_compared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    before, after = {"a": 1}, {"a": 1, "b": 2}
    known = Changes()
    assert known(before, after) == ADDED
    monkeypatch.setattr(effects, "changes", None)
    assert known(before, after) == ADDED
    assert known(before, before) == ()


def test_a_patch_that_is_known_is_not_made() -> None:
    before, after = {"a": 1}, {"a": 1, "b": 2}
    known = Changes()
    known.note(before, after, ADDED)
    assert known(before, after) is ADDED
