"""JSON patches against evanphx/json-patch v4, the library of the API server, run on the same patches."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replay.json import JSON
from replay.kube.json_patch import COPY_LIMIT, JSONPatchError, TestFailed, apply, diff, equal

LINES = [
    orjson.loads(line)
    for line in Path(__file__).with_name("data").joinpath("json_patch.jsonl").read_bytes().splitlines()
]
DOCUMENT, ROWS = LINES[0]["document"], LINES[1:]


@pytest.mark.parametrize("row", ROWS, ids=[row["name"] for row in ROWS])
def test_apply(row: dict[str, Any]) -> None:
    document = copy.deepcopy(DOCUMENT)
    try:
        got = {"patched": apply(document, row["patch"])}
    except JSONPatchError as error:
        got = {"error": str(error)}
    assert got == {name: row[name] for name in row if name not in {"name", "patch"}}
    assert document == DOCUMENT


@pytest.mark.parametrize("path", ["/n", "/absent"])
def test_a_policys_test_for_null_never_holds(path: str) -> None:
    with pytest.raises(TestFailed):
        apply(DOCUMENT, [{"op": "test", "path": path, "value": None}], explicit_null=True)
    assert apply(DOCUMENT, [{"op": "test", "path": path}], explicit_null=True) == DOCUMENT


def test_a_document_of_null_has_no_places() -> None:
    with pytest.raises(JSONPatchError, match="doc is missing from path: /a"):
        apply(None, [{"op": "move", "from": "/a", "path": "/b"}])


def test_copies_are_limited() -> None:
    document = {"a": "x" * (COPY_LIMIT // 2), "list": []}
    patch = [{"op": "copy", "from": "/a", "path": "/list/-"}]
    assert len(apply(document, patch)["list"]) == 1
    expected = f"Unable to complete the copy, the accumulated size increase of copy is {COPY_LIMIT + 4}, exceeding the limit {COPY_LIMIT}"
    with pytest.raises(JSONPatchError, match=expected):
        apply(document, patch * 2)


DIFFS: list[tuple[str, JSON, JSON, list[JSON]]] = [
    ("nothing", {"a": [1]}, {"a": [1]}, []),
    ("key", {"a": 1}, {"a/b": 2}, [{"op": "remove", "path": "/a"}, {"op": "add", "path": "/a~1b", "value": 2}]),
    ("type", {"a": 1}, {"a": True}, [{"op": "replace", "path": "/a", "value": True}]),
    ("item at the end", {"a": [1]}, {"a": [1, 2]}, [{"op": "add", "path": "/a/1", "value": 2}]),
    ("item in front", {"a": [1, 2]}, {"a": [0, 1, 2]}, [{"op": "add", "path": "/a/0", "value": 0}]),
    ("items gone", {"a": [1, 2, 3, 4]}, {"a": [1, 4]}, [{"op": "remove", "path": f"/a/{i}"} for i in (2, 1)]),
    (
        "changed and new item",
        {"a": [{"x": 1}]},
        {"a": [{"x": 2}, {"y": 1}]},
        [{"op": "replace", "path": "/a/0/x", "value": 2}, {"op": "add", "path": "/a/1", "value": {"y": 1}}],
    ),
]


@pytest.mark.parametrize(("name", "before", "after", "expected"), DIFFS, ids=[row[0] for row in DIFFS])
def test_diff(name: str, before: JSON, after: JSON, expected: list[JSON]) -> None:  # noqa: ARG001
    assert list(diff(before, after)) == expected


SCALARS = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "x", "~/"]) | st.just(1.5)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["a", "b", "~", "/", ""]), inner, max_size=4)
    ),
    max_leaves=12,
)
OBJECTS = st.dictionaries(st.sampled_from(["a", "b", "c/d"]), VALUES, max_size=3)
POINTERS = st.sampled_from(["", "/", "/a", "/b/0", "/a/-", "/a/-1", "/b/a", "/c~1d", "/c~1d/~0", "a", "/a/0/a", "/b/1"])
OPERATIONS = st.fixed_dictionaries(
    {},
    optional={
        "op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test", "x"]) | SCALARS,
        "path": POINTERS | SCALARS,
        "from": POINTERS | SCALARS,
        "value": VALUES,
    },
)


@pytest.mark.property
@settings(max_examples=150, deadline=None)
@given(OBJECTS, OBJECTS)
def test_applying_a_difference_gives_the_other_object(before: JSON, after: JSON) -> None:
    assert equal(apply(before, diff(before, after)), after)


@pytest.mark.property
@settings(max_examples=150, deadline=None)
@given(OBJECTS, st.lists(OPERATIONS, max_size=4))
def test_a_patch_raises_nothing_but_its_own_error_and_changes_nothing_in_place(
    document: JSON, patch: list[JSON]
) -> None:
    before = copy.deepcopy(document)
    try:
        apply(document, patch)
    except JSONPatchError as error:
        assert str(error)  # noqa: PT017 - any text, but no other exception
    assert equal(document, before)
