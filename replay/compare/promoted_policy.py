"""A policy that audits or warns, and what happens if its bindings deny."""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct

from replay.audit.period import Period
from replay.compare.result import RunResult
from replay.json import JSON
from replay.kube.admissionregistration import Origin

BINDING = "validatingadmissionpolicybinding"
"""Resource name of bindings in kubectl."""


class RecordedFailures(NamedTuple):
    """Audited failures in the log: requests, those among them that failed anyway, and their first and last time."""

    requests: int = 0
    failed: int = 0
    users: int = 0
    namespaces: int = 0
    first: int = 0
    last: int = 0


class PromotedBinding(NamedTuple):
    """An object that keeps a policy from denying: a binding, or the policy of an engine itself.

    `actions` is what the policy does instead. `patch` makes it deny, and is a merge patch or the list of a JSON patch.
    """

    name: str
    static: bool
    actions: tuple[str, ...]
    patch: JSON
    origin: Origin | None = None
    resource: str = BINDING
    namespace: str = ""


class PromotedPolicy(Struct, frozen=True):
    """A policy of the baseline, with a run in which only its bindings differ, because they deny.

    `selected` counts the requests that its match constraints may select, rather too many than too few. `rules` are the
    names of what denies in decisions. `untold` says why the log has no failures of the policy, and is empty if it has
    them.
    """

    name: str
    rules: frozenset[str]
    bindings: tuple[PromotedBinding, ...]
    period: Period
    selected: int
    recorded: RecordedFailures
    run: RunResult
    untold: str = ""

    @property
    def is_native(self) -> bool:
        """Whether it is a ValidatingAdmissionPolicy with bindings, and not a policy of an engine."""
        return self.bindings[0].resource == BINDING
