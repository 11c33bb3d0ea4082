"""Who owns which field after applies and updates, against what k8s.io/apimachinery's own field manager makes of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from replay.json import JSON
from replay.kube.gvk import GroupVersionKind
from replay.kube.merge.atom import Atom, Atoms
from replay.kube.merge.field_manager import (
    APPLY,
    UPDATE,
    ApplyConflictError,
    FieldManager,
    Managers,
    Writer,
    applied,
    entries_of,
    managers_of,
    updated,
)
from replay.kube.merge.merge_key import MergeError
from replay.kube.schema import Schemas

ROWS = [
    orjson.loads(line)
    for line in Path(__file__).with_name("data").joinpath("field_manager.jsonl").read_bytes().splitlines()
]
SCHEMAS, ATOMS = Schemas(), Atoms()


def atom_of(value: JSON) -> Atom:
    group, _, version = value["apiVersion"].rpartition("/")
    schema = SCHEMAS.for_kind(GroupVersionKind(group, version, value["kind"]))
    assert schema is not None
    return ATOMS.atom_for(schema)


def after(step: dict[str, Any], live: JSON, managers: Managers) -> tuple[JSON, Managers]:
    """The object and its managers after a request."""
    value, is_apply = step["object"], step["op"] == "apply"
    manager = FieldManager(step["manager"], APPLY if is_apply else UPDATE, "", value["apiVersion"])
    writer = Writer(manager, force=step["force"]) if is_apply else Writer(manager)
    if is_apply:
        return applied(atom_of(value), live, value, managers, writer)
    return value, updated(atom_of(value), live, value, managers, writer)


def in_order(entries: list[Any]) -> list[bytes]:
    """Entries of `metadata.managedFields` without their times, to be compared."""
    untimed = ({name: part for name, part in each.items() if name != "time"} for each in entries)
    return sorted(orjson.dumps(each, option=orjson.OPT_SORT_KEYS) for each in untimed)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["name"])
def test_owners(row: dict[str, Any]) -> None:
    first = row["steps"][0]["object"]
    live: JSON = {name: first[name] for name in ("apiVersion", "kind")}
    managers: Managers = {}
    for step, expected in zip(row["steps"], row["results"], strict=True):
        if "error" in expected:
            with pytest.raises((ApplyConflictError, MergeError)) as refusal:
                after(step, live, managers)
            assert expected["error"].startswith(str(refusal.value).partition(": ")[0])
            assert isinstance(refusal.value, MergeError) or str(refusal.value) == expected["error"]
        else:
            live, managers = after(step, live, managers)
            entries = expected.get("managedFields", [])
            assert (live, managers) == (expected["object"], managers_of(entries, first["apiVersion"]))
            assert in_order(entries_of(managers, (), "")) == in_order(entries)
