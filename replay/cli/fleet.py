"""Options for the place of work: `--engine` and `--scheduler`."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from replay.pipeline.replay.workers import Fleet


class Engine(StrEnum):
    """Kind of worker processes."""

    LOCAL = "local"
    DASK = "dask"


FleetEngine = Annotated[
    Engine | None,
    typer.Option(
        "--engine",
        envvar="REPLAY_ENGINE",
        help="Where to run: processes of this machine or Dask workers (docs/dask.md). Default: dask if --scheduler is set.",
        show_default=False,
    ),
]
Scheduler = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        envvar="REPLAY_SCHEDULER",
        help="Dask scheduler, tcp://HOST:8786. Without it, `--engine dask` starts --workers on this machine.",
    ),
]


def fleet_of(engine: Engine | None, scheduler: str | None, workers: int = 0) -> AbstractContextManager[Fleet | None]:
    """Yield the fleet that options name. Raises ReplayError if there is none."""
    if engine is Engine.LOCAL or (engine is None and not scheduler):
        return nullcontext()
    from replay.pipeline.fleet.dask import dask_fleet  # noqa: PLC0415 - an extra, that other runs need not have

    return dask_fleet(scheduler or "", workers)
