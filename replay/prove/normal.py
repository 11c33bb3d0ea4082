"""Normal forms of expressions, match sections and whole policies. Equal forms have equal meaning."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

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
    StructExpr,
)
from replay.cel.ast.walk import BoundNames, shape_of
from replay.cel.value.types import Kind
from replay.cellib.expression import CompiledExpression
from replay.cellib.version import KubernetesVersion
from replay.kube.admissionregistration import MatchResources
from replay.prove.symbolic.fold import is_any_or_all
from replay.prove.unit import BoundPolicy, CompiledUnit

_Normal = tuple[Any, ...]
"""Tree of tuples. The first item is the kind of the node."""

_SCALARS = frozenset({Kind.BOOL, Kind.INT, Kind.STRING, Kind.DOUBLE, Kind.UINT, Kind.BYTES, Kind.NULL})
_SWAPPED = {operator.GREATER: operator.LESS, operator.GREATER_EQUALS: operator.LESS_EQUALS}
_NEGATIONS = {
    operator.LESS: operator.LESS_EQUALS,
    operator.LESS_EQUALS: operator.LESS,
}
_EITHER_WAY = frozenset({"size", "matches"})


class _NormalForm(Struct, frozen=True):
    """Normal form of an expression."""

    root: _Normal


NormalVariableOf = Callable[[str], _Normal | None]


def normal_form(ast: Ast, variable_of: NormalVariableOf) -> _NormalForm:
    """Return the normal form of an expression, with variables replaced by their definitions."""
    return _NormalForm(_Reader(ast, variable_of).read(ast.expr, {}))


def _conjuncts(form: _Normal) -> tuple[_Normal, ...]:
    """Return the conditions that a conjunction joins."""
    return tuple(form[1]) if form[0] == "and" else (form,)


class _Reader:
    def __init__(self, ast: Ast, variable_of: NormalVariableOf) -> None:
        self._ast = ast
        self._variable_of = variable_of

    def read(self, node: Expr, bound: Mapping[str, Any]) -> _Normal:  # noqa: PLR0911 - one return a kind of node
        match node:
            case Const():
                return ("const", type(node.value).__name__, repr(node.value))
            case Ident():
                return self._name(node, bound)
            case Select():
                return self._select(node, bound)
            case Call():
                return self._call(node, bound)
            case Comprehension():
                return self._fold(node, bound)
            case ListExpr():
                return ("list", tuple(self.read(e, bound) for e in node.elements), tuple(sorted(node.optional_indices)))
            case MapExpr():
                entries = ((self.read(e.key, bound), self.read(e.value, bound), e.optional) for e in node.entries)
                return ("map", tuple(entries))
            case StructExpr():
                return (
                    "struct",
                    node.type_name,
                    tuple((f.field, self.read(f.value, bound), f.optional) for f in node.fields),
                )
        # A node of another kind equals only itself.
        return ("node", id(node))

    def _name(self, node: Ident, bound: Mapping[str, Any]) -> _Normal:
        if node.name in bound:
            return ("bound", bound[node.name])
        reference = self._ast.reference_map.get(node.id)
        name = reference.name if reference is not None and reference.name else node.name
        if name.removeprefix(".") == "variables":
            return ("variables", object())  # used as a whole: it is that of its policy alone, and equals nothing
        return ("name", name.removeprefix("."))

    def _select(self, node: Select, bound: Mapping[str, Any]) -> _Normal:
        if isinstance(node.operand, Ident) and node.operand.name == "variables" and "variables" not in bound:
            variable = self._variable_of(node.field)
            if variable is not None:
                return ("has variable", variable) if node.test_only else variable
        reference = self._ast.reference_map.get(node.id)
        if reference is not None and reference.name and not node.test_only:
            return ("name", reference.name)
        return ("has" if node.test_only else "select", self.read(node.operand, bound), node.field)

    def _call(self, node: Call, bound: Mapping[str, Any]) -> _Normal:  # noqa: PLR0911
        operands = [self.read(each, bound) for each in (node.target, *node.args) if each is not None]
        match node.function:
            case operator.LOGICAL_AND:
                return joined("and", operands)
            case operator.LOGICAL_OR:
                return joined("or", operands)
            # Of a value that may be no bool, a double negation is an error, which the value itself is not.
            case operator.LOGICAL_NOT if self._is_bool(node.args[0]):
                return negation(operands[0])
            case operator.NOT_EQUALS:
                return ("not", self._equals(node, operands))
            case operator.EQUALS:
                return self._equals(node, operands)
            case operator.GREATER | operator.GREATER_EQUALS:
                return ("call", _SWAPPED[node.function], (operands[1], operands[0]), True)
            case operator.CONDITIONAL if operands[0][0] == "not":
                return ("call", node.function, (operands[0][1], operands[2], operands[1]), True)
            case operator.IN:
                return ("call", node.function, (operands[0], _unordered(operands[1])), True)
        # A function and a method of one name may differ. These are the same both ways.
        is_member = node.target is not None and node.function not in _EITHER_WAY
        return ("call", node.function, tuple(operands), not is_member)

    def _equals(self, node: Call, operands: list[_Normal]) -> _Normal:
        """Return the normal form of an equality.

        Equality of scalars is symmetric, so its operands are sorted. Equality of Go values is not.
        """
        kinds = [self._ast.type_map.get(each.id) for each in node.args]
        if all(kind is not None and kind.kind in _SCALARS for kind in kinds):
            operands = sorted(operands, key=repr)
        return ("call", operator.EQUALS, tuple(operands), True)

    def _is_bool(self, node: Expr) -> bool:
        type_ = self._ast.type_map.get(node.id)
        return type_ is not None and type_.kind is Kind.BOOL

    def _fold(self, node: Comprehension, bound: Mapping[str, Any]) -> _Normal:
        depth = 1 + max((at for at, _ in bound.values()), default=0)
        inner = dict(bound)
        for position, name in enumerate((node.iter_var, node.iter_var2, node.accu_var)):
            if name:
                inner[name] = (depth, position)
        iter_range = self.read(node.iter_range, bound)
        if is_any_or_all(node):
            assert isinstance(node.accu_init, Const)
            assert isinstance(node.loop_step, Call)
            body = self.read(node.loop_step.args[1], inner)
            return _quantified(
                "all" if node.accu_init.value else "exists", iter_range, bool(node.iter_var2), depth, body
            )
        parts = (node.accu_init, node.loop_condition, node.loop_step, node.result)
        return ("fold", iter_range, bool(node.iter_var2), depth, tuple(self.read(part, inner) for part in parts))


def _quantified(kind: str, iter_range: _Normal, two: bool, depth: int, body: _Normal) -> _Normal:
    """Return the normal form of `all` or `exists`.

    `all` of a conjunction is split into its conditions, `exists` of a disjunction into its alternatives.
    """
    split = {"all": "and", "exists": "or"}[kind]
    if body[0] == split:
        return joined(split, [(kind, iter_range, two, depth, part) for part in body[1]])
    return (kind, iter_range, two, depth, body)


def joined(kind: str, parts: list[_Normal]) -> _Normal:
    """Return a conjunction or disjunction as a set of parts."""
    members: set[_Normal] = set()
    for part in parts:
        members.update(part[1] if part[0] == kind else (part,))
    return next(iter(members)) if len(members) == 1 else (kind, frozenset(members))


def negation(form: _Normal) -> _Normal:  # noqa: PLR0911 - one case a kind
    """Return the negation of a condition, moved inwards as far as possible."""
    match form:
        case ("not", inner):
            return inner  # type: ignore[no-any-return]  # a normal form
        case ("and", parts):
            return joined("or", [negation(part) for part in parts])
        case ("or", parts):
            return joined("and", [negation(part) for part in parts])
        case ("all", iter_range, two, depth, body):
            return _quantified("exists", iter_range, two, depth, negation(body))
        case ("exists", iter_range, two, depth, body):
            return _quantified("all", iter_range, two, depth, negation(body))
        # This holds for doubles too: an order with NaN is an error, not false.
        case ("call", function, (one, other), _) if function in _NEGATIONS:
            return ("call", _NEGATIONS[function], (other, one), True)
        case ("const", "bool", text):
            return ("const", "bool", "False" if text == "True" else "True")
    return ("not", form)


def _unordered(form: _Normal) -> _Normal:
    """Return a list of constant strings as a set, because membership ignores the order."""
    if form[0] == "list" and not form[2] and all(item[0] == "const" and item[1] == "str" for item in form[1]):
        return ("set", frozenset(form[1]))
    return form


def _written_form(ast: Ast, variable_of: Callable[[str], Any]) -> Any:
    """Return the expression as written, without names of variables and loops, which do not affect cost."""

    def leaf(node: Expr, _: BoundNames) -> object:
        if isinstance(node, Select) and isinstance(node.operand, Ident) and node.operand.name == "variables":
            return ("variable", variable_of(node.field), node.test_only)
        return None

    return shape_of(ast.expr, leaf)


def match_alike(units: Sequence[BoundPolicy]) -> bool:
    """Return whether all policies have the same match sections. They then match the same requests in the same versions."""
    first = units[0]
    return all(
        canonical(unit.policy.match_constraints) == canonical(first.policy.match_constraints)
        and {canonical(each.match_resources) for each in unit.bindings}
        == {canonical(each.match_resources) for each in first.bindings}
        for unit in units
    )


def canonical(value: Any) -> Any:
    """Return a hashable form of frozen values. Rules keep their order, unlike requirements and names."""
    if isinstance(value, MatchResources):
        return (
            canonical(value.namespace_selector),
            canonical(value.object_selector),
            _rules(value.resource_rules),
            _rules(value.exclude_resource_rules),
            str(value.match_policy),
        )
    if isinstance(value, Mapping):
        return tuple(sorted((key, canonical(item)) for key, item in value.items()))
    if isinstance(value, tuple):
        return tuple(canonical(item) for item in value)
    if isinstance(value, Struct):
        return (type(value).__name__, *(canonical(getattr(value, name)) for name in value.__struct_fields__))
    return value


def _rules(rules: tuple[Any, ...]) -> Any:
    """Return rules in their order, with the lists inside as sets.

    The order is kept because it may decide in which version a request is matched.
    """
    return tuple(
        (
            frozenset(rule.operations),
            frozenset(rule.api_groups),
            frozenset(rule.api_versions),
            frozenset(rule.resources),
            rule.scope,
            frozenset(rule.resource_names),
        )
        for rule in rules
    )


@dataclass(frozen=True, slots=True)
class NormalPolicy:
    """Normal form of a policy. Equal forms decide every request within the cost budgets alike.

    `written` is finer: if it is equal too, the costs are equal.
    """

    matches: Any
    conditions: frozenset[_Normal]
    validations: frozenset[_Normal]
    annotations: frozenset[_Normal]
    bindings: frozenset[Any]
    written: Any

    def __eq__(self, other: object) -> bool:
        """Compare without `written`."""
        return isinstance(other, NormalPolicy) and self._key() == other._key()

    def __hash__(self) -> int:
        """Return a hash that is consistent with equality."""
        return hash(self._key())

    def _key(self) -> Any:
        return (self.matches, self.conditions, self.validations, self.annotations, self.bindings)


def normal_policy(unit: BoundPolicy, version: KubernetesVersion) -> NormalPolicy:
    """Return the normal form of a policy with its bindings."""
    policy, compiled = unit.policy, unit.compiled(version)
    forms = _Forms(compiled)
    bindings = frozenset(
        (canonical(each.match_resources), canonical(each.param_ref), frozenset(each.validation_actions))
        for each in unit.bindings
    )
    constraints = (
        policy.static,
        policy.failure_policy,
        canonical(policy.param_kind),
        canonical(policy.match_constraints),
    )
    written = (
        tuple(forms.written(each) for each in compiled.match_conditions),
        tuple(forms.written(each) for each in compiled.validations),
        tuple(forms.written(each) for each in compiled.audit_annotations),
        tuple(forms.written(each) for each in compiled.messages),
    )
    return NormalPolicy(
        constraints,
        forms.all_of(compiled.match_conditions),
        forms.all_of(compiled.validations),
        frozenset(forms.form(each).root for each in compiled.audit_annotations),
        bindings,
        written,
    )


class _Forms:
    """Normal forms of the expressions of one policy."""

    def __init__(self, compiled: CompiledUnit) -> None:
        self._variables = compiled.compiler.variables
        self._forms: dict[str, _Normal] = {}
        self._open: set[str] = set()

    def all_of(self, expressions: tuple[CompiledExpression, ...]) -> frozenset[_Normal]:
        """Return all conditions that the expressions join."""
        conditions: set[_Normal] = set()
        for each in expressions:
            conditions.update(_conjuncts(self.form(each).root))
        return frozenset(conditions)

    def form(self, compiled: CompiledExpression) -> _NormalForm:
        """Return the normal form. An expression that does not compile has the form of an error."""
        if compiled.program is None:
            return _NormalForm(("error",))
        return normal_form(compiled.program.ast, self._variable)

    def written(self, compiled: CompiledExpression) -> Any:
        """Return the expression as written, with variables replaced by their written form."""
        if compiled.program is None:
            return ("error", compiled.expression)
        return _written_form(compiled.program.ast, self._written_variable)

    def _variable(self, name: str) -> _Normal | None:
        if name in self._forms:
            return self._forms[name]
        compiled = self._variables.get(name)
        # A variable that reads itself has no definition to stand for it.
        if compiled is None or name in self._open:
            return None
        self._open.add(name)
        self._forms[name] = self.form(compiled).root
        self._open.discard(name)
        return self._forms[name]

    def _written_variable(self, name: str) -> Any:
        compiled = self._variables.get(name)
        return None if compiled is None else ("variable", self.written(compiled))
