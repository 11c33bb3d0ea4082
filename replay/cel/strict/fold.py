"""Comprehensions, to which all macros over lists and maps expand. Here they are called folds (cel-go `evalFold`)."""

from __future__ import annotations

from collections.abc import Iterator

from replay.cel.declare.cost import CostTracker
from replay.cel.release import Release
from replay.cel.strict.frame import FoldFrame, Frame, MutableMap
from replay.cel.strict.step import Step
from replay.cel.value.arithmetic import MutableList
from replay.cel.value.equality import every_element, find, is_list, is_map, map_keys
from replay.cel.value.partial import PartialValue
from replay.cel.value.text import go_type_name
from replay.cel.value.traits import ITERABLE, has_trait
from replay.cel.value.values import EvalError, Unknown, Value


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
