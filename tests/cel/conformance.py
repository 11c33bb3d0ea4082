"""How much of the public CEL conformance suite passes: `python tests/cel/conformance.py [DIRECTORY]` prints a table per file.

The suite (google/cel-spec, `tests/simple`) is read as JSON from `cel/spec` of the shared corpora. A test counts if it needs
no protobuf messages or enums and only libraries that Kubernetes enables; the others are listed by what they need.
"""

from __future__ import annotations

import base64
import json
import math
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from replay.cel.ast.issues import Issues
from replay.cel.declare.library import Function, Library, Overload, VariableDecl
from replay.cel.env import Env
from replay.cel.strict.folding import PlanError
from replay.cel.value import types
from replay.cel.value.equality import elements, find, is_list, is_map, map_keys
from replay.cel.value.text import type_name
from replay.cel.value.timestamp import Duration, Timestamp, parse_duration, parse_timestamp
from replay.cel.value.types import Type
from replay.cel.value.values import EvalError, TypeValue, Uint, Value, map_key
from replay.cellib.library.macros import TWO_VARIABLE_COMPREHENSIONS
from replay.cellib.library.optionals import OPTIONALS
from replay.cellib.library.strings import STRINGS

SPEC = Path(__file__).parents[2].parent / "shared" / "cel" / "spec"

UNSUPPORTED = {
    "proto": "protobuf messages or enums",
    "enum": "protobuf enums",
    "block": "`cel.block`, not enabled by Kubernetes",
    "ext:math": "`math.*`, not enabled by Kubernetes",
    "ext:encoders": "`base64.*`, not enabled by Kubernetes",
    "ext:network": "cel-go's network functions, not enabled by Kubernetes, which has its own",
    "ext:bindings": "`cel.bind`, not enabled by Kubernetes",
    "ext:proto": "protobuf extensions",
}
"""What a test may need that keeps it out, with the reason."""

_STRINGS_2 = "version 2 of the string extension, which Kubernetes enables, does otherwise"
_FOLDING = "the server's constant folding refuses it: `invalid qualifier type: types.Bytes`"
_REPEATED = "cel-go keeps the last of repeated keys, and lets doubles be keys"
_PRESENCE = "the server does not enable errors of presence tests on scalars"

DIFFERENT = {
    ("fields.json", "map_fields/map_bad_key_type_or_true"): _FOLDING,
    ("fields.json", "map_fields/map_bad_key_type_and_false"): _FOLDING,
    ("fields.json", "qualified_identifier_resolution/map_key_float"): _REPEATED,
    ("fields.json", "qualified_identifier_resolution/map_value_repeat_key"): _REPEATED,
    ("fields.json", "qualified_identifier_resolution/map_value_repeat_key_heterogeneous"): _REPEATED,
    ("optionals.json", "optionals/map_null_entry_no_such_key"): _PRESENCE,
    ("optionals.json", "optionals/map_present_key_invalid_field"): _PRESENCE,
    ("timestamps.json", "duration_converters/get_milliseconds"): "cel-go gives the whole duration in milliseconds",
    ("type_deduction.json", "legacy_nullable_types/null_assignable_to_abstract_parameter_candidate"): (
        "the server refuses lists of mixed types"
    ),
    **{
        ("string_ext.json", f"format/{name}"): _STRINGS_2
        for name in (
            "scientific notation formatting clause",
            "default precision for fixed-point clause with int",
            "default precision for fixed-point clause with uint",
            "default precision for scientific notation",
            "default precision for scientific notation with int",
            "default precision for scientific notation with uint",
            "NaN support for scientific notation",
            "positive infinity support for scientific notation",
            "negative infinity support for scientific notation",
            "NaN support for decimal",
            "positive infinity support for decimal",
            "negative infinity support for decimal",
            "positive infinity support for fixed-point",
            "negative infinity support for fixed-point",
            "list support for string",
            "map support for string",
            "map support (all key types)",
            "dyntype support for scientific notation",
            "dyntype NaN/infinity support",
            "dyntype support for lists",
            "dyntype support for maps",
            "scientific notation formatting clause in a string variable",
        )
    },
    ("string_ext.json", "value_errors/indexof_out_of_range"): _STRINGS_2,
    ("string_ext.json", "value_errors/lastindexof_out_of_range"): _STRINGS_2,
    ("string_ext.json", "reverse/empty"): _STRINGS_2,
    ("string_ext.json", "reverse/single_character"): _STRINGS_2,
    ("string_ext.json", "reverse/multiple"): _STRINGS_2,
}
"""Tests that a real API server fails, each asked of one; agreeing with the server is what counts here."""

_PRIMITIVES = {
    "bool": types.BOOL,
    "int": types.INT,
    "uint": types.UINT,
    "double": types.DOUBLE,
    "string": types.STRING,
    "bytes": types.BYTES,
    "null": types.NULL,
    "dyn": types.DYN,
    "any": types.ANY,
    "timestamp": types.TIMESTAMP,
    "duration": types.DURATION,
}


class Outcome(NamedTuple):
    """How one test ended: `reason` is empty where it passed, `excluded` says what kept it from counting."""

    file: str
    name: str
    expr: str
    reason: str = ""
    excluded: str = ""


def load(directory: Path = SPEC) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """`(file, section/test, test)` of all files."""
    for path in sorted(directory.glob("*.json")):
        for section in json.loads(path.read_text())["sections"]:
            for test in section["tests"]:
                yield path.name, f"{section['name']}/{test['name']}", test


