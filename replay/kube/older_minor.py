"""Differences of built-in kinds in older minor versions from `data/schema.json`.

They are for a server with default API versions. `data/minors.json` is made by `tests.tools.distill_minors`. Validation
rules are not compared: the versions word them differently, but require the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import orjson

from replay.kube.gvk import GroupVersionKind


@cache
def _differences() -> Mapping[str, Any]:
    return orjson.loads((files("replay.kube") / "data" / "minors.json").read_bytes())  # type: ignore[no-any-return]


@cache
def _since() -> Mapping[GroupVersionKind, int]:
    return {GroupVersionKind(*kind): minor for *kind, minor in _differences()["kinds"]}


def is_served(kind: GroupVersionKind, minor: int) -> bool:
    """Return whether a server of a minor version has a kind of the newest one."""
    return _since().get(kind, minor) <= minor


def gone_kinds(minor: int) -> Mapping[GroupVersionKind, str]:
    """Return the kinds of a minor that the newest minor lacks, with the names of their types."""
    return {GroupVersionKind(*kind): name for last, *kind, name in _differences()["gone"] if minor <= last}


def types_of(types: Mapping[str, Any], minor: int) -> Mapping[str, Any]:
    """Return the types as a minor version has them: without later fields, with fields that were dropped since."""
    older = {**_differences()["types"], **types}
    for name, fields in _differences()["fields"].items():
        kept = {field: node for field, node in types[name]["properties"].items() if fields.get(field, minor) <= minor}
        older[name] = {**types[name], "properties": kept}
    for first, last, name, field, node in _differences()["dropped"]:
        if first <= minor <= last:
            older[name] = {**older[name], "properties": {**older[name]["properties"], field: node}}
    return older
