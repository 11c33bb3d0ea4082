"""One policy that audits or warns, and what would follow if its bindings denied."""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct

from replay.audit.period import Period
from replay.compare.result import RunResult
from replay.kube.admissionregistration import Origin


class RecordedFailures(NamedTuple):
    """The audited failures that the log records: requests, those of them that failed anyway, and when first and last."""

    requests: int = 0
    failed: int = 0
    users: int = 0
    namespaces: int = 0
    first: int = 0
    last: int = 0


class PromotedBinding(NamedTuple):
    """A binding that does not deny yet, with what it does instead."""

    name: str
    static: bool
    actions: tuple[str, ...]
    origin: Origin | None = None


class PromotedPolicy(Struct, frozen=True):
    """A policy of the baseline, with a run in which its bindings deny and nothing else differs.

    `selected` counts the requests that its match constraints may select: too many rather than too few.
    """

    name: str
    bindings: tuple[PromotedBinding, ...]
    period: Period
    selected: int
    recorded: RecordedFailures
    run: RunResult

    @property
    def audits(self) -> bool:
        """Whether the log would show its failures."""
        return any("Audit" in each.actions for each in self.bindings)