def run(directory: Path = SPEC) -> list[Outcome]:
    """All tests."""
    outcomes = []
    for file, name, test in load(directory):
        excluded = next((UNSUPPORTED[need] for need in test["needs"] if need in UNSUPPORTED), "")
        excluded = excluded or DIFFERENT.get((file, name), "")
        reason = "" if excluded else failure(test)
        outcomes.append(Outcome(file, name, test["expr"], reason, excluded))
    return outcomes


def failure(test: Mapping[str, Any]) -> str:
    """Why a test fails, empty if it passes."""
    env = _env(json.dumps(test["type_env"]), test["container"])
    expect = test["expect"]
    ast = env.parse(test["expr"])
    if not isinstance(ast, Issues) and not test["disable_check"]:
        ast = env.check(ast)
    if isinstance(ast, Issues):
        return "" if "error" in expect else ast.to_display_string()
    if "typed_result" in expect:
        deduced = ast.type_map[ast.expr.id]
        if deduced != type_from_json(expect["typed_result"]["deduced_type"]):
            return f"deduced {deduced}"
        if test["check_only"]:
            return ""
    try:
        value = env.program(ast).eval({name: value_from_json(v) for name, v in test["bindings"].items()}).value
    except PlanError as error:
        value = EvalError(error.message)
    if "error" in expect:
        return "" if isinstance(value, EvalError) else f"no error but {value!r}"
    wanted = expect.get("value") or expect["typed_result"]["result"]
    return "" if same(value, value_from_json(wanted)) else f"got {value!r}, wanted {wanted}"


@cache
def _env(type_env: str, container: str) -> Env:
    variables, functions = [], []
    for declaration in json.loads(type_env):
        if "ident" in declaration:
            variables.append(VariableDecl(declaration["ident"], type_from_json(declaration["type"])))
            continue
        overloads = [
            Overload(o["id"], tuple(map(type_from_json, o["params"])), type_from_json(o["result"]), member=o["member"])
            for o in declaration["overloads"]
        ]
        functions.append(Function(declaration["function"], tuple(overloads)))
    declared = Library("test", tuple(functions), variables=tuple(variables))
    return Env([OPTIONALS, TWO_VARIABLE_COMPREHENSIONS, STRINGS, declared], container, limit=None)


def type_from_json(data: Any) -> Type:  # noqa: PLR0911 - one return a kind
    """A type of the suite's notation."""
    if isinstance(data, str):
        return _PRIMITIVES[data]
    ((kind, value),) = data.items()
    match kind:
        case "list":
            return types.list_type(type_from_json(value))
        case "map":
            return types.map_type(*map(type_from_json, value))
        case "wrapper":
            return types.wrapper_type(_PRIMITIVES[value])
        case "type_param":
            return types.type_param(value)
        case "abstract":
            return types.opaque_type(value["name"], *map(type_from_json, value["params"]))
        case _:
            return types.struct_type(value)


def value_from_json(data: Mapping[str, Any]) -> Value:  # noqa: PLR0911 - one return a kind
    """A value of the suite's notation."""
    ((kind, value),) = data.items()
    match kind:
        case "int":
            return int(value)
        case "uint":
            return Uint(int(value))
        case "double":
            return float(value)
        case "bytes":
            return base64.b64decode(value)
        case "list":
            return [value_from_json(item) for item in value]
        case "map":
            return {map_key(value_from_json(key)): value_from_json(item) for key, item in value}
        case "type":
            return TypeValue(value)
        case "timestamp":
            return parse_timestamp(value)
        case "duration":
            return parse_duration(value)
        case _:
            return value


def same(left: Value, right: Value) -> bool:
    """Equal in type and content; NaN is the same as NaN."""
    if type_name(left) != type_name(right):
        return False
    if is_list(left):
        a, b = list(elements(left)), list(elements(right))
        return len(a) == len(b) and all(map(same, a, b))
    if is_map(left):
        keys = list(map_keys(left))
        pairs = [(find(left, key)[1], find(right, key)) for key in keys]
        return len(keys) == len(right) and all(found and same(mine, other) for mine, (found, other) in pairs)
    if isinstance(left, float):
        return (math.isnan(left) and math.isnan(right)) or left == right
    return isinstance(left, bool | int | str | bytes | TypeValue | Timestamp | Duration | None) and bool(left == right)


def table(outcomes: list[Outcome]) -> str:
    """A Markdown table: tests, passed, failed and skipped, per file."""
    lines = ["| file | tests | passed | failed | skipped |", "|---|---:|---:|---:|---:|"]
    files = dict.fromkeys(outcome.file for outcome in outcomes)
    for file in [*files, ""]:
        mine = [outcome for outcome in outcomes if file in ("", outcome.file)]
        excluded = sum(bool(outcome.excluded) for outcome in mine)
        failed = sum(bool(outcome.reason) for outcome in mine)
        passed = len(mine) - excluded - failed
        lines.append(f"| {file or '**total**'} | {len(mine)} | {passed} | {failed} | {excluded} |")
    lines += ["", "| reason to skip | tests |", "|---|---:|"]
    reasons = Counter(outcome.excluded for outcome in outcomes if outcome.excluded)
    return "\n".join([*lines, *(f"| {reason} | {count} |" for reason, count in reasons.most_common())])


def main() -> int:
    """Print the table, and each failure on stderr."""
    outcomes = run(Path(sys.argv[1]) if len(sys.argv) > 1 else SPEC)
    print(table(outcomes))  # noqa: T201 - a script
    for outcome in outcomes:
        if outcome.reason:
            print(f"{outcome.file} {outcome.name}: {outcome.expr}\n    {outcome.reason}", file=sys.stderr)  # noqa: T201
    return 1 if any(outcome.reason for outcome in outcomes) else 0


if __name__ == "__main__":
    raise SystemExit(main())
