"""Recorded AdmissionReviews: the request as it was, and the response as what is expected."""

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
from replay.case.document import CaseDocument, read_documents
from replay.case.form.kat import OPERATIONS, user_info
from replay.case.policies import PolicyLoader
from replay.json import JSON, decode_json
from replay.kube.attributes import Operation
from replay.kube.gvk import GroupVersionResource

FORM = "review"


def is_review(value: JSON) -> bool:
    """Whether a document is an AdmissionReview with a response: one without says nothing of what is expected."""
    if not isinstance(value, dict) or value.get("kind") != "AdmissionReview":
        return False
    return all(isinstance(value.get(name), dict) for name in ("request", "response"))


def read_reviews(path: Path, policies: PolicyLoader, given: tuple[Path, ...]) -> CaseFile:
    """The reviews of a file; `given` are the policies that decide them. Raises CaseError for a file that cannot be read."""
    cases = tuple(_read(each, policies, given) for each in read_documents(path) if is_review(each.value))
    return CaseFile(str(path), FORM, cases, (str(path),))


def _read(document: CaseDocument, policies: PolicyLoader, given: tuple[Path, ...]) -> Case | Unusable:
    try:
        if not given:
            raise document.error("", "an AdmissionReview names no policies: give --policies")
        return _case(document, policies, given)
    except CaseError as error:
        return Unusable(str(document.value["request"].get("uid") or ""), error)


def _case(document: CaseDocument, policies: PolicyLoader, given: tuple[Path, ...]) -> Case:
    asked, response = document.value["request"], document.value["response"]
    if asked.get("operation") not in OPERATIONS:
        raise document.error("request.operation", f"is to be one of {', '.join(sorted(OPERATIONS))}")
    resource = asked.get("requestResource") or asked.get("resource") or {}
    return Case(
        name=f"{asked['operation']} {resource.get('resource', '')} {asked.get('name', '')} {asked.get('uid', '')}".strip(),
        path=str(document.path),
        line=document.position("request").line,
        request=CaseRequest(
            operation=Operation(asked["operation"]),
            resource=_resource(resource),
            subresource=asked.get("requestSubResource") or asked.get("subResource") or "",
            namespace=asked.get("namespace") or "",
            name=asked.get("name") or "",
            user_info=user_info(asked.get("userInfo") or {}),
            dry_run=bool(asked.get("dryRun")),
            options=asked.get("options", UNSTATED),
            object=asked.get("object"),
            old_object=asked.get("oldObject"),
            validated_object=asked.get("object"),
        ),
        manifests=policies.load(given),
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
        raise document.error("response.patch", f"is no base64 of a JSON patch: {error}") from error
