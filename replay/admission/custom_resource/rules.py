"""Evaluation of a custom kind's CEL rules (`x-kubernetes-validations`) on one value.

Source: `k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/validation.go` (`validateExpressions`, of 1.37).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from replay.admission.custom_resource.schema_node import ABSENT, SchemaNode
from replay.cel.ast.issues import Issues
from replay.cel.declare.library import Library, VariableDecl
from replay.cel.env import Env
from replay.cel.program import Program
from replay.cel.value.types import DYN
from replay.cellib.activation import partial_value
from replay.cellib.declared_type import escape
from replay.cellib.environment import base_env
from replay.cellib.version import KubernetesVersion
from replay.json import JSON

RULES = "x-kubernetes-validations"
_COMPLEX = ("object", "array")
_TYPED_TEXTS = frozenset({"byte", "date", "date-time", "duration"})
_OLD = "oldSelf"


class UnknownRuleError(Exception):
    """A rule whose result is unknown. `str()` says why."""


@lru_cache(maxsize=8)
def _env(version: KubernetesVersion) -> Env:
    variables = (VariableDecl("self", DYN), VariableDecl(_OLD, DYN))
    return base_env(version, version, Library(name="kubernetes.customresource", variables=variables))


@lru_cache(maxsize=1024)
def _program(rule: str, version: KubernetesVersion) -> Program | None:
    """Return the program of a rule, None if it does not compile without the types of its schema."""
    env = _env(version)
    ast = env.compile(rule)
    return None if isinstance(ast, Issues) else env.program(ast)


def broken(node: SchemaNode, rule: Mapping[str, JSON], version: KubernetesVersion) -> str | None:
    """Return the server's message for a broken rule, None if the rule is kept. Raise UnknownRuleError."""
    text = str(rule.get("rule") or "").strip()
    uses_old = _OLD in text
    if not text or (uses_old and node.old is ABSENT and not rule.get("optionalOldSelf")):
        return None
    if node.is_unchanged and not uses_old:
        return None
    program = _program(text, version)
    if program is None or (uses_old and rule.get("optionalOldSelf")):
        raise UnknownRuleError(f"the rule `{text}` is not evaluated")
    values = {"self": node.value} if node.old is ABSENT else {"self": node.value, _OLD: node.old}
    bindings = {name: partial_value(_seen(node.schema, value), as_typed=False) for name, value in values.items()}
    result = program.eval(bindings)
    if result.unknown is not None:
        raise UnknownRuleError(f"what the rule `{text}` reads is not known")
    kind = str(node.schema.get("type") or "")
    said = str(rule.get("message") or "").strip()
    if result.error is not None:
        return f'{_shown(node.path)}: Invalid value: "{kind}": {result.error} evaluating rule: {said or text}'
    if result.value is True:
        return None
    return _wording(node, rule, _message(rule, bindings, version) or said or f"failed rule: {text}", kind)


def _wording(node: SchemaNode, rule: Mapping[str, JSON], detail: str, kind: str) -> str:
    """Return the message for a rule's reason (`fieldErrorForReason`). Objects and lists are not printed."""
    from replay.manifests.field_error import forbidden, invalid, required  # noqa: PLC0415 - few sets have such rules

    path = _shown(f"{node.path}{rule.get('fieldPath') or ''}".lstrip("."))
    match rule.get("reason"):
        case "FieldValueForbidden":
            return str(forbidden(path, detail))
        case "FieldValueRequired":
            return str(required(path, detail))
    return f"{path}: Invalid value: {detail}" if kind in _COMPLEX else str(invalid(path, node.value, detail))


def _message(rule: Mapping[str, JSON], bindings: Mapping[str, object], version: KubernetesVersion) -> str:
    """Return the value of `messageExpression`, empty if it is absent or unusable."""
    expression = str(rule.get("messageExpression") or "").strip()
    program = _program(expression, version) if expression else None
    result = None if program is None else program.eval(bindings)
    value = result.value if result is not None and result.error is None else ""
    return value.strip() if isinstance(value, str) and "\n" not in value else ""


def _shown(path: str) -> str:
    return path or "<nil>"


def _seen(schema: JSON, value: JSON) -> JSON:
    """Return a value as rules see it: escaped field names, numbers of the schema's type. Raise UnknownRuleError."""
    if not isinstance(schema, dict):
        return value
    if isinstance(value, dict):
        fields, others = schema.get("properties") or {}, schema.get("additionalProperties")
        return {
            (escape(name) or name if name in fields else name): _seen(fields.get(name, others), item)
            for name, item in value.items()
            if item is not None or name not in fields
        }
    if isinstance(value, list):
        return [_seen(schema.get("items"), item) for item in value]
    if isinstance(value, str) and schema.get("format") in _TYPED_TEXTS:
        raise UnknownRuleError(f"values of format `{schema['format']}` are not seen as rules see them")
    is_number = isinstance(value, int) and not isinstance(value, bool) and schema.get("type") == "number"
    return float(value) if is_number else value
