"""Mathematics in CEL (cel-go `ext/math.go`, version 3)."""

from __future__ import annotations

import math
from collections.abc import Callable

from replay.cel.ast.factory import ExprFactory
from replay.cel.ast.tree import Const, Expr, ListExpr, MapExpr, StructExpr
from replay.cel.declare.library import Function, Implementation, Library, Overload
from replay.cel.declare.macros import Expander, Macro, MacroError
from replay.cel.value.equality import compare, elements
from replay.cel.value.types import BOOL, DOUBLE, DYN, INT, UINT, Type, list_type
from replay.cel.value.values import EvalError, Uint, Value
from replay.cellib.library.macros import is_namespace

_MOST_ARGUMENTS = 64
_BITS = 64
_MASK = 2**_BITS - 1
_NUMBERS = (DOUBLE, INT, UINT)


def _extremum_macro(name: str, function: str) -> Expander:
    """Return the macro `math.least` or `math.greatest` of numbers, or of a list."""

    def expand(factory: ExprFactory, target: Expr | None, args: tuple[Expr, ...]) -> Expr | None:
        if not is_namespace(target, "math"):
            return None
        assert target is not None
        if not args:
            raise MacroError(target, f"math.{name}() requires at least one argument")
        if len(args) == 1:
            if not _may_be_number(args[0]) and not _may_be_numbers(args[0]):
                raise MacroError(args[0], f"math.{name}() invalid single argument value")
            return factory.call(function, args[0])
        for each in args:
            if not _may_be_number(each):
                raise MacroError(each, f"math.{name}() simple literal arguments must be numeric")
        return factory.call(function, *(args if len(args) == 2 else (factory.list(*args),)))

    return expand


def _may_be_number(node: Expr) -> bool:
    if isinstance(node, Const):
        return isinstance(node.value, int | float) and not isinstance(node.value, bool)
    return not isinstance(node, ListExpr | MapExpr | StructExpr)


def _may_be_numbers(node: Expr) -> bool:
    return isinstance(node, ListExpr) and bool(node.elements) and all(map(_may_be_number, node.elements))


def _extremum(function: str, sign: int) -> Implementation:
    """Return an implementation that chooses between two numbers by the sign of their comparison, the first if equal."""

    def extremum_of_two(first: Value, second: Value) -> Value:
        try:
            return second if compare(first, second) == -sign else first
        except EvalError as error:
            raise EvalError(f"{error.message}: {function}") from None

    def choose(first: Value, *second: Value) -> Value:
        if second:
            return extremum_of_two(first, second[0])
        if isinstance(first, int | float):
            return first
        items = list(elements(first))
        if not items:
            raise EvalError(f"{function}(list) argument must not be empty")
        chosen = items[0]
        for item in items[1:]:
            chosen = extremum_of_two(chosen, item)
        if isinstance(chosen, bool) or not isinstance(chosen, int | float):
            raise EvalError(f"no such overload: {function}")
        return chosen

    return choose


def _extreme(function: str, sign: int) -> Function:
    choose = _extremum(function, sign)
    one = [Overload(f"{function.replace('.', '_')}_{each.name}", (each,), each) for each in _NUMBERS]
    two = [
        Overload(
            f"{function.replace('.', '_')}_{left.name}_{right.name}", (left, right), left if left is right else DYN
        )
        for left in _NUMBERS
        for right in _NUMBERS
    ]
    # Those of one type come first, as the checker tries them.
    two.sort(key=lambda each: each.args[0] is not each.args[1])
    lists = [Overload(f"{function.replace('.', '_')}_list_{each.name}", (list_type(each),), each) for each in _NUMBERS]
    return _function(function, choose, *one, *two, *lists)


def _function(name: str, body: Implementation, *overloads: Overload) -> Function:
    made = tuple(Overload(each.id, each.args, each.result, implementation=body) for each in overloads)
    return Function(name, made)


def _of_type(name: str, body: Implementation, *signatures: tuple[tuple[Type, ...], Type]) -> Function:
    """Return a function `math.name` with an overload for each signature."""
    overloads = (
        Overload(f"math_{name}_{'_'.join(each.name for each in args)}", args, result) for args, result in signatures
    )
    return _function(f"math.{name}", body, *overloads)


