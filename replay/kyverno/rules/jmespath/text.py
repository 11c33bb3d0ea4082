"""Kyverno's functions on texts, objects and hashes (`pkg/engine/jmespath/functions.go`)."""

from __future__ import annotations

import base64
import hashlib
import math
import re
from collections.abc import Callable
from typing import Any

from replay.cel.value.bounds import UndeterminedError as PatternError
from replay.cel.value.regexp import compile_pattern, matchable
from replay.cel.value.values import EvalError
from replay.cellib.library.semver import SemanticVersion, parse_version
from replay.go.encoding import Base64Error, decode_base64
from replay.go.format import quote
from replay.go.url import clean_path
from replay.json import JSON
from replay.kyverno.rules.go_value import MapSlice, equal, shortest, sprint, truncated, with_floats
from replay.kyverno.rules.jmespath.standard import ARRAY, NUMBER, OBJECT, STRING, Function
from replay.kyverno.rules.jmespath.syntax import parsed_json
from replay.kyverno.rules.response import JMESPathError, UndeterminedError
from replay.kyverno.wildcard import matches_wildcard
from replay.manifests.go_type.decode import plain
from replay.manifests.read.yaml_reader import YAMLSyntaxError, read_yaml

_TEMPLATE = re.compile(r"\$(?:(\$)|(\w+)|\{(\w+)\})", re.ASCII)

_GROUP = re.compile(r"\\.|\[\^?\]?(?:\\.|\[:\w+:\]|[^\]])*\]|\((?:\?P?<(\w+)>|(?!\?))", re.ASCII | re.DOTALL)


def _error(function: str, message: str) -> JMESPathError:
    return JMESPathError(f"JMESPath function '{function}': {message}")


def _wrong_type(function: str, number: int, expected: str) -> JMESPathError:
    return _error(function, f"argument #{number} is not of type {expected}")


def text_of(value: JSON) -> str | None:
    """Return a number, text or boolean as functions write it, or None for other values."""
    if type(value) is float:
        # Kyverno formats numbers with the precision of float32.
        return shortest(value, bits=32)
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if type(value) is str else None


def _compare(one: str, other: str) -> int:
    return (one > other) - (one < other)


def _equal_fold(one: str, other: str) -> bool:
    return len(one) == len(other) and all(map(_is_same_letter, one, other))


def _is_same_letter(one: str, other: str) -> bool:
    return one == other or one.lower() == other.lower() or one.upper() == other.upper()


def _upper(character: str) -> str:
    """Return one upper-case character for one character, as Go does."""
    upper = character.upper()
    return upper if len(upper) == 1 else character


def _lower(character: str) -> str:
    lower = character.lower()
    return lower if len(lower) == 1 else "i" if character == "\u0130" else character


def _replace(text: str, old: str, new: str, count: float) -> str:
    limit = truncated(count)
    return text.replace(old, new) if limit < 0 else text.replace(old, new, limit)


def _split(text: str, separator: str) -> list[JSON]:
    return list(text.split(separator) if separator else text)


def _regexp(function: str, pattern: str) -> Any:
    try:
        return compile_pattern(pattern)
    except EvalError as error:
        raise JMESPathError(f"JMESPath function '{function}': {error.message}" if function else error.message) from None
    except PatternError as error:
        raise UndeterminedError(str(error)) from None


def _source(function: str, value: JSON, number: int) -> str:
    text = text_of(value)
    if text is None:
        raise _wrong_type(function, number, "String or Real")
    return text


def _replace_all(pattern: str, source: JSON, replacement: JSON) -> str:
    return _replaced("regex_replace_all", pattern, source, replacement, _expanded)


def _replace_all_literal(pattern: str, source: JSON, replacement: JSON) -> str:
    return _replaced("regex_replace_all_literal", pattern, source, replacement, _literally)


def _literally(_match: Any, template: str, _pattern: str) -> str:
    return template


def _replaced(
    function: str, pattern: str, source: JSON, replacement: JSON, expand: Callable[[Any, str, str], str]
) -> str:
    """Replace every match from left to right.

    An empty match directly after another match does not count (`regexp.ReplaceAll`).
    """
    text, template = matchable(_source(function, source, 2)), _source(function, replacement, 3)
    compiled = _regexp(function, pattern)
    parts, end, search_at = [], 0, 0
    while search_at <= len(text) and (match := compiled.search(text, search_at)) is not None:
        parts.append(text[end : match.start()])
        if match.end() > end or match.start() == 0:
            parts.append(expand(match, template, pattern))
        end = match.end()
        search_at = max(search_at + 1, end)
    return "".join([*parts, text[end:]])


def _group_names(pattern: str) -> dict[str, int]:
    """Return the numbers of a pattern's named groups. For equal names the last group counts, as in Go."""
    groups = (match[1] for match in _GROUP.finditer(pattern) if match[0].startswith("("))
    return {name: number for number, name in enumerate(groups, 1) if name}


