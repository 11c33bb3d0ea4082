"""Values of all steps of one evaluation (cel-go's `EvalDetails.State`).

cel-go keeps only the last value of a node. Here all values are kept in order, to show what happened in each round of a
macro.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from replay.cel.declare.cost import CallCosts, CostTracker, StandardCosts
from replay.cel.value.values import Value

MOST_STEPS = 100_000
"""The most values that are kept."""


class TracingTracker(CostTracker):
    """Cost tracker that remembers the reported values."""

    __slots__ = ("steps",)

    def __init__(self, calls: CallCosts, standard: StandardCosts, limit: int | None) -> None:
        """Start with no values."""
        super().__init__(calls, standard, limit)
        self.steps: list[tuple[int, Value]] = []

    def push(self, node_id: int, value: Value) -> None:
        """Remember the value and report it."""
        if len(self.steps) < MOST_STEPS:
            self.steps.append((node_id, value))
        super().push(node_id, value)


class Trace(Struct, frozen=True):
    """Values of steps by node id, in order of completion."""

    steps: Sequence[tuple[int, Value]]

    def find(self, *node_ids: int) -> tuple[bool, Value]:
        """Return `(found, value)`: the last value of the first of these nodes that has one."""
        for node_id in node_ids:
            for each, value in reversed(self.steps):
                if each == node_id:
                    return True, value
        return False, None

    def rounds(self, node_id: int) -> list[Trace]:
        """Return the trace cut after each value of a node, such as the step of a loop. The rest is left out."""
        traces, begin = [], 0
        for index, (each, _) in enumerate(self.steps):
            if each == node_id:
                traces.append(Trace(self.steps[begin : index + 1]))
                begin = index + 1
        return traces
