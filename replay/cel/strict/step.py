"""The steps of a strict evaluation: one small object per node.

Errors and unknowns are values, and every result is reported to the cost tracker.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn, Protocol

from replay.cel.ast import operator
from replay.cel.declare.cost import LIST_COST, MAP_COST, SELECT_COST, STRUCT_COST, CostTracker
from replay.cel.declare.library import Implementation
from replay.cel.release import Release
from replay.cel.strict.attribute import Attribute, ConditionalAttribute, Present, Qualifier
from replay.cel.strict.frame import Frame
from replay.cel.value.bounds import PlaceholderValue, UndeterminedError
from replay.cel.value.equality import Equality, equal
from replay.cel.value.partial import PartialValue, hand_on, is_stopping, partial_list, partial_map, stopping, unresolved
from replay.cel.value.text import display
from replay.cel.value.traits import RECEIVER, has_trait
from replay.cel.value.values import (
    EvalError,
    OptionalValue,
    PanicError,
    Unknown,
    UnknownParts,
    Value,
    map_key,
)


class Step(Protocol):
    """A planned node."""

    @property
    def id(self) -> int:
        """The id of the node."""

    def exec(self, frame: Frame) -> Value:
        """Return the value. Raises nothing but `CostLimitExceeded` and `PanicError`."""

    def charge(self, tracker: CostTracker, value: Value) -> None:
        """Add the cost of the finished step."""


class ObservedStep:
    """A step whose results are reported to the cost tracker."""

    __slots__ = ("id", "step")

    def __init__(self, step: Step) -> None:
        """`step` is the step to evaluate."""
        self.step = step
        self.id = step.id

    def exec(self, frame: Frame) -> Value:
        """Return the value of the step."""
        tracker = frame.tracker
        try:
            value = self.step.exec(frame)
        except UndeterminedError as error:
            self._fail_over_budget(tracker, error)
        if tracker is not None:
            self.step.charge(tracker, value)
            tracker.push(self.id, value)
        return value

    def _fail_over_budget(self, tracker: CostTracker | None, error: UndeterminedError) -> NoReturn:
        """Charge for a call that is too big to make: if that exceeds the limit, the server's answer is known after all."""
        if tracker is not None and not error.charged:
            error.charged = True
            value = PlaceholderValue(error.size)
            self.step.charge(tracker, value)
            tracker.push(self.id, value)
        raise error

    def charge(self, tracker: CostTracker, value: Value) -> None:
        """Add the cost of the step."""
        self.step.charge(tracker, value)


class ConstStep:
    """Constant, which costs nothing."""

    __slots__ = ("id", "value")

    def __init__(self, node_id: int, value: Value) -> None:
        """`value` is a literal, or the result of an operation on constants."""
        self.id = node_id
        self.value = value

    def exec(self, frame: Frame) -> Value:  # noqa: ARG002 - one signature for all steps
        """Return the constant."""
        return self.value

    def charge(self, tracker: CostTracker, value: Value) -> None:
        """Charge nothing."""


class ObservedQualifier:
    """A selection whose results are reported. It costs one, and so does the attribute that computes a key."""

    __slots__ = ("_attribute", "_qualifier")

    def __init__(self, qualifier: Qualifier, attribute: Attribute | None = None) -> None:
        """`attribute` is given if the selection is by a computed expression rather than a name."""
        self._qualifier = qualifier
        self._attribute = attribute

    @property
    def id(self) -> int:
        """The id of the selection."""
        return self._qualifier.id

    @property
    def optional(self) -> bool:
        """Whether the selection is marked with `?`."""
        return self._qualifier.optional

    @property
    def key(self) -> Value:
        """The constant key, None if it is computed."""
        return getattr(self._qualifier, "key", None)

    def qualify(self, frame: Frame, value: Value) -> Value:
        """Return the selected part."""
        part = self._qualifier.qualify(frame, value)
        self._report(frame, part)
        return part

    def qualify_if_present(self, frame: Frame, value: Value, *, presence_only: bool) -> Present:
        """Return the selected part and whether it is present. Only a present part is reported."""
        part, present = self._qualifier.qualify_if_present(frame, value, presence_only=presence_only)
        if present or presence_only:
            self._report(frame, part)
        return part, present

    def _report(self, frame: Frame, part: Value) -> None:
        tracker = frame.tracker
        if tracker is None:
            return
        if self._attribute is None:
            tracker.cost += SELECT_COST
        else:
            charge_attribute(tracker, self._attribute)
        tracker.push(self.id, part)


