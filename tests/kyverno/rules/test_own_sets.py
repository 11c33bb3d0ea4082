"""Sets of policies with the answers of the real webhook handlers (kyverno v1.19.1, `sets.jsonl`), what is empty left out.

The first line has the cluster and all requests; an answer names its request by number. Each is the answer of the mutating and of the
validating webhook, where it is not just that the request is allowed.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from replay.kube.admission_request import PhaseRequests
from replay.kube.json_patch import apply
from replay.kyverno.decide import decide

_LINES = [json.loads(line) for line in Path(__file__).with_name("sets.jsonl").read_text("utf-8").splitlines()]
_SHARED, _SETS = _LINES[0], _LINES[1:]


def _cases(numbers: list[int]) -> Iterator[PhaseRequests]:
    for number in numbers:
        request = {"uid": "u", **_SHARED["requests"][number]}
        yield PhaseRequests(str(number), request if request["operation"] in ("CREATE", "UPDATE") else None, request)


def _compared(answer: dict[str, Any], number: int) -> dict[str, Any]:
    """An answer with the object that its patch makes instead of the patch, and without what is plainly allowed."""
    made = {}
    for phase in ("mutate", "validate"):
        shown = dict(answer.get(phase) or {"allowed": True})
        if "patch" in shown:
            shown["object"] = apply(_SHARED["requests"][number].get("object"), shown.pop("patch"))
        shown["results"] = [
            list(each.values()) if isinstance(each, dict) else each for each in shown.get("results", ())
        ]
        made[phase] = shown
    return made


@pytest.mark.parametrize("row", _SETS, ids=lambda row: row["set"])
def test_a_set_decides_as_kyverno_does(row: dict[str, Any], tmp_path: Path) -> None:
    config = tmp_path / "policy.yaml"
    config.write_bytes(b"\n---\n".join(map(orjson.dumps, row["objects"])))
    numbers = [number for number, _ in row["answers"]]
    lines = decide(config, _cases(numbers), _SHARED["cluster"])
    got = [_compared(line, number) for line, number in zip(lines, numbers, strict=True)]
    assert got == [_compared(answer, number) for number, answer in row["answers"]]


def test_a_merge_with_a_key_twice_is_undetermined(tmp_path: Path) -> None:
    """What Kyverno makes of it depends on the place of the maps, and may be an error."""
    rule = {
        "name": "r",
        "match": {"any": [{"resources": {"kinds": ["Pod"]}}]},
        "mutate": {"patchStrategicMerge": {"metadata": {"labels": {"+(team)": "x", "team": "y"}}}},
    }
    policy = {"apiVersion": "kyverno.io/v1", "kind": "ClusterPolicy", "metadata": {"name": "p"}}
    config = tmp_path / "policy.yaml"
    config.write_bytes(orjson.dumps({**policy, "spec": {"rules": [rule]}}))
    reason = "the patch has `team` twice in one map, as `+(team)` too"
    assert list(decide(config, _cases([0]), [])) == [{"id": "0", "undetermined": [reason]}]


_CORPORA = Path(__file__).parents[4] / "shared"


@pytest.mark.slow
@pytest.mark.shared
@pytest.mark.skipif(not _CORPORA.joinpath("engines").is_dir(), reason="shared/engines is not there")
@pytest.mark.parametrize(
    "name",
    [
        *("cpol-deny-operators", "cpol-mutate-chain", "cpol-overrides", "cpol-jmespath"),
        *("vpol-error", "vpol-exception", "vpol-resource-lib", "vpol-variables", "mpol-error", "mpol-two-mutations"),
    ],
)
def test_set(name: str, tmp_path: Path) -> None:
    """One recorded set of each kind, as a command decides it."""
    replay = Path(sys.executable).with_name("replay")
    scorer = _CORPORA / "tools" / "score_engine.py"
    command = [sys.executable, str(scorer), str(_CORPORA / "engines"), "kyverno", str(replay), str(tmp_path)]
    result = subprocess.run([*command, "--set", name], capture_output=True, text=True, check=False)
    assert "wrong 0, undetermined 0" in result.stdout, json.dumps(result.stdout)
