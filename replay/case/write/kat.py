"""A case as a directory for kat: the policy, its binding, and the files of one test."""

from __future__ import annotations

import re

from replay.case.difference import plain
from replay.case.exported import Exported, UnrepresentableError, user_json
from replay.case.write.alone import SinglePolicy, alone, uses_optionals
from replay.case.write.own import yaml_text
from replay.json import JSON
from replay.kube.attributes import Attributes, Operation
from replay.kube.json_patch import apply

_NEWER = re.compile(
    r"\.(?:all|exists|exists_?[oO]ne)\(\s*\w+\s*,\s*\w+\s*,|\.transform(?:List|Map|MapEntry)\(|\bcel\.bind\("
)


def kat_files(exported: Exported) -> dict[str, str]:
    """Return the files by path. Raises UnrepresentableError for what kat cannot represent or does not evaluate."""
    policy = alone(exported)
    _require(policy, exported)
    attributes = exported.original if policy.mutates else exported.validated
    decision = exported.decision
    base = f"tests/{policy.name}.{_slug(exported.name)}{'' if policy.mutates else '.deny'}"
    files = {"policy.yaml": yaml_text(policy.policy), f"{base}.request.yaml": yaml_text(_request(exported, attributes))}
    if policy.binding is not None:
        files["binding.yaml"] = yaml_text(policy.binding)
    if exported.answers:
        files[f"{base}.authorizer.yaml"] = yaml_text([_answer(each) for each in exported.answers])
    if policy.mutates:
        files[f"{base}.gold.yaml"] = yaml_text(apply(plain(attributes.object), list(decision.patch)))
    else:
        files[f"{base}.message.txt"] = decision.denials[0].message + "\n"
    return files


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:80] or "case"


def _require(policy: SinglePolicy, exported: Exported) -> None:
    """Raise UnrepresentableError for what kat 0.3 does not support."""
    spec = policy.policy["spec"]
    reasons = {
        "it knows no `variables`": bool(spec.get("variables")),
        "it has no optional values": uses_optionals(policy),
        "it ends where an expression fails, and has no failurePolicy": any(
            denial.is_error for denial in exported.decision.denials
        ),
        "it has no macros of two variables, and no cel.bind": any(_NEWER.search(each) for each in policy.expressions),
        "it gives one parameter to a policy": sum(1 for _ in _params(exported)) > 1,
        "it merges no lists, and tells numbers apart by their Go types": policy.mutates
        and not (all(map(_is_plain, exported.decision.patch)) and not any(map(_makes_list, policy.configurations))),
        "it tells `object` by the old one where there is none": exported.validated.operation is Operation.DELETE
        and any(re.search(r"(?<!old)\bobject\b", each) for each in policy.expressions),
        "it makes the resource of the kind alone": exported.validated.subresource != "",
    }
    for reason, applies in reasons.items():
        if applies:
            raise UnrepresentableError(f"kat cannot hold it: {reason}")


def _makes_list(expression: str) -> bool:
    """Return whether an apply configuration may contain a list. kat replaces the existing list with it."""
    return re.search(r"\[|\.map\(|\.filter\(|\.transformList\(", expression) is not None


def _is_plain(operation: JSON) -> bool:
    """Return whether an operation changes only texts outside of lists."""
    in_list = any(part.isdigit() or part == "-" for part in operation["path"].split("/"))
    return not in_list and _is_of_texts(operation.get("value"))


def _is_of_texts(value: JSON) -> bool:
    """Return whether a value consists of maps and texts only."""
    if isinstance(value, dict):
        return all(map(_is_of_texts, value.values()))
    return isinstance(value, str)


def _params(exported: Exported) -> list[JSON]:
    return [obj for obj in exported.objects if obj.get("kind") != "CustomResourceDefinition"]


def _request(exported: Exported, attributes: Attributes) -> JSON:
    params = _params(exported)
    namespace = plain(attributes.namespace_object)
    fields: dict[str, JSON] = {
        "operation": attributes.operation.value,
        "name": attributes.name,
        "namespace": attributes.namespace,
        "subResource": attributes.subresource,
        "userInfo": user_json(attributes.user_info),
        "object": plain(attributes.object),
        "oldObject": plain(attributes.old_object),
        "namespaceObject": _typed(namespace) if isinstance(namespace, dict) else None,
        "params": params[0] if params else None,
    }
    return {name: value for name, value in fields.items() if value}


def _typed(namespace: JSON) -> JSON:
    return {"apiVersion": "v1", "kind": "Namespace", **namespace}


def _answer(answer: object) -> JSON:
    names = ("group", "resource", "subresource", "namespace", "verb")
    question = {name: getattr(answer, name) or "" for name in names}
    return {**question, "decision": "allow" if getattr(answer, "allowed", False) else "deny"}
