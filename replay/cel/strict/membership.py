"""`x in [constants]` as a look-up (cel-go `interpreter/decorators.go`)."""

from __future__ import annotations

from replay.cel.declare.cost import CostTracker
from replay.cel.strict.frame import Frame
from replay.cel.strict.step import Step
from replay.cel.value.partial import stopping
from replay.cel.value.values import EvalError, MapKey, PanicError, Unknown, Value


class MembershipStep:
    """`x in [constants]` as a look-up: numbers of equal value match across types; free (cel-go `evalSetMembership`)."""

    __slots__ = ("_members", "_operand", "id")

    def __init__(self, node_id: int, operand: Step, members: frozenset[Value]) -> None:
        """`members` are `membership_key`s."""
        self.id = node_id
        self._operand = operand
        self._members = members

    def exec(self, frame: Frame) -> Value:
        """Whether the operand is a member."""
        value = self._operand.exec(frame)
        if isinstance(value, EvalError | Unknown):
            return stopping(value)
        if isinstance(value, bytes):
            raise PanicError("runtime error: hash of unhashable type types.Bytes")
        if not isinstance(value, str | int | float):
            return False
        return membership_key(value) in self._members

    def charge(self, tracker: CostTracker, value: Value) -> None:
        """Nothing."""


def membership_key(value: Value) -> Value:
    """A primitive as a key that keeps the types apart."""
    return value if type(value) is str else MapKey(value)
