"""Variables `{{ }}` and references `$( )` in a document (`pkg/engine/variables`, `pkg/engine/jsonutils`)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from replay.go.format import marshal
from replay.go.url import clean_path
from replay.json import JSON
from replay.kyverno.rules.go_value import sprint, type_name
from replay.kyverno.rules.json6902 import jmespath_of, parsed_path
from replay.kyverno.rules.match_pattern import operator_of, parse_anchor
from replay.kyverno.rules.response import GoPanicError, RuleError, UndeterminedError

VARIABLES = re.compile(r"(?:\A|[^\\])\{\{(?:\{[^{}]*\}|[^{}])*\}\}")
_REFERENCES = re.compile(r"\A\$\(.[^ ]*\)|[^\\]\$\(.[^ ]*\)")
_ESCAPED_REFERENCES = re.compile(r"\\\$\(.[^ )]*\)")
_MOST_ROUNDS = 100
_MOST_CHARACTERS = 4 * 1024 * 1024
_MOST_DEPTH = 100
Action = Callable[[str, str], JSON]


class Variables(Protocol):
    """Source of variables."""

    @property
    def operation(self) -> str:
        """Return the operation of the request."""
        ...

    def query(self, expression: str) -> JSON:
        """Return the value of an expression. Raises RuleError."""
        ...


def has_variables(document: JSON) -> bool:
    """Return whether substitution can change a document."""
    if isinstance(document, str):
        return "{{" in document or "$(" in document
    if isinstance(document, dict):
        return any("{{" in key or "$(" in key for key in document) or any(map(has_variables, document.values()))
    return isinstance(document, list) and any(map(has_variables, document))


def substitute(variables: Variables, document: JSON) -> JSON:
    """Return a document with its references, then its variables replaced (`SubstituteAll`). Raises RuleError."""
    if not has_variables(document):
        return document
    return _replace_variables(variables, _replace_references(document))


def _walk(element: JSON, path: str, action: Action, depth: int = 0) -> JSON:
    """Return a copy of a document with each key and string value replaced. Replacements are processed too."""
    if depth > _MOST_DEPTH:
        raise UndeterminedError(f"a document is nested more than {_MOST_DEPTH} times")
    if isinstance(element, str):
        element = action(element, path)
    if isinstance(element, dict):
        return {
            _key(key, path, action): _walk(value, f"{path}/{key.replace('/', chr(92) + '/')}", action, depth + 1)
            for key, value in element.items()
        }
    if isinstance(element, list):
        return [_walk(item, f"{path}/{index}", action, depth + 1) for index, item in enumerate(element)]
    return element


def _key(key: str, path: str, action: Action) -> str:
    if "{{" not in key and "$(" not in key:
        return key
    new = _walk(key, path, action)
    if new is None:
        return key
    if not isinstance(new, str):
        raise RuleError(f'expected string after substituting variables in key "{key}"')
    return new


def _replace_variables(variables: Variables, document: JSON) -> JSON:
    is_delete = variables.operation == "DELETE"

    def action(text: str, path: str) -> JSON:
        if "{{" not in text:
            return text
        return _with_variables(variables, text, path, is_delete=is_delete)

    return _walk(document, "", action)


def _with_variables(variables: Variables, text: str, path: str, *, is_delete: bool) -> JSON:
    """Replace a text's variables until none are left. A text that is one variable becomes its value."""
    rounds = 0
    found = VARIABLES.findall(text)
    while found:
        original, is_shallow = text, False
        for old in found:
            initial = old.startswith("{{")
            spelled = old if initial else old[1:]
            expression, is_shallow = _expression(spelled)
            if expression == "@":
                expression = _current(variables, path)
            if is_delete:
                # A rule for `request.object` also works on DELETE, which has only an old object.
                expression = expression.replace("request.object", "request.oldObject")
            try:
                value = variables.query(expression)
            except RuleError as error:
                raise RuleError(f"failed to resolve {expression} at path {path}: {error}") from None
            if original == spelled:
                return value
            if is_shallow and value is not None:
                if not isinstance(value, str):
                    raise GoPanicError(f"interface conversion: interface {{}} is {type_name(value)}, not string")
                # Escaped, so that the next round does not substitute variables in the value.
                value = value.replace("{{", "\\{{")
            shown = value if isinstance(value, str) else marshal(value)
            prefix = "" if initial else old[0]
            text = text.replace(prefix + spelled, prefix + shown, 1)
        rounds += 1
        if rounds > _MOST_ROUNDS or len(text) > _MOST_CHARACTERS:
            raise UndeterminedError("variables stand for each other without end")
        found = [] if is_shallow else VARIABLES.findall(text)
    return text.replace("\\{{", "{{")