def charge_attribute(tracker: CostTracker, attribute: Attribute) -> None:
    """Charge one for a variable or path, and for a conditional only its parts."""
    if isinstance(attribute, ConditionalAttribute):
        tracker.drop(attribute.falsy.id)
        tracker.drop(attribute.truthy.id)
        tracker.drop(attribute.condition.id)
        return
    tracker.drop(attribute.id)
    tracker.cost += SELECT_COST


class AttributeStep:
    """A variable or expression with a path, always reported. `optional` marks it as a key after `[?`."""

    __slots__ = ("attribute", "optional")

    def __init__(self, attribute: Attribute, *, optional: bool = False) -> None:
        """`attribute` may still be extended while planning."""
        self.attribute = attribute
        self.optional = optional

    @property
    def id(self) -> int:
        """The id of the attribute."""
        return self.attribute.id

    def add_qualifier(self, qualifier: Qualifier, attribute: Attribute | None = None) -> None:
        """Extend the path by a reported selection."""
        self.attribute.add_qualifier(ObservedQualifier(qualifier, attribute))

    def exec(self, frame: Frame) -> Value:
        """Return the value at the end of the path."""
        attribute, tracker = self.attribute, frame.tracker
        value = attribute.resolve(frame)
        if tracker is not None:
            self.charge(tracker, value)
            tracker.push(attribute.id, value)
        return value

    def charge(self, tracker: CostTracker, value: Value) -> None:  # noqa: ARG002
        """Charge one, or nothing for a conditional."""
        charge_attribute(tracker, self.attribute)


class PresenceStep(AttributeStep):
    """`has(operand.field)`. Kubernetes charges only the selections."""

    __slots__ = ("_id",)

    def __init__(self, node_id: int, attribute: Attribute) -> None:
        """`attribute` ends in a `TestOnlyQualifier`."""
        super().__init__(attribute)
        self._id = node_id

    @property
    def id(self) -> int:
        """The id of the node."""
        return self._id

    def exec(self, frame: Frame) -> Value:
        """Return whether the field is present. An optional counts as present if it has a value."""
        value = self.attribute.resolve(frame)
        if isinstance(value, OptionalValue):
            value = value.has_value
        # The tracker keeps one value for each finished node. The path's is replaced by that of `has`, which is free.
        tracker = frame.tracker
        if tracker is not None:
            tracker.drop(self.attribute.id)
            tracker.push(self.id, value)
        return value


class LogicStep:
    """`&&` or `||`: a deciding value wins over unknowns, an unknown over errors, the first error over later ones."""

    __slots__ = ("_deciding", "id", "terms")

    def __init__(self, node_id: int, terms: Sequence[Step], *, deciding: bool) -> None:
        """`deciding` is False for `&&` and True for `||`."""
        self.id = node_id
        self.terms = tuple(terms)
        self._deciding = deciding

    def exec(self, frame: Frame) -> Value:
        """Evaluate the terms until one decides."""
        deciding = self._deciding
        unknown: Unknown | None = None
        error: EvalError | None = None
        for term in self.terms:
            value = term.exec(frame)
            # Errors and unknowns before the deciding term do not matter: `error || true` is true.
            if value is deciding:
                return deciding
            if type(value) is bool:
                continue
            if isinstance(value, Unknown):
                value = value.unknown if type(value) is PartialValue else value
                unknown = unknown.merge(value) if unknown is not None else value
            elif error is None:
                error = value if isinstance(value, EvalError) else EvalError("no such overload")
        if unknown is not None:
            return unknown
        return error if error is not None else not deciding

    def charge(self, tracker: CostTracker, value: Value) -> None:  # noqa: ARG002
        """Charge only the terms."""
        for term in self.terms:
            tracker.drop(term.id)


