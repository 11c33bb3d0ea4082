"""When an endpoint is given up: a log of a thousand requests must not wait a thousand timeouts."""

from __future__ import annotations

from replay.kube.attributes import Missing

PATIENCE = 10
"""Number of timeouts in a row after which an endpoint is not called again."""


class TimeoutCounter:
    """Counts the calls in a row that had no answer in time."""

    def __init__(self) -> None:
        """Start at zero."""
        self._late = 0

    @property
    def is_over(self) -> bool:
        """Return whether the endpoint is not called again."""
        return self._late >= PATIENCE

    def note(self, *, is_late: bool) -> None:
        """Count a call."""
        self._late = self._late + 1 if is_late else 0

    def missing(self, path: str) -> Missing:
        """Return `path` as missing, because the endpoint was given up."""
        return Missing(path, f"the endpoint did not answer {PATIENCE} calls in a row in time, and is not asked again")
