"""The Common Expression Language (CEL), without Kubernetes: parse, check, plan and evaluate expressions.

`compile`, `Expression` and their errors are the Python API for evaluating expressions as an API server does. They live
in `replay.api`, a layer above this package, and are imported from there on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from replay.api.expression import CompileError, EvaluationError, Expression
    from replay.api.expression import compile_expression as compile  # noqa: A004 - as `re.compile`

__all__ = ["CompileError", "EvaluationError", "Expression", "compile"]

_NAMES = {
    "CompileError": "CompileError",
    "EvaluationError": "EvaluationError",
    "Expression": "Expression",
    "compile": "compile_expression",
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use."""
    if name not in _NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("replay.api.expression"), _NAMES[name])
