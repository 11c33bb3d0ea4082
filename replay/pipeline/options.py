"""How a command works, as opposed to what it is asked about."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field

from replay.compare.subject.owner import OWNER_LABEL
from replay.pipeline.focus import Focus

if TYPE_CHECKING:
    from replay.pipeline.replay.workers import Fleet


class Options(Struct, frozen=True, kw_only=True):
    """How a run is done, as opposed to what it is about; `workers` 0 means one for each core."""

    outcomes: Path | None = None
    rejects: Path | None = None
    save_cases: Path | None = None
    """Where a case for each distinct finding is written."""
    redact: bool = True
    owner_label: str = OWNER_LABEL
    """The label of a namespace that names its owner."""
    workers: int = 0
    fleet: Fleet | None = None
    """Whose processes do the work, if not our own."""
    webhooks: tuple[str, ...] = ()
    """Who answers for webhooks: `NAME=URL` or `NAME=recorded`; for those of authorizers `NAME=URL` or `NAME=FILE`."""
    focus: Focus = field(default_factory=Focus)
    """What is asked about, where not everything is."""
    prove: bool = False
    """Whether to say of each policy that changed what it can ever do."""
    accepted: Path | None = None
    """The file of what is meant to be denied."""
    today: date = date.min
    """The day on which acceptances may have expired."""
    authorization_mode: str | None = None
    """The chain of sets without an AuthorizationConfiguration: modes, or the path of a kube-apiserver manifest."""
