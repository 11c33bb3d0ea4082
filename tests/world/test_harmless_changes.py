"""Changes that refuse and mutate nothing, over random pieces of the sample: no request ends differently.

A piece begins in the middle of the log, and some pieces lack lines. What is open then is open, but never decided differently.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import pyarrow as pa
import pytest
import yaml

from replay.pipeline.options import Options
from replay.pipeline.run import run
from replay.pipeline.scenario import Scenario
from replay.world.result import result_of
from tests.support.short_sample import SAMPLE

LENGTH = 300
NAMESPACES = ("prod-pay", "team-a")
NEVER = {
    "matchConstraints": {
        "resourceRules": [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}]
    },
    "validations": [{"expression": "object == null || object.metadata.name != 'no-such-name'"}],
}


def of_kind(api_version: str, kind: str, name: str, **fields: Any) -> Any:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, **fields.pop("metadata", {})}, **fields}


def in_namespaces(api_version: str, kind: str, **fields: Any) -> list[Any]:
    """An object in each namespace with requests."""
    return [of_kind(api_version, kind, "wide", metadata={"namespace": each}, **fields) for each in NAMESPACES]


REGISTRATION = "admissionregistration.k8s.io/v1"
ROLE = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"}
HARMLESS: dict[str, list[Any]] = {
    "objects/quotas.yaml": in_namespaces(
        "v1", "ResourceQuota", spec={"hard": {"pods": "100k", "services": "100k", "count/deployments.apps": "100k"}}
    ),
    "objects/limits.yaml": in_namespaces(
        "v1", "LimitRange", spec={"limits": [{"type": "PersistentVolumeClaim", "max": {"storage": "1Pi"}}]}
    ),
    "objects/labels.yaml": [
        of_kind("v1", "Namespace", each, metadata={"labels": {"pod-security.kubernetes.io/enforce": "privileged"}})
        for each in NAMESPACES
    ],
    "objects/class.yaml": [of_kind("scheduling.k8s.io/v1", "PriorityClass", "unused", value=7)],
    "rbac/nobody.yaml": [
        of_kind(
            "rbac.authorization.k8s.io/v1",
            "ClusterRoleBinding",
            "nobody",
            roleRef=ROLE,
            subjects=[{"kind": "User", "name": "nobody", "apiGroup": ROLE["apiGroup"]}],
        )
    ],
    "vap/never.yaml": [
        of_kind(REGISTRATION, "ValidatingAdmissionPolicy", "never.static.k8s.io", spec=NEVER),
        of_kind(
            REGISTRATION,
            "ValidatingAdmissionPolicyBinding",
            "never.static.k8s.io",
            spec={"policyName": "never.static.k8s.io", "validationActions": ["Deny"]},
        ),
    ],
}


class Drawn(NamedTuple):
    """A piece of the log, and the files that each set has beside those of the sample."""

    lines: list[bytes]
    added: tuple[list[str], list[str]]


def drawn(seed: int, log: list[bytes]) -> Drawn:
    chance = random.Random(seed)
    begin = chance.randrange(len(log) - LENGTH)
    lines = log[begin : begin + LENGTH]
    if seed % 2:
        lines = [line for line in lines if chance.random() >= 0.1]
    current, candidate = ([name for name in HARMLESS if chance.random() < 0.5] for _ in range(2))
    return Drawn(lines, (current, candidate if seed % 4 else current))


@pytest.fixture(scope="module")
def log() -> list[bytes]:
    with pa.CompressedInputStream(pa.OSFile(str(SAMPLE / "audit.jsonl.zst")), "zstd") as stream:
        lines: list[bytes] = stream.read().splitlines()
    return lines


@pytest.mark.parametrize("seed", range(8))
def test_no_request_ends_differently(seed: int, log: list[bytes], tmp_path: Path) -> None:
    piece = drawn(seed, log)
    (tmp_path / "audit.jsonl").write_bytes(b"\n".join(piece.lines) + b"\n")
    for name, added in zip(("current", "candidate"), piece.added, strict=True):
        shutil.copytree(SAMPLE / "current", tmp_path / name)
        for file in added:
            (tmp_path / name / file).parent.mkdir(exist_ok=True)
            (tmp_path / name / file).write_text(yaml.safe_dump_all(HARMLESS[file]), "utf-8")
    outcomes = tmp_path / "out.jsonl"
    scenario = Scenario(
        (str(tmp_path / "audit.jsonl"),),
        current=tmp_path / "current",
        candidate=tmp_path / "candidate",
        cluster=SAMPLE / "cluster.jsonl.zst",
    )
    run(scenario, Options(workers=1, outcomes=outcomes), lambda *_: None)
    events = {event["auditID"]: event for event in map(orjson.loads, piece.lines)}
    found = [orjson.loads(line) for line in outcomes.read_bytes().splitlines()]
    assert len(found) > LENGTH / 4
    is_alike = piece.added[0] == piece.added[1]
    assert [each for line in found for each in faults(line, events[line["auditID"]], is_alike=is_alike)] == []


def faults(line: dict[str, Any], event: dict[str, Any], *, is_alike: bool) -> Iterator[tuple[str, Any]]:
    """What a line says that these changes cannot cause. `is_alike` says that both sets are equal."""
    current, candidate = line.get("current"), line.get("candidate")
    if current is None or candidate is None:  # admission is not asked
        return
    if line["outcome"] not in ("unchanged", "undetermined"):
        yield "outcome", line
    # In a piece of a log, the usage of a quota may be unknown. It is that of the log for the baseline.
    open_ones = [each for each in candidate["undetermined"] if each["policy"] != "ResourceQuota"]
    if open_ones and not current["undetermined"]:
        yield "undetermined", line
    status, result = event["responseStatus"], candidate["result"]
    end = result_of(status["code"], status.get("message", ""), status.get("reason", ""), event["objectRef"]["resource"])
    if result["cause"] not in (end.cause, "unknown") or result["code"] not in (end.code, 0):
        yield "result", line
    # What both sets deny in the same way ends with the denial of the log, although another policy may deny too.
    if is_alike and result["cause"] == "denied" and not (result["code"] and result["certain"]):
        yield "code", line
