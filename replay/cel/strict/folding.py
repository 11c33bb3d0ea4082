"""Constants found while planning, and `x in [constants]` as a lookup.

See cel-go `interpreter/decorators.go` and the server's `cel.OptOptimize`.
"""

from __future__ import annotations

from replay.cel.declare.cost import CostTracker
from replay.cel.release import Release
from replay.cel.strict.frame import Frame
from replay.cel.strict.step import CallStep, ConstStep, ListStep, MapStep, ObservedStep, Step
from replay.cel.value.number import INT_MAX, lossless_int, lossless_uint
from replay.cel.value.partial import stopping
from replay.cel.value.regexp import check_pattern
from replay.cel.value.text import go_type_name
from replay.cel.value.values import EvalError, MapKey, PanicError, Uint, Unknown, Value


class MembershipStep:
    """`x in [constants]` as a lookup, which is free (cel-go `evalSetMembership`).

    Numbers of equal value match across types.
    """

    __slots__ = ("_members", "_operand", "id")

    def __init__(self, node_id: int, operand: Step, members: frozenset[Value]) -> None:
        """`members` are made with `_membership_key`."""
        self.id = node_id
        self._operand = operand
        self._members = members

    def exec(self, frame: Frame) -> Value:
        """Return whether the operand is a member."""
        value = self._operand.exec(frame)
        if isinstance(value, EvalError | Unknown):
            return stopping(value)
        if isinstance(value, bytes):
            raise PanicError("runtime error: hash of unhashable type types.Bytes")
        if not isinstance(value, str | int | float):
            return False
        return _membership_key(value) in self._members

    def charge(self, tracker: CostTracker, value: Value) -> None:
        """Charge nothing."""


def _membership_key(value: Value) -> Value:
    """Return a key for a primitive, different for equal values of different types."""
    return value if type(value) is str else MapKey(value)


CONVERSIONS = frozenset(
    {"bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"},
)
PATTERN_FUNCTIONS = frozenset({"matches", "find", "findAll"})
"""Functions whose second argument is compiled while planning if it is a literal."""


class PlanError(Exception):
    """An expression that cannot be planned.

    The server reports `program instantiation failed: ` and `message`.
    """

    def __init__(self, message: str) -> None:
        """`message` is the error text without the server's prefix."""
        super().__init__(message)
        self.message = message


def has_constant_value(step: Step) -> bool:
    """Return whether a planned step is a constant."""
    return isinstance(step, ObservedStep) and isinstance(step.step, ConstStep)


def constant(step: Step) -> Value:
    """Return the value of a constant step."""
    assert isinstance(step, ObservedStep) and isinstance(step.step, ConstStep)  # noqa: PT018 - narrows both
    return step.step.value


def invalid_key(value: Value) -> PlanError:
    """Return the error of indexing by a literal that cannot be a key."""
    return PlanError(f"invalid qualifier type: {go_type_name(value)}")


def fold_constants(step: Step, release: Release) -> Step:
    """Return the step, or a cheaper one with the same result."""
    if isinstance(step, ListStep):
        return _evaluated(step, release) if all(map(has_constant_value, step.elements)) else step
    if isinstance(step, MapStep):
        constant_entries = all(has_constant_value(k) and has_constant_value(v) for k, v in step.entries)
        return _evaluated(step, release) if constant_entries else step
    if not isinstance(step, CallStep):
        return step
    if step.overload_id == "in_list":
        return _membership(step)
    if step.function in CONVERSIONS and len(step.args) == 1 and has_constant_value(step.args[0]):
        return _evaluated(step, release, errors=True)
    if step.function in PATTERN_FUNCTIONS and len(step.args) >= 2 and has_constant_value(step.args[1]):
        pattern = constant(step.args[1])
        if isinstance(pattern, str):
            _check_pattern(pattern)
            # cel-go replaces the call by one that has the compiled pattern. That one stops at the first argument that is an
            # error, and for `matches` it does not ask whether the first argument can be matched.
            step.eager = False
            if step.function == "matches":
                step.skip_trait()
    return step


def _check_pattern(pattern: str) -> None:
    try:
        check_pattern(pattern)
    except EvalError as error:
        raise PlanError(error.message) from None


def _evaluated(step: Step, release: Release, *, errors: bool = False) -> Step:
    try:
        value = step.exec(Frame({}, None, release))
    except PanicError as panic:
        # The server crashes here; an error is all that can be said about it.
        raise PlanError(f"internal error: {panic}") from None
    if isinstance(value, EvalError) and errors:
        raise PlanError(value.message)
    return ConstStep(step.id, value)


def _membership(step: CallStep) -> Step:
    if not has_constant_value(step.args[1]):
        return step
    members: set[Value] = set()
    elements = constant(step.args[1])
    if not elements:
        return ConstStep(step.id, False)
    for element in elements:
        # Other literals, such as null or a list, are not kept in a set: cel-go compares with each element.
        if not isinstance(element, str | int | float):
            return step
        members.add(_membership_key(element))
        members.update(_equal_numbers(element))
    return MembershipStep(step.id, step.args[0], frozenset(members))


def _equal_numbers(value: Value) -> list[Value]:
    """Return the keys of the same number in other types. An int becomes a double even if that loses digits."""
    if type(value) is float:
        integer, unsigned = lossless_int(value), lossless_uint(value)
        return [_membership_key(n) for n in (integer, unsigned) if n is not None]
    if type(value) is int:
        same: list[Value] = [_membership_key(float(value))]
        return [*same, _membership_key(Uint(value))] if value >= 0 else same
    if type(value) is Uint:
        same = [_membership_key(float(value))]
        return [*same, _membership_key(int(value))] if value <= INT_MAX else same
    return []