class EqualityStep:
    """`==` or `!=`. An error between the operands counts as not equal, so `!=` is true."""

    __slots__ = ("_args", "_function", "_left", "_negated", "_overload", "_right", "id")

    def __init__(self, node_id: int, left: Step, right: Step, *, negated: bool) -> None:
        """Both operands are always evaluated."""
        self.id = node_id
        self._left = left
        self._right = right
        self._negated = negated
        self._function, self._overload = (operator.NOT_EQUALS, "not_equals") if negated else (operator.EQUALS, "equals")
        self._args = (left.id, right.id)

    def exec(self, frame: Frame) -> Value:
        """Return whether the operands are equal, or not equal if negated."""
        left, right = self._left.exec(frame), self._right.exec(frame)
        # Whatever is missing inside a list or map, it is not null.
        if (left is None and isinstance(right, UnknownParts)) or (right is None and isinstance(left, UnknownParts)):
            return self._negated
        for value in (left, right):
            if isinstance(value, EvalError) or unresolved(value) is not None:
                return stopping(value)
        verdict: Equality = equal(left, right)
        return verdict is not True if self._negated else verdict

    def charge(self, tracker: CostTracker, value: Value) -> None:
        """Charge by the size of the smaller operand."""
        tracker.call(self._function, self._overload, self._args, value)


class CallStep:
    """A call of a function, dispatched by overload or by the types of the arguments.

    `eager` evaluates all arguments before it looks for errors among them, as cel-go does for calls with one or two
    arguments.
    """

    __slots__ = (
        "_implementation",
        "_overload",
        "_trait",
        "args",
        "eager",
        "function",
        "id",
        "non_strict",
        "overload_id",
    )

    def __init__(  # noqa: PLR0913 - the parts of a call
        self,
        node_id: int,
        function: str,
        overload_id: str,
        args: Sequence[Step],
        implementation: Implementation | None,
        *,
        trait: str = "",
        non_strict: bool = False,
        eager: bool = True,
    ) -> None:
        """`implementation` is None for a function that is declared without a body."""
        self.id = node_id
        self.function = function
        self.overload_id = overload_id
        self.args = tuple(args)
        self._implementation = implementation
        self._trait = trait
        self.non_strict = non_strict
        self.eager = eager

    def exec(self, frame: Frame) -> Value:
        """Return the result, or the first error or unknown among the arguments."""
        values = []
        for arg in self.args:
            value = arg.exec(frame)
            if not self.eager and not self.non_strict and is_stopping(value, optional=True):
                return value
            values.append(value)
        if not self.non_strict:
            for value in values:
                if isinstance(value, EvalError):
                    return value
                if unresolved(value) is not None:
                    return hand_on(self.function, values)
        return self._invoke(values)

    def skip_trait(self) -> None:
        """Let the implementation look at the first argument itself."""
        self._trait = ""

    def _invoke(self, values: list[Value]) -> Value:
        implementation = self._implementation
        if implementation is not None and (
            not self._trait or has_trait(values[0], self._trait) or isinstance(values[0], EvalError | Unknown)
        ):
            try:
                return implementation(*values)
            except EvalError as error:
                return error
        # cel-go words the same error in two ways: its calls with more than two arguments name the node.
        if has_trait(values[0], RECEIVER):
            return EvalError("no such overload")
        suffix = f" {self.id}" if not self.eager else ""
        return EvalError(f"no such overload: {self.function}{suffix}")

    def charge(self, tracker: CostTracker, value: Value) -> None:
        """Charge by function, overload, arguments and result."""
        tracker.call(self.function, self.overload_id, [arg.id for arg in self.args], value)


class OptionalOrStep:
    """`optional.or(other)` and `optional.orValue(value)`: the right side is evaluated if the left has no value."""

    __slots__ = ("_left", "_right", "_unwrap", "id")

    def __init__(self, node_id: int, left: Step, right: Step, *, unwrap: bool) -> None:
        """`unwrap` is True for `orValue`."""
        self.id = node_id
        self._left = left
        self._right = right
        self._unwrap = unwrap

    def exec(self, frame: Frame) -> Value:
        """Return the left value if there is one. Up to cel-go 0.26, a value that is not optional counts as its own value."""
        left = self._left.exec(frame)
        if isinstance(left, EvalError | Unknown):
            return stopping(left)
        if not isinstance(left, OptionalValue):
            return EvalError("no such overload") if frame.release >= Release.V0_29 else left
        if left.has_value:
            return left.value if self._unwrap else left
        return self._right.exec(frame)

    def charge(self, tracker: CostTracker, value: Value) -> None:
        """Charge only the operands."""


