"""The effects of a webhook outage other than denials.

They are requests that pass unchecked, the steps that the webhooks need to come back, and the duration of calls.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from msgspec import Struct, field


class FailedCall(NamedTuple):
    """Key of calls that fail: one webhook, one kind of request, and one minute since the epoch."""

    webhook: str
    failure_policy: str
    operation: str
    resource: str
    minute: int


class DownWebhook(NamedTuple):
    """A webhook that does not answer. `namespace` is that of its Service, or empty for a URL."""

    name: str
    configuration: str
    phase: str
    failure_policy: str
    timeout_seconds: int
    namespace: str
    impatient: int = 0
    """Number of requests of the log whose own time limit ends before that of the webhook."""


class Return(StrEnum):
    """Possibility of a webhook's recovery step while the webhook is down."""

    POSSIBLE = "possible"
    REFUSED = "refused"
    UNKNOWN = "unknown"


class RecoveryStep(NamedTuple):
    """A step that must happen before a webhook answers again, and how the server treats it until then."""

    what: str
    user: str
    operation: str
    resource: str
    namespace: str
    answer: Return
    webhooks: tuple[str, ...] = ()
    """The webhooks that are down and that the step asks, or may ask."""
    reason: str = ""


class Waits(NamedTuple):
    """Time that requests waited for the webhooks of a phase, in nanoseconds.

    Only requests that took more than half a second are known.
    """

    requests: int
    longest: int
    over: int
    """Number of requests that waited as long as the shortest time limit of a webhook that is down."""


class Outage(Struct, frozen=True):
    """The webhooks that are down in the candidate, and the effects."""

    webhooks: tuple[DownWebhook, ...]
    steps: tuple[RecoveryStep, ...] = ()
    """Empty in kcp, whose shards have no nodes."""
    waits: Mapping[str, Waits] = field(default_factory=dict)
    """Waiting times by phase."""
