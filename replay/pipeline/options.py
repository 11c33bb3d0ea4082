"""Options that say how a command works, and the selection of policies, namespaces, users and a period."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field

from replay.compare.subject import OWNER_LABEL

if TYPE_CHECKING:
    from replay.pipeline.replay.workers import Fleet


_GRAMMAR = (
    ("policy", "policies"),
    ("namespace", "namespaces"),
    ("user", "users"),
    ("workspace", "workspaces"),
)


class Focus(Struct, frozen=True):
    """The selection; empty means everything. Namespaces and users may have `*` and `?`; times are the user's texts."""

    policies: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    since: str | None = None
    until: str | None = None
    zone: tzinfo = UTC
    workspaces: tuple[str, ...] = ()
    batches: tuple[int, int] | None = None
    """The batches of a store whose rows are selected: the first one, and the one after the last."""

    @property
    def text(self) -> str:
        """Return the selection in words, empty for everything."""
        kinds = (self.policies, self.namespaces, self.users, self.workspaces)
        restrictions = [
            f"{words[len(each) > 1]} {', '.join(each)}" for words, each in zip(_GRAMMAR, kinds, strict=True) if each
        ]
        restrictions += [f"{word} {each}" for word, each in (("since", self.since), ("until", self.until)) if each]
        restrictions += ["what was ingested since"] if self.batches is not None else []
        return f"only {'; '.join(restrictions)}" if restrictions else ""

    @property
    def notes(self) -> Iterator[str]:
        """Yield notes for a partial replay."""
        if self.text:
            yield f"{self.text}: numbers can differ from a run of all requests, because consequences of skipped ones count as direct"
        if self.policies:
            yield "validating policies that were not selected count as if they admit everything"


class Options(Struct, frozen=True, kw_only=True):
    """The options of a run. `workers` 0 means one per core."""

    outcomes: Path | None = None
    rejects: Path | None = None
    save_cases: Path | None = None
    """Directory for a case of each distinct finding."""
    redact: bool = True
    owner_label: str = OWNER_LABEL
    """Label of a namespace that names its owner."""
    workers: int = 0
    fleet: Fleet | None = None
    """Fleet that does the work, if not local processes."""
    webhooks: tuple[str, ...] = ()
    """Sources of answers for webhooks (`NAME=URL` or `NAME=recorded`) and authorizers (`NAME=URL` or `NAME=FILE`)."""
    focus: Focus = field(default_factory=Focus)
    """Selection, if not everything."""
    prove: bool = False
    """A flag to prove what each changed policy can do."""
    accepted: Path | None = None
    """File of accepted findings."""
    today: date = date.min
    """Day for checking whether acceptances have expired."""
    authorization_mode: str | None = None
    """Chain of sets without an AuthorizationConfiguration: modes, or the path of a kube-apiserver manifest."""
