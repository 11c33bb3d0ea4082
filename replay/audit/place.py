"""A position in the log."""

from __future__ import annotations

from typing import NamedTuple


class LogPosition(NamedTuple):
    """The position of a request, and of the object in a `deletecollection`."""

    seq: int
    item: int
