"""Replay Kubernetes audit logs against current and candidate admission manifests.

    import replay

    result = replay.run("audit.jsonl.zst", current="now/", candidate="next/", cluster="cluster.jsonl")
    result.findings()                      # an Arrow table; Polars, DuckDB and pandas take it as it is
    replay.cel.compile("object.spec.replicas <= 5").evaluate(object={"spec": {"replicas": 3}})

What stands in `__all__` is public. Everything is loaded when it is first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from replay import cel
    from replay.api.result import Result
    from replay.api.run import Store, run
    from replay.errors import ReplayError

__all__ = ["ReplayError", "Result", "Store", "cel", "run"]

_PLACES = {
    "ReplayError": "replay.errors",
    "Result": "replay.api.result",
    "Store": "replay.api.run",
    "run": "replay.api.run",
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use, so that `import replay` alone loads nothing."""
    if name == "cel":
        return import_module("replay.cel")
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_PLACES[name]), name)


def __dir__() -> list[str]:
    """Return the public names."""
    return sorted(__all__)
