"""Decisions of a real API server: the AdmissionRequests that its webhooks received, and what its policies decided.

The recording in the repository is a cut of the full one, which stands beside the checkout of those who have it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from replay.admission.decision import Decision
from replay.admission.validating.outcome import VALIDATION_FAILURE_KEY
from replay.admission.validating.plugin import ValidatingAdmission
from replay.cellib.version import NEWEST
from replay.json import JSON
from replay.kube.attributes import Attributes, Operation, UserInfo
from replay.kube.discovery import builtin_discovery
from replay.kube.gvk import GroupVersionKind, GroupVersionResource
from replay.kube.lister import ObjectTracker
from replay.manifests.set_loader import load_manifest_set

REPOSITORY = Path(__file__).parents[2]
FULL = REPOSITORY.parent / "shared" / "recordings" / "shop"
SIDES = ("current", "candidate")


def read_lines(path: Path) -> Iterator[Any]:
    with pa.input_stream(str(path), compression="zstd") as stream:
        data: bytes = stream.read()
    return (json.loads(line) for line in data.split(b"\n") if line)


def namespaces_of_log(path: Path) -> dict[str, JSON]:
    found: dict[str, JSON] = {}
    for event in read_lines(path):
        namespace = event.get("responseObject") or {}
        if namespace.get("kind") == "Namespace" and namespace.get("apiVersion") == "v1":
            found.setdefault(namespace["metadata"]["name"], namespace)
    return found


def attributes_of(request: dict[str, Any], namespaces: dict[str, JSON]) -> Attributes:
    user, namespace = request["userInfo"], request.get("namespace", "")
    return Attributes(
        operation=Operation(request["operation"]),
        kind=GroupVersionKind(**request["requestKind"]),
        resource=GroupVersionResource(**request["requestResource"]),
        subresource=request.get("subResource", ""),
        namespace=namespace,
        name=request.get("name", ""),
        user_info=UserInfo(user.get("username", ""), user.get("uid", ""), tuple(user.get("groups", ()))),
        dry_run=request["dryRun"],
        options=request["options"],
        object=request["object"],
        old_object=request["oldObject"],
        namespace_object=namespaces.get(namespace),
    )


def as_expected(decision: Decision) -> dict[str, Any]:
    annotations: dict[str, Any] = dict(decision.audit_annotations)
    return {
        "denials": [
            {
                "policy": each.policy,
                "binding": each.binding,
                "message": each.message,
                "reason": each.reason,
                "code": each.code,
            }
            for each in decision.denials
        ],
        "warnings": list(decision.warnings),
        "auditAnnotations": annotations,
    }


def parsed(expectation: dict[str, Any]) -> dict[str, Any]:
    """The list of failures is recorded as text or as what it parses to."""
    annotations = dict(expectation["auditAnnotations"])
    if isinstance(annotations.get(VALIDATION_FAILURE_KEY), str):
        annotations[VALIDATION_FAILURE_KEY] = json.loads(annotations[VALIDATION_FAILURE_KEY])
    return {**expectation, "auditAnnotations": annotations}


def disagreements(folder: Path) -> tuple[int, list[tuple[str, str]]]:
    """How many decisions were compared, and which of them differ."""
    snapshot = list(read_lines(folder / "cluster.jsonl.zst"))
    of_snapshot = {each["metadata"]["name"]: each for each in snapshot if each["kind"] == "Namespace"}
    namespaces = {**namespaces_of_log(folder / "audit.jsonl.zst"), **of_snapshot}
    crds = [each for each in snapshot if each["kind"] == "CustomResourceDefinition"]
    sets = [load_manifest_set(folder / side, version=NEWEST) for side in SIDES]
    admission = ValidatingAdmission(sets, NEWEST, builtin_discovery().with_crds(crds))
    expected = {each["auditID"]: each for each in read_lines(folder / "expected" / "validating.jsonl.zst")}
    lister = ObjectTracker([*snapshot, *namespaces.values()])
    compared, different = 0, []
    for recorded in read_lines(folder / "expected" / "attributes.jsonl.zst"):
        expectation = expected.get(recorded["auditID"])
        if recorded.get("validating") is None or expectation is None or not expectation["reached"]:
            continue
        decisions = admission.decide(attributes_of(recorded["validating"], namespaces), lister)
        for side, decision in zip(SIDES, decisions, strict=True):
            compared += 1
            if parsed(as_expected(decision)) != parsed(expectation[side]) or decision.undetermined:
                different.append((recorded["auditID"], side))
    return compared, different


def test_the_cut_recording() -> None:
    compared, different = disagreements(REPOSITORY / "sample_audit" / "shop")
    assert compared > 100
    assert different == []


@pytest.mark.shared
@pytest.mark.skipif(not FULL.exists(), reason="the full recording is not there")
def test_the_full_recording() -> None:
    assert disagreements(FULL) == (3922, [])
