"""Query results as Polars frames, without pyarrow, whose import costs as much as reading a hundred megabytes of log.

Polars remembers the type of everything that it makes a frame of. The type of a DuckDB relation, remembered until the
interpreter ends, makes DuckDB print a list of leaks; so what Polars sees is a type that knows nothing of DuckDB, in a
module that does not import it.
"""

from __future__ import annotations

from typing import Protocol

import polars as pl


class ArrowSource(Protocol):
    """Source that offers the Arrow C stream interface, for example a DuckDB relation."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """A capsule with the stream."""


class _Stream:
    """A stream that is read once."""

    __slots__ = ("_capsule",)

    def __init__(self, capsule: object) -> None:
        self._capsule = capsule

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._capsule


def frame_from_relation(relation: ArrowSource) -> pl.DataFrame:
    """The rows of a relation; errors of the query are raised here."""
    return pl.DataFrame(_Stream(relation.__arrow_c_stream__()))