def _expanded(match: Any, template: str, pattern: str) -> str:
    def group(reference: re.Match[str]) -> str:
        if reference[1]:
            return "$"
        name = reference[2] or reference[3]
        if name.isdigit():
            return (match.group(int(name)) or "") if int(name) <= len(match.groups()) else ""
        names = _group_names(pattern)
        return match.group(names[name]) or "" if name in names else ""

    return _TEMPLATE.sub(group, template)


def _regex_match(pattern: str, source: JSON) -> bool:
    return _regexp("", pattern).search(matchable(_source("regex_match", source, 2))) is not None


def _pattern_match(pattern: str, source: JSON) -> bool:
    return matches_wildcard(pattern, _source("regex_match", source, 2))


def _label_match(labels: dict[str, JSON], matched: dict[str, JSON]) -> bool:
    return all(key in matched and equal(matched[key], value) for key, value in labels.items())


def _to_boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise _error("to_boolean", f"lowercase argument must be 'true' or 'false' (provided: '{text}')")
    return text.lower() == "true"


def _base64_decode(text: str) -> str:
    try:
        return decode_base64(text).decode("utf-8", "surrogateescape")
    except Base64Error as error:
        raise JMESPathError(str(error)) from None


def _canonical_path(path: str) -> str:
    return clean_path(path) if path else ""


def _truncate(text: str, length: float) -> str:
    return text[: max(truncated(length), 0)]


def _semver_compare(version: str, range_: str) -> bool:
    try:
        parsed = parse_version(version)
    except EvalError:
        # Kyverno ignores the error and compares the zero version.
        parsed = SemanticVersion((0, 0, 0), (), ())
    return _version_range(range_)(parsed)


def _version_range(text: str) -> Callable[[SemanticVersion], bool]:
    """Return the test for a version range such as `>=1.0.0 <2.0.0 || 3.x` (github.com/blang/semver/v4 `ParseRange`)."""
    alternatives = [
        [_comparison(each) for piece in part for each in _without_wildcard(piece)]
        for part in _alternatives(_range_parts(text))
    ]
    return lambda version: any(all(holds(version) for holds in each) for each in alternatives)


def _range_parts(text: str) -> list[str]:
    """Return the parts between blanks, but keep blanks after an operator.

    As in the library, parts of one character are lost.
    """
    parts, last, last_character = [], 0, ""
    for index, character in enumerate(text):
        if character == " " and last_character not in (">", "<", "="):
            # As in the library, a part of one character is lost.
            if last < index - 1:
                parts.append(text[last:index])
            last = index + 1
        elif character != " ":
            last_character = character
    if last < len(text) - 1:
        parts.append(text[last:])
    return [part.replace(" ", "") for part in parts]


def _alternatives(parts: list[str]) -> list[list[str]]:
    groups: list[list[str]] = [[]]
    for index, part in enumerate(parts):
        if part != "||":
            groups[-1].append(part)
        elif index == 0:
            raise JMESPathError("First element in range is '||'")
        else:
            groups.append([])
    if not groups[-1] and parts:
        raise JMESPathError("Last element in range is '||'")
    if not parts:
        raise JMESPathError("Last element in range is '||'")
    return groups


def _operator_and_version(part: str) -> tuple[str, str]:
    digit = next((index for index, character in enumerate(part) if character.isdigit()), -1)
    if digit < 0:
        raise JMESPathError(f"Could not get version from string: {quote(part)}")
    return part[:digit].strip(), part[digit:]


def _without_wildcard(part: str) -> list[str]:
    """Return the two comparisons that `1.x` stands for."""
    if "x" not in part:
        return [part]
    operator, version = _operator_and_version(part)
    pieces = version.split(".")
    wildcard = len(pieces) if pieces[-1] == "x" else 0
    flat = version.replace(".x.x", ".x", 1).replace(".x", ".0", 1)
    flat = f"{flat}.0" if flat.count(".") == 1 else flat
    next_version = {3: _incremented(flat, 1), 2: _incremented(flat, 0)}.get(wildcard, "")
    table = {
        ">": [f">={next_version}"],
        ">=": [f">={flat}"],
        "<": [f"<{flat}"],
        "<=": [f"<{next_version}"],
    }
    if operator in ("", "=", "=="):
        return [f">={flat}", f"<{next_version}"]
    if operator in ("!=", "!"):
        return [f"<{flat}", f">={next_version}"]
    return table.get(operator, [flat])


def _incremented(version: str, index: int) -> str:
    parts = version.split(".")
    if not parts[index].isdigit():
        return ""
    parts[index] = str(int(parts[index]) + 1)
    return ".".join(parts)