def _whole(rule: Callable[[float], float]) -> Implementation:
    """Return an implementation that applies a rule to finite numbers. Others stay unchanged."""
    # `copysign` keeps the sign of zero, as Go does. Python's rules return an int, which has none.
    return lambda value: math.copysign(rule(value), value) if math.isfinite(value) else value


def rounded(value: float) -> float:
    """Return the nearest integer, with halves away from zero (Go's `math.Round`)."""
    if not math.isfinite(value):
        return value
    below = math.floor(abs(value))
    return math.copysign(below + (abs(value) - below >= 0.5), value)


def _abs(value: Value) -> Value:
    # The least int64 has no positive counterpart.
    if type(value) is int and value == -(2**63):
        raise EvalError("integer overflow")
    return value if isinstance(value, Uint) else abs(value)


def _sign(value: Value) -> Value:
    if isinstance(value, float):
        return value if math.isnan(value) else float((value > 0) - (value < 0))
    sign = (value > 0) - (value < 0)
    return Uint(sign) if isinstance(value, Uint) else sign


def _sqrt(value: float) -> float:
    return math.sqrt(value) if value >= 0 else math.nan


def _bits(rule: Callable[[int, int], int]) -> Implementation:
    return lambda left, right: _low_64_bits(rule(int(left), int(right)), left)


def _low_64_bits(bits: int, like: Value) -> Value:
    """Return the low 64 bits as a number of the type of `like`."""
    bits &= _MASK
    if isinstance(like, Uint):
        return Uint(bits)
    return bits - 2**_BITS if bits >= 2 ** (_BITS - 1) else bits


def _shift(name: str, rule: Callable[[int, int], int]) -> Implementation:
    def shift(value: Value, by: int) -> Value:
        if by < 0:
            raise EvalError(f"math.{name}() negative offset: {by}")
        # A Go shift by 64 bits or more gives 0. Python would first build a very long number.
        return _low_64_bits(rule(int(value) & _MASK, by) if by < _BITS else 0, value)

    return shift


_ONE = ((DOUBLE,), DOUBLE)
_SAME = tuple(((each,), each) for each in _NUMBERS)
_PAIRS = (((INT, INT), INT), ((UINT, UINT), UINT))
_SHIFTS = (((INT, INT), INT), ((UINT, INT), UINT))

MATH = Library(
    name="cel.lib.ext.math",
    functions=(
        _extreme("math.@min", -1),
        _extreme("math.@max", 1),
        _of_type("ceil", _whole(math.ceil), _ONE),
        _of_type("floor", _whole(math.floor), _ONE),
        _of_type("round", rounded, _ONE),
        _of_type("trunc", _whole(math.trunc), _ONE),
        _of_type("isInf", math.isinf, ((DOUBLE,), BOOL)),
        _of_type("isNaN", math.isnan, ((DOUBLE,), BOOL)),
        _of_type("isFinite", math.isfinite, ((DOUBLE,), BOOL)),
        _of_type("abs", _abs, *_SAME),
        _of_type("sign", _sign, *_SAME),
        _of_type("bitAnd", _bits(int.__and__), *_PAIRS),
        _of_type("bitOr", _bits(int.__or__), *_PAIRS),
        _of_type("bitXor", _bits(int.__xor__), *_PAIRS),
        _of_type("bitNot", lambda value: _low_64_bits(~int(value), value), ((INT,), INT), ((UINT,), UINT)),
        _of_type("bitShiftLeft", _shift("bitShiftLeft", int.__lshift__), *_SHIFTS),
        _of_type("bitShiftRight", _shift("bitShiftRight", int.__rshift__), *_SHIFTS),
        _of_type("sqrt", _sqrt, *(((each,), DOUBLE) for each in _NUMBERS)),
    ),
    macros=(
        Macro("least", tuple(range(_MOST_ARGUMENTS)), _extremum_macro("least", "math.@min")),
        Macro("greatest", tuple(range(_MOST_ARGUMENTS)), _extremum_macro("greatest", "math.@max")),
    ),
)
"""`math.least`, `math.greatest`, rounding, signs, roots and bits."""
