"""The object that a set validates, from what another one made of it."""

from __future__ import annotations

from typing import Any

import pytest

from replay.admission.effects import Changes
from replay.admission.validated_object import reference_object, validated_object
from replay.kube.attributes import Missing, PartialObject

MISSING = Missing("object", "it is not recorded", "record it")

CARRIED: list[tuple[str, Any, Any, Any, Any]] = [
    ("same", {"a": 1}, {"a": 1}, {"a": 1, "uid": 1}, {"a": 1, "uid": 1}),
    ("difference", {"a": 1}, {"a": 2}, {"a": 1, "uid": 1}, {"a": 2, "uid": 1}),
    ("item", {"l": [1]}, {"l": [1, 2]}, {"l": [1]}, {"l": [1, 2]}),
    ("list of another length", {"l": [1]}, {"l": [1, 2]}, {"l": [0, 1]}, None),
    ("gone", {"a": {"b": 1}}, {"a": {"b": 2}}, {}, None),
    ("a map beside the server's own", {}, {"m": {"b": 1}}, {"m": {"s": 1}}, {"m": {"s": 1, "b": 1}}),
    ("a map that is taken away", {"m": {"b": 1}}, {}, {"m": {"b": 1, "s": 1}}, {"m": {"s": 1}}),
    ("a map that is all that is there", {"m": {"b": 1}}, {}, {"m": {"b": 1}}, {}),
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


SHOWN: list[tuple[str, Any, Any, Any, str]] = [
    ("shown", {}, {"m": {"b": 1}}, {"m": {"b": 1}}, "mutated"),
    ("shown beside the server's own", {}, {"m": {"b": 1}}, {"m": {"b": 1, "s": 1}}, "mutated"),
    ("not shown", {}, {"m": {"b": 1}}, {"m": {"s": 1}}, "before"),
    ("nothing mutated", {"a": 1}, {"a": 1}, {}, "mutated"),
]


@pytest.mark.parametrize(
    ("before", "mutated", "validated", "expected"), [row[1:] for row in SHOWN], ids=[row[0] for row in SHOWN]
)
def test_what_the_server_made_it_of(before: Any, mutated: Any, validated: Any, expected: str) -> None:
    found = reference_object(before, mutated, validated, Changes())
    assert found is {"before": before, "mutated": mutated}[expected]
