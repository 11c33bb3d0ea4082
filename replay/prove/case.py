"""A witness as a case: a document that says what is asked and what each side has to answer."""

from __future__ import annotations

from typing import Any

from replay.json import JSON
from replay.prove.claim import Witness
from replay.prove.request import Request

CASE_VERSION = "replay/v1"
CASE_KIND = "PolicyCase"


def case_of(witness: Witness, policy: str) -> dict[str, JSON]:
    """The case: `request` as an AdmissionRequest spells its fields, the objects beside it, and `expect`."""
    return {
        "apiVersion": CASE_VERSION,
        "kind": CASE_KIND,
        "policy": policy,
        **request_document(witness.request),
        "expect": {
            "current": _expected(witness.current.text, witness.current_messages, witness.patches.get("current")),
            "candidate": _expected(
                witness.candidate.text, witness.candidate_messages, witness.patches.get("candidate")
            ),
        },
    }


def _expected(decision: str, messages: tuple[str, ...], patch: JSON) -> dict[str, JSON]:
    expected: dict[str, JSON] = {"decision": decision}
    if messages:
        expected["messages"] = list(messages)
    if patch is not None:
        expected["patch"] = patch
    return expected


def request_document(request: Request) -> dict[str, JSON]:
    """A request and the objects that go with it; what is empty is left out."""
    shown: dict[str, Any] = {
        "request": _request(request),
        "object": request.object,
        "oldObject": request.old_object,
        "namespaceObject": request.namespace_object,
        "params": list(request.params),
    }
    return {key: value for key, value in shown.items() if value not in (None, [])}


def _request(request: Request) -> dict[str, JSON]:
    target, user = request.target, request.user
    info: dict[str, JSON] = {
        "username": user.username,
        "uid": user.uid,
        "groups": list(user.groups),
        "extra": {key: list(values) for key, values in user.extra.items()},
    }
    shown: dict[str, Any] = {
        "operation": str(target.operation),
        "kind": target.kind._asdict(),
        "resource": target.resource._asdict(),
        "subResource": target.subresource,
        "name": request.name,
        "namespace": request.namespace,
        "userInfo": {key: value for key, value in info.items() if value},
        "dryRun": request.dry_run,
        "authorizerAllows": request.allowed,
    }
    return {key: value for key, value in shown.items() if value not in ("", False)}
