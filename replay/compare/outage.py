"""What an outage of webhooks comes to beside denials: what passes unchecked, what the webhooks need, and how long calls take."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from msgspec import Struct, field


class FailedCall(NamedTuple):
    """Calls that fail: of one webhook about one kind of request, in one minute since the epoch."""

    webhook: str
    failure_policy: str
    operation: str
    resource: str
    minute: int


class DownWebhook(NamedTuple):
    """A webhook that does not answer; `namespace` is that of its Service, empty for a URL."""

    name: str
    configuration: str
    phase: str
    failure_policy: str
    timeout_seconds: int
    namespace: str
    impatient: int = 0
    """How many requests of the log have a time limit of their own that ends before that of the webhook."""


class Return(StrEnum):
    """Whether a step that a webhook needs to come back can be made without it."""

    POSSIBLE = "possible"
    REFUSED = "refused"
    UNKNOWN = "unknown"


class RecoveryStep(NamedTuple):
    """Something that has to happen before a webhook answers again, and how the server treats it until then."""

    what: str
    user: str
    operation: str
    resource: str
    namespace: str
    answer: Return
    webhooks: tuple[str, ...] = ()
    """Which of them are asked, or may be."""
    reason: str = ""


class Waits(NamedTuple):
    """How long requests of the log waited for the webhooks of a phase, in nanoseconds: those that took more than half a second."""

    requests: int
    longest: int
    over: int
    """How many waited as long as the shortest time limit of a webhook that is down."""


class Outage(Struct, frozen=True):
    """The webhooks that are down in the candidate, and what that means."""

    webhooks: tuple[DownWebhook, ...]
    steps: tuple[RecoveryStep, ...] = ()
    """None in kcp, whose shards have no nodes."""
    waits: Mapping[str, Waits] = field(default_factory=dict)
    """By phase."""
