"""Translation of checked expressions into symbolic values, as the strict engine evaluates them (`replay.cel.strict`).

A part that is not modelled becomes an unknown function of its arguments: equal arguments give equal results. The
symbolic value covers every result of a real request. So a difference that the formulas exclude does not exist.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction

from msgspec import Struct

from replay.cel.ast import operator
from replay.cel.ast.tree import (
    Ast,
    Call,
    Comprehension,
    Const,
    Expr,
    Ident,
    ListExpr,
    MapExpr,
    Select,
)
from replay.cel.value.types import Kind, Type
from replay.cel.value.values import TypeValue, Uint
from replay.prove.symbolic.equality import equal_values, membership
from replay.prove.symbolic.fold import FoldFunctions, NamedValues, fold, is_unordered
from replay.prove.symbolic.function import FUNCTIONS
from replay.prove.symbolic.node import Root
from replay.prove.symbolic.selection import has_field, index_value, joined, select_field
from replay.prove.symbolic.term import TRUE, Term, boolean, conj, disj, integer, negated, rational
from replay.prove.symbolic.unknown import ValueFactory
from replay.prove.symbolic.value import (
    ERROR,
    FAILED,
    NULL,
    Bool,
    Double,
    Err,
    Int,
    Json,
    ListOf,
    MapOf,
    Opaque,
    PolicyVariables,
    Str,
    SymbolicOptional,
    SymbolicValue,
    TypeOf,
    decided,
    either,
    error_of,
    known,
    truth,
    value_of,
)

_ORDERLESS = frozenset({"sum", "min", "max"})
"""Unmodelled functions whose result does not depend on the order of a list."""


class Environment(Struct, frozen=True):
    """Input of expressions of one kind: the bindings, and a function that returns a variable's value."""

    bindings: Mapping[str, SymbolicValue]
    variable: Callable[[str], SymbolicValue | None]


class Translator:
    """Translator of a policy's expressions for one symbolic request."""

    def __init__(self, root: Root, environment: Environment) -> None:
        """`root` collects facts about the request."""
        self.root = root
        self.make = ValueFactory(root)
        self._environment = environment

    def translate(self, ast: Ast) -> SymbolicValue:
        """Return the value of an expression."""
        return _Walk(self, ast).value(ast.expr, {})

    def binding(self, name: str) -> SymbolicValue | None:
        """Return the value of a declared name, or None."""
        return self._environment.bindings.get(name)

    def variable(self, name: str) -> SymbolicValue | None:
        """Return the value of a variable of the policy, or None."""
        return self._environment.variable(name)


