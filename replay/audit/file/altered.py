"""Message for compressed bytes that differ from what was written."""

from __future__ import annotations


class AlteredError(OSError):
    """Compressed data that is damaged. Nothing from `start` on can be trusted, counted in decompressed bytes."""

    def __init__(self, start: int) -> None:
        """`start` is where the damaged member or frame begins."""
        super().__init__("altered")
        self.start = start
