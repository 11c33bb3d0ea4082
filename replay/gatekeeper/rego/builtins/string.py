"""Builtins for strings (`opa/v1/topdown/strings.go`)."""

from __future__ import annotations

import re
from fractions import Fraction

from replay.gatekeeper.rego.builtins.encoding import octets_of, text_of
from replay.gatekeeper.rego.builtins.operand import BuiltinError, builtin, plain, strings_of, wrong
from replay.gatekeeper.rego.lexer import limited, printed
from replay.gatekeeper.rego.value import Number, Object, Value, iterate, pairs_of
from replay.go.sprintf import sprintf

_SPACES = "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"


@plain("sprintf", 2)
def _sprintf(format_: Value, values: Value) -> Value:
    if type(format_) is not str or type(values) is not list:
        return wrong(format_, values)
    arguments = [value if type(value) is str or type(value) is int else _argument(value) for value in values]
    found = sprintf(format_, arguments)
    limited(len(found))
    return found


def _argument(value: Value) -> float | str:
    if type(value) is Number:
        try:
            return float(Fraction(value.text))
        except OverflowError:
            return value.text
    return printed(value)


def interpolated(value: Value) -> str:
    """Return a value as it appears in a template string."""
    from replay.gatekeeper.rego.value import UNDEFINED  # noqa: PLC0415

    if value is UNDEFINED:
        return "<undefined>"
    return value if type(value) is str else printed(value)


@plain("contains", 2)
def _contains(text: Value, part: Value) -> Value:
    return part in text if type(text) is str and type(part) is str else wrong(text, part)


@plain("startswith", 2)
def _startswith(text: Value, part: Value) -> Value:
    return text.startswith(part) if type(text) is str and type(part) is str else wrong(text, part)


@plain("endswith", 2)
def _endswith(text: Value, part: Value) -> Value:
    return text.endswith(part) if type(text) is str and type(part) is str else wrong(text, part)


@plain("lower", 1)
def _lower(text: Value) -> Value:
    if type(text) is not str:
        return wrong(text)
    return text.lower() if text.isascii() else "".join(_simple(character, character.lower()) for character in text)


@plain("upper", 1)
def _upper(text: Value) -> Value:
    if type(text) is not str:
        return wrong(text)
    return text.upper() if text.isascii() else "".join(_simple(character, character.upper()) for character in text)


def _simple(character: str, mapped: str) -> str:
    """Return one character for one character, as Go's case mapping does."""
    return mapped if len(mapped) == 1 else mapped[0] if character == "\u0130" else character


@plain("split", 2)
def _split(text: Value, separator: Value) -> Value:
    if type(text) is not str or type(separator) is not str:
        return wrong(text, separator)
    return text.split(separator) if separator else list(text)


@plain("concat", 2)
def _concat(separator: Value, values: Value) -> Value:
    if type(separator) is not str or type(values).__name__ not in ("list", "Set"):
        return wrong(separator, values)
    try:
        parts = strings_of(iterate(values))
    except BuiltinError:
        return wrong()
    limited(sum(map(len, parts)) + len(separator) * len(parts))
    return separator.join(parts)


@builtin("indexof", "ss")
def _indexof(text: str, part: str) -> Value:
    if not part:
        raise BuiltinError
    return text.find(part)


@builtin("indexof_n", "ss")
def _indexof_n(text: str, part: str) -> Value:
    if not part:
        raise BuiltinError
    found: list[Value] = []
    at = text.find(part)
    while at >= 0:
        found.append(at)
        at = text.find(part, at + 1)
    return found


@builtin("substring", "sii")
def _substring(text: str, start: int, length: int) -> Value:
    if start < 0:
        raise BuiltinError
    return text[start:] if length < 0 else text[start : start + length]


@builtin("strings.count", "ss")
def _string_count(text: str, part: str) -> Value:
    return text.count(part)


@builtin("replace", "sss")
def _replace(text: str, old: str, new: str) -> Value:
    count = text.count(old)
    limited(len(text) + count * max(0, len(new) - len(old)))
    return text.replace(old, new)


@builtin("strings.replace_n", "os")
def _replace_n(patterns: Value, text: str) -> Value:
    if isinstance(patterns, Object):
        raise BuiltinError
    pairs = [(key, *strings_of([value])) for key, value in pairs_of(patterns)]
    return _replaced(pairs, text)


def _replaced(pairs: list[tuple[str, str]], text: str) -> str:
    """Return a text with all pairs replaced (`strings.NewReplacer`).

    At each byte, the first pair that fits is used. After an empty text is replaced, the first other pair that fits the
    same byte is used too, as Python's `re` does.
    """
    if not pairs:
        return text
    octets = octets_of(text)
    replacements = {octets_of(old): octets_of(new) for old, new in pairs}
    pattern = re.compile(b"|".join(map(re.escape, replacements)))
    size = len(octets)

    def replacement(match: re.Match[bytes]) -> bytes:
        nonlocal size
        found = replacements[match.group()]
        size += len(found) - len(match.group())
        limited(size)
        return found

    return text_of(pattern.sub(replacement, octets))


@builtin("trim", "ss")
def _trim(text: str, cut: str) -> Value:
    return text.strip(cut) if cut else text


@builtin("trim_left", "ss")
def _trim_left(text: str, cut: str) -> Value:
    return text.lstrip(cut) if cut else text


@builtin("trim_right", "ss")
def _trim_right(text: str, cut: str) -> Value:
    return text.rstrip(cut) if cut else text


@builtin("trim_prefix", "ss")
def _trim_prefix(text: str, prefix: str) -> Value:
    return text.removeprefix(prefix)


@builtin("trim_suffix", "ss")
def _trim_suffix(text: str, suffix: str) -> Value:
    return text.removesuffix(suffix)


@builtin("trim_space", "s")
def _trim_space(text: str) -> Value:
    return text.strip(_SPACES)


@builtin("strings.reverse", "s")
def _reverse(text: str) -> Value:
    return text[::-1]


def _texts(value: Value) -> list[str]:
    if type(value) is str:
        return [value]
    if type(value).__name__ not in ("list", "Set"):
        wrong(value)
        raise BuiltinError
    return strings_of(iterate(value))


@builtin("strings.any_prefix_match", "xx")
def _any_prefix(texts: Value, prefixes: Value) -> Value:
    wanted = tuple(_texts(prefixes))
    return any(text.startswith(wanted) for text in _texts(texts))


@builtin("strings.any_suffix_match", "xx")
def _any_suffix(texts: Value, suffixes: Value) -> Value:
    wanted = tuple(_texts(suffixes))
    return any(text.endswith(wanted) for text in _texts(texts))
