"""Parameters, and what else is a Go object to the server, in policies: as its own plugin code decides.

`data/typed_values.jsonl` varies what a mutation does with plain JSON, Go structs, maps and slices, lists and maps that an
expression made, and optional values; `../shared/params` is a corpus of its own.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.support.param_cases import decide

SHARED = Path(__file__).parents[2].parent / "shared" / "params" / "cases.jsonl"
OWN = Path(__file__).with_name("data") / "typed_values.jsonl"

NOT_THE_SERVER = {
    # The corpus was made without the dispatcher, which gives each mutation its variables (`CreateContext`).
    "params-c8d894ba1eac": "no such key: l",
}


def cases(path: Path) -> list[dict[str, Any]]:
    lines = path.read_bytes().splitlines() if path.exists() else []
    return [orjson.loads(line) for line in lines]


def as_shown(expected: dict[str, Any]) -> dict[str, Any]:
    """A result in the form of `decide`: a denial without a reason is Invalid, Go's maps have any order."""
    if "error" in expected:
        return {"error": re.sub(r"\.\w+: field not declared", ".FIELD: field not declared", expected["error"])}
    if "denials" in expected:
        denials = [{"message": each["message"], "reason": each["reason"] or "Invalid"} for each in expected["denials"]]
        return {"denials": denials, "annotations": expected["annotations"]}
    return expected


@pytest.mark.shared
@pytest.mark.skipif(not SHARED.exists(), reason="the corpus is not beside the checkout")
@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in cases(SHARED)])
def test_as_the_plugins_of_the_server(case: dict[str, Any]) -> None:
    if case["id"] in NOT_THE_SERVER:
        assert NOT_THE_SERVER[case["id"]] in case["expected"]["error"]
        assert decide(case)["object"]["metadata"]["labels"] == {"app": "myapp", **case["params"]["defaultLabels"]}
    else:
        assert as_shown(decide(case)) == as_shown(case["expected"])


def own_cases() -> list[dict[str, Any]]:
    """The rows on top of what the first line says for all."""
    first, *rows = cases(OWN)
    common, params = first["common"], first["params"]
    made = []
    for row in rows:
        kind = "JSONPatch" if row["expression"].startswith("[") else "ApplyConfiguration"
        mutation = {"patchType": kind, kind[0].lower() + kind[1:]: {"expression": row["expression"]}}
        if kind == "JSONPatch":
            mutation = {"patchType": kind, "jsonPatch": {"expression": row["expression"]}}
        spec = {**common["policy"]["spec"], "mutations": [mutation]}
        param = params.get(row.get("params"))
        if param is not None:
            spec["paramKind"] = {"apiVersion": param["apiVersion"], "kind": param["kind"]}
        if "condition" in row:
            spec["matchConditions"] = [{"name": "c", "expression": row["condition"]}]
        policy = {**common["policy"], "spec": spec}
        made.append({**common, "id": row["id"], "policy": policy, "params": param, "expected": row["expected"]})
    return made


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in own_cases()])
def test_typed_values(case: dict[str, Any]) -> None:
    found = as_shown(decide(case))
    if found.get("object") == case["object"]:
        found = {"object": "unchanged"}
    assert found == as_shown(case["expected"])