def _expression(variable: str) -> tuple[str, bool]:
    """Return the expression between the braces, and whether its result is not substituted again (`{{- }}`)."""
    inner = variable.replace("{{", "").replace("}}", "").strip()
    return (inner[1:].strip(), True) if inner.startswith("-") else (inner, False)


def _current(variables: Variables, path: str) -> str:
    """Return the expression that a bare `@` stands for: the object's field at the same path as in the rule."""
    prefix = ["target"]
    try:
        variables.query("target")
    except RuleError:
        prefix = ["request", "object"]
    parts = parsed_path(path)
    if "foreach" in parts:
        parts = parts[parts.index("foreach") + 1 :]
    return jmespath_of([*prefix, *parts[2:]])


def _replace_references(document: JSON) -> JSON:
    def action(text: str, path: str) -> JSON:
        return _with_references(document, text, path) if "$(" in text else text

    return _walk(document, "", action)


def _with_references(document: JSON, text: str, path: str) -> str:
    for old in _REFERENCES.findall(text):
        initial = old.startswith("$(")
        reference = old if initial else old[1:]
        try:
            value = _referred(document, reference, path)
        except RuleError as error:
            raise RuleError(f"failed to resolve {reference} at path {path}: {error}") from None
        if value is None:
            raise RuleError(f"got nil resolved variable {reference} at path {path}: <nil>")
        if not isinstance(value, str):
            raise RuleError(f"NotResolvedReferenceErr,reference {reference} not resolved at path {path}")
        text = text.replace(old, ("" if initial else old[0]) + value, 1)
    for escaped in _ESCAPED_REFERENCES.findall(text):
        text = text.replace(escaped, escaped[1:])
    return text


def _referred(document: JSON, reference: str, place: str) -> JSON:
    path = reference.strip("$()")
    operator = operator_of(path)
    path = path[len(operator) :]
    if not path:
        raise RuleError("expected path, found empty reference")
    if not path.startswith("/"):
        path = clean_path(f"{place}/{path}" if place else path)
    value: JSON = None
    for at, element in _leaves(document, ""):
        if without_anchors(at) == path:
            value = element
    if not operator:
        return value
    if isinstance(value, str):
        return operator + value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return operator + (f"{value:f}" if isinstance(value, float) else str(value))
    raise RuleError(f"incorrect expression: operator {operator} does not match with value {sprint(value)}")


def _leaves(element: JSON, path: str) -> Iterator[tuple[str, Any]]:
    """Yield keys, each with the path of its map, and values that are not containers."""
    if isinstance(element, dict):
        for key, value in element.items():
            yield path, key
            yield from _leaves(value, f"{path}/{key.replace('/', chr(92) + '/')}")
    elif isinstance(element, list):
        for index, item in enumerate(element):
            yield from _leaves(item, f"{path}/{index}")
    else:
        yield path, element


def without_anchors(path: str) -> str:
    """Return a path without the anchors of its parts."""
    parts = path.split("/")
    parts = parts[1:] if parts[0] == "" else parts
    plain = [anchor.key if (anchor := parse_anchor(part)) is not None else part for part in parts]
    joined = "/".join(part for part in plain if part)
    normal = clean_path(joined) if joined else ""
    return f"/{normal}" if path.startswith("/") else normal


def shift_references(text: str, shift: str, pivot: str) -> str:
    """Return a message whose references reach one level deeper, as in the rule for pod controllers."""
    for old in _REFERENCES.findall(text):
        initial = old.startswith("$(")
        reference = old if initial else old[1:]
        index = reference.find(pivot)
        if pivot == "anyPattern" and index >= 0:
            pivot = f"{pivot}/{reference[index + len(pivot) + 1 :].split('/')[0]}"
        shifted = reference.replace(pivot, f"{pivot}/{shift}")
        text = text.replace(old, ("" if initial else old[0]) + shifted, 1)
    return text
