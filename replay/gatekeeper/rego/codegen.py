"""Code generator: Python source of Rego rules. A body becomes nested loops; undefined or false means `continue`.

A rule is a function of the context `c` (`replay.gatekeeper.rego.program.Context`). Its value is kept for one query. Of
a policy's text, only short constants reach the source, written as Python literals.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from replay.gatekeeper.rego.ast import (
    ArrayTerm,
    Call,
    Comprehension,
    Every,
    Infix,
    Literal_,
    Membership,
    NegatedBody,
    ObjectTerm,
    Ref,
    Scalar,
    SetTerm,
    SomeIn,
    TemplateString,
    Term,
    Var,
)
from replay.gatekeeper.rego.lexer import RegoError, UnsupportedRegoError
from replay.gatekeeper.rego.order import Bound, needs, ordered, replaced_path, undeclared_in_template, unsupported_with
from replay.gatekeeper.rego.runtime import CONSTANT, SCANNED, SMALL, SMALL_FAMILIES
from replay.gatekeeper.rego.scope import variables_of

_LOOPS = 17
"""Limit of ours for nested loops in a function. Python allows 20."""
_OPERATORS = {"+": "plus", "-": "minus", "*": "mul", "/": "div", "%": "rem", "&": "and", "|": "or"}
_RELATIONS = {"<": "<", "<=": "<=", ">": ">", ">=": ">="}


class Names(msgspec.Struct):
    """Names in a program's code: rules by path, builtins and constants."""

    rules: dict[tuple[str, ...], int]
    functions: dict[tuple[str, ...], tuple[int, int]]
    builtins: dict[str, tuple[int, Callable[..., Any]]]
    called: set[tuple[str, ...]]
    """Rules that can be called like functions without arguments."""
    constants: list[Any] = msgspec.field(default_factory=list)
    used: set[str] = msgspec.field(default_factory=set)
    uses: set[tuple[str, ...]] = msgspec.field(default_factory=set)
    reads: dict[tuple[str, ...], int] = msgspec.field(default_factory=dict)
    """Numbers of the paths at which the code reads `input`."""

    def constant(self, value: Any) -> str:
        """Return the name of a constant, or a short constant itself."""
        if value is None or isinstance(value, bool) or (isinstance(value, int) and abs(value) < 2**60):
            return repr(value)
        if isinstance(value, str) and len(value) < 200 and value.isascii():
            return repr(value)
        self.constants.append(value)
        return f"K[{len(self.constants) - 1}]"

    def builtin(self, name: str) -> str:
        """Return the name of a builtin in the code."""
        self.used.add(name)
        return "b_" + name.replace(".", "__")

    def arity(self, call: Call) -> int | None:
        """Return the number of arguments of a function, or None for an unknown function."""
        if isinstance(call.function, Var):
            found = self.builtins.get(call.function.name)
            return None if found is None else found[0]
        function = self.functions.get(path_of(call.function) or ())
        return None if function is None else function[1]


def path_of(function: Ref | Var) -> tuple[str, ...] | None:
    """Return the path of a function from `data`, or None for a builtin."""
    if isinstance(function, Var):
        return None
    return tuple(operand.value for operand in function.operands if isinstance(operand, Scalar))


_ITEM = 3
"""Steps charged for each item of a comprehension, for the memory that it takes."""


