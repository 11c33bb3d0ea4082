"""Conversion of simple command line values without Pydantic."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from pathlib import Path
from typing import Any, get_args, get_origin

_LITERAL = (str, Path, bool)


def coerce_literally(parameters: Iterable[Any]) -> None:
    """Spare parameters of Typer's commands its own coercion where it has nothing to judge."""
    for parameter in parameters:
        parameter._runtime_param = _LiteralCoercion()  # noqa: SLF001 - where Typer keeps its own


class _LiteralCoercion:
    """Replacement for Typer's conversion, which imports Pydantic slowly.

    Texts, paths, flags and defaults are used directly. Typer converts numbers and choices.
    """

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the converted value. Raises Typer's errors."""
        annotation = param.type_descriptor.annotation
        is_list = get_origin(annotation) is list
        kind = get_args(annotation)[0] if is_list else annotation
        if value is None:
            return () if is_list else None
        values = list(value) if is_list and isinstance(value, (list, tuple)) else [value]
        if kind is int and type(value) is int and value == param.default:
            return value
        if is_list is not isinstance(value, (list, tuple)) or not all(_is_literal(each, kind) for each in values):
            param._runtime_param = None  # noqa: SLF001 - Typer makes its own where there is none
            return param.get_runtime_param().coerce(value, param=param, ctx=ctx)
        literals = [kind(each) if kind is Path else each for each in values]
        return literals if is_list else literals[0]


def _is_literal(value: object, kind: object) -> bool:
    """Return whether a value needs no conversion, or is a path's text."""
    if isinstance(kind, type) and issubclass(kind, Enum):
        return isinstance(value, kind)
    return kind in _LITERAL and isinstance(value, str if kind is Path else kind)
