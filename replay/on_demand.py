"""Packages that take long to import. Each is imported when something of it is first used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import duckdb
    import polars as pl


__all__ = ["duckdb", "pl"]


class _OnDemand:
    """Stands for a package. An attribute that was read once is an attribute of this object too."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        value = getattr(import_module(self._name), attribute)
        setattr(self, attribute, value)
        return value


if not TYPE_CHECKING:
    duckdb, pl = _OnDemand("duckdb"), _OnDemand("polars")
