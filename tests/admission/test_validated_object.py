"""The object that a set validates, from what another one made of it."""

from __future__ import annotations

from typing import Any

import pytest

from replay.admission.change import Changes
from replay.admission.validated_object import validated_object
from replay.kube.attributes import Missing, PartialObject

MISSING = Missing("object", "it is not recorded", "record it")

CARRIED: list[tuple[str, Any, Any, Any, Any]] = [
    ("same", {"a": 1}, {"a": 1}, {"a": 1, "uid": 1}, {"a": 1, "uid": 1}),
    ("difference", {"a": 1}, {"a": 2}, {"a": 1, "uid": 1}, {"a": 2, "uid": 1}),
    ("item", {"l": [1]}, {"l": [1, 2]}, {"l": [1]}, {"l": [1, 2]}),
    ("list of another length", {"l": [1]}, {"l": [1, 2]}, {"l": [0, 1]}, None),
    ("gone", {"a": {"b": 1}}, {"a": {"b": 2}}, {}, None),
    ("unknown part", {"a": 1}, {"a": 2}, PartialObject({"a": MISSING}, (MISSING,)), None),
    ("unknown part elsewhere", {"a": 1}, {"a": 2}, PartialObject({"a": 1, "u": MISSING}, (MISSING,)), "partial"),
    ("unknown mutation", {"a": 1}, MISSING, {"a": 1}, None),
]


@pytest.mark.parametrize(
    ("name", "reference", "mutated", "validated", "expected"), CARRIED, ids=[row[0] for row in CARRIED]
)
def test_validated_object(name: str, reference: Any, mutated: Any, validated: Any, expected: Any) -> None:  # noqa: ARG001
    got = validated_object(reference, mutated, validated, Changes())
    if expected is None:
        assert isinstance(got, Missing)
    elif expected == "partial":
        assert got == PartialObject({"a": 2, "u": MISSING}, (MISSING,))
    else:
        assert got == expected
