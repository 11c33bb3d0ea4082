"""Decisions of policies: the effect (`Action`) and its cause (`Evaluation`)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct, field

from replay.json import JSON

FORBIDDEN = 403


class Verdict(StrEnum):
    """The answer of a chain for one request."""

    ADMITTED = "admitted"
    DENIED = "denied"
    UNDETERMINED = "undetermined"
    NOT_REACHED = "not_reached"


class Denial(Struct, frozen=True):
    """One denying decision; `message` is the policy's alone, without the server's wrapping; `code` is the HTTP status.

    `expression_index` is the index of the validation, None where the policy as a whole decided (a compile error, a
    match condition, parameters, an audit annotation). `is_error` tells an evaluation that failed from one that denies.
    A denial of a webhook names its configuration as policy, or the policy of the engine behind it; `binding` is the webhook.
    """

    policy: str
    binding: str
    expression_index: int | None
    message: str
    reason: str
    code: int
    is_error: bool = False
    of_webhook: bool = False
    places: tuple[str, ...] = ()
    """Places in an engine's policy that it comes from, for explanations."""

    @property
    def is_of_mutation(self) -> bool:
        """Whether a mutating policy failed: the reason is Invalid, but the status that of Forbidden (`mutating.dispatcher`)."""
        return self.is_error and self.reason == "Invalid" and self.code == FORBIDDEN


class Undetermined(Struct, frozen=True):
    """A policy whose decision depends on what the log does not hold; `reason` names path and cause."""

    policy: str
    binding: str
    reason: str
    path: str = ""
    fix: str = ""


class Mutated(Struct, frozen=True):
    """Change by one policy or webhook: an RFC 6902 patch between the objects before and after it."""

    policy: str
    binding: str
    patch: tuple[JSON, ...]


class WebhookCall(Struct, frozen=True):
    """A webhook that would be called; `answer` is its answer, empty if it was not called.

    `unknown` means that its answer was needed but is not available.
    """

    configuration: str
    webhook: str
    phase: str
    failure_policy: str
    timeout_seconds: int
    side_effects: str
    answer: str = ""


class Decision(Struct, frozen=True):
    """What one manifest set decides about one request, in the server's order.

    The verdict is `UNDETERMINED` as soon as any part of the answer (denials, warnings, annotations, patch) depends on what
    is not known; the other fields then hold the part that is certain, so a denial listed there is certain all the same.
    `caused_by_mutation` are those of the denials that the object as it stands in the record would not have met,
    `healed_by_mutation` those that it would have met and the mutated one does not.
    """

    verdict: Verdict
    denials: tuple[Denial, ...] = ()
    warnings: tuple[str, ...] = ()
    audit_annotations: Mapping[str, str] = field(default_factory=dict)
    patch: tuple[JSON, ...] = ()
    undetermined: tuple[Undetermined, ...] = ()
    mutated: tuple[Mutated, ...] = ()
    webhooks: tuple[WebhookCall, ...] = ()
    caused_by_mutation: tuple[Denial, ...] = ()
    healed_by_mutation: tuple[Denial, ...] = ()
