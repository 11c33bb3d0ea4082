"""A request as an `AdmissionReview` of `admission.k8s.io/v1`, with the decision as its response.

A review has one object. The server has two, before and after its own changes. The review has that of the deciding
phase. Unknown parts are left out.
"""

from __future__ import annotations

import base64

import orjson

from replay.admission.decision import Verdict
from replay.case.difference import plain
from replay.case.exported import Exported, UnrepresentableError, own_annotations, user_json
from replay.json import JSON

API_VERSION, KIND = "admission.k8s.io/v1", "AdmissionReview"


def review(exported: Exported) -> JSON:
    """Return the review. Raises UnrepresentableError for an undetermined decision, which no response can state."""
    if exported.decision.verdict is Verdict.UNDETERMINED:
        raise UnrepresentableError("a response cannot say that a decision is undetermined")
    return {"apiVersion": API_VERSION, "kind": KIND, "request": _request(exported), "response": _response(exported)}


def _request(exported: Exported) -> JSON:
    attributes, original = exported.validated, exported.original
    kind = {"group": attributes.kind.group, "version": attributes.kind.version, "kind": attributes.kind.kind}
    resource = {
        "group": attributes.resource.group,
        "version": attributes.resource.version,
        "resource": attributes.resource.resource,
    }
    mutates = bool(exported.decision.mutated)
    sub = (
        {"subResource": attributes.subresource, "requestSubResource": attributes.subresource}
        if attributes.subresource
        else {}
    )
    return {
        "uid": exported.uid,
        "kind": kind,
        "resource": resource,
        "requestKind": kind,
        "requestResource": resource,
        **sub,
        **({"name": attributes.name} if attributes.name else {}),
        **({"namespace": attributes.namespace} if attributes.namespace else {}),
        "operation": attributes.operation.value,
        "userInfo": user_json(attributes.user_info),
        "object": plain(original.object if mutates else attributes.object),
        "oldObject": plain(attributes.old_object),
        "dryRun": attributes.dry_run,
        "options": plain(attributes.options),
    }


def _response(exported: Exported) -> JSON:
    decision = exported.decision
    response: dict[str, JSON] = {"uid": exported.uid, "allowed": not decision.denials}
    if decision.denials:
        first = decision.denials[0]
        response["status"] = {"status": "Failure", "message": first.message, "reason": first.reason, "code": first.code}
    if decision.warnings:
        response["warnings"] = list(decision.warnings)
    if annotations := own_annotations(decision):
        response["auditAnnotations"] = annotations
    if decision.patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(orjson.dumps(list(decision.patch))).decode()
    return response
