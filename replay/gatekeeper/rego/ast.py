"""Syntax tree of Rego (`opa/v1/ast/term.go`, `policy.go`)."""

from __future__ import annotations

import json
from typing import Any, Literal

from msgspec import Struct, field


class Scalar(Struct, frozen=True):
    """Constant."""

    value: Any
    line: int


class Var(Struct, frozen=True):
    """Variable. Each wildcard has its own name, which begins with `$`."""

    name: str
    line: int


class Ref(Struct, frozen=True):
    """Reference: its head, and the operands after it."""

    head: Term
    operands: tuple[Term, ...]
    line: int


class Call(Struct, frozen=True):
    """Call of a function or builtin."""

    function: Ref | Var
    arguments: tuple[Term, ...]
    line: int


class Infix(Struct, frozen=True):
    """Two terms joined by an operator."""

    operator: str
    left: Term
    right: Term
    line: int


class Membership(Struct, frozen=True):
    """Membership test `key, value in collection`. `key` is None if it is not written."""

    key: Term | None
    value: Term
    collection: Term
    line: int


class ArrayTerm(Struct, frozen=True):
    """Array of terms."""

    items: tuple[Term, ...]
    line: int


class SetTerm(Struct, frozen=True):
    """Set of terms."""

    items: tuple[Term, ...]
    line: int


class ObjectTerm(Struct, frozen=True):
    """Object of terms."""

    entries: tuple[tuple[Term, Term], ...]
    line: int


class Comprehension(Struct, frozen=True):
    """Array, set or object comprehension. `key` is set for an object."""

    kind: Literal["array", "set", "object"]
    key: Term | None
    value: Term
    body: tuple[Literal_, ...]
    line: int


class TemplateString(Struct, frozen=True):
    """String with embedded expressions (`$"..."`)."""

    parts: tuple[str | Term, ...]
    line: int


Term = (
    Scalar | Var | Ref | Call | Infix | Membership | ArrayTerm | SetTerm | ObjectTerm | Comprehension | TemplateString
)


class With(Struct, frozen=True):
    """Modifier `with`: the replaced path and the new value."""

    target: Term
    value: Term


class SomeDeclaration(Struct, frozen=True):
    """Declaration `some x, y`."""

    names: tuple[str, ...]


class SomeIn(Struct, frozen=True):
    """Iteration `some k, v in collection`."""

    key: Term | None
    value: Term
    collection: Term


class Every(Struct, frozen=True):
    """Condition `every k, v in collection { body }`."""

    key: str | None
    value: str
    collection: Term
    body: tuple[Literal_, ...]


class Literal_(Struct, frozen=True):  # noqa: N801 - `Literal` is Python's
    """One expression of a body, with its modifiers."""

    expression: Term | SomeDeclaration | SomeIn | Every | NegatedBody
    line: int
    is_negated: bool = False
    modifiers: tuple[With, ...] = ()


class NegatedBody(Struct, frozen=True):
    """Negated body `not { body }`."""

    body: tuple[Literal_, ...]


class Head(Struct, frozen=True):
    """Head of a rule. `name` is its path. `key` and `value` are what it defines."""

    name: tuple[str, ...]
    line: int
    arguments: tuple[Term, ...] | None = None
    key: Term | None = None
    value: Term | None = None
    is_set: bool = False
    is_assigned: bool = False


class Rule(Struct, frozen=True):
    """Rule with one body. `otherwise` is its `else`."""

    head: Head
    body: tuple[Literal_, ...]
    is_default: bool = False
    otherwise: Rule | None = None


class Import(Struct, frozen=True):
    """Import with its path and local name."""

    path: tuple[str, ...]
    alias: str
    line: int


class Module(Struct, frozen=True):
    """Rego file."""

    package: tuple[str, ...]
    imports: tuple[Import, ...] = ()
    rules: tuple[Rule, ...] = field(default=())


def reference_text(term: Term) -> str:
    """Return a reference as OPA writes it."""
    match term:
        case Var():
            return "_" if term.name.startswith("$") else term.name.partition("#")[0]
        case Scalar():
            return getattr(term.value, "text", None) or json.dumps(term.value)
        case Ref():
            return reference_text(term.head) + "".join(
                f".{part.value}" if isinstance(part, Scalar) and _is_name(part.value) else f"[{reference_text(part)}]"
                for part in term.operands
            )
    return "_"


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and value.isidentifier() and value.isascii()