class ListStep:
    """A list literal: `[a, ?b]`."""

    __slots__ = ("_optional", "elements", "id")

    def __init__(self, node_id: int, elements: Sequence[Step], optional: frozenset[int]) -> None:
        """`optional` are the positions marked with `?`."""
        self.id = node_id
        self.elements = tuple(elements)
        self._optional = optional

    def exec(self, frame: Frame) -> Value:
        """Return the list, or the first error or unknown."""
        values: list[Value] = []
        for index, element in enumerate(self.elements):
            value = element.exec(frame)
            if is_stopping(value, optional=index in self._optional):
                return stopping(value)
            if index in self._optional:
                if not isinstance(value, OptionalValue):
                    return EvalError(
                        f"cannot initialize optional list element from non-optional value {display(value)}"
                    )
                if not value.has_value:
                    continue
                value = value.value
            values.append(value)
        return partial_list(values)

    def charge(self, tracker: CostTracker, value: Value) -> None:  # noqa: ARG002
        """Charge the price of a new list."""
        tracker.drop_args([element.id for element in self.elements])
        tracker.cost += LIST_COST


def _entry_error(name: str, value: Value) -> EvalError:
    return EvalError(f"cannot initialize optional entry '{name}' from non-optional value {display(value)}")


class MapStep:
    """A map literal: `{k: v, ?o: w}`."""

    __slots__ = ("_optional", "entries", "id")

    def __init__(self, node_id: int, entries: Sequence[tuple[Step, Step]], optional: frozenset[int]) -> None:
        """`optional` are the positions marked with `?`."""
        self.id = node_id
        self.entries = tuple(entries)
        self._optional = optional

    def exec(self, frame: Frame) -> Value:
        """Return the map. A later entry replaces an earlier one with the same key."""
        values: dict[Value, Value] = {}
        for index, (key_step, value_step) in enumerate(self.entries):
            key = key_step.exec(frame)
            if isinstance(key, EvalError | Unknown):
                return stopping(key)
            value = value_step.exec(frame)
            if is_stopping(value, optional=index in self._optional):
                return stopping(value)
            if isinstance(key, bytes):
                raise PanicError("runtime error: hash of unhashable type types.Bytes")
            if index in self._optional:
                if not isinstance(value, OptionalValue):
                    return _entry_error(display(key), value)
                if not value.has_value:
                    values.pop(map_key(key), None)
                    continue
                value = value.value
            values[map_key(key)] = value
        return partial_map(values)

    def charge(self, tracker: CostTracker, value: Value) -> None:  # noqa: ARG002
        """Charge the price of a new map."""
        tracker.drop_args([step.id for entry in self.entries for step in entry])
        tracker.cost += MAP_COST


class ObjectStep:
    """A message literal: `TypeName{field: value}`."""

    __slots__ = ("_build", "_fields", "_optional", "_type_name", "id")

    def __init__(
        self,
        node_id: int,
        type_name: str,
        fields: Sequence[tuple[str, Step]],
        optional: frozenset[int],
        build: Callable[[str, Mapping[str, Value]], Value],
    ) -> None:
        """`build` makes the value of a type from its fields, or an `EvalError`."""
        self.id = node_id
        self._type_name = type_name
        self._fields = tuple(fields)
        self._optional = optional
        self._build = build

    def exec(self, frame: Frame) -> Value:
        """Return the object, or the first error or unknown."""
        values: dict[str, Value] = {}
        for index, (name, step) in enumerate(self._fields):
            value = step.exec(frame)
            if isinstance(value, EvalError) or unresolved(value) is not None:
                return stopping(value)
            if index in self._optional:
                if not isinstance(value, OptionalValue):
                    return _entry_error(name, value)
                if not value.has_value:
                    values.pop(name, None)
                    continue
                value = value.value
            values[name] = value
        return self._build(self._type_name, values)

    def charge(self, tracker: CostTracker, value: Value) -> None:  # noqa: ARG002
        """Charge the price of a new object."""
        tracker.drop_args([step.id for _, step in self._fields])
        tracker.cost += STRUCT_COST