class FunctionWriter:
    """Writer of the code of one rule or function."""

    def __init__(self, names: Names, file: str) -> None:
        """Start without code. `names` are the names that it can use."""
        self.names = names
        self.file = file
        self.lines: list[str] = []
        self.indent = 1
        self.loops = 0
        self.bound: Bound = frozenset()
        self.count = 0
        self.context = ["c"]

    def line(self, text: str) -> None:
        """Add one line of code."""
        if self.indent > 90:
            raise UnsupportedRegoError(1, "a rule is nested too deeply", self.file)
        self.lines.append("    " * self.indent + text)

    def fresh(self, prefix: str = "t") -> str:
        """Return an unused name."""
        self.count += 1
        return f"{prefix}{self.count}"

    def loop(self, text: str) -> None:
        """Open a loop."""
        if self.loops >= _LOOPS:
            raise UnsupportedRegoError(1, f"more than {_LOOPS} iterations inside each other", self.file)
        self.line(text)
        self.loops += 1
        self.indent += 1

    def block(self, write: Callable[[], None]) -> None:
        """Write code that ends early if something in it is undefined."""
        indent, loops, bound = self.indent, self.loops, self.bound
        # A loop with one turn: `continue` in it leaves the block, as `goto` would.
        self.loop("for _ in ONCE:")
        write()
        self.indent, self.loops, self.bound = indent, loops, bound

    # Bodies

    def body(self, body: Sequence[Literal_], then: Callable[[], None]) -> None:
        """Write a body, and the code that runs for each of its solutions."""
        literals, _ = ordered(tuple(body), self.bound, self.file, self.names.arity)
        for literal in literals:
            self.literal(literal)
        then()

    def literal(self, literal: Literal_) -> None:
        """Write one literal. The code after it runs if the literal is true."""
        depth = len(self.context)
        for with_ in literal.modifiers:
            self._with(with_.target, with_.value)
        expression: Any = literal.expression
        match expression:
            case NegatedBody():
                self._not(lambda: self.body(expression.body, lambda: None))
            case _ if literal.is_negated:
                hoisted = self._hoisted(expression)
                self._not(lambda: self.statement(hoisted))
            case SomeIn():
                self._some_in(expression)
            case Every():
                self._every(expression)
            case _:
                self.statement(expression)
        del self.context[depth:]

    def _not(self, write: Callable[[], None]) -> None:
        flag = self.fresh("n")
        self.line(f"{flag} = True")

        def inner() -> None:
            write()
            self.line(f"{flag} = False")
            self.line("break")

        self.block(inner)
        self.line(f"if not {flag}: continue")

    def _hoisted(self, term: Any) -> Any:
        """Return a negated term without the operands that OPA evaluates before it (`compile.go`, `rewriteDynamics`).

        These are the operands of calls and comparisons. A reference by itself, or on a side of `==`, stays.
        """
        match term:
            case Infix(operator="==" | "="):
                return Infix(term.operator, self._side(term.left), self._side(term.right), term.line)
            case Infix():
                return Infix(term.operator, self._early(term.left), self._early(term.right), term.line)
            case Call():
                return Call(term.function, tuple(self._early(argument) for argument in term.arguments), term.line)
            case Membership():
                key = None if term.key is None else self._early(term.key)
                return Membership(key, self._early(term.value), self._early(term.collection), term.line)
        return self._side(term)

    def _side(self, term: Any) -> Any:
        """Return a term that stays in place, except for its operands."""
        if isinstance(term, Ref):
            head = term.head if isinstance(term.head, Var) else self._early(term.head)
            return Ref(head, tuple(self._early(operand) for operand in term.operands), term.line)
        return term if isinstance(term, Comprehension) else self._early(term)

    def _early(self, term: Any) -> Any:
        """Evaluate a term here, and return its replacement."""
        if isinstance(term, Scalar | Var):
            return term
        name = self.fresh("#h")
        self.bind(name, self.value(term))
        return Var(name, term.line)

    def _with(self, target: Term, value: Term) -> None:
        term = self.value(value)
        if (place := replaced_path(target)) is None:
            raise unsupported_with(target, self.file)
        root, path = place
        name = self.fresh("c")
        self.line(f"{name} = replaced({self.context[-1]}, {root!r}, {self.names.constant(path)}, {term})")
        self.context.append(name)

    def _some_in(self, expression: SomeIn) -> None:
        collection = self.value(expression.collection)
        if expression.key is None:
            item = self.fresh()
            self.loop(f"for {item} in values({self.context[-1]}, {collection}):")
        else:
            key, item = self.fresh(), self.fresh()
            self.loop(f"for {key}, {item} in entries({self.context[-1]}, {collection}):")
            self.destructure(expression.key, key)
        self.destructure(expression.value, item)

    def _every(self, expression: Every) -> None:
        collection = self.value(expression.collection)
        flag, hit = self.fresh("n"), self.fresh("n")
        indent, loops, bound = self.indent, self.loops, self.bound
        key, value = local(expression.key or "_"), local(expression.value)
        self.line(f"{flag} = True")
        self.loop(f"for {key}, {value} in entries({self.context[-1]}, {collection}):")
        self.bound |= {expression.value} | ({expression.key} if expression.key else set())
        self.line(f"{hit} = False")
        self.block(lambda: self.body(expression.body, lambda: self.line(f"{hit} = True")))
        self.line(f"if not {hit}:")
        self.line(f"    {flag} = False")
        self.line("    break")
        self.indent, self.loops, self.bound = indent, loops, bound
        self.line(f"if not {flag}: continue")

    def statement(self, term: Any) -> None:
        """Write a term as a literal. The code after it runs if the term is neither undefined nor false."""
        match term:
            case Infix(operator="="):
                self.unify(term.left, term.right)
            case Infix(operator="==" | "!=" | "<" | "<=" | ">" | ">="):
                self.line(f"if not ({self._relation(term)}): continue")
            case Membership():
                self.line(f"if not {self.value(term)}: continue")
            case Call() if (arity := self.names.arity(term)) is not None and arity == len(term.arguments) - 1:
                self.unify(Call(term.function, term.arguments[:-1], term.line), term.arguments[-1])
            case Call(function=Var(name="print")):
                pass
            case _:
                value = self._assigned(self.value(term)) if isinstance(term, Scalar) else self.value(term)
                self.line(f"if {value} is False or type({value}) is Unknown and {value}.touched(): continue")

    def unify(self, left: Term, right: Term) -> None:
        """Unify two terms. Unbound variables get their values."""
        if self._is_ground(right):
            self.destructure(left, self.value(right))
        elif self._is_ground(left):
            self.destructure(right, self.value(left))
        elif isinstance(left, ArrayTerm) and isinstance(right, ArrayTerm):
            for mine, other in zip(left.items, right.items, strict=True):
                self.unify(mine, other)
        elif isinstance(left, ObjectTerm) and isinstance(right, ObjectTerm):
            theirs = {key.value: value for key, value in right.entries if isinstance(key, Scalar)}
            for key, value in left.entries:
                assert isinstance(key, Scalar)
                self.unify(value, theirs[key.value])
        else:
            raise RegoError(getattr(left, "line", 1), "var _ is unsafe", "rego_unsafe_var_error", self.file)

    def _is_ground(self, term: Term) -> bool:
        outputs = needs(term, self.bound, self.bound)
        return outputs is not None and not (frozenset(variables_of(term)) - self.bound - outputs)

    def destructure(self, pattern: Any, value: str) -> None:
        """Match a value with a pattern."""
        match pattern:
            case Var() if pattern.name not in self.bound:
                self.bind(pattern.name, value)
            case ArrayTerm() if not self._is_ground(pattern):
                items = self.fresh()
                self.line(f"{items} = array({value}, {len(pattern.items)})")
                self.line(f"if {items} is None: continue")
                for place, item in enumerate(pattern.items):
                    part = self.fresh()
                    self.line(f"{part} = {items}[{place}]")
                    self.destructure(item, part)
            case ObjectTerm() if not self._is_ground(pattern):
                fields = self.fresh()
                keys = [self.value(key) for key, _ in pattern.entries]
                self.line(f"{fields} = fields_of({value}, ({''.join(f'{key}, ' for key in keys)}))")
                self.line(f"if {fields} is None: continue")
                for place, (_, item) in enumerate(pattern.entries):
                    part = self.fresh()
                    self.line(f"{part} = {fields}[{place}]")
                    self.destructure(item, part)
            case _:
                self.line(f"if not {self._equal(self.value(pattern), value, pattern, None)}: continue")

    def bind(self, name: str, value: str) -> None:
        """Bind a variable to a value."""
        self.bound |= {name}
        if not name.startswith("$"):
            self.line(f"{local(name)} = {value}")

    def _equal(self, left: str, right: str, left_term: Any, right_term: Any) -> str:
        """Return the condition that two values are equal."""
        # Python's `==` suffices if one side is known to be a string.
        for term in (left_term, right_term):
            if isinstance(term, Scalar) and isinstance(term.value, str):
                return f"({left} == {right})"
        return f"same({self.context[-1]}, {left}, {right})"

    def _relation(self, term: Infix) -> str:
        left, right = self.values(term.left, term.right)
        if term.operator in ("==", "!="):
            condition = self._equal(left, right, term.left, term.right)
            return condition if term.operator == "==" else f"not {condition}"
        return f"order({self.context[-1]}, {left}, {right}) {_RELATIONS[term.operator]} 0"

    # Terms

    def values(self, *terms: Any) -> list[str]:
        """Return the code of the values of terms. A term comes after another that binds its variables."""
        found: dict[int, str] = {}
        left = list(range(len(terms)))
        while left:
            ready = (place for place in left if needs(terms[place], self.bound, self.bound) is not None)
            place = next(ready, left[0])
            found[place] = self.value(terms[place])
            left.remove(place)
        return [found[place] for place in range(len(terms))]

    def value(self, term: Any) -> str:
        """Return the code of a term's value. If it is undefined, the code before it continues with the next turn."""
        match term:
            case Scalar():
                return self.names.constant(term.value)
            case Var():
                if term.name not in self.bound:
                    raise RegoError(
                        term.line, f"var {term.name.split('#')[0]} is unsafe", "rego_unsafe_var_error", self.file
                    )
                return local(term.name)
            case Ref():
                return self._ref(term)
            case Call():
                return self._call(term)
            case Infix(operator="="):
                self.unify(term.left, term.right)
                return "True"
            case Infix(operator="==" | "!=" | "<" | "<=" | ">" | ">="):
                return self._assigned(self._relation(term))
            case Infix():
                arguments = self.values(term.left, term.right)
                self._charge_variables(_OPERATORS[term.operator], (term.left, term.right), arguments)
                name = self._defined(f"{self.names.builtin(_OPERATORS[term.operator])}({', '.join(arguments)})")
                self.line(f"{self.context[-1]}.charge_new({name})")
                return name
            case Membership():
                if term.key is None:
                    collection, value = self.values(term.collection, term.value)
                    return self._assigned(f"is_member({self.context[-1]}, {value}, {collection})")
                collection, key, value = self.values(term.collection, term.key, term.value)
                return self._assigned(f"has_entry({key}, {value}, {collection})")
            case ArrayTerm():
                return self._holding(f"[{', '.join(self.values(*term.items))}]", term.items)
            case SetTerm():
                items = self.values(*term.items)
                self._charge_variables("", term.items, items)
                return self._holding(f"Set([{', '.join(items)}])", term.items)
            case ObjectTerm():
                parts = [part for entry in term.entries for part in entry]
                found = self.values(*parts)
                entries = [(found[2 * at], found[2 * at + 1], key) for at, (key, _) in enumerate(term.entries)]
                if all(isinstance(key, Scalar) and isinstance(key.value, str) for _, _, key in entries):
                    text = ", ".join(f"{key}: {value}" for key, value, _ in entries)
                    return self._holding(f"{{{text}}}", parts)
                return self._holding(
                    "object_of([" + ", ".join(f"({key}, {value})" for key, value, _ in entries) + "])", parts
                )
            case TemplateString():
                return self._template(term)
            case Comprehension():
                return self._comprehension(term)
        raise AssertionError(term)

    def _assigned(self, code: str) -> str:
        name = self.fresh()
        self.line(f"{name} = {code}")
        return name

    def _holding(self, code: str, parts: Sequence[Term]) -> str:
        """Assign a new collection. Its parts may be collections."""
        name = self._assigned(code)
        if any(isinstance(part, Var | Ref | Call | ArrayTerm | SetTerm | ObjectTerm | Comprehension) for part in parts):
            self.line(f"{self.context[-1]}.charge_members({name})")
        return name

    def _charge_variables(self, operation: str, terms: Sequence[Term], operands: Sequence[str]) -> None:
        """Spend steps for the operands of an operation."""
        if operation in CONSTANT or operation.startswith("is_"):
            return
        if operation == "sprintf":
            operands = operands[:1]  # the values are counted when they are printed
        self.charge_operands(
            *(operand for term, operand in zip(terms, operands, strict=False) if not isinstance(term, Scalar))
        )

    def charge_operands(self, *operands: str) -> None:
        """Write that an operation reads these operands whole. Short strings cost nothing."""
        for operand in operands:
            self.line(
                f"if type({operand}) is not str or len({operand}) > {SCANNED}: {self.context[-1]}.charge_operand({operand})"
            )

    def _defined(self, code: str) -> str:
        name = self._assigned(code)
        self.line(f"if {name} is U: continue")
        return name

    def _template(self, term: TemplateString) -> str:
        if name := undeclared_in_template(term, self.bound):
            raise RegoError(term.line, f"var {name} is undeclared", "rego_compile_error", self.file)
        parts = []
        for part in term.parts:
            if isinstance(part, str):
                parts.append(self.names.constant(part))
                continue
            if isinstance(part, Call) and isinstance(part.function, Var) and part.function.name == "walk":
                text = "illegal call to relation built-in 'walk' that may cause multiple outputs"
                raise RegoError(term.line, text, "rego_compile_error", self.file)
            name = self.fresh()
            self.line(f"{name} = U")

            def write(part: Any = part, name: str = name) -> None:
                self.line(f"{name} = {self.value(part)}")

            self.block(write)
            parts.append(f"interpolated({name})")
        value = self._assigned(f"joined([{', '.join(parts)}])")
        self.line(f"{self.context[-1]}.charge_new({value})")
        return value

    def _comprehension(self, term: Comprehension) -> str:
        name = self.fresh()
        self.line(f"{name} = {'[]' if term.kind == 'array' else 'Set()' if term.kind == 'set' else 'Entries()'}")

        def collect() -> None:
            if term.kind == "object":
                key, value = self.value(term.key), self.value(term.value)
                self.charge_operands(key, value)
                self.line(f"{name}.put({key}, {value}, {term.line}, {self.file!r})")
            else:
                value = self.value(term.value)
                if term.kind == "set":
                    self.charge_operands(value)
                self.line(f"{name}.{'append' if term.kind == 'array' else 'add'}({value})")
            self.line(f"{self.context[-1]}.spend({_ITEM})")

        self.block(lambda: self.body(term.body, collect))
        found = self._assigned(f"{name}.value()") if term.kind == "object" else name
        self.line(f"{self.context[-1]}.charge_members({found})")
        return found

    def _call(self, term: Call) -> str:
        arity = self.names.arity(term)
        if isinstance(term.function, Var):
            name = term.function.name
            if arity is None:
                raise RegoError(term.line, f"undefined function {name}", "rego_type_error", self.file)
            if arity not in (len(term.arguments), -1):
                raise RegoError(term.line, f"{name}: arity mismatch", "rego_type_error", self.file)
            is_of_input = name == "object.get" and self._reads_one_key(term)
            arguments = [f"{self.context[-1]}.input"] if is_of_input else []
            arguments += self.values(*term.arguments[len(arguments) :])
            if name == "walk":
                item = self.fresh()
                self.loop(f"for {item} in {self.names.builtin(name)}({self.context[-1]}, {arguments[0]}):")
                return item
            self._charge_variables(name, term.arguments, arguments)
            value = self._defined(f"{self.names.builtin(name)}({', '.join(arguments)})")
            if name not in SMALL and not name.startswith(SMALL_FAMILIES):
                self.line(f"{self.context[-1]}.charge_new({value})")
            return value
        path = path_of(term.function) or ()
        if path in self.names.called and not term.arguments:
            self.names.uses.add(path)
            return self._defined(f"r{self.names.rules[path]}({self.context[-1]})")
        if path not in self.names.functions:
            raise RegoError(term.line, f"undefined function data.{'.'.join(path)}", "rego_type_error", self.file)
        number, expected = self.names.functions[path]
        if expected != len(term.arguments):
            count = len(term.arguments)
            problem = f"has arity {expected}, got {count} argument{'' if count == 1 else 's'}"
            raise RegoError(term.line, f"function data.{'.'.join(path)} {problem}", "rego_type_error", self.file)
        self.names.uses.add(path)
        arguments = self.values(*term.arguments)
        return self._defined(f"f{number}({', '.join([self.context[-1], *arguments])})")

    def _reads_one_key(self, term: Call) -> bool:
        """Record the read key and return True if `object.get` reads the input itself.

        Then only that key is read, not the whole input.
        """
        found, key = term.arguments[:2]
        if isinstance(found, Ref):
            found = found if found.operands else found.head
        if not (isinstance(found, Var) and found.name == "input"):
            return False
        self._read(key.items if isinstance(key, ArrayTerm) else [key])
        return True

    def _ref(self, term: Ref) -> str:
        operands = list(term.operands)
        context = self.context[-1]
        if isinstance(term.head, Var) and term.head.name == "input":
            value = f"{context}.input"
            self._read(operands)
            if not operands:
                return self._assigned(value)
        elif isinstance(term.head, Var) and term.head.name == "data":
            value, operands = self._data(operands, term)
        else:
            value = self.value(term.head)
        while operands:
            keys: list[str] = []
            while operands and isinstance(key := operands[0], Scalar) and isinstance(key.value, str):
                keys.append(self.names.constant(key.value))
                del operands[0]
            if keys:
                value = self._fields(value, keys)
            if operands:
                value = self._step(value, operands.pop(0))
        return value

    def _read(self, operands: Sequence[Any]) -> None:
        """Record a read of the input, up to the first operand that is not constant.

        Parameters do not count, because they belong to the constraint.
        """
        path: list[str] = []
        for operand in operands:
            if not (isinstance(operand, Scalar) and isinstance(operand.value, str)):
                break
            path.append(operand.value)
        if path[:1] != ["parameters"]:
            number = self.names.reads.setdefault(tuple(path), len(self.names.reads))
            self.line(f"{self.context[-1]}.reads.add({number})")

    def _fields(self, value: str, keys: list[str]) -> str:
        name = self.fresh()
        self.line(f"try: {name} = {value}{''.join(f'[{key}]' for key in keys)}")
        self.line("except (KeyError, TypeError): continue")
        return name

    def _step(self, value: str, operand: Any) -> str:
        """Return the code for one operand of a reference: a lookup if it is bound, otherwise an iteration."""
        item = self.fresh()
        if self._is_ground(operand):
            return self._defined(f"step({value}, {self.value(operand)})")
        if isinstance(operand, Var) and operand.name.startswith("$"):
            self.loop(f"for {item} in values({self.context[-1]}, {value}):")
            return item
        key = self.fresh()
        self.loop(f"for {key}, {item} in lookups({self.context[-1]}, {value}):")
        self.destructure(operand, key)
        return item

    def _data(self, operands: list[Any], term: Ref) -> tuple[str, list[Any]]:
        """Return the code for the start of a path from `data`: a rule or the inventory."""
        path: list[str] = []
        for operand in operands:
            if not (isinstance(operand, Scalar) and isinstance(operand.value, str)):
                break
            path.append(operand.value)
        for length in range(len(path), 0, -1):
            found = tuple(path[:length])
            if found in self.names.rules:
                self.names.uses.add(found)
                if length == len(path) and any(rule[:length] == found != rule for rule in self.names.rules):
                    break  # other rules define parts of it
                return self._defined(f"r{self.names.rules[found]}({self.context[-1]})"), operands[length:]
            if found in self.names.functions:
                return "U", []  # the type checker refuses it
        if path[:1] == ["inventory"]:
            inventory = f"{self.context[-1]}.inventory"
            return inventory if operands[1:] else self._defined(inventory), operands[1:]
        raise UnsupportedRegoError(
            term.line, f"a reference to all of data{''.join('.' + part for part in path)}", self.file
        )


def local(name: str) -> str:
    """Return the name of a variable in the code."""
    return "_" if name == "_" else "v" + name.rpartition("#")[2] if "#" in name else "v0"