class _Walk:
    def __init__(self, translator: Translator, ast: Ast) -> None:
        self._translator = translator
        self._ast = ast
        self.root = translator.root
        self.make = translator.make

    def type_of(self, node: Expr) -> Type | None:
        return self._ast.type_map.get(node.id)

    def value(self, node: Expr, scope: NamedValues) -> SymbolicValue:  # noqa: PLR0911 - one return a kind of node
        """Return the value of a node."""
        match node:
            case Const():
                return self._const(node.value)
            case Ident():
                return self._name(node, scope)
            case Select():
                return self._select(node, scope)
            case Call():
                return self._call(node, scope)
            case Comprehension():
                return self._fold(node, scope)
            case ListExpr() if not node.optional_indices:
                return self._list([self.value(each, scope) for each in node.elements])
            case MapExpr() if all(isinstance(e.key, Const) and isinstance(e.key.value, str) for e in node.entries):
                return self._map(node, scope)
        return self._unfollowed(node, scope)

    def _const(self, value: object) -> SymbolicValue:  # noqa: PLR0911 - one case a kind
        if value is None:
            return known(NULL)
        if isinstance(value, bool):
            return known(Bool(boolean(value)))
        if isinstance(value, Uint | bytes):
            return known(Opaque("literal", (type(value).__name__, value)))
        if isinstance(value, int):
            self.root.numbers[value] = None
            return known(Int(integer(value)))
        if isinstance(value, float):
            # The solver computes with rational numbers, which have no NaN and no infinity.
            if value != value or value in {float("inf"), float("-inf")}:  # noqa: PLR0124 - NaN
                return known(Opaque("literal", ("double", str(value))))
            return known(Double(rational(Fraction(value))))
        if isinstance(value, str):
            return known(Str(self.root.texts.literal(value)))
        return known(Opaque("literal", (str(value),)))

    def _name(self, node: Ident, scope: NamedValues) -> SymbolicValue:  # noqa: PLR0911 - one case a kind
        if node.name in scope:
            return scope[node.name]
        reference = self._ast.reference_map.get(node.id)
        if reference is not None and isinstance(reference.value, TypeValue):
            return known(TypeOf(reference.value.name))
        if reference is not None and reference.is_constant:
            return self._const(reference.value)
        name = (reference.name if reference is not None and reference.name else node.name).removeprefix(".")
        if name == "variables":
            return known(PolicyVariables())
        value = self._translator.binding(name)
        if value is not None:
            return value
        type_ = self.type_of(node)
        if type_ is not None and type_.kind is Kind.TYPE:
            return known(TypeOf(name))
        return known(Opaque("binding", (name,)))

    def _select(self, node: Select, scope: NamedValues) -> SymbolicValue:
        reference = self._ast.reference_map.get(node.id)
        if reference is not None and reference.name and not node.test_only:
            return self._translator.binding(reference.name) or known(Opaque("binding", (reference.name,)))
        operand = self.value(node.operand, scope)
        if any(isinstance(case, PolicyVariables) for _, case in operand.cases):
            value = self._translator.variable(node.field)
            if value is not None and not node.test_only:
                return value
            if value is None:
                return known(Bool(boolean(False))) if node.test_only else FAILED
            # `has(variables.x)` evaluates the variable, so its error is the result.
            return value_of([(error_of(value), ERROR), (negated(error_of(value)), Bool(TRUE))])
        chosen = has_field if node.test_only else select_field
        return chosen(self.make, operand, node.field)

    def _list(self, items: list[SymbolicValue]) -> SymbolicValue:
        """Return a list. An error in an item is an error."""
        failed = disj(*(error_of(item) for item in items))
        result = ListOf(tuple((TRUE, without_error(item)) for item in items))
        return value_of([(negated(failed), result), (failed, ERROR)])

    def _map(self, node: MapExpr, scope: NamedValues) -> SymbolicValue:
        entries = [(each, self.value(each.value, scope)) for each in node.entries]
        if any(each.optional for each, _ in entries):
            return self._unfollowed(node, scope)
        failed = disj(*(error_of(value) for _, value in entries))
        result = MapOf(
            tuple((str(each.key.value), without_error(value)) for each, value in entries if isinstance(each.key, Const))
        )
        return value_of([(negated(failed), result), (failed, ERROR)])

    def _call(self, node: Call, scope: NamedValues) -> SymbolicValue:
        operands = [each for each in (node.target, *node.args) if each is not None]
        lazy = _LAZY.get(node.function)
        if lazy is not None:
            return lazy(self, operands, scope)
        values = [self.value(each, scope) for each in operands]
        return self.apply(node, values)

    def apply(self, node: Call, values: list[SymbolicValue]) -> SymbolicValue:
        """Return the result of a function that evaluates all arguments. An error in one is its result."""
        failed = disj(*(error_of(value) for value in values))
        if failed is TRUE:
            return FAILED
        arguments = [without_error(value) for value in values]
        followed = FUNCTIONS.get((node.function, len(values)))
        result = followed(self.make, arguments) if followed is not None else None
        if result is None:
            lists = [case for each in arguments for _, case in each.cases if isinstance(case, ListOf)]
            # Each evaluation may see another order, so equal arguments need not give equal results.
            if node.function not in _ORDERLESS and any(is_unordered(each) for each in lists):
                self.root.depends_on_order = True
            result = self.make.result(node.function, tuple(arguments), self.type_of(node))
        return value_of([(failed, ERROR), *((conj(negated(failed), guard), case) for guard, case in result.cases)])

    def _fold(self, node: Comprehension, scope: NamedValues) -> SymbolicValue:
        loop = FoldFunctions(
            self.value(node.iter_range, scope),
            lambda names: self.value(node.accu_init, {**scope, **names}),
            lambda names: self.value(node.loop_condition, {**scope, **names}),
            lambda names: self.value(node.loop_step, {**scope, **names}),
            lambda names: self.value(node.result, {**scope, **names}),
        )
        value = fold(self.make, node, loop)
        return self._unfollowed(node, scope) if value is None else value

    def _unfollowed(self, node: Expr, scope: NamedValues) -> SymbolicValue:
        """Return an unknown function of the source text and the values of its names."""
        shown = self.make.shape_of(node, scope, self._ast, self._translator.variable)
        return self.make.result("expression", (shown,), self.type_of(node))


def without_error(value: SymbolicValue) -> SymbolicValue:
    """Return the cases that are not errors, for code that handles errors before."""
    cases = tuple((guard, case) for guard, case in value.cases if not isinstance(case, Err))
    return SymbolicValue(cases) if cases else FAILED


# True and false are joined separately in both functions: a deciding operand hides an error of the other.
def _and(walk: _Walk, operands: list[Expr], scope: NamedValues) -> SymbolicValue:
    pairs = [truth(walk.value(each, scope)) for each in operands]
    return decided(conj(*(holds for holds, _ in pairs)), disj(*(fails for _, fails in pairs)))


