"""What every step of one evaluation came to, beside the evaluation itself (cel-go's `EvalDetails.State`).

cel-go keeps the last value of a node; here all are kept in order, so that what a macro found in each round can be told.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from replay.cel.declare.cost import CallCosts, CostTracker, StandardCosts
from replay.cel.value.values import Value

MOST_STEPS = 100_000
"""How many values are kept; the rest of a longer evaluation is not told."""


class TracingTracker(CostTracker):
    """A cost tracker that remembers what is reported to it."""

    __slots__ = ("steps",)

    def __init__(self, calls: CallCosts, standard: StandardCosts, limit: int | None) -> None:
        """Nothing is reported yet."""
        super().__init__(calls, standard, limit)
        self.steps: list[tuple[int, Value]] = []

    def push(self, node_id: int, value: Value) -> None:
        """Remember the value and go on."""
        if len(self.steps) < MOST_STEPS:
            self.steps.append((node_id, value))
        super().push(node_id, value)


class Trace(Struct, frozen=True):
    """The values of steps by node id, in the order in which the steps ended."""

    steps: Sequence[tuple[int, Value]]

    def find(self, *node_ids: int) -> tuple[bool, Value]:
        """`(found, value)`: the last value of the first of these nodes that has one."""
        for node_id in node_ids:
            for each, value in reversed(self.steps):
                if each == node_id:
                    return True, value
        return False, None

    def rounds(self, node_id: int) -> list[Trace]:
        """The trace cut after each value of a node, such as the step of a loop; what follows the last one is left out."""
        traces, begin = [], 0
        for index, (each, _) in enumerate(self.steps):
            if each == node_id:
                traces.append(Trace(self.steps[begin : index + 1]))
                begin = index + 1
        return traces
