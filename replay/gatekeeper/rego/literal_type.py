"""Types of literal operands. OPA's type checker refuses a builtin call with a literal of a wrong type (`ast/check.go`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from replay.gatekeeper.rego.ast import ArrayTerm, Comprehension, ObjectTerm, Scalar, SetTerm, TemplateString, Term
from replay.gatekeeper.rego.builtins.operand import OPERANDS

_ALLOWED: Final = {
    "s": ("string",),
    "n": ("number",),
    "i": ("number",),
    "a": ("array",),
    "o": ("object",),
    "t": ("set",),
    "c": ("array", "set"),
    "v": ("string", "array", "object", "set"),
}
_ARITHMETIC: Final = {"+": ("plus", "nn"), "*": ("mul", "nn"), "/": ("div", "nn"), "%": ("rem", "nn")}


def literal_type(term: Term) -> str:
    """Return the type of a literal term, or an empty text if its type depends on its value."""
    match term:
        case Scalar(value=bool()):
            return "boolean"
        case Scalar(value=str()) | TemplateString():
            return "string"
        case Scalar(value=None):
            return "null"
        case Scalar():
            return "number"
        case ArrayTerm():
            return "array"
        case SetTerm():
            return "set"
        case ObjectTerm():
            return "object"
        case Comprehension():
            return term.kind
    return ""


def refused_call(name: str, operands: Sequence[Term]) -> str:
    """Return the type error of a call's operands, or an empty text."""
    shown, kinds = _ARITHMETIC.get(name, (name, OPERANDS.get(name, "")))
    found = [literal_type(operand) for operand in operands]
    if any(own and kind in _ALLOWED and own not in _ALLOWED[kind] for own, kind in zip(found, kinds, strict=False)):
        return f"{shown}: invalid argument(s): have ({', '.join(own or 'any' for own in found)})"
    return ""
