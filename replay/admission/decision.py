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
    """One denial. `message` is the policy's own message, without the server's wrapping. `code` is the HTTP status.

    `expression_index` is the index of the validation. It is None if the policy as a whole denied (a compile error, a
    match condition, parameters, an audit annotation). `is_error` marks an evaluation that failed. A denial of a webhook
    has its configuration as policy, or the policy of the engine behind it. `binding` is the webhook.
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
    """Places in an engine's policy that caused the denial, for explanations."""

    @property
    def is_of_mutation(self) -> bool:
        """Return whether a mutating policy failed.

        Its reason is Invalid, but its status that of Forbidden (`mutating.dispatcher`).
        """
        return self.is_error and self.reason == "Invalid" and self.code == FORBIDDEN


class Undetermined(Struct, frozen=True):
    """A policy whose decision depends on what the log lacks. `reason` names path and cause.

    `never_refuses` says that the policy refuses nothing, whatever the missing part is: its binding only warns or audits,
    or its mutations cannot fail.
    """

    policy: str
    binding: str
    reason: str
    path: str = ""
    fix: str = ""
    never_refuses: bool = False


class Mutated(Struct, frozen=True):
    """Change by one policy or webhook: an RFC 6902 patch between the objects before and after it."""

    policy: str
    binding: str
    patch: tuple[JSON, ...]


class WebhookCall(Struct, frozen=True):
    """A webhook that would be called. `answer` is its answer, empty if it was not called.

    `unknown` means that its answer was needed but is not available.
    """

    configuration: str
    webhook: str
    phase: str
    failure_policy: str
    timeout_seconds: int
    side_effects: str
    answer: str = ""


class Triggered(Struct, frozen=True):
    """Work of an engine's policy after an admitted request, as `makes Secret a/b afterwards`. It decides nothing.

    `unknown` says why the work is not known.
    """

    policy: str
    work: str = ""
    unknown: str = ""


class Decision(Struct, frozen=True):
    """Decision of one manifest set about one request, in the server's order.

    The verdict is `UNDETERMINED` as soon as any part of the answer (denials, warnings, annotations, patch) depends on
    something unknown. The other fields then hold the certain part: a listed denial is certain in any case.
    `caused_by_mutation` are the denials that the recorded object would not have met. `healed_by_mutation` are those
    that only the recorded object would have met.
    """

    verdict: Verdict
    denials: tuple[Denial, ...] = ()
    warnings: tuple[str, ...] = ()
    audit_annotations: Mapping[str, str] = field(default_factory=dict)
    patch: tuple[JSON, ...] = ()
    undetermined: tuple[Undetermined, ...] = ()
    mutated: tuple[Mutated, ...] = ()
    webhooks: tuple[WebhookCall, ...] = ()
    triggered: tuple[Triggered, ...] = ()
    caused_by_mutation: tuple[Denial, ...] = ()
    healed_by_mutation: tuple[Denial, ...] = ()
