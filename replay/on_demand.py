"""Packages that take long to import. Each is imported when something of it is first used."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import duckdb
    import polars as pl


__all__ = ["before_engines", "duckdb", "pl"]

_before: list[Callable[[], object]] = []


@contextmanager
def before_engines(action: Callable[[], object]) -> Iterator[None]:
    """Call an action before this process first uses one of the packages, if it does so meanwhile."""
    _before.append(action)
    try:
        yield
    finally:
        _before.clear()


class _OnDemand:
    """Stands for a package. An attribute that was read once is an attribute of this object too."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        while _before:
            _before.pop()()
        value = getattr(import_module(self._name), attribute)
        setattr(self, attribute, value)
        return value


if not TYPE_CHECKING:
    duckdb, pl = _OnDemand("duckdb"), _OnDemand("polars")
