"""`variables` of a policy: a map whose values are computed on the first read (apiserver `pkg/cel/lazy`)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Protocol

from msgspec import Struct

from replay.cel.compiled.fastpath import LeaveError
from replay.cel.program import EvalResult, Program
from replay.cel.syntax.lexer import RESERVED
from replay.cel.value.bounds import Steps, UndeterminedError
from replay.cel.value.concat import ConcatList
from replay.cel.value.traits import FIELD_TESTER, INDEXER, ITERABLE
from replay.cel.value.types import struct_type
from replay.cel.value.values import EvalError, ObjectValue, OpaqueValue, OptionalValue, Unknown, Value, untyped
from replay.cellib.environment import ExpressionKind
from replay.go.format import quote


class CompiledVariable(Struct, frozen=True):
    """A compiled variable, or the reason why it does not compile."""

    program: Program | None
    error: str | None


class Bindings(Protocol):
    """Protocol of the input of variables' expressions."""

    def eval(self, program: Program, variables: VariableValues) -> EvalResult:
        """Return the result of a program that may read variables."""


class VariableValues(OpaqueValue):
    """Values of one evaluation, by name. Each is computed once, and its cost is charged to the first reader."""

    __slots__ = ("_bindings", "_cost", "_running", "_values", "_variables", "size")

    cel_type = struct_type("kubernetes.variables")
    go_type = "*lazy.MapValue"
    traits = frozenset({INDEXER, FIELD_TESTER, ITERABLE})

    def __init__(
        self, variables: Mapping[str, CompiledVariable], bindings: Bindings, computed: Mapping[str, Value] | None = None
    ) -> None:
        """`computed` are the values of variables that were computed before."""
        self._variables = variables
        self._bindings = bindings
        self._values: dict[str, Value] = dict(computed or {})
        self._running: set[str] = set()
        self._cost = 0
        self.size = len(variables)

    def take_cost(self) -> int:
        """Return what variables have cost since the last call."""
        cost, self._cost = self._cost, 0
        return cost

    @property
    def computed(self) -> Mapping[str, Value]:
        """Values that were read, by name, in order of completion."""
        return self._values

    def equal(self, other: Value) -> Value:
        """Return whether the other value is this same map."""
        if not isinstance(other, VariableValues):
            raise EvalError("no such overload")
        return self is other

    def __len__(self) -> int:
        """Return the number of variables."""
        return len(self._variables)

    def __iter__(self) -> Iterator[Value]:
        """Yield the values, although other maps yield keys: the server's iterator does this."""
        return (self.find_key(name)[1] for name in self._variables)

    def find_key(self, key: Value) -> tuple[bool, Value]:
        """Return `(found, value)`. The value may be an `EvalError` or an unknown."""
        if not isinstance(key, str):
            return True, EvalError("no such overload")
        name = unescaped(key)
        if name is None or name not in self._variables:
            return False, None
        # The server evaluates a variable at most once, and keeps an error like a value (`lazy.MapValue`).
        if name not in self._values:
            self._values[name] = self._compute(name, self._variables[name])
        return True, self._values[name]

    def _compute(self, name: str, variable: CompiledVariable) -> Value:
        if variable.program is None:
            return EvalError(f"composited variable {quote(name)} fails to compile: {variable.error}")
        if name in self._running:
            # The server overflows its stack: a variable of a replaced name reads itself.
            return EvalError(f"composited variable {quote(name)} fails to evaluate: it reads itself")
        self._running.add(name)
        try:
            result = self._bindings.eval(variable.program, self)
        finally:
            self._running.discard(name)
        self._cost += result.cost
        return result.value if result.error is None else EvalError(self.error_text(name, result.error))

    def error_text(self, name: str, error: str) -> str:
        """Return the error text that a failing variable gives to its readers."""
        return f"composited variable {quote(name)} fails to evaluate: {error}"


