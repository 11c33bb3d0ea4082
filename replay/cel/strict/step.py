"""The steps of a strict evaluation: one small object a node, errors and unknowns as values, every result reported."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn, Protocol

from replay.cel.ast import operator
from replay.cel.declare.cost import LIST_COST, MAP_COST, SELECT_COST, STRUCT_COST, CostTracker
from replay.cel.declare.library import Implementation
from replay.cel.release import Release
from replay.cel.strict.attribute import Attribute, ConditionalAttribute, Qualifier
from replay.cel.strict.frame import Frame
from replay.cel.value.bounds import PlaceholderValue, UndeterminedError
from replay.cel.value.equality import Equality, equal
from replay.cel.value.partial import PartialValue, hand_on, is_stopping, partial_list, partial_map, stopping, unresolved
from replay.cel.value.selection import Present
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
        """The value; never raises but `CostLimitExceeded` and `PanicError`."""

    def charge(self, tracker: CostTracker, value: Value) -> None:
        """Add what the finished step costs."""


class ObservedStep:
    """A step whose results are reported to the cost tracker."""

    __slots__ = ("id", "step")

    def __init__(self, step: Step) -> None:
        """Wrap a step."""
        self.step = step
        self.id = step.id

    def exec(self, frame: Frame) -> Value:
        """The value of the step."""
        tracker = frame.tracker
        try:
            value = self.step.exec(frame)
        except UndeterminedError as error:
            self._give_up(tracker, error)
        if tracker is not None:
            self.step.charge(tracker, value)
            tracker.push(self.id, value)
        return value

    def _give_up(self, tracker: CostTracker | None, error: UndeterminedError) -> NoReturn:
        """Charge for a call that is too much to make: past the limit, the server answers with that, however long it takes."""
        if tracker is not None and not error.charged:
            error.charged = True
            value = PlaceholderValue(error.size)
            self.step.charge(tracker, value)
            tracker.push(self.id, value)
        raise error

    def charge(self, tracker: CostTracker, value: Value) -> None:
        """Charge the cost of the step."""
        self.step.charge(tracker, value)


class ConstStep:
    """A constant; free."""

    __slots__ = ("id", "value")

    def __init__(self, node_id: int, value: Value) -> None:
        """A literal, or the result of folding constant arguments."""
        self.id = node_id
        self.value = value

    def exec(self, frame: Frame) -> Value:  # noqa: ARG002 - one signature for all steps
        """The constant."""
        return self.value

    def charge(self, tracker: CostTracker, value: Value) -> None:
        """Nothing."""


class ObservedQualifier:
    """A selection whose results are reported; it costs one, and so does the attribute that computes a key."""

    __slots__ = ("_attribute", "_qualifier")

    def __init__(self, qualifier: Qualifier, attribute: Attribute | None = None) -> None:
        """`attribute` is given where the selection is by a computed expression rather than a name."""
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
        """The constant key, None where it is computed."""
        return getattr(self._qualifier, "key", None)

    def qualify(self, frame: Frame, value: Value) -> Value:
        """The selected part."""
        part = self._qualifier.qualify(frame, value)
        self._report(frame, part)
        return part

    def qualify_if_present(self, frame: Frame, value: Value, *, presence_only: bool) -> Present:
        """Return the selected part. Only a present part is reported."""
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
    """A variable or path costs one; a conditional nothing but its parts."""
    if isinstance(attribute, ConditionalAttribute):
        tracker.drop(attribute.falsy.id)
        tracker.drop(attribute.truthy.id)
        tracker.drop(attribute.condition.id)
        return
    tracker.drop(attribute.id)
    tracker.cost += SELECT_COST


class AttributeStep:
    """A variable or expression with a path; always reported. `optional` marks it as a key after `[?`."""

    __slots__ = ("attribute", "optional")

    def __init__(self, attribute: Attribute, *, optional: bool = False) -> None:
        """The attribute may still grow while planning."""
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
        """The value at the end of the path."""
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
    """`has(operand.field)`; Kubernetes charges the selections only."""

    __slots__ = ("_id",)

    def __init__(self, node_id: int, attribute: Attribute) -> None:
        """The attribute ends in a `TestOnlyQualifier`."""
        super().__init__(attribute)
        self._id = node_id

    @property
    def id(self) -> int:
        """The id of the node."""
        return self._id

    def exec(self, frame: Frame) -> Value:
        """Return true or false. An optional stands for whether it has a value."""
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
    """`&&` or `||`: the deciding value wins over unknowns, those over errors, the first error over later ones."""

    __slots__ = ("_deciding", "id", "terms")

    def __init__(self, node_id: int, terms: Sequence[Step], *, deciding: bool) -> None:
        """`deciding` is False for `&&`, True for `||`."""
        self.id = node_id
        self.terms = tuple(terms)
        self._deciding = deciding

    def exec(self, frame: Frame) -> Value:
        """Terms are evaluated until one decides."""
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
        """Nothing but the terms."""
        for term in self.terms:
            tracker.drop(term.id)


class EqualityStep:
    """`==` or `!=`; an error between the operands is no equality, so `!=` makes it true."""

    __slots__ = ("_args", "_function", "_left", "_negated", "_overload", "_right", "id")

    def __init__(self, node_id: int, left: Step, right: Step, *, negated: bool) -> None:
        """Both operands are evaluated."""
        self.id = node_id
        self._left = left
        self._right = right
        self._negated = negated
        self._function, self._overload = (operator.NOT_EQUALS, "not_equals") if negated else (operator.EQUALS, "equals")
        self._args = (left.id, right.id)

    def exec(self, frame: Frame) -> Value:
        """The verdict."""
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
        """By the size of the smaller operand."""
        tracker.call(self._function, self._overload, self._args, value)


class CallStep:
    """A call of a function, dispatched by overload or by the arguments' types.

    `eager` evaluates all arguments before it looks for errors among them (cel-go's calls with one or two arguments).
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
        """`implementation` None: declared without a body."""
        self.id = node_id
        self.function = function
        self.overload_id = overload_id
        self.args = tuple(args)
        self._implementation = implementation
        self._trait = trait
        self.non_strict = non_strict
        self.eager = eager

    def exec(self, frame: Frame) -> Value:
        """The result, or the first error or unknown among the arguments."""
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
        """Leave it to the implementation to look at the first argument."""
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
        """By function, overload, arguments and result."""
        tracker.call(self.function, self.overload_id, [arg.id for arg in self.args], value)


class OptionalOrStep:
    """`optional.or(other)` and `optional.orValue(value)`: the right side is evaluated where the left has no value."""

    __slots__ = ("_left", "_right", "_unwrap", "id")

    def __init__(self, node_id: int, left: Step, right: Step, *, unwrap: bool) -> None:
        """`unwrap` for `orValue`."""
        self.id = node_id
        self._left = left
        self._right = right
        self._unwrap = unwrap

    def exec(self, frame: Frame) -> Value:
        """Return the left value if there is one. Until cel-go 0.26, a value that is not optional is its own value."""
        left = self._left.exec(frame)
        if isinstance(left, EvalError | Unknown):
            return stopping(left)
        if not isinstance(left, OptionalValue):
            return EvalError("no such overload") if frame.release >= Release.V0_29 else left
        if left.has_value:
            return left.value if self._unwrap else left
        return self._right.exec(frame)

    def charge(self, tracker: CostTracker, value: Value) -> None:
        """Nothing but the operands."""


class ListStep:
    """`[a, ?b]`."""

    __slots__ = ("_optional", "elements", "id")

    def __init__(self, node_id: int, elements: Sequence[Step], optional: frozenset[int]) -> None:
        """`optional` are the positions marked with `?`."""
        self.id = node_id
        self.elements = tuple(elements)
        self._optional = optional

    def exec(self, frame: Frame) -> Value:
        """The list, or the first error or unknown."""
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
        """The price of a new list."""
        tracker.drop_args([element.id for element in self.elements])
        tracker.cost += LIST_COST


def _entry_error(name: str, value: Value) -> EvalError:
    return EvalError(f"cannot initialize optional entry '{name}' from non-optional value {display(value)}")


class MapStep:
    """`{k: v, ?o: w}`."""

    __slots__ = ("_optional", "entries", "id")

    def __init__(self, node_id: int, entries: Sequence[tuple[Step, Step]], optional: frozenset[int]) -> None:
        """`optional` are the positions marked with `?`."""
        self.id = node_id
        self.entries = tuple(entries)
        self._optional = optional

    def exec(self, frame: Frame) -> Value:
        """The map; a later entry replaces an earlier one of the same key."""
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
        """The price of a new map."""
        tracker.drop_args([step.id for entry in self.entries for step in entry])
        tracker.cost += MAP_COST


class ObjectStep:
    """`TypeName{field: value}`."""

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
        """The object, or the first error or unknown."""
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
        """The price of a new object."""
        tracker.drop_args([step.id for _, step in self._fields])
        tracker.cost += STRUCT_COST
