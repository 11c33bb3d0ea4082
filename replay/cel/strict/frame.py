"""Name lookup during a strict evaluation: the input at the root, and one frame for each running fold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from replay.cel.release import NEWEST_RELEASE, Release
from replay.cel.value.arithmetic import MutableList
from replay.cel.value.values import Value

if TYPE_CHECKING:
    from replay.cel.declare.cost import CostTracker


class MutableMap(dict[Value, Value]):
    """The accumulator of a fold that builds a map. Insertion changes it in place (cel-go `mutableMap`)."""

    __slots__ = ()


class Frame:
    """The input of an evaluation, or one running fold on top of another frame."""

    __slots__ = ("bindings", "parent", "release", "tracker")

    def __init__(
        self, bindings: Mapping[str, Value], tracker: CostTracker | None, release: Release = NEWEST_RELEASE
    ) -> None:
        """Make the root frame. `release` is the cel-go release whose evaluation is reproduced."""
        self.bindings = bindings
        self.tracker = tracker
        self.release = release
        self.parent: Frame | None = None

    def resolve(self, name: str) -> tuple[bool, Value]:
        """Return `(found, value)` of a name."""
        if name in self.bindings:
            return True, self.bindings[name]
        return False, None

    def root(self) -> Frame:
        """Return the frame of the input, where names with a leading dot are looked up."""
        return self


class Operand(Protocol):
    """A step, as far as frames and attributes use it."""

    @property
    def id(self) -> int:
        """The id of the node."""

    def exec(self, frame: Frame) -> Value:
        """Evaluate the step."""


class FoldLoop(Protocol):
    """A fold, as far as its frame uses it."""

    @property
    def iter_var(self) -> str:
        """The name of the variable for elements or keys."""

    @property
    def iter_var2(self) -> str:
        """The name of the variable for values, empty if there is none."""

    @property
    def accu_var(self) -> str:
        """The name of the accumulator."""

    @property
    def accu_init(self) -> Operand:
        """The step that computes the initial value of the accumulator."""


class FoldFrame(Frame):
    """One running fold: its iteration variables and its accumulator, which is computed on first use."""

    __slots__ = ("accumulator", "computing_result", "fold", "initialized", "item", "item2", "mutable")

    parent: Frame

    def __init__(self, fold: FoldLoop, parent: Frame) -> None:
        """Start before the first element."""
        self.bindings = {}
        self.tracker = parent.tracker
        self.release = parent.release
        self.parent = parent
        self.fold = fold
        self.accumulator: Value = None
        self.item: Value = None
        self.item2: Value = None
        self.initialized = False
        self.mutable = False
        self.computing_result = False

    def resolve(self, name: str) -> tuple[bool, Value]:
        """Look up a name: the accumulator, the iteration variables unless the result is computed, then the parent frame."""
        fold = self.fold
        if name == fold.accu_var:
            return True, self._accumulator()
        if not self.computing_result:
            if name == fold.iter_var:
                return True, self.item
            if name == fold.iter_var2:
                return True, self.item2
        return self.parent.resolve(name)

    def _accumulator(self) -> Value:
        if not self.initialized:
            self.initialized = True
            value = self.fold.accu_init.exec(self.parent)
            # Macros that collect start from an empty list or map and copy it in each round. cel-go appends in place.
            if type(value) is list and not value:
                value, self.mutable = MutableList(), True
            elif type(value) is dict and not value:
                value, self.mutable = MutableMap(), True
            self.accumulator = value
        return self.accumulator

    def root(self) -> Frame:
        """Return the frame of the input."""
        return self.parent.root()
