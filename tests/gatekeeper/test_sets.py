"""Sets of policies over made-up requests, as the real Gatekeeper decided them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from replay.gatekeeper.engine import GatekeeperEngine
from replay.kube import json_patch

_DATA = Path(__file__).parent / "data"


def _rows(name: str) -> list[Any]:
    return [orjson.loads(line) for line in (_DATA / name).read_bytes().splitlines()]


SETS = _rows("sets.jsonl")
REQUESTS = {row["id"]: row["request"] for row in _rows("requests.jsonl")}


@pytest.mark.parametrize("row", SETS, ids=[row["set"] for row in SETS])
def test_a_set_decides_as_gatekeeper_does(row: Any) -> None:
    engine = GatekeeperEngine(row["objects"], _rows("cluster.jsonl"))
    # The reason too, but where OPA's text goes on to show the code.
    shown = (lambda text: text.split(":")[0]) if row["set"] == "refused-rego" else str
    assert sorted(map(shown, engine.refused())) == sorted(row["refused"])
    for name, request in REQUESTS.items():
        found = engine.results(request, request)
        for phase in ("mutate", "validate"):
            want = row["answers"].get(name, {}).get(phase, {"allowed": True})
            got = {key: value for key, value in found[phase].items() if key not in ("results", "patch")}
            assert got == {key: value for key, value in want.items() if key != "patch"}, (name, phase)
            if phase == "mutate":
                value = request.get("object")
                changed = [
                    json_patch.apply(value, each) if each else value
                    for each in (found[phase].get("patch"), want.get("patch"))
                ]
                assert changed[0] == changed[1], name
