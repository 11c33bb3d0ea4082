"""How a command works, as opposed to what it is asked about."""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a run is done, as opposed to what it is about; `workers` 0 means one for each core."""

    outcomes: Path | None = None
    rejects: Path | None = None
    save_cases: Path | None = None
    """Where a case for each distinct finding is written."""
    redact: bool = True
    workers: int = 0
    executor: Executor | None = None
    webhooks: tuple[str, ...] = ()
    """Who answers for webhooks: `NAME=URL` or `NAME=recorded`; for those of authorizers `NAME=URL` or `NAME=FILE`."""
    authorization_mode: str | None = None
    """The chain of sets without an AuthorizationConfiguration: modes, or the path of a kube-apiserver manifest."""
