"""A witness as a file of cases for `replay test`, which expects what the candidate decides."""

from __future__ import annotations

from typing import Any

from replay.json import JSON
from replay.kube.attributes import UserInfo
from replay.prove.claim import EnforcementLevel, Witness

PLACE = ("cases", 0)
"""Position of the only case in the document."""

PLACES = {"object": "object", "oldObject": "oldObject", "namespaceObject": "namespace"}
"""The fields of a case by the bindings of expressions."""


def case_of(witness: Witness, policy: str) -> dict[str, JSON]:
    """Return the file as a document, without empty parts."""
    request, target = witness.request, witness.request.target
    case: dict[str, Any] = {
        "name": f"{policy}, {witness.current.text} before and {witness.candidate.text} after",
        "operation": str(target.operation),
        "resource": target.resource._asdict(),
        "subresource": target.subresource,
        "objectName": request.name if request.object is None and request.old_object is None else "",
        "user": _user(request.user),
        "namespace": request.namespace_object,
        "object": request.object,
        "oldObject": request.old_object,
        "params": [each for each in request.params if each is not None],
        "dryRun": request.dry_run,
        "authorizer": [{"decision": "allow"}] if request.allowed else [],
        "expect": _expected(witness),
    }
    shown = {key: value for key, value in case.items() if value not in ("", None, False, [], {})}
    return {"apiVersion": "replay/v1", "kind": "Cases", "cases": [shown]}


def _expected(witness: Witness) -> dict[str, JSON]:
    expected: dict[str, JSON] = {"verdict": "denied" if witness.candidate is EnforcementLevel.DENIED else "admitted"}
    if witness.candidate is EnforcementLevel.WARNED:
        expected["warnings"] = list(witness.candidate_messages)
    if "candidate" in witness.patches and witness.candidate is not EnforcementLevel.DENIED:
        expected["patch"] = witness.patches["candidate"]
    return expected


def _user(user: UserInfo) -> dict[str, JSON]:
    info: dict[str, JSON] = {
        "username": user.username,
        "uid": user.uid,
        "groups": list(user.groups),
        "extra": {key: list(values) for key, values in user.extra.items()},
    }
    return {key: value for key, value in info.items() if value}
