"""Redactors: for a rebuilt request, and for rows of the store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, TypeVar

from msgspec.structs import replace

from replay.admission.decision import Decision, Denial, Mutated, Undetermined, WebhookCall
from replay.audit.store import Store
from replay.json import JSON
from replay.kube.attributes import Missing, PartialObject
from replay.kube.redact import SECRETS, ObjectRedactors, Redactor, decoded, may_show_token
from replay.reconstruct.request import ReplayRequest

P = TypeVar("P", Denial, Mutated, Undetermined, WebhookCall)


def redactor_of(request: ReplayRequest, *, redact: bool) -> Redactor:
    """Return the redactor of a rebuilt request, from all its objects and bodies."""
    resource = request.attributes.resource.resource
    if redact and resource == SECRETS:
        return Redactor(resource, _bodies_of(request))
    # Without values of the request, all requests for a resource share a redactor.
    return _redactor(resource, redact=redact)


@lru_cache(maxsize=1024)
def _redactor(resource: str, *, redact: bool) -> Redactor:
    """Return a redactor without values of a single request."""
    return Redactor(resource, redact=redact)


def _bodies_of(request: ReplayRequest) -> Iterator[JSON | PartialObject]:
    attributes, original = request.attributes, request.before_mutation
    for each in (attributes.object, attributes.old_object, None if isinstance(original, Missing) else original.object):
        if not isinstance(each, Missing):
            yield each
    for text in (request.record.request_object, request.record.response_object):
        yield decoded(text)


def redacted_decision(redactor: Redactor, decision: Decision) -> Decision:
    """Return a redacted decision, or the same object if nothing is hidden."""
    return redacted_decisions(redactor, decision, decision)[0]


def redacted_decisions(redactor: Redactor, current: Decision, candidate: Decision) -> tuple[Decision, Decision]:
    """Return the redacted decisions of both sets. What hides nothing, and what both sets share, stays one object."""
    both = (current,) if current is candidate else (current, candidate)
    # Most decisions have none of the marks of a token.
    if not redactor.redact or not (redactor.resource == SECRETS or may_show_token(both)):
        return current, candidate
    shown = [_redacted(redactor, each) for each in both]
    return shown[0], shown[-1]


def _redacted(redactor: Redactor, decision: Decision) -> Decision:
    shown = {
        name: part_shown
        for name, part in _PARTS
        if (value := getattr(decision, name)) and (part_shown := part(redactor, value)) != value
    }
    return replace(decision, **shown) if shown else decision


def redacted_denials(request: ReplayRequest, decision: Decision, *, redact: bool) -> Decision:
    """Return a decision with redacted denials. Its other parts are left, because later stages need them."""
    if not redact or not decision.denials:
        return decision
    return replace(decision, denials=_denials(redactor_of(request, redact=redact), decision.denials))


def _denials(redactor: Redactor, denials: tuple[Denial, ...]) -> tuple[Denial, ...]:
    return tuple(_shown(denial, "message", redactor.text(denial.message)) for denial in denials)


def _webhooks(redactor: Redactor, calls: tuple[WebhookCall, ...]) -> tuple[WebhookCall, ...]:
    return tuple(_shown(call, "answer", redactor.text(call.answer)) for call in calls)


def _undetermined(redactor: Redactor, entries: tuple[Undetermined, ...]) -> tuple[Undetermined, ...]:
    return tuple(_shown(each, "reason", redactor.text(each.reason)) for each in entries)


def _mutated(redactor: Redactor, entries: tuple[Mutated, ...]) -> tuple[Mutated, ...]:
    return tuple(_shown(entry, "patch", redactor.patch(entry.patch)) for entry in entries)


def _shown(part: P, name: str, value: Any) -> P:
    """Return a part of a decision with another value of a field. The same object is returned if nothing changes."""
    return part if getattr(part, name) is value else replace(part, **{name: value})


_PARTS: tuple[tuple[str, Callable[[Redactor, Any], Any]], ...] = (
    ("denials", _denials),
    ("caused_by_mutation", _denials),
    ("healed_by_mutation", _denials),
    ("webhooks", _webhooks),
    ("warnings", lambda redactor, warnings: tuple(map(redactor.text, warnings))),
    ("audit_annotations", Redactor.texts),
    ("undetermined", _undetermined),
    ("patch", Redactor.patch),
    ("mutated", _mutated),
)
"""The parts of a decision that may show secret values, each with its redaction."""


def store_redactors(store: Store, *, redact: bool) -> ObjectRedactors:
    """Return the redactors for the rows of a store."""
    return ObjectRedactors(lambda: store.query("secret_bodies").iter_rows(), redact=redact)
