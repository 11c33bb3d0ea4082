"""Compiled modules with one entry rule, evaluated for an input and an inventory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from replay.gatekeeper.rego.ast import Head, Module, Rule, Scalar
from replay.gatekeeper.rego.builtins.registry import ARITIES, DEPRECATED, FUNCTIONS, interpolated
from replay.gatekeeper.rego.codegen import FunctionWriter, Names
from replay.gatekeeper.rego.lexer import RegoError, SeveralRegoError
from replay.gatekeeper.rego.order import indexed_order
from replay.gatekeeper.rego.runtime import NAMESPACE, STEPS, Context
from replay.gatekeeper.rego.scope import Scope
from replay.gatekeeper.rego.type_check import TypeChecker
from replay.gatekeeper.rego.value import Set, UnknownTouchedError, Value

# Python source of whole rules: sets, objects, single values with their `else`, and functions.

_COMPLETE = "complete rules must not produce multiple outputs"
_EMPTY = {"set": "Set()", "object": "Entries()", "value": "[]"}


def _rule_code(
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
    else:
        if kind == "object":
            lines.append("    out = out.value()")
        lines.append("    c.charge_members(out)")
    return [*lines, f"    c.memo[{number}] = out", "    return out"]


def _clause(writer: FunctionWriter, rule: Rule, kind: str, *, is_entry: bool) -> None:
    head = rule.head

    def collect() -> None:
        if kind == "set":
            value = writer.value(head.key)
            writer.charge_operands(value)
            writer.line(f"c.add_entry(out, {value}, {head.line})" if is_entry else f"out.add({value})")
        elif kind == "object":
            key, value = writer.value(head.key), writer.value(head.value)
            is_named = isinstance(head.key, Scalar) and isinstance(head.key.value, str)
            message = f", {_COMPLETE!r}" if is_named else ""
            writer.charge_operands(key, value)
            writer.line(f"out.put({key}, {value}, {head.line}, {writer.file!r}{message})")

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
            writer.line(f"put_single({target}, {value}, {head.line}, {message!r}, {writer.file!r})")

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
    writer.line(f"if {target}: put_single(out, {target}[0], {rule.head.line}, {message!r}, {writer.file!r})")


def _function_code(rules: Sequence[Rule], number: int, names: Names, file_of: Callable[[Rule], str]) -> list[str]:
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


Path = tuple[str, ...]


class SourceModule:
    """Module with the file name that its errors show."""

    def __init__(self, module: Module, file: str, *, is_v1: bool) -> None:
        """Keep the module with its file name."""
        self.module = module
        self.file = file
        self.is_v1 = is_v1


class Program:
    """Compiled modules. The entry rule is a partial set."""

    def __init__(self, modules: Sequence[SourceModule], entry: Path, reader: SourceModule | None = None) -> None:
        """Compile the modules. `reader` is the module that reads the entry rule. Raises RegoError."""
        grouped: dict[Path, list[Rule]] = {}
        files: dict[int, str] = {}
        for source in modules:
            scope = Scope(source.module, source.file)
            for rule in source.module.rules:
                new = scope.rule(rule)
                files[id(new)] = source.file
                grouped.setdefault((*source.module.package, *rule.head.name), []).append(new)
        rules = {path: found for path, found in grouped.items() if found[0].head.arguments is None}
        functions = {path: found for path, found in grouped.items() if found[0].head.arguments is not None}
        for path, found in grouped.items():
            _check_alike(path, found, files)
        self.names = Names(
            {path: number for number, path in enumerate(rules)},
            {
                path: (number, len(found[0].head.arguments or ()))
                for number, (path, found) in enumerate(functions.items())
            },
            {name: (arity, FUNCTIONS[name]) for name, arity in ARITIES.items()},
            set(rules),
        )
        uses: dict[Path, set[Path]] = {}
        lines: list[str] = []

        def file_of(rule: Rule) -> str:
            return files.get(id(rule), "template")

        for path, written in grouped.items():
            found = indexed_order(written)
            self.names.uses = set()
            if path in rules:
                lines += _rule_code(found, self.names.rules[path], self.names, file_of, is_entry=path == entry)
            else:
                lines += _function_code(found, self.names.functions[path][0], self.names, file_of)
            uses[path] = self.names.uses
        _check_recursion(uses, grouped, files)
        checker = TypeChecker(self.names.arity)
        for path in _in_order(uses):
            for rule in grouped[path]:
                checker.rule(path, rule, file_of(rule))
        if reader is not None:
            scope = Scope(reader.module, reader.file)
            for rule in reader.module.rules:
                checker.rule((*reader.module.package, *rule.head.name), scope.rule(rule), reader.file)
        if checker.errors:
            raise SeveralRegoError(checker.errors)
        if any(source.is_v1 for source in modules):
            self._check_deprecated()
        self.source = "\n".join(lines) + "\n"
        self.uses_inventory = ".inventory" in self.source
        namespace: dict[str, Any] = {
            **NAMESPACE,
            "K": self.names.constants,
            "UnknownTouchedError": UnknownTouchedError,
            "interpolated": interpolated,
        }
        for name in self.names.used:
            namespace["b_" + name.replace(".", "__")] = FUNCTIONS[name]
        exec(compile(self.source, "<rego>", "exec"), namespace)  # noqa: S102 - the code of our compiler
        self._entry = namespace[f"r{self.names.rules[entry]}"]

    def paths(self, reads: Iterable[int]) -> tuple[Path, ...]:
        """Return the paths for the numbers of reads, without paths below another one of them."""
        every = list(self.names.reads)
        found = {every[number] for number in reads}
        return tuple(path for path in sorted(found) if not any(path[:length] in found for length in range(len(path))))

    def _check_deprecated(self) -> None:
        for name in sorted(self.names.used & DEPRECATED):
            raise RegoError(1, f"deprecated built-in function calls in expression: {name}", "rego_type_error")

    def ask(
        self, input_: Value, inventory: Value, left: list[int] | None = None, reads: set[int] | None = None
    ) -> tuple[Set, Context]:
        """Return the members of the entry rule for an input, and the context.

        `left` is the step budget, `reads` receives the numbers of the paths that were read.
        """
        context = Context(input_, inventory, len(self.names.rules), [STEPS] if left is None else left)
        if reads is not None:
            context.reads = reads
        results = self._entry(context)
        if not isinstance(results, Set):
            # The keys of a value that is no set, over which `data.template.violation[r]` goes.
            results = Set(results if isinstance(results, dict) else ())
        return results, context


def _in_order(uses: Mapping[Path, set[Path]]) -> list[Path]:
    """Return the paths of rules, each after those that it uses."""
    found: dict[Path, None] = {}
    for start in uses:
        stack = [(start, sorted(uses[start]))]
        while stack:
            path, left = stack[-1]
            if not left:
                stack.pop()
                found.setdefault(path)
            elif (following := left.pop(0)) not in found:
                stack.append((following, sorted(uses[following])))
    return list(found)


def _check_alike(path: Path, rules: Sequence[Rule], files: Mapping[int, str]) -> None:
    """Raise RegoError if rules of one name differ in form (`ast/compile.go`, `checkRuleConflicts`)."""
    name = f"data.{'.'.join(path)}"
    first = rules[0].head
    kinds = {
        (
            "set" if rule.head.is_set else "object" if rule.head.key is not None else "value",
            len(rule.head.arguments or ()),
        )
        for rule in rules
    }
    forms = {rule.head.arguments is None for rule in rules}
    if len(kinds) > 1 or len(forms) > 1:
        raise RegoError(first.line, f"conflicting rules {name} found", "rego_type_error", files[id(rules[0])])
    defaults = [rule for rule in rules if rule.is_default]
    if len(defaults) > 1:
        raise RegoError(
            defaults[1].head.line, f"multiple default rules {name} found", "rego_type_error", files[id(rules[0])]
        )


def _check_recursion(
    uses: Mapping[Path, set[Path]], rules: Mapping[Path, Sequence[Rule]], files: Mapping[int, str]
) -> None:
    """Raise RegoError if a rule needs itself."""
    done: set[Path] = set()
    for start in uses:
        stack: list[tuple[Path, list[Path]]] = [(start, sorted(uses[start]))]
        on_way = [start]
        while stack:
            path, left = stack[-1]
            if not left:
                stack.pop()
                on_way.pop()
                done.add(path)
                continue
            following = left.pop(0)
            if following in on_way:
                cycle = [*on_way[on_way.index(following) :], following]
                rule = rules[following][0]
                way = " -> ".join("data." + ".".join(part) for part in cycle)
                raise RegoError(
                    rule.head.line,
                    f"rule data.{'.'.join(following)} is recursive: {way}",
                    "rego_recursion_error",
                    files[id(rule)],
                )
            if following not in done:
                stack.append((following, sorted(uses[following])))
                on_way.append(following)
