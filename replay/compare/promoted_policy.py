"""One policy that audits or warns, and what would follow if its bindings denied."""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct

from replay.audit.period import Period
from replay.compare.result import RunResult
from replay.json import JSON
from replay.kube.admissionregistration import Origin

BINDING = "validatingadmissionpolicybinding"
"""How kubectl names the kind of a binding."""


class RecordedFailures(NamedTuple):
    """The audited failures that the log records: requests, those of them that failed anyway, and when first and last."""

    requests: int = 0
    failed: int = 0
    users: int = 0
    namespaces: int = 0
    first: int = 0
    last: int = 0


class PromotedBinding(NamedTuple):
    """An object that says that the policy does not deny yet: a binding, or the policy of an engine itself.

    `actions` is what it does instead, `patch` is the merge patch, or the list of a JSON patch, that makes it deny.
    """

    name: str
    static: bool
    actions: tuple[str, ...]
    patch: JSON
    origin: Origin | None = None
    resource: str = BINDING
    namespace: str = ""


class PromotedPolicy(Struct, frozen=True):
    """A policy of the baseline, with a run in which its bindings deny and nothing else differs.

    `selected` counts the requests that its match constraints may select: too many rather than too few. `rules` is how decisions name
    what denies, `untold` says why the log has no failures of it, empty if it would have them.
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
        """Whether it is a ValidatingAdmissionPolicy with bindings, and no policy of an engine."""
        return self.bindings[0].resource == BINDING
