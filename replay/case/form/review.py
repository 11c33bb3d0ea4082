"""Recorded AdmissionReviews: the request is the case, and the response is the expectation."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from pathlib import Path

import orjson

from replay.admission.decision import Verdict
from replay.case.case import (
    UNSTATED,
    Case,
    CaseError,
    CaseFile,
    CaseRequest,
    Expectation,
    ExpectedDenial,
    Unusable,
)
from replay.case.difference import plain
from replay.case.document import CaseDocument, read_documents
from replay.case.exported import Exported, UnrepresentableError, policy_annotations_of
from replay.case.form.kat import OPERATIONS, user_info
from replay.case.policies import PolicyLoader
from replay.json import JSON, decode_json
from replay.kube.attributes import Operation
from replay.kube.gvk import GroupVersionResource

FORM = "review"


def is_review(value: JSON) -> bool:
    """Return whether a document is an AdmissionReview with a response. Without one there is no expectation."""
    if not isinstance(value, dict) or value.get("kind") != "AdmissionReview":
        return False
    return all(isinstance(value.get(name), dict) for name in ("request", "response"))


def read_reviews(path: Path, policies: PolicyLoader) -> CaseFile:
    """Return the reviews of a file. Raises CaseError for a file that cannot be read."""
    cases = tuple(_read(each, policies) for each in read_documents(path) if is_review(each.value))
    return CaseFile(str(path), FORM, cases, (str(path),))


def _read(document: CaseDocument, policies: PolicyLoader) -> Case | Unusable:
    try:
        if not policies.paths:
            raise document.error("", "an AdmissionReview names no policies: give --policies")
        return _case(document, policies)
    except CaseError as error:
        return Unusable(str(document.value["request"].get("uid") or ""), error)


def _case(document: CaseDocument, policies: PolicyLoader) -> Case:
    request, response = document.value["request"], document.value["response"]
    if request.get("operation") not in OPERATIONS:
        raise document.error("request.operation", f"is to be one of {', '.join(sorted(OPERATIONS))}")
    resource = request.get("requestResource") or request.get("resource") or {}
    return Case(
        name=f"{request['operation']} {resource.get('resource', '')} {request.get('name', '')} {request.get('uid', '')}".strip(),
        path=str(document.path),
        line=document.position("request").line,
        request=CaseRequest(
            operation=Operation(request["operation"]),
            resource=_resource(resource),
            subresource=request.get("requestSubResource") or request.get("subResource") or "",
            namespace=request.get("namespace") or "",
            name=request.get("name") or "",
            user_info=user_info(request.get("userInfo") or {}),
            dry_run=bool(request.get("dryRun")),
            options=request.get("options", UNSTATED),
            object=request.get("object"),
            old_object=request.get("oldObject"),
            validated_object=request.get("object"),
        ),
        manifests=policies.load(policies.paths),
        expected=_expectation(document, response),
        strict=False,
    )


def _resource(value: Mapping[str, JSON]) -> GroupVersionResource | None:
    if not value.get("resource"):
        return None
    return GroupVersionResource(value.get("group") or "", value.get("version") or "v1", value["resource"])


def _expectation(document: CaseDocument, response: Mapping[str, JSON]) -> Expectation:
    allowed, status = response.get("allowed") is True, response.get("status") or {}
    said = ExpectedDenial(message=status.get("message"), reason=status.get("reason"), code=status.get("code"))
    return Expectation(
        verdict=Verdict.ADMITTED if allowed else Verdict.DENIED,
        first=ExpectedDenial() if allowed else said,
        warnings=tuple(response.get("warnings") or ()),
        audit_annotations=response.get("auditAnnotations") or {},
        patch=_patch(document, response.get("patch")),
    )


def _patch(document: CaseDocument, text: JSON) -> tuple[JSON, ...]:
    if not text:
        return ()
    try:
        return tuple(decode_json(base64.b64decode(str(text), validate=True)))
    except (binascii.Error, orjson.JSONDecodeError, TypeError, ValueError) as error:
        raise document.error("response.patch", f"is not base64 of a JSON patch: {error}") from error


# A request as an `AdmissionReview` of `admission.k8s.io/v1`, with the decision as its response.
# A review has one object. The server has two, before and after its own changes. The review has that of the deciding phase. Unknown
# parts are left out.

API_VERSION, KIND = "admission.k8s.io/v1", "AdmissionReview"


def review_files(exported: Exported) -> dict[str, str]:
    """Return the file of the review, by name."""
    return {"review.json": orjson.dumps(review(exported), option=orjson.OPT_INDENT_2).decode() + "\n"}


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
        "userInfo": attributes.user_info.value,
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
    if annotations := policy_annotations_of(decision):
        response["auditAnnotations"] = annotations
    if decision.patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(orjson.dumps(list(decision.patch))).decode()
    return response