class Composed(Protocol):
    """Protocol of a compiled variable of a policy."""

    @property
    def program(self) -> Program | None:
        """Program of the variable, or None if it does not compile."""


class StrictValues(Protocol):
    """Protocol of the variables in the strict engine."""

    def value(self, kind: ExpressionKind, name: str) -> Value:
        """Return a variable by name, as expressions of a kind see it."""
        ...

    def take_cost(self) -> int:
        """Return what variables have cost since the last call."""
        ...


class FastVariables(dict[str, Value]):
    """Variables for compiled code: plain values, computed on first use. Raises if a variable has no such value."""

    __slots__ = ("_inputs", "_kind", "_running", "_taken", "_variables", "bound", "strict")

    def __init__(
        self,
        variables: Mapping[str, Composed],
        inputs: Mapping[str, Value],
        strict: StrictValues,
        kind: ExpressionKind,
    ) -> None:
        """`strict` returns a variable that compiled code cannot compute, as expressions of a kind see it."""
        self._variables = variables
        self._inputs = inputs
        self._kind = kind
        self._running: set[str] = set()
        self._taken: set[str] = set()
        self.strict = strict
        self.bound = 0
        """Upper bound of the cost of the variables computed since this was last set to zero."""

    def take_over(self, values: Mapping[str, Value]) -> None:
        """Take values that were computed before. Values that compiled code cannot use are left to the strict engine."""
        for name, value in values.items():
            try:
                self[name] = plain_value(value)
            except (EvalError, LeaveError, UndeterminedError):
                self._taken.add(name)

    def __missing__(self, name: str) -> Value:
        """Compute a variable. One that reads itself is left to the strict engine."""
        if name in self._running:
            raise LeaveError
        program = self._variables[name if "__" not in name else unescaped(name) or name].program
        code = program.compiled if program is not None and name not in self._taken else None
        if code is None:
            value = plain_value(self.strict.value(self._kind, name))
        else:
            self.bound += code.bound
            self._running.add(name)
            try:
                value = code.function(self._inputs, self)
                if code.has_loops:
                    value, looped = value
                    self.bound += looped
            except Exception:  # noqa: BLE001 - whatever compiled code does not answer is for the strict engine
                value = plain_value(self.strict.value(self._kind, name))
            finally:
                self._running.discard(name)
        self[name] = value
        return value


def plain_value(value: Value) -> Value:
    """Return a strict value without views of typed objects. Raises for errors, unknowns, optionals and large values."""
    return _plain_value(value, Steps(LARGE))


def _plain_value(value: Value, steps: Steps) -> Value:
    if isinstance(value, EvalError):
        raise value
    if isinstance(value, Unknown | OptionalValue | ObjectValue | VariableValues):
        raise LeaveError
    value = untyped(value)
    kind = type(value)
    if kind is list or kind is ConcatList:
        steps.take(len(value))
        return [_plain_value(item, steps) for item in value]
    if kind is dict:
        steps.take(len(value))
        return {key: _plain_value(item, steps) for key, item in value.items()}
    return value


LARGE = 200_000
"""Maximum number of values in a variable that is copied for compiled code."""

_ESCAPE = re.compile(r"__([^_]+)__")
_SYMBOLS = {"underscores": "__", "dot": ".", "dash": "-", "slash": "/"}


def unescaped(name: str) -> str | None:
    """Return a field's name from its CEL spelling, or None for an invalid escape (apiserver `pkg/cel/escaping.go`)."""
    if "__" not in name:
        return name
    parts: list[str] = []
    position = 0
    for match in _ESCAPE.finditer(name):
        word = match[1]
        is_all = len(match[0]) == len(name)
        # A keyword is escaped only as a whole name.
        if word not in _SYMBOLS and not (word in RESERVED and is_all):
            return None
        parts += [name[position : match.start()], _SYMBOLS.get(word, word)]
        position = match.end()
    return "".join([*parts, name[position:]])
