"""CEL conditions under construction. Parts that are always true or false are simplified, parentheses are minimal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from replay.kyverno.wildcard import has_wildcard

_ATOM, COMPARISON, _AND, LOOSEST = range(4)
"""Precedence levels. A higher level binds more loosely."""

_LONGEST_LINE = 100


class UnsaidError(Exception):
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
        raise UnsaidError(f"`{value}` is no text, whole number or boolean")
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