def _comparison(part: str) -> Callable[[SemanticVersion], bool]:
    operator, text = _operator_and_version(part)
    tests: dict[str, Callable[[int], bool]] = {
        ">": lambda order: order > 0,
        ">=": lambda order: order >= 0,
        "<": lambda order: order < 0,
        "<=": lambda order: order <= 0,
        **dict.fromkeys(("", "=", "=="), lambda order: order == 0),
        **dict.fromkeys(("!", "!="), lambda order: order != 0),
    }
    if operator not in tests:
        raise JMESPathError(
            f"Could not parse Range {quote(part)}: Could not parse comparator {quote(operator)} in {quote(part)}"
        )
    try:
        wanted = parse_version(text)
    except EvalError as error:
        raise JMESPathError(
            f"Could not parse Range {quote(part)}: Could not parse version {quote(text)} in {quote(part)}: {error.message}"
        ) from None
    return lambda version: tests[operator](version.compare(wanted))


def _parse_yaml(text: str) -> JSON:
    try:
        return with_floats(plain(read_yaml(_octets(text)).node))
    except YAMLSyntaxError as error:
        raise JMESPathError(str(error)) from None


def _lookup(collection: JSON, key: JSON) -> JSON:
    if type(collection) is dict:
        if type(key) is not str:
            raise _wrong_type("lookup", 2, "String")
        return collection.get(key)
    if type(collection) is not list:
        raise _wrong_type("lookup", 1, "Object or Array")
    if type(key) is not float:
        raise _wrong_type("lookup", 2, "Number")
    if not math.isfinite(key) or key != math.trunc(key):
        raise _error("lookup", f"argument #2: expected an integer number but got: {sprint(key)}")
    if float(truncated(key)) != key:
        raise _error("lookup", f"argument #2: number is outside the range of integer numbers: {sprint(key)}")
    return collection[int(key)] if 0 <= key < len(collection) else None


def _items(collection: JSON, key_name: str, value_name: str) -> MapSlice:
    if type(collection) is dict:
        return MapSlice({key_name: key, value_name: collection[key]} for key in sorted(collection))
    if type(collection) is not list:
        raise _wrong_type("items", 1, "Object or Array")
    return MapSlice({key_name: float(index), value_name: value} for index, value in enumerate(collection))


def _object_from_lists(keys: JSON, values: JSON) -> JSON:
    for number, each in ((1, keys), (2, values)):
        if type(each) is not list:
            raise _wrong_type("object_from_lists", number, "Array")
    made: dict[str, JSON] = {}
    for index, key in enumerate(keys):
        name = text_of(key)
        if name is None:
            raise _wrong_type("object_from_lists", 1, "StringArray")
        made[name] = values[index] if index < len(values) else None
    return made


def _hashed(algorithm: str) -> Callable[[str], str]:
    return lambda text: hashlib.new(algorithm, _octets(text), usedforsecurity=False).hexdigest()


def _octets(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


TEXT: tuple[Function, ...] = (
    Function("compare", ((STRING,), (STRING,)), _compare),
    Function("equal_fold", ((STRING,), (STRING,)), _equal_fold),
    Function("replace", ((STRING,), (STRING,), (STRING,), (NUMBER,)), _replace),
    Function("replace_all", ((STRING,), (STRING,), (STRING,)), str.replace),
    Function("to_upper", ((STRING,),), lambda text: "".join(map(_upper, text))),
    Function("to_lower", ((STRING,),), lambda text: "".join(map(_lower, text))),
    Function("trim", ((STRING,), (STRING,)), lambda text, cutset: text.strip(cutset) if cutset else text),
    Function("trim_prefix", ((STRING,), (STRING,)), str.removeprefix),
    Function("split", ((STRING,), (STRING,)), _split),
    Function("regex_replace_all", ((STRING,), (STRING, NUMBER), (STRING, NUMBER)), _replace_all),
    Function("regex_replace_all_literal", ((STRING,), (STRING, NUMBER), (STRING, NUMBER)), _replace_all_literal),
    Function("regex_match", ((STRING,), (STRING, NUMBER)), _regex_match),
    Function("pattern_match", ((STRING,), (STRING, NUMBER)), _pattern_match),
    Function("label_match", ((OBJECT,), (OBJECT,)), _label_match),
    Function("to_boolean", ((STRING,),), _to_boolean),
    Function("base64_decode", ((STRING,),), _base64_decode),
    Function("base64_encode", ((STRING,),), lambda text: base64.b64encode(_octets(text)).decode()),
    Function("path_canonicalize", ((STRING,),), _canonical_path),
    Function("truncate", ((STRING,), (NUMBER,)), _truncate),
    Function("semver_compare", ((STRING,), (STRING,)), _semver_compare),
    Function("parse_json", ((STRING,),), parsed_json),
    Function("parse_yaml", ((STRING,),), _parse_yaml),
    Function("lookup", ((OBJECT, ARRAY), (STRING, NUMBER)), _lookup),
    Function("items", ((OBJECT, ARRAY), (STRING,), (STRING,)), _items),
    Function("object_from_lists", ((ARRAY,), (ARRAY,)), _object_from_lists),
    Function("sha256", ((STRING,),), _hashed("sha256")),
    Function("sha1", ((STRING,),), _hashed("sha1")),
    Function("md5", ((STRING,),), _hashed("md5")),
)