def _or(walk: _Walk, operands: list[Expr], scope: NamedValues) -> SymbolicValue:
    pairs = [truth(walk.value(each, scope)) for each in operands]
    return decided(disj(*(holds for holds, _ in pairs)), conj(*(fails for _, fails in pairs)))


def _not(walk: _Walk, operands: list[Expr], scope: NamedValues) -> SymbolicValue:
    holds, fails = truth(walk.value(operands[0], scope))
    return decided(fails, holds)


def _not_strictly_false(walk: _Walk, operands: list[Expr], scope: NamedValues) -> SymbolicValue:
    _, fails = truth(walk.value(operands[0], scope))
    return known(Bool(negated(fails)))


def _conditional(walk: _Walk, operands: list[Expr], scope: NamedValues) -> SymbolicValue:
    condition, one, other = operands
    holds, fails = truth(walk.value(condition, scope))
    failed = conj(negated(holds), negated(fails))
    first, second = walk.value(one, scope), walk.value(other, scope)
    return either(failed, FAILED, either(holds, first, second))


def _equals(walk: _Walk, operands: list[Expr], scope: NamedValues) -> SymbolicValue:
    one, other = (walk.value(each, scope) for each in operands)
    return _compared(walk, one, other, equal_values)


def _not_equals(walk: _Walk, operands: list[Expr], scope: NamedValues) -> SymbolicValue:
    holds, fails = truth(_equals(walk, operands, scope))
    return decided(fails, holds)


def _membership(walk: _Walk, operands: list[Expr], scope: NamedValues) -> SymbolicValue:
    one, other = (walk.value(each, scope) for each in operands)
    return _compared(walk, one, other, membership)


def _compared(
    walk: _Walk,
    one: SymbolicValue,
    other: SymbolicValue,
    answer: Callable[[ValueFactory, SymbolicValue, SymbolicValue], tuple[Term, Term]],
) -> SymbolicValue:
    failed = disj(error_of(one), error_of(other))
    holds, fails = answer(walk.make, without_error(one), without_error(other))
    return decided(conj(negated(failed), holds), conj(negated(failed), fails))


def _index(walk: _Walk, operands: list[Expr], scope: NamedValues) -> SymbolicValue:
    one, key = (walk.value(each, scope) for each in operands)
    if any(isinstance(case, PolicyVariables) for _, case in one.cases):
        # A new object each time: nothing is known of the result, not even that equal keys give equal results.
        return walk.make.result("variables", (object(),), None)
    return _strict(walk, one, key, optional=False)


def _optional_index(walk: _Walk, operands: list[Expr], scope: NamedValues) -> SymbolicValue:
    one, key = (walk.value(each, scope) for each in operands)
    return _strict(walk, one, key, optional=True)


def _strict(walk: _Walk, one: SymbolicValue, key: SymbolicValue, *, optional: bool) -> SymbolicValue:
    failed = disj(error_of(one), error_of(key))
    item = index_value(walk.make, without_error(one), without_error(key), optional=optional)
    return either(failed, FAILED, item)


def _or_value(walk: _Walk, operands: list[Expr], scope: NamedValues) -> SymbolicValue:
    return _optional_or(walk, operands, scope, wraps=False)


def _or_optional(walk: _Walk, operands: list[Expr], scope: NamedValues) -> SymbolicValue:
    return _optional_or(walk, operands, scope, wraps=True)


def _optional_or(walk: _Walk, operands: list[Expr], scope: NamedValues, *, wraps: bool) -> SymbolicValue:
    """Model `or` and `orValue`. An error in the argument matters only if there is no value."""
    one, other = (walk.value(each, scope) for each in operands)
    pairs = []
    for guard, case in one.cases:
        if isinstance(case, SymbolicOptional):
            pairs += [
                (conj(guard, case.present), known(case) if wraps else case.value),
                (conj(guard, negated(case.present)), other),
            ]
        elif isinstance(case, Opaque | Json):
            pairs.append((guard, walk.make.result("or", (known(case), other, wraps), None)))
        else:
            pairs.append((guard, FAILED))
    return joined(pairs)


_LAZY: Mapping[str, Callable[[_Walk, list[Expr], NamedValues], SymbolicValue]] = {
    operator.LOGICAL_AND: _and,
    operator.LOGICAL_OR: _or,
    operator.LOGICAL_NOT: _not,
    operator.NOT_STRICTLY_FALSE: _not_strictly_false,
    operator.CONDITIONAL: _conditional,
    operator.EQUALS: _equals,
    operator.NOT_EQUALS: _not_equals,
    operator.IN: _membership,
    operator.INDEX: _index,
    operator.OPT_INDEX: _optional_index,
    operator.OPT_SELECT: _optional_index,
    "orValue": _or_value,
    "or": _or_optional,
}
