"""Options for how a command works, as opposed to its question."""

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
    """How a run works; `workers` 0 means one per core."""

    outcomes: Path | None = None
    rejects: Path | None = None
    save_cases: Path | None = None
    """Directory for a case of each distinct finding."""
    redact: bool = True
    owner_label: str = OWNER_LABEL
    """The label of a namespace that names its owner."""
    workers: int = 0
    fleet: Fleet | None = None
    """Fleet that does the work, if not local processes."""
    webhooks: tuple[str, ...] = ()
    """Answers for webhooks: `NAME=URL` or `NAME=recorded`; for authorizers `NAME=URL` or `NAME=FILE`."""
    focus: Focus = field(default_factory=Focus)
    """Selection, if not everything."""
    prove: bool = False
    """Whether to prove what each changed policy can do."""
    accepted: Path | None = None
    """File of accepted findings."""
    today: date = date.min
    """The day on which acceptances may have expired."""
    authorization_mode: str | None = None
    """The chain of sets without an AuthorizationConfiguration: modes, or the path of a kube-apiserver manifest."""
