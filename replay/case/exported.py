"""A request of a log as a case, before it is written in any form."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from replay.admission.decision import Decision, Denial
from replay.admission.webhook.answer import CALL_ANNOTATIONS
from replay.case.attributes import VALIDATED
from replay.case.case import AuthorizerReply, CaseError
from replay.case.difference import plain
from replay.case.form.own import API_VERSION, KIND
from replay.json import JSON
from replay.kube.attributes import Attributes, Missing, Operation, PartialObject, UserInfo


class UnrepresentableError(CaseError):
    """A request or decision that a form cannot represent. `str()` is the reason."""


class Exported(Struct, frozen=True, kw_only=True):
    """A request with its decision, in which secrets are hidden already.

    `original` and `validated` are the attributes of both phases. `objects` and `answers` are what the decision looked
    up. `policies` are the objects of the deciding set, and `policy_paths` its paths. `api_policies` are those of them
    that are in the snapshot of the cluster, and `engine_objects` those of its policy engines.
    """

    name: str
    original: Attributes
    validated: Attributes
    decision: Decision
    objects: tuple[JSON, ...] = ()
    answers: tuple[AuthorizerReply, ...] = ()
    policies: tuple[JSON, ...] = ()
    policy_paths: tuple[str, ...] = ()
    api_policies: tuple[JSON, ...] = ()
    engine_objects: tuple[JSON, ...] = ()
    uid: str = ""

    def case(self) -> dict[str, JSON]:
        """Return the case in the form `replay/v1`."""
        attributes = self.validated
        return {
            "name": self.name,
            "operation": attributes.operation.value,
            "resource": {
                "group": attributes.resource.group,
                "version": attributes.resource.version,
                "resource": attributes.resource.resource,
            },
            **({"subresource": attributes.subresource} if attributes.subresource else {}),
            **({"objectName": self.original.name} if self.original.name != _name(self.original.object) else {}),
            "user": user_json(attributes.user_info),
            **({"namespace": _namespace(attributes)} if attributes.namespace else {}),
            **({"dryRun": True} if attributes.dry_run else {}),
            **({"options": plain(attributes.options)} if attributes.options != _usual_options(attributes) else {}),
            **{name: value for name, value in self._objects() if value is not None},
            **({"missing": [*self._missing()]} if any(self._missing()) else {}),
            **({"objects": [*self.objects, *self.api_policies]} if self.objects or self.api_policies else {}),
            "authorizer": [_answer_json(each) for each in self.answers],
            "expect": expectation(self.decision),
        }

    def document(self, case: dict[str, JSON]) -> dict[str, JSON]:
        """Return a file with only this case."""
        policies = {"policies": [*self.policy_paths]} if self.policy_paths else {}
        return {"apiVersion": API_VERSION, "kind": KIND, **policies, "cases": [case]}

    def _objects(self) -> Iterator[tuple[str, JSON]]:
        yield "object", plain(self.original.object)
        yield "oldObject", plain(self.validated.old_object)
        yield VALIDATED, plain(self.validated.object)

    def _missing(self) -> Iterator[dict[str, str]]:
        """Yield unknown values, by their names in a case."""
        parts = (
            ("object", "object", self.original.object),
            (VALIDATED, "object", self.validated.object),
            ("oldObject", "oldObject", self.validated.old_object),
            ("namespaceObject", "namespaceObject", self.validated.namespace_object),
        )
        for root, name, value in parts:
            for each in _gaps(value):
                yield _gap(root + each.path.removeprefix(name), each)
        for each in self.validated.missing:
            yield _gap(each.path, each)


def _gaps(value: JSON | PartialObject | Missing) -> tuple[Missing, ...]:
    if isinstance(value, Missing):
        return (value,)
    return value.missing if isinstance(value, PartialObject) else ()


def _gap(path: str, missing: Missing) -> dict[str, str]:
    return {"path": path, "reason": missing.reason, **({"fix": missing.fix} if missing.fix else {})}


def _name(value: JSON | PartialObject | Missing) -> str:
    shown = plain(value)
    metadata = shown.get("metadata") if isinstance(shown, dict) else None
    return str((metadata or {}).get("name") or "")


def _usual_options(attributes: Attributes) -> JSON:
    if attributes.operation is Operation.CONNECT:
        return None
    return {"kind": f"{attributes.operation.value.capitalize()}Options", "apiVersion": "meta.k8s.io/v1"}


def _namespace(attributes: Attributes) -> JSON:
    namespace = plain(attributes.namespace_object)
    return namespace if isinstance(namespace, dict) else attributes.namespace


def user_json(user: UserInfo) -> JSON:
    """Return the user as `UserInfo` of `authentication.k8s.io`, without empty fields."""
    extra = {key: list(values) for key, values in user.extra.items()}
    fields = {"username": user.username, "uid": user.uid, "groups": list(user.groups), "extra": extra}
    return {name: value for name, value in fields.items() if value}


_DECISIONS = {True: "allow", False: "deny", None: "unknown"}


def _answer_json(answer: AuthorizerReply) -> dict[str, JSON]:
    question = {
        "verb": answer.verb,
        "group": answer.group,
        "resource": answer.resource,
        "subresource": answer.subresource,
        "namespace": answer.namespace,
        "name": answer.name,
        "path": answer.path,
        "fieldSelector": answer.field_selector,
        "labelSelector": answer.label_selector,
    }
    said = {"reason": answer.reason, "error": answer.error}
    stated = {name: text for name, text in question.items() if text}
    return {"decision": _DECISIONS[answer.allowed], **stated, **{name: text for name, text in said.items() if text}}


def expectation(decision: Decision) -> dict[str, JSON]:
    """Return a decision as an expectation."""
    denials = [_denial_json(denial) for denial in decision.denials]
    expected: dict[str, JSON] = {
        "verdict": decision.verdict.value,
        **(denials[0] if len(denials) == 1 else {}),
        **({"denials": denials} if len(denials) > 1 else {}),
        "warnings": list(decision.warnings),
        "auditAnnotations": own_annotations(decision),
        "patch": list(decision.patch),
    }
    if decision.undetermined:
        expected["undetermined"] = sorted({each.policy for each in decision.undetermined})
    return {name: value for name, value in expected.items() if value or name == "patch"}


def own_annotations(decision: Decision) -> dict[str, str]:
    """Return the audit annotations of policies and webhooks, without those that the server writes about webhook calls."""
    return {key: text for key, text in decision.audit_annotations.items() if not key.startswith(CALL_ANNOTATIONS)}


def _denial_json(denial: Denial) -> dict[str, JSON]:
    return {
        "policy": denial.policy,
        "binding": denial.binding,
        "message": denial.message,
        "reason": denial.reason,
        "code": denial.code,
    }
