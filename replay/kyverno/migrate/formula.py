"""CEL conditions under construction. Parts that are always true or false are simplified, parentheses are minimal."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import StrEnum
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from replay.kube.schema import Encoding, Schema
from replay.kyverno.wildcard import has_wildcard

_ATOM, COMPARISON, _AND, LOOSEST = range(4)
"""Precedence levels. A higher level binds more loosely."""

_LONGEST_LINE = 100


class NoEquivalentError(Exception):
    """Rule without an equivalent in CEL, or not known to have one. `str()` is the reason."""


class Formula(Struct, frozen=True):
    """Condition with its precedence level. `opposite` is set if the negation is not just `!` before it."""

    text: str
    level: int = _ATOM
    opposite: Formula | None = None

    def within(self, level: int) -> str:
        """Return the text as part of a condition of the given level, in parentheses if needed."""
        return self.text if self.level <= level else f"({self.text})"


TRUE: Final = Formula("true")
FALSE: Final = Formula("false")


def certain(*, holds: bool) -> Formula:
    """Return a condition that is always true or always false."""
    return TRUE if holds else FALSE


def compared(one: str, operator: str, other: str) -> Formula:
    """Return a comparison."""
    opposite = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}[operator]
    return Formula(f"{one} {operator} {other}", COMPARISON, Formula(f"{one} {opposite} {other}", COMPARISON))


def negated(formula: Formula) -> Formula:
    """Return the negation."""
    if formula in (TRUE, FALSE):
        return certain(holds=formula == FALSE)
    bare = Formula(formula.text, formula.level)
    if formula.opposite is not None:
        return replace(formula.opposite, opposite=bare)
    return Formula(f"!{formula.within(_ATOM)}", _ATOM, bare)


def all_of(*formulas: Formula) -> Formula:
    """Return the conjunction."""
    return _joined(formulas, TRUE, FALSE, "&&", _AND)


def any_of(*formulas: Formula) -> Formula:
    """Return the disjunction."""
    return _joined(formulas, FALSE, TRUE, "||", LOOSEST)


def _joined(formulas: Iterable[Formula], neutral: Formula, decisive: Formula, operator: str, level: int) -> Formula:
    kept: list[Formula] = []
    for each in formulas:
        if each == decisive:
            return decisive
        if each != neutral and each not in kept:
            kept.append(each)
    if not kept:
        return neutral
    if len(kept) == 1:
        return kept[0]
    parts = [each.within(level) for each in kept]
    text = f" {operator} ".join(parts)
    return Formula(text if len(text) <= _LONGEST_LINE else f" {operator}\n".join(parts), level)


_ESCAPES = {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def literal(value: Any) -> str:
    """Return a CEL literal for a string, whole number, boolean, null or a list of these.

    Raises UnsaidError for anything else.
    """
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    if isinstance(value, list):
        return f"[{', '.join(map(literal, value))}]"
    if not isinstance(value, str):
        raise NoEquivalentError(f"`{value}` is not a string, an integer or a boolean")
    return f"'{''.join(_escaped(each) for each in value)}'"


def _escaped(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    return character if character.isprintable() else f"\\U{ord(character):08x}"


def fits_wildcard(pattern: str, text: str) -> Formula:
    """Return the condition that an expression of a string matches a pattern with `*` and `?`."""
    inner = pattern.strip("*")
    if pattern and not inner:
        return TRUE
    if not has_wildcard(pattern):
        return compared(text, "==", literal(pattern))
    if pattern in ("?*", "*?"):
        return compared(text, "!=", "''")
    if not has_wildcard(inner):
        start, end = pattern.endswith("*"), pattern.startswith("*")
        function = "contains" if start and end else "startsWith" if start else "endsWith"
        return Formula(f"{text}.{function}({literal(inner)})")
    return Formula(f"{text}.matches({literal(_regular_expression(pattern))})")


def _regular_expression(pattern: str) -> str:
    pieces = {"*": ".*", "?": "."}
    return f"(?s)^{''.join(pieces.get(each) or _quoted(each) for each in pattern)}$"


def _quoted(character: str) -> str:
    return f"\\{character}" if character in r"\.+()[]{}^$|" else character


def fits_any_wildcard(patterns: Iterable[str], text: str) -> Formula:
    """Return the condition that a string matches one of several patterns. Plain strings become one `in` test."""
    patterns = list(dict.fromkeys(patterns))
    plain = [each for each in patterns if not has_wildcard(each)]
    formulas = [fits_wildcard(each, text) for each in patterns if has_wildcard(each)]
    if len(plain) == 1:
        formulas.insert(0, fits_wildcard(plain[0], text))
    elif plain:
        formulas.insert(0, Formula(f"{text} in {literal(plain)}", COMPARISON))
    return any_of(*formulas)


# Place in the object of a request: how CEL reads it, and what the schema says about it.

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_KEYWORDS: Final = frozenset(
    [
        "as",
        "break",
        "const",
        "continue",
        "else",
        "false",
        "for",
        "function",
        "if",
        "import",
        "in",
        "let",
        "loop",
        "null",
        "package",
        "return",
        "true",
        "var",
        "void",
        "while",
    ]
)
_QUANTITY: Final = ".api.resource.Quantity"


class Type(StrEnum):
    """Types of values that the translation distinguishes."""

    OBJECT = "object"
    LIST = "array"
    TEXT = "string"
    QUANTITY = "quantity"
    INTEGER = "integer"
    BOOLEAN = "boolean"
    INTEGER_OR_TEXT = "int-or-string"


class Place(Struct, frozen=True):
    """Place in an object. `plain` is the expression of its value, `optional` that of an optional or of a present value.

    `schemas` are the place's schemas in the kinds that a rule matches.
    """

    optional: str
    plain: str
    schemas: tuple[Schema, ...]
    path: str = ""
    is_there: bool = False

    @property
    def type(self) -> Type:
        """Type of the value. Raises UnsaidError if it is unknown or differs between kinds."""
        types = {_type(schema) for schema in self.schemas}
        known = types.pop() if len(types) == 1 else None
        if known is None:
            raise NoEquivalentError(f"the type of {self.path or 'the object'} is not known")
        return known

    def field(self, name: str) -> Place:
        """Return the place of a field. Raises UnsaidError if no kind has the field."""
        path = f"{self.path}.{name}".lstrip(".")
        found = [each for schema in self.schemas if (each := schema.field(name)) is not None]
        if not found:
            raise NoEquivalentError(f"the schema does not have {path}")
        if _IDENTIFIER.fullmatch(name) and name not in _KEYWORDS:
            optional, plain = f"{self.optional}.?{name}", f"{self.plain}.{name}"
        else:
            quoted = name.replace("\\", "\\\\").replace("'", "\\'")
            optional, plain = f"{self.optional}[?'{quoted}']", f"{self.plain}['{quoted}']"
        return Place(optional, plain, tuple(found), path)

    def item(self, name: str) -> Place:
        """Return the place of a list item, which CEL calls `name`."""
        found = tuple(each for schema in self.schemas if (each := schema.items) is not None)
        return Place(name, name, found, f"{self.path}[]", is_there=True)

    @property
    def exists(self) -> Formula:
        """Condition that the field is present, even if it is null."""
        return Formula(f"{self.optional}.hasValue()")

    @property
    def has_value(self) -> Formula:
        """Condition that the field is present and not null."""
        return compared(self.optional if self.is_there else f"{self.optional}.orValue(null)", "!=", "null")

    def default(self, text: str) -> str:
        """Return the value, or `text` if the field is absent."""
        return self.plain if self.is_there else f"{self.optional}.orValue({text})"

    def requires(self, name: str) -> bool:
        """Return whether every object of the API has the field."""
        return all(
            name in schema.required or ((field := schema.field(name)) is not None and field.encoding is Encoding.ALWAYS)
            for schema in self.schemas
        )


def _type(schema: Schema) -> Type | None:
    if schema.int_or_string:
        return Type.INTEGER_OR_TEXT
    if schema.name.endswith(_QUANTITY):
        return Type.QUANTITY
    if schema.preserve_unknown_fields and not schema.fields:
        return None
    return Type(schema.type) if schema.type in set(Type) else None


def singular(name: str, taken: int) -> str:
    """Return the CEL name of a list's item. `taken` is the number of enclosing lists."""
    name = name.removesuffix("s") if _IDENTIFIER.fullmatch(name) and name.endswith("s") else "item"
    if name in _KEYWORDS or name in ("object", "oldObject", "request", "variable", "int", "string", "type"):
        name = "item"
    return f"{name}{taken + 1}" if taken else name
