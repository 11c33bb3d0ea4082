"""Time of a policy evaluation. In a log it lies between the arrival of the request and its response."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from replay.cel.value.timestamp import Timestamp
from replay.go.time import GoTime
from replay.kube.attributes import Missing
from replay.kube.lister import Lister, span_of
from replay.kyverno.rules.errors import UndeterminedError

_SECOND: Final = 10**9
_LAST: Final = 253_402_300_799 * _SECOND
"""End of the year 9999, in nanoseconds. A later time counts as unknown."""
_NO_TIME: Final = "the time of the request is not known"
_Answer = TypeVar("_Answer")


class Moment:
    """Clock of a set's policies. It is set for each request."""

    def __init__(self) -> None:
        """Start without a time."""
        self._lister: Lister | None = None
        self._is_end = False
        self._was_read = False

    def __call__(self) -> GoTime:
        """Return the time for ClusterPolicies. Raises UndeterminedError if it is unknown."""
        self._was_read = True
        nanoseconds = self._nanoseconds()
        if nanoseconds is None:
            raise UndeterminedError(_NO_TIME)
        return GoTime(nanoseconds)

    def timestamp(self) -> Timestamp | Missing:
        """Return the time for CEL policies."""
        nanoseconds = self._nanoseconds()
        if nanoseconds is None:
            return Missing("time.now()", _NO_TIME)
        return Timestamp(nanoseconds // _SECOND, nanoseconds % _SECOND)

    def decide(self, lister: Lister, decide: Callable[[], _Answer], *, may_read: bool) -> _Answer | Missing:
        """Return the decision if it is the same at the start and at the end of the request, otherwise `Missing`.

        `may_read` says that policies may read the time in a way that this clock does not notice.
        """
        first = self.begin(lister, decide)
        if not (self._was_read or may_read):
            return first
        start, end = _span(lister)
        if start == end or self._at(lister, decide, is_end=True) == first:
            return first
        return Missing("webhook", "it depends on the exact time of the request")

    def begin(self, lister: Lister, decide: Callable[[], _Answer]) -> _Answer:
        """Return the decision at the start of a request."""
        return self._at(lister, decide, is_end=False)

    def _nanoseconds(self) -> int | None:
        return None if self._lister is None else _span(self._lister)[self._is_end]

    def _at(self, lister: Lister, decide: Callable[[], _Answer], *, is_end: bool) -> _Answer:
        self._lister, self._is_end, self._was_read = lister, is_end, False
        try:
            return decide()
        finally:
            self._lister = None


def _span(lister: Lister) -> tuple[int | None, int | None]:
    span = span_of(lister)
    if span is None:
        return None, None
    start, end = span[0] * 1000, span[1] * 1000
    return (start, max(start, end)) if start > 0 and end <= _LAST else (None, None)
