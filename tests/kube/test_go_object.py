"""Decoding into Go types against the API server's own strict decoder (k8s.io/kubernetes 1.37.1)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from replay.kube.go_object import DecodeError, round_trip
from replay.kube.gvk import GroupVersionKind, split_api_version
from replay.kube.schema import Schemas

ROWS = [
    orjson.loads(line)
    for line in Path(__file__).with_name("data").joinpath("go_object.jsonl").read_bytes().splitlines()
]


@pytest.mark.parametrize("row", ROWS, ids=[f"{i}-{row['object']['kind']}" for i, row in enumerate(ROWS)])
def test_round_trip(row: dict[str, Any]) -> None:
    value = row["object"]
    schema = Schemas().for_kind(GroupVersionKind(*split_api_version(value["apiVersion"]), value["kind"]))
    assert schema is not None
    unknown: list[str] = []
    try:
        got = {"written": round_trip(schema, value, None, unknown)}
    except DecodeError as error:
        got = {"error": str(error)}
    if unknown:
        got = {"error": "strict decoding error: " + ", ".join(f'unknown field "{path}"' for path in unknown)}
    assert got == {name: row[name] for name in row if name != "object"}


def test_unknown_fields_are_dropped_where_nobody_asks() -> None:
    schema = Schemas().for_kind(GroupVersionKind("", "v1", "ConfigMap"))
    assert schema is not None
    assert round_trip(schema, {"data": {"a": "b"}, "nope": 1, "metadata": {}}) == {"data": {"a": "b"}, "metadata": {}}


NUMBERS = [
    ("a flag", {"hostNetwork": 5}, "number into Go struct field PodSpec.spec.hostNetwork of type bool"),
    ("a list", {"containers": 5}, "number into Go struct field PodSpec.spec.containers of type []v1.Container"),
    ("a text", {"nodeName": 5}, "number into Go struct field PodSpec.spec.nodeName of type string"),
    ("an integer", {"priority": 5.5}, "number 5.5 into Go struct field PodSpec.spec.priority of type int32"),
]


@pytest.mark.parametrize(("spec", "text"), [row[1:] for row in NUMBERS], ids=[row[0] for row in NUMBERS])
def test_a_number_in_a_field_of_another_type(spec: dict[str, Any], text: str) -> None:
    """encoding/json prints the digits only for a field of a number type."""
    schema = Schemas().for_kind(GroupVersionKind("", "v1", "Pod"))
    assert schema is not None
    with pytest.raises(DecodeError) as caught:
        round_trip(schema, {"apiVersion": "v1", "kind": "Pod", "spec": spec})
    assert str(caught.value) == f"json: cannot unmarshal {text}"
