"""When an endpoint is given up: a log of a thousand requests must not wait a thousand timeouts."""

from __future__ import annotations

from replay.kube.attributes import Missing

PATIENCE = 10
"""After how many calls in a row without an answer in time an endpoint is not asked again."""


class TimeoutCounter:
    """Counts the calls in a row that had no answer in time."""

    def __init__(self) -> None:
        """Nothing was asked yet."""
        self._late = 0

    @property
    def is_over(self) -> bool:
        """Whether the endpoint is not asked again."""
        return self._late >= PATIENCE

    def note(self, *, is_late: bool) -> None:
        """Count a call."""
        self._late = self._late + 1 if is_late else 0

    def missing(self, path: str) -> Missing:
        """What `path` is once the endpoint was given up."""
        return Missing(path, f"the endpoint did not answer {PATIENCE} calls in a row in time, and is not asked again")
