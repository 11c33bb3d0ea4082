"""Message for compressed bytes that differ from what was written."""

from __future__ import annotations


class AlteredError(OSError):
    """Nothing can be trusted from `start` on, counted in decompressed bytes."""

    def __init__(self, start: int) -> None:
        """Keep where the damaged member or frame begins."""
        super().__init__("altered")
        self.start = start
