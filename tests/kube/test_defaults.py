"""Defaulting against the API server's own scheme (k8s.io/kubernetes 1.37.1), run on the same objects.

`data/defaults.jsonl` holds an object a line and what decoding, defaulting and encoding made of it.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import orjson
import pytest

from replay.json import JSON
from replay.kube.default import set_custom_defaults, set_defaults
from replay.kube.go_object import round_trip
from replay.kube.gvk import GroupVersionKind, split_api_version
from replay.kube.schema import Schema, Schemas

ROWS = [
    orjson.loads(line) for line in Path(__file__).with_name("data").joinpath("defaults.jsonl").read_bytes().splitlines()
]
SCHEMAS = Schemas()


def schema_of(value: JSON) -> Schema:
    schema = SCHEMAS.for_kind(GroupVersionKind(*split_api_version(value["apiVersion"]), value["kind"]))
    assert schema is not None
    return schema


def defaulted(value: JSON, before: JSON = None) -> JSON:
    settled = round_trip(schema_of(value), value, before)
    set_defaults(schema_of(value), settled, before)
    return settled


@pytest.mark.parametrize("row", ROWS, ids=[f"{i}-{row['object']['kind']}" for i, row in enumerate(ROWS)])
def test_built_in_kinds(row: dict[str, Any]) -> None:
    given = copy.deepcopy(row["object"])
    assert defaulted(given) == row["defaulted"]
    assert given == row["object"]


@pytest.mark.parametrize("row", ROWS, ids=[f"{i}-{row['object']['kind']}" for i, row in enumerate(ROWS)])
def test_defaulting_again_changes_nothing(row: dict[str, Any]) -> None:
    assert defaulted(row["defaulted"]) == row["defaulted"]


def test_parts_of_the_object_before_are_kept() -> None:
    before = defaulted({"apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": {"containers": [{"name": "a"}]}})
    unchanged = copy.deepcopy(before)
    spec = {**before["spec"], "containers": [*before["spec"]["containers"], {"name": "b", "image": "b:1"}]}
    after = defaulted({**before, "spec": spec}, before)
    assert after["spec"]["containers"][0] is before["spec"]["containers"][0]
    assert after["metadata"] is before["metadata"]
    assert after["spec"]["containers"][1] == {
        "name": "b",
        "image": "b:1",
        "imagePullPolicy": "IfNotPresent",
        "resources": {},
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
    }
    assert before == unchanged


def test_what_a_rule_only_copied_is_kept() -> None:
    before = defaulted({"apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": {"containers": [{"name": "a"}]}})
    after = defaulted({**before, "metadata": {"annotations": {"a": "b"}}}, before)
    assert after["spec"] is before["spec"]
    limited = {"name": "a", "resources": {"limits": {"cpu": "1"}}}
    changed = defaulted({**before, "spec": {**before["spec"], "containers": [limited]}}, before)
    assert changed["spec"]["containers"][0]["resources"] == {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}


CUSTOM = Schema(
    {
        "type": "object",
        "properties": {
            "size": {"type": "integer", "default": 3},
            "mode": {"type": "string", "default": "a", "nullable": True},
            "items": {
                "type": "array",
                "items": {"type": "object", "properties": {"on": {"type": "boolean", "default": True}}},
            },
            "inner": {"type": "object", "default": {}, "properties": {"deep": {"type": "string", "default": "d"}}},
            "named": {
                "type": "object",
                "additionalProperties": {"type": "object", "properties": {"x": {"type": "integer", "default": 1}}},
            },
        },
    },
    {},
)
CUSTOM_ROWS: list[tuple[str, JSON, JSON]] = [
    ("all missing", {}, {"size": 3, "mode": "a", "inner": {"deep": "d"}}),
    ("null", {"size": None, "mode": None, "inner": {}}, {"size": 3, "mode": None, "inner": {"deep": "d"}}),
    (
        "inside",
        {"size": 1, "mode": "b", "items": [{}, {"on": False}], "inner": {"deep": ""}, "named": {"n": {}}},
        {
            "size": 1,
            "mode": "b",
            "items": [{"on": True}, {"on": False}],
            "inner": {"deep": ""},
            "named": {"n": {"x": 1}},
        },
    ),
]


@pytest.mark.parametrize(("name", "given", "expected"), CUSTOM_ROWS, ids=[row[0] for row in CUSTOM_ROWS])
def test_custom_kinds(name: str, given: JSON, expected: JSON) -> None:  # noqa: ARG001
    before = copy.deepcopy(given)
    settled = set_custom_defaults(CUSTOM, given)
    assert settled == expected
    assert given == before
    assert set_custom_defaults(CUSTOM, settled) is settled


@pytest.mark.parametrize(
    ("amount", "expected"),
    [
        ("1n", "1m"),
        ("1500u", "2m"),
        ("1e-99", "1e-3"),
        ("9" * 200 + "e-99", "100e99"),
    ],
    ids=lambda text: text[:8],
)
def test_limits_are_no_finer_than_a_thousandth(amount: str, expected: str) -> None:
    container = {"name": "c", "resources": {"limits": {"cpu": amount}}}
    pod = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [container]}}
    assert defaulted(pod)["spec"]["containers"][0]["resources"]["limits"] == {"cpu": expected}
