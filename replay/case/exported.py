"""A request of a log as a case, before it is written in any form."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct

from replay.admission.decision import Decision, Denial, Verdict
from replay.admission.webhook.answer import CALL_ANNOTATIONS
from replay.case.attributes import VALIDATED, usual_options
from replay.case.case import AuthorizerReply, CaseError
from replay.case.difference import plain
from replay.case.form.own import API_VERSION, KIND
from replay.json import JSON
from replay.kube.admissionregistration import MUTATING_POLICY
from replay.kube.attributes import Attributes, Missing, PartialObject
from replay.manifests.read.yaml_reader import UnresolvableError, resolve_scalar


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
            "user": attributes.user_info.value,
            **({"namespace": _namespace(attributes)} if attributes.namespace else {}),
            **({"dryRun": True} if attributes.dry_run else {}),
            **(
                {"options": plain(attributes.options)}
                if attributes.options != usual_options(attributes.operation)
                else {}
            ),
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


def _namespace(attributes: Attributes) -> JSON:
    namespace = plain(attributes.namespace_object)
    return namespace if isinstance(namespace, dict) else attributes.namespace


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
        "user": answer.user,
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
        "auditAnnotations": policy_annotations_of(decision),
        "patch": list(decision.patch),
    }
    if decision.undetermined:
        expected["undetermined"] = sorted({each.policy for each in decision.undetermined})
    return {name: value for name, value in expected.items() if value or name == "patch"}


def policy_annotations_of(decision: Decision) -> dict[str, str]:
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


# A case as a file of `kind: Cases`.


class _Dumper(yaml.SafeDumper):
    """YAML dumper without anchors, which a reader would have to follow. Texts with several lines become blocks."""

    def ignore_aliases(self, data: Any) -> bool:
        """Return True: no value has an anchor."""
        del data
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    """Return a text node. Texts such as `y` and `0o7` are quoted, because Kubernetes' YAML readers read other types."""
    is_block = "\n" in text and not any(line.endswith((" ", "\t")) for line in text.splitlines())
    style = "|" if is_block else None if _is_plain(text) else "'"
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def _is_plain(text: str) -> bool:
    """Return whether a text without quotes is read as a text."""
    try:
        return resolve_scalar(text, "", implicit=True) == text
    except UnresolvableError:
        return False


_Dumper.add_representer(str, _text)


def yaml_text(value: JSON) -> str:
    """Return a value as YAML, with fields in their order."""
    return str(yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120))


def case_text(exported: Exported, case: dict[str, JSON], beside: Path | None = None) -> str:
    """Return the file of a case. Paths of policies are relative to the directory `beside`."""
    document = exported.document(case)
    if beside is not None and exported.policy_paths:
        document["policies"] = [os.path.relpath(path, beside.absolute()) for path in exported.policy_paths]
    return yaml_text(document)


# The single policy that makes a decision, for tools that test one policy.


class SinglePolicy(Struct, frozen=True):
    """A policy with the binding that made the decision, as manifests."""

    policy: JSON
    binding: JSON | None

    @property
    def name(self) -> str:
        """Name of the policy."""
        return str(self.policy["metadata"]["name"])

    @property
    def mutates(self) -> bool:
        """Whether the policy mutates."""
        return bool(self.policy["kind"] == MUTATING_POLICY)

    @property
    def expressions(self) -> tuple[str, ...]:
        """All its expressions."""
        return tuple(_expressions(self.policy["spec"]))

    @property
    def configurations(self) -> tuple[str, ...]:
        """The expressions of its apply configurations."""
        mutations = self.policy["spec"].get("mutations") or ()
        configurations = (each.get("applyConfiguration") for each in mutations)
        return tuple(each["expression"] for each in configurations if each)


def single_policy(exported: Exported) -> SinglePolicy:
    """Return the first policy that denies, or the only one that mutates. Raises UnrepresentableError if there is none."""
    decision = exported.decision
    if decision.verdict is Verdict.UNDETERMINED:
        raise UnrepresentableError("it cannot say that a decision is undetermined")
    acting = list(dict.fromkeys((each.policy, each.binding) for each in decision.denials or decision.mutated))
    if not acting:
        raise UnrepresentableError("nothing is denied or mutated")
    if len(acting) > 1 and not decision.denials:
        raise UnrepresentableError(f"{len(acting)} policies change the object, and it asks one at a time")
    policy, binding = acting[0]
    policies = {(obj["kind"], obj["metadata"]["name"]): _as_written(obj) for obj in exported.policies}
    own = next((obj for (kind, name), obj in policies.items() if name == policy and kind.endswith("Policy")), None)
    if own is None:
        raise UnrepresentableError(f"`{policy}` is a webhook and not a policy")
    return SinglePolicy(own, policies.get((f"{own['kind']}Binding", binding)))


def _as_written(obj: JSON) -> JSON:
    """Return a policy without the fields that only a stored object has."""
    metadata = {name: obj["metadata"][name] for name in ("name", "labels") if obj["metadata"].get(name)}
    return {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": metadata, "spec": obj.get("spec") or {}}


def _expressions(value: JSON) -> list[str]:
    expressions: list[str] = []
    if isinstance(value, dict):
        for name, part in value.items():
            expressions += (
                [part] if name.lower().endswith("expression") and isinstance(part, str) else _expressions(part)
            )
    elif isinstance(value, list):
        for part in value:
            expressions += _expressions(part)
    return expressions


_OPTIONAL = re.compile(r"\.\?|\[\?|\boptional\.|\.orValue\(|\.hasValue\(|\{\s*\?")


def uses_optionals(policy: SinglePolicy) -> bool:
    """Return whether an expression uses optional values."""
    return any(_OPTIONAL.search(expression) for expression in policy.expressions)
