"""Structured merge against `ApplyStructuredMergeDiff` of the API server (k8s.io/apiserver 0.37.1), run on the same objects."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replay.json import JSON
from replay.kube.gvk import GroupVersionKind, split_api_version
from replay.kube.merge.atom import Atom, Atoms
from replay.kube.merge.merge_key import MergeError
from replay.kube.merge.structured_merge import apply_configuration
from replay.kube.schema import Schemas

ROWS = [
    orjson.loads(line)
    for line in Path(__file__).with_name("data").joinpath("structured_merge.jsonl").read_bytes().splitlines()
]
ATOMS = Atoms()


def atom_of(value: JSON) -> Atom:
    schema = Schemas().for_kind(GroupVersionKind(*split_api_version(value["apiVersion"]), value["kind"]))
    assert schema is not None
    return ATOMS.atom_for(schema)


def merged(value: JSON, patch: JSON) -> JSON:
    return apply_configuration(
        atom_of(value), value, {**patch, "apiVersion": value["apiVersion"], "kind": value["kind"]}
    )


@pytest.mark.parametrize("row", ROWS, ids=[row["name"] for row in ROWS])
def test_apply_configuration(row: dict[str, Any]) -> None:
    given = copy.deepcopy(row)
    try:
        got = {"merged": merged(row["object"], row["patch"])}
    except MergeError as error:
        got = {"error": str(error)}
    if "error" in got and "error" in row:
        # the server visits maps in random order
        got["error"], row["error"] = (_sorted(text) for text in (got["error"], row["error"]))
    assert got == {name: row[name] for name in row if name not in {"name", "object", "patch"}}
    assert {name: row[name] for name in ("object", "patch")} == {name: given[name] for name in ("object", "patch")}


POD: JSON = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"managedFields": [{"fieldsV1": {"f:spec": {"f:containers": {".": {}}}}}]},
    "spec": {"containers": [{"name": "a", "image": "a:1"}]},
}


def test_patches_that_come_again() -> None:
    good = {"spec": {"containers": [{"name": "a", "image": "a:2"}]}}
    number = {"spec": {"containers": [{"name": "a", "image": 2}]}}
    unknown: JSON = {"spec": {"containrs": []}}
    for _ in range(2):
        assert merged(POD, good) == {**POD, "spec": good["spec"]}
        with pytest.raises(MergeError, match="expected string"):
            merged(POD, number)
        with pytest.raises(MergeError, match="field not declared in schema"):
            merged(POD, unknown)


def test_the_object_must_conform_too() -> None:
    broken = {**POD, "spec": {"containers": [{"name": "a", "args": ["x", 1]}]}}
    with pytest.raises(MergeError, match="failed to convert original object to typed object: "):
        merged(broken, {"metadata": {"labels": {"a": "b"}}})


def _sorted(text: str) -> str:
    return "\n".join(sorted(text.replace("structs: ", "structs: \n").replace(", ", "\n").split("\n")))


CUSTOM: JSON = {
    "spec": {
        "group": "example.com",
        "names": {"kind": "Widget"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                            "list": {"type": "array", "items": {"type": "string"}},
                            "set": {"type": "array", "items": {"type": "integer"}, "x-kubernetes-list-type": "set"},
                            "either": {"x-kubernetes-int-or-string": True},
                            "closed": {"type": "object", "properties": {"a": {"type": "string"}}},
                        },
                    }
                },
            }
        ],
    }
}
CUSTOM_ROWS: list[tuple[str, JSON, JSON, JSON | str]] = [
    ("free form merges", {"free": {"a": {"b": 1}}}, {"free": {"a": {"c": 2}}}, {"free": {"a": {"b": 1, "c": 2}}}),
    ("lists in free form are replaced", {"free": {"a": [1]}}, {"free": {"a": [2]}}, {"free": {"a": [2]}}),
    (
        "lists are atomic",
        {},
        {"list": ["a"]},
        "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: .list",
    ),
    ("set of numbers", {"set": [1, 2]}, {"set": [3, 2]}, {"set": [1, 3, 2]}),
    ("int or string", {"either": 1}, {"either": "x"}, {"either": "x"}),
    (
        "another field",
        {},
        {"closed": {"b": 1}},
        "failed to convert patch object to typed object: .closed.b: field not declared in schema",
    ),
]


@pytest.mark.parametrize(("name", "live", "patch", "expected"), CUSTOM_ROWS, ids=[row[0] for row in CUSTOM_ROWS])
def test_custom_kinds(name: str, live: JSON, patch: JSON, expected: JSON | str) -> None:  # noqa: ARG001
    schema = Schemas([CUSTOM]).for_kind(GroupVersionKind("example.com", "v1", "Widget"))
    assert schema is not None
    try:
        got = apply_configuration(Atoms().atom_for(schema), live, patch)
    except MergeError as error:
        got = str(error)
    assert got == expected


NAMES = st.sampled_from(["a", "b", "c", "d"])
CONTAINERS = st.lists(
    st.fixed_dictionaries({"name": NAMES}, optional={"image": NAMES, "tty": st.booleans()}),
    max_size=4,
    unique_by=lambda item: item["name"],
)
PODS = st.fixed_dictionaries(
    {
        "apiVersion": st.just("v1"),
        "kind": st.just("Pod"),
        "metadata": st.fixed_dictionaries(
            {},
            optional={
                "labels": st.dictionaries(NAMES, NAMES, max_size=3),
                "finalizers": st.lists(NAMES, unique=True, max_size=3),
            },
        ),
        "spec": st.fixed_dictionaries({"containers": CONTAINERS}, optional={"nodeName": NAMES}),
    }
)


@pytest.mark.property
@settings(max_examples=200, deadline=None)
@given(PODS, PODS)
def test_applying_twice_is_applying_once(live: JSON, patch: JSON) -> None:
    once = merged(live, patch)
    assert merged(once, patch) == once


@pytest.mark.property
@settings(max_examples=200, deadline=None)
@given(PODS, PODS)
def test_nothing_is_removed(live: JSON, patch: JSON) -> None:
    result = merged(live, patch)
    names = [item["name"] for item in result.get("spec", {}).get("containers", [])]
    assert {item["name"] for source in (live, patch) for item in source["spec"]["containers"]} == set(names)
    assert result.get("metadata", {}).get("labels", {}).keys() >= live["metadata"].get("labels", {}).keys()
