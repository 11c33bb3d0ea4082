"""Query results as Polars frames without pyarrow, whose import costs as much as reading a hundred megabytes of log.

Polars remembers the type of everything that it turns into a frame. If it remembered the type of a DuckDB relation until
the interpreter ends, DuckDB would print a list of leaks. So Polars gets a type that does not refer to DuckDB, in a
module that does not import it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import polars as pl


class ArrowSource(Protocol):
    """Protocol of a source with the Arrow C stream interface, for example a DuckDB relation."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return a capsule with the stream."""


class _Stream:
    """A stream that can be read once."""

    __slots__ = ("_capsule",)

    def __init__(self, capsule: object) -> None:
        self._capsule = capsule

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._capsule


def frame_from_relation(relation: ArrowSource) -> pl.DataFrame:
    """Return the rows of a relation. Errors of the query are raised here."""
    import polars as pl  # noqa: PLC0415 - a rerun with kept results asks DuckDB nothing

    return pl.DataFrame(_Stream(relation.__arrow_c_stream__()))
