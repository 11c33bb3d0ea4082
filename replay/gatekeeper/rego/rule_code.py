"""Python source of whole rules: sets, objects, single values with their `else`, and functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from replay.gatekeeper.rego.ast import Head, Rule, Scalar
from replay.gatekeeper.rego.codegen import FunctionWriter, Names

_COMPLETE = "complete rules must not produce multiple outputs"
_EMPTY = {"set": "Set()", "object": "Entries()", "value": "[]"}


def rule_code(
    rules: Sequence[Rule], number: int, names: Names, file_of: Callable[[Rule], str], *, is_entry: bool
) -> list[str]:
    """Return the code of a rule without arguments: a set, an object or one value."""
    first = rules[0].head
    kind = "set" if first.is_set else "object" if first.key is not None else "value"
    lines = [f"def r{number}(c):", f"    out = c.memo[{number}]", "    if out is not None: return out"]
    lines.append(f"    out = {_EMPTY[kind]}")
    default = None
    for rule in rules:
        if rule.is_default:
            default = rule
            continue
        writer = FunctionWriter(names, file_of(rule))
        if is_entry:
            # An unknown value ends only this rule: the others may still find violations.
            writer.line("try:")
            writer.indent += 1
        _clause(writer, rule, kind, is_entry=is_entry)
        lines += writer.lines
        if is_entry:
            lines += ["    except UnknownTouchedError as why:", "        c.unknown.append(str(why))"]
    if kind == "value":
        if default is not None:
            writer = FunctionWriter(names, file_of(default))
            writer.line("if not out:")
            writer.indent += 1
            writer.block(lambda: writer.line(f"out.append({writer.value(default.head.value)})"))
            lines += writer.lines
        lines.append("    out = out[0] if out else U")
    elif kind == "object":
        lines.append("    out = out.value()")
    return [*lines, f"    c.memo[{number}] = out", "    return out"]


def _clause(writer: FunctionWriter, rule: Rule, kind: str, *, is_entry: bool) -> None:
    head = rule.head

    def collect() -> None:
        if kind == "set":
            value = writer.value(head.key)
            writer.line(f"c.said(out, {value}, {head.line})" if is_entry else f"out.add({value})")
        elif kind == "object":
            key = writer.value(head.key)
            is_named = isinstance(head.key, Scalar) and isinstance(head.key.value, str)
            message = f", {_COMPLETE!r}" if is_named else ""
            writer.line(f"out.put({key}, {writer.value(head.value)}, {head.line}, {writer.file!r}{message})")

    if kind != "value":
        writer.block(lambda: writer.body(rule.body, collect))
        return
    _alternatives(writer, rule, _COMPLETE)


def _alternatives(writer: FunctionWriter, rule: Rule, message: str) -> None:
    """Write a rule with its chain of `else`. The first clause that has a value counts."""
    target = writer.fresh("o")
    writer.line(f"{target} = []")

    def collect(head: Head) -> Callable[[], None]:
        def write() -> None:
            value = writer.value(head.value) if head.value is not None else "True"
            writer.line(f"once({target}, {value}, {head.line}, {message!r}, {writer.file!r})")

        return write

    each: Rule | None = rule
    is_first = True
    while each is not None:
        current = each
        if not is_first:
            writer.line(f"if not {target}:")
            writer.indent += 1

        def write(current: Rule = current) -> None:
            for place, argument in enumerate(current.head.arguments or ()):
                writer.destructure(argument, f"a{place}")
            writer.body(current.body, collect(current.head))

        writer.block(write)
        if not is_first:
            writer.indent -= 1
        is_first = False
        each = current.otherwise
    writer.line(f"if {target}: once(out, {target}[0], {rule.head.line}, {message!r}, {writer.file!r})")


def function_code(rules: Sequence[Rule], number: int, names: Names, file_of: Callable[[Rule], str]) -> list[str]:
    """Return the code of a function."""
    count = len(rules[0].head.arguments or ())
    lines = [
        f"def f{number}({', '.join(['c', *(f'a{place}' for place in range(count))])}):",
        "    c.spend(1)",
        "    out = []",
    ]
    default = None
    for rule in rules:
        if rule.is_default:
            default = rule
            continue
        writer = FunctionWriter(names, file_of(rule))
        _alternatives(writer, rule, "functions must not produce multiple outputs for same inputs")
        lines += writer.lines
    if default is not None:
        writer = FunctionWriter(names, file_of(default))
        writer.line("if not out:")
        writer.indent += 1
        writer.block(lambda: writer.line(f"out.append({writer.value(default.head.value)})"))
        lines += writer.lines
    return [*lines, "    return out[0] if out else U"]
