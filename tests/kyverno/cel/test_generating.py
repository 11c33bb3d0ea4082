"""GeneratingPolicies: what requests make them do, with the answers of the real engine (kyverno v1.19.1)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from replay.admission.mutating.object_patcher import ObjectPatchers
from replay.kube.discovery import builtin_discovery
from replay.kube.lister import ObjectLister
from replay.kube.schema import Schemas
from replay.kyverno.cel.library.context import OfflineReader
from replay.kyverno.cel.request import CELRequest
from replay.kyverno.cel.webhook import CELPolicies, CELWebhook

_DATA = Path(__file__).parent / "data"


def _read(name: str) -> Any:
    return json.loads(_DATA.joinpath(name).read_text("utf-8"))


def test_what_requests_make() -> None:
    requests, given = _read("requests.json")["requests"], _read("generating.json")
    policies = CELPolicies(given["objects"])
    reader = OfflineReader(ObjectLister([]), builtin_discovery(), lambda _name, _projection: None)
    webhook = CELWebhook(policies, reader, ObjectPatchers(Schemas()))
    expected: dict[str, Any] = {case: {} for case in ("pod", "pod-b", "pod-gen")}
    refused = []
    for answer in given["answers"]:
        if "refused" in answer:
            refused.append(f"failed to compile policy {answer['policy']} ({answer['refused']})")
        elif answer["status"] != "skip":
            error = answer["message"] if answer["status"] == "error" else ""
            expected[answer["id"]][answer["policy"]] = (answer.get("objects", []), error)
    got = {
        case: {
            each.policy: (list(each.objects), each.error)
            for each in webhook.generated(CELRequest(requests[case], None))
        }
        for case in expected
    }
    assert (policies.refused, got) == (refused, expected)
