"""A request as an `AdmissionReview` of `admission.k8s.io/v1`, with the decision as its response.

There is one object where the server has two, before and after its own changes: the one of the phase that decides. What is not
known is left out.
"""

from __future__ import annotations

import base64

import orjson

from replay.admission.decision import Verdict
from replay.case.difference import plain
from replay.case.exported import Exported, UnholdableError, user_json
from replay.json import JSON

API_VERSION, KIND = "admission.k8s.io/v1", "AdmissionReview"


def review(exported: Exported) -> JSON:
    """The review; raises UnholdableError for a decision that is undetermined, which no response can say."""
    if exported.decision.verdict is Verdict.UNDETERMINED:
        raise UnholdableError("a response cannot say that a decision is undetermined")
    return {"apiVersion": API_VERSION, "kind": KIND, "request": _request(exported), "response": _response(exported)}


def _request(exported: Exported) -> JSON:
    told, before = exported.validated, exported.before
    kind = {"group": told.kind.group, "version": told.kind.version, "kind": told.kind.kind}
    resource = {"group": told.resource.group, "version": told.resource.version, "resource": told.resource.resource}
    mutates = bool(exported.decision.mutated)
    sub = {"subResource": told.subresource, "requestSubResource": told.subresource} if told.subresource else {}
    return {
        "uid": exported.uid,
        "kind": kind,
        "resource": resource,
        "requestKind": kind,
        "requestResource": resource,
        **sub,
        **({"name": told.name} if told.name else {}),
        **({"namespace": told.namespace} if told.namespace else {}),
        "operation": told.operation.value,
        "userInfo": user_json(told.user_info),
        "object": plain(before.object if mutates else told.object),
        "oldObject": plain(told.old_object),
        "dryRun": told.dry_run,
        "options": plain(told.options),
    }


def _response(exported: Exported) -> JSON:
    decision = exported.decision
    found: dict[str, JSON] = {"uid": exported.uid, "allowed": not decision.denials}
    if decision.denials:
        first = decision.denials[0]
        found["status"] = {"status": "Failure", "message": first.message, "reason": first.reason, "code": first.code}
    if decision.warnings:
        found["warnings"] = list(decision.warnings)
    if decision.audit_annotations:
        found["auditAnnotations"] = dict(decision.audit_annotations)
    if decision.patch:
        found["patchType"] = "JSONPatch"
        found["patch"] = base64.b64encode(orjson.dumps(list(decision.patch))).decode()
    return found
