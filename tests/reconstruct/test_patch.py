from __future__ import annotations

from typing import Any

import pytest

from replay.json import FieldPath
from replay.reconstruct.patch.body import PatchForm, UnappliedPatchError, agrees, applied, made_parts, touched

BEFORE = {"a": {"b": 1, "c": [1, 2]}, "d": "x"}


@pytest.mark.parametrize(
    ("patch", "after"),
    [
        ([{"op": "add", "path": "/a/c/-", "value": 3}], {"a": {"b": 1, "c": [1, 2, 3]}, "d": "x"}),
        ([{"op": "add", "path": "/a/c/0", "value": 0}], {"a": {"b": 1, "c": [0, 1, 2]}, "d": "x"}),
        ([{"op": "remove", "path": "/a/b"}], {"a": {"c": [1, 2]}, "d": "x"}),
        ([{"op": "replace", "path": "/a/c/1", "value": 9}], {"a": {"b": 1, "c": [1, 9]}, "d": "x"}),
        ([{"op": "move", "from": "/d", "path": "/a/d"}], {"a": {"b": 1, "c": [1, 2], "d": "x"}}),
        ([{"op": "copy", "from": "/d", "path": "/e~1f"}], {"a": {"b": 1, "c": [1, 2]}, "d": "x", "e/f": "x"}),
        ([{"op": "test", "path": "/d", "value": "x"}], BEFORE),
    ],
)
def test_json_patches(patch: Any, after: Any) -> None:
    assert applied(patch, PatchForm.JSON, BEFORE) == after
    assert BEFORE == {"a": {"b": 1, "c": [1, 2]}, "d": "x"}


def test_merge_patches() -> None:
    assert applied({"a": {"b": None, "e": {"f": 1}}}, PatchForm.MERGE, BEFORE) == {
        "a": {"c": [1, 2], "e": {"f": 1}},
        "d": "x",
    }


@pytest.mark.parametrize(
    ("patch", "form"),
    [
        ([{"op": "test", "path": "/d", "value": "y"}], PatchForm.JSON),
        ([{"op": "remove", "path": "/none"}], PatchForm.JSON),
        ([{"op": "replace", "path": "/a/c/7", "value": 1}], PatchForm.JSON),
        ([{"op": "nonsense", "path": "/a"}], PatchForm.JSON),
        ({"spec": {"containers": [{"name": "c"}]}}, PatchForm.MERGE),
        ({"metadata": {"$patch": "replace"}}, PatchForm.MERGE),
        ({"kind": "Pod"}, PatchForm.APPLY),
        (None, PatchForm.MERGE),
    ],
)
def test_patches_that_cannot_be_applied(patch: Any, form: PatchForm) -> None:
    with pytest.raises(UnappliedPatchError):
        applied(patch, form, BEFORE)


@pytest.mark.parametrize(
    ("patch", "paths"),
    [
        ({"a": {"b": 1}, "c": [1]}, [("a", "b"), ("c",)]),
        ({"a": {}}, [("a",)]),
        ({"metadata": {}, "a": 1}, [("a",)]),
        ({"s": {"$setElementOrder/c": [], "c": [], "$retainKeys": ["x"]}}, [("s", "c"), ("s", "c"), ("s",)]),
        ([{"op": "add", "path": "/spec/containers/0/image"}], [("spec", "containers")]),
        ([{"op": "move", "from": "/a~1b", "path": "/c"}], [("c",), ("a/b",)]),
    ],
)
def test_what_a_patch_touches(patch: Any, paths: list[FieldPath]) -> None:
    assert touched(patch) == paths


def test_what_a_patch_may_have_made_whole() -> None:
    after = {"series": {"count": 2, "last": 3}, "metadata": {"labels": {"a": 1, "b": 2}}}
    paths: list[FieldPath] = [("series", "count"), ("series", "last"), ("metadata", "labels", "a")]
    assert made_parts(paths, after) == [("series",), ("series",), ("metadata", "labels", "a")]


@pytest.mark.parametrize(
    ("other", "equal"),
    [
        ({"a": {"b": 2, "c": [1, 2]}, "d": "x"}, True),
        ({"a": {"c": [1, 2]}, "d": "x"}, True),
        ({"a": {"b": 1, "c": [1, 3]}, "d": "x"}, False),
        ({"a": {"b": 1, "c": [1, 2]}, "d": "x", "e": 1}, False),
        ({"d": "x"}, False),
    ],
)
def test_agreement_apart_from_paths(other: Any, equal: bool) -> None:
    assert agrees(BEFORE, other, [("a", "b")]) is equal
