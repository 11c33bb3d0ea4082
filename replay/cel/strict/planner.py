"""Turns a tree into steps once, as cel-go's planner does with the options of the API server.

Planning resolves names, turns paths of selections into attributes, computes constant lists, maps, conversions and
patterns (`cel.OptOptimize`), and turns membership in constant lists into a lookup.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

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
    Reference,
    Select,
    StructExpr,
)
from replay.cel.declare.cost import CostTracker
from replay.cel.declare.dispatcher import Dispatcher
from replay.cel.release import Release
from replay.cel.strict.attribute import (
    AbsoluteAttribute,
    Attribute,
    ComputedQualifier,
    ConditionalAttribute,
    FieldQualifier,
    KeyQualifier,
    MaybeAttribute,
    RelativeAttribute,
    TestOnlyQualifier,
)
from replay.cel.strict.folding import PlanError, constant, fold_constants, has_constant_value, invalid_key
from replay.cel.strict.frame import FoldFrame, Frame, MutableMap
from replay.cel.strict.step import (
    AttributeStep,
    CallStep,
    ConstStep,
    EqualityStep,
    ListStep,
    LogicStep,
    MapStep,
    ObjectStep,
    ObservedStep,
    OptionalOrStep,
    PresenceStep,
    Step,
)
from replay.cel.value.arithmetic import MutableList
from replay.cel.value.equality import every_element, find, is_list, is_map, map_keys
from replay.cel.value.partial import PartialValue
from replay.cel.value.text import go_type_name
from replay.cel.value.traits import ITERABLE, has_trait
from replay.cel.value.types import Kind, Type
from replay.cel.value.values import EvalError, TypeValue, Unknown, Value

# Comprehensions, to which all macros over lists and maps expand. Here they are called folds (cel-go `evalFold`).


class FoldStep:
    """A fold over the elements of a list or the keys of a map.

    With two variables it is over the indices or keys, and the values.
    """

    __slots__ = ("accu_init", "accu_var", "condition", "id", "iter_range", "iter_var", "iter_var2", "result", "step")

    def __init__(  # noqa: PLR0913 - the parts of a fold
        self,
        node_id: int,
        *,
        iter_range: Step,
        variables: tuple[str, str, str],
        accu_init: Step,
        condition: Step,
        step: Step,
        result: Step,
    ) -> None:
        """`variables` are the names of the element, the second element (or "") and the accumulator."""
        self.id = node_id
        self.iter_range = iter_range
        self.iter_var, self.iter_var2, self.accu_var = variables
        self.accu_init = accu_init
        self.condition = condition
        self.step = step
        self.result = result

    def exec(self, frame: Frame) -> Value:
        """Run the fold and return the value of its result expression."""
        fold_range = self.iter_range.exec(frame)
        if isinstance(fold_range, EvalError) and self.iter_var2 and frame.release < Release.V0_23:
            return EvalError("unsupported comprehension range type: *types.Err")
        if type(fold_range) is PartialValue:
            fold_range = fold_range.container if fold_range.has_known_size else fold_range.unknown
        if isinstance(fold_range, EvalError | Unknown):
            return fold_range
        inner = FoldFrame(self, frame)
        if self.iter_var2:
            if not (is_map(fold_range) or is_list(fold_range)):
                return EvalError(f"unsupported comprehension range type: {go_type_name(fold_range)}")
            items = _pairs(fold_range)
        else:
            if not has_trait(fold_range, ITERABLE):
                return EvalError(f"got '{go_type_name(fold_range)}', expected iterable type")
            items = ((item, None) for item in _singles(fold_range))
        for inner.item, inner.item2 in items:
            # Only false stops: with an unknown or an error as its condition, cel-go goes on, and a later element may decide.
            condition = self.condition.exec(inner)
            if type(condition) is bool and not condition:
                break
            value = self.step.exec(inner)
            inner.accumulator = value
            inner.initialized = True
        return self._result(inner)

    def _result(self, inner: FoldFrame) -> Value:
        inner.computing_result = True
        result = self.result.exec(inner)
        # The list is still being built as far as `+` can tell. Outside of the fold it must no longer change.
        if inner.mutable:
            if type(result) is MutableList:
                return list(result)
            if type(result) is MutableMap:
                return dict(result)
        return result

    def charge(self, tracker: CostTracker, value: Value) -> None:  # noqa: ARG002
        """Charge nothing for the fold itself, only for its parts."""
        tracker.drop(self.iter_range.id)


def _singles(fold_range: Value) -> Iterator[Value]:
    return every_element(fold_range) if is_list(fold_range) else map_keys(fold_range)


def _pairs(fold_range: Value) -> Iterator[tuple[Value, Value]]:
    if is_list(fold_range):
        return enumerate(every_element(fold_range))
    return ((key, find(fold_range, key)[1]) for key in map_keys(fold_range))


_OPTIONAL_OR = {"or": "optional_or_optional", "orValue": "optional_orValue_value"}


class TypeProvider(Protocol):
    """The facts about types that the planner needs."""

    def has_type(self, name: str) -> bool:
        """Return whether a name is a type value."""

    def has_field_access(self, type_name: str) -> bool:
        """Return whether fields of this type are read from a message that the expression built."""

    def new_object(self, type_name: str, fields: Mapping[str, Value]) -> Value:
        """Return the value of `TypeName{...}`, an `EvalError` if the type cannot be built."""

    def candidate_names(self, name: str) -> tuple[str, ...]:
        """Return the full names that a name may stand for in the container, most specific first."""

    def struct_name(self, name: str) -> str | None:
        """Return the full name of a message type, or None if there is no such type."""


class Planner:
    """Plans one tree."""

    def __init__(self, ast: Ast, dispatcher: Dispatcher, provider: TypeProvider) -> None:
        """A tree that was not checked is planned by names alone."""
        self._ast = ast
        self._dispatcher = dispatcher
        self._provider = provider
        self._locals: list[str] = []

    def plan(self, node: Expr) -> Step:  # noqa: PLR0911 - one return a node
        """Return the step of a node. Raises `PlanError` if a constant part evaluates to an error."""
        match node:
            case Const():
                return ObservedStep(ConstStep(node.id, node.value))
            case Ident():
                return self._plan_ident(node)
            case Select():
                return self._plan_select(node)
            case Call():
                return self._plan_call(node)
            case ListExpr():
                elements = [self.plan(element) for element in node.elements]
                return self._decorate(ListStep(node.id, elements, node.optional_indices))
            case MapExpr():
                entries = [(self.plan(entry.key), self.plan(entry.value)) for entry in node.entries]
                optional = frozenset(index for index, entry in enumerate(node.entries) if entry.optional)
                return self._decorate(MapStep(node.id, entries, optional))
            case StructExpr():
                return self._plan_object(node)
            case Comprehension():
                return self._plan_fold(node)
        raise PlanError(f"unsupported expr: {type(node).__name__}")

    def _decorate(self, step: Step) -> Step:
        return ObservedStep(fold_constants(step, self._dispatcher.release))

    def _type(self, node: Expr) -> Type | None:
        return self._ast.type_map.get(node.id)

    def _plan_ident(self, node: Ident) -> Step:
        reference = self._ast.reference_map.get(node.id)
        if reference is not None:
            return self._plan_reference(node, reference)
        if node.name in self._locals:
            return AttributeStep(AbsoluteAttribute(node.id, (node.name,)))
        names = (node.name,) if node.name.startswith(".") else self._provider.candidate_names(node.name)
        return AttributeStep(MaybeAttribute(node.id, names, self._provider.has_type))

    def _plan_reference(self, node: Expr, reference: Reference) -> Step:
        if reference.is_constant:
            return ObservedStep(ConstStep(node.id, reference.value))
        node_type = self._type(node)
        if node_type is not None and node_type.kind is Kind.TYPE:
            if not self._provider.has_type(reference.name):
                raise PlanError(f"reference to undefined type: {reference.name}")
            return ObservedStep(ConstStep(node.id, TypeValue(reference.name)))
        return AttributeStep(AbsoluteAttribute(node.id, (reference.name,)))

    def _attribute_step(self, step: Step) -> AttributeStep:
        """Return the step as an attribute that can be extended."""
        return step if isinstance(step, AttributeStep) else AttributeStep(RelativeAttribute(step.id, step))

    def _plan_select(self, node: Select) -> Step:
        reference = self._ast.reference_map.get(node.id)
        if reference is not None:
            return self._plan_reference(node, reference)
        operand = self._attribute_step(self.plan(node.operand))
        operand_type = self._type(node.operand)
        is_field = operand_type is not None and self._provider.has_field_access(operand_type.name)
        qualifier = (FieldQualifier if is_field else KeyQualifier)(node.id, node.field)
        if not node.test_only:
            operand.add_qualifier(qualifier)
            return operand
        operand.add_qualifier(TestOnlyQualifier(qualifier))
        return PresenceStep(node.id, operand.attribute)

    def _plan_call(self, node: Call) -> Step:  # noqa: PLR0911 - one return a form of call
        target, function, overload_id = self._resolve_function(node)
        operands = node.args if target is None else (target, *node.args)
        args = [self.plan(operand) for operand in operands]
        match function:
            case operator.LOGICAL_AND | operator.LOGICAL_OR:
                return self._decorate(LogicStep(node.id, args, deciding=function == operator.LOGICAL_OR))
            case operator.CONDITIONAL:
                return self._plan_conditional(node.id, args)
            case operator.EQUALS | operator.NOT_EQUALS:
                return self._decorate(EqualityStep(node.id, args[0], args[1], negated=function == operator.NOT_EQUALS))
            case operator.INDEX:
                return self._plan_index(node.id, args[0], args[1], optional=False)
            case operator.OPT_SELECT | operator.OPT_INDEX:
                return self._plan_index(node.id, args[0], args[1], optional=True)
        if len(args) == 2 and overload_id in ("", _OPTIONAL_OR.get(function)) and function in _OPTIONAL_OR:
            unwrap = function == "orValue"
            return self._decorate(OptionalOrStep(node.id, args[0], args[1], unwrap=unwrap))
        return self._plan_function(node.id, function, overload_id, args)

    def _plan_function(self, node_id: int, function: str, overload_id: str, args: list[Step]) -> Step:
        binding = self._dispatcher.find(overload_id) or self._dispatcher.find(function)
        if binding is None:
            if not args:
                raise PlanError(f"no such overload: {function}()")
            return self._decorate(CallStep(node_id, function, overload_id, args, None, eager=len(args) <= 2))
        step = CallStep(
            node_id,
            function,
            overload_id,
            args,
            binding.implementation,
            trait=binding.trait,
            non_strict=binding.non_strict,
            eager=binding.eager and 1 <= len(args) <= 2,
        )
        return self._decorate(step)

    def _resolve_function(self, node: Call) -> tuple[Expr | None, str, str]:
        """Return `(target, function name, overload id)`. The id is empty if several overloads are candidates."""
        reference = self._ast.reference_map.get(node.id)
        if reference is not None:
            ids = reference.overload_ids
            return node.target, node.function, ids[0] if len(ids) == 1 else ""
        if node.target is None:
            for name in self._provider.candidate_names(node.function):
                if self._dispatcher.find(name) is not None:
                    return None, name, ""
            return None, node.function.removeprefix("."), ""
        prefix = self._qualified_name(node.target)
        if prefix is not None:
            for name in self._provider.candidate_names(f"{prefix}.{node.function}"):
                if self._dispatcher.find(name) is not None:
                    return None, name, ""
        return node.target, node.function, ""

    def _qualified_name(self, node: Expr) -> str | None:
        if node.id in self._ast.reference_map:
            return None
        if isinstance(node, Ident):
            return node.name
        if isinstance(node, Select) and not node.test_only:
            prefix = self._qualified_name(node.operand)
            return None if prefix is None else f"{prefix}.{node.field}"
        return None

    def _plan_conditional(self, node_id: int, args: list[Step]) -> Step:
        condition, truthy, falsy = args
        attribute = ConditionalAttribute(node_id, condition, _branch(truthy), _branch(falsy))
        return AttributeStep(attribute)

    def _plan_index(self, node_id: int, operand: Step, key: Step, *, optional: bool) -> Step:
        step = self._attribute_step(operand)
        # An index extends the path of what it is applied to, so that path and index are resolved and charged as one.
        if has_constant_value(key):
            value = constant(key)
            if not isinstance(value, str | int | float):
                raise invalid_key(value)
            step.add_qualifier(KeyQualifier(node_id, value, optional=optional))
        elif isinstance(key, AttributeStep):
            step.add_qualifier(ComputedQualifier(node_id, key.attribute, optional=optional))
        else:
            attribute = RelativeAttribute(node_id, key)
            step.add_qualifier(ComputedQualifier(node_id, attribute, optional=optional), attribute)
        return step

    def _plan_object(self, node: StructExpr) -> Step:
        name = self._provider.struct_name(node.type_name)
        if name is None:
            raise PlanError(f"unknown type: {node.type_name}")
        fields = [(item.field, self.plan(item.value)) for item in node.fields]
        optional = frozenset(index for index, item in enumerate(node.fields) if item.optional)
        return self._decorate(ObjectStep(node.id, name, fields, optional, self._provider.new_object))

    def _plan_fold(self, node: Comprehension) -> Step:
        accu_init = self.plan(node.accu_init)
        iter_range = self.plan(node.iter_range)
        outer = list(self._locals)
        self._locals = [*outer, node.accu_var, node.iter_var, node.iter_var2]
        condition, step = self.plan(node.loop_condition), self.plan(node.loop_step)
        # The result sees the accumulator, no longer the elements: a variable of that name outside of the fold is meant.
        self._locals = [*outer, node.accu_var]
        result = self.plan(node.result)
        self._locals = outer
        fold = FoldStep(
            node.id,
            iter_range=iter_range,
            variables=(node.iter_var, node.iter_var2, node.accu_var),
            accu_init=accu_init,
            condition=condition,
            step=step,
            result=result,
        )
        return self._decorate(fold)


def _branch(step: Step) -> Attribute:
    """Return a branch of a conditional as an attribute, so that a path after the conditional extends it."""
    return step.attribute if isinstance(step, AttributeStep) else RelativeAttribute(step.id, step)
