"""Who may see what of a request: a redactor for one that is rebuilt, and for one of which only rows of the store are at hand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from replay.admission.decision import Decision, Denial
from replay.audit.store import Store
from replay.json import JSON
from replay.kube.attributes import Missing, PartialObject
from replay.kube.redact.by_object import ObjectRedactors, decoded
from replay.kube.redact.redactor import SECRETS, Redactor
from replay.reconstruct.request import ReplayRequest


def redactor_of(request: ReplayRequest, *, redact: bool) -> Redactor:
    """What may be shown of a rebuilt request; all its objects and bodies tell what must not."""
    resource = request.attributes.resource.resource
    return Redactor(resource, _bodies_of(request) if redact and resource == SECRETS else (), redact=redact)


def _bodies_of(request: ReplayRequest) -> Iterator[JSON | PartialObject]:
    attributes, before = request.attributes, request.before_mutation
    for each in (attributes.object, attributes.old_object, None if isinstance(before, Missing) else before.object):
        if not isinstance(each, Missing):
            yield each
    for text in (request.record.request_object, request.record.response_object):
        yield decoded(text)


def redacted_decision(redactor: Redactor, decision: Decision) -> Decision:
    """A decision of which nothing shows that must not."""
    if not redactor.redact or decision == Decision(decision.verdict):
        return decision
    text, patch = redactor.text, redactor.patch
    return replace(
        decision,
        denials=_denials(redactor, decision.denials),
        caused_by_mutation=_denials(redactor, decision.caused_by_mutation),
        healed_by_mutation=_denials(redactor, decision.healed_by_mutation),
        webhooks=tuple(replace(call, answer=text(call.answer)) for call in decision.webhooks),
        warnings=tuple(map(text, decision.warnings)),
        audit_annotations=redactor.texts(decision.audit_annotations),
        undetermined=tuple(replace(each, reason=text(each.reason)) for each in decision.undetermined),
        patch=patch(decision.patch),
        mutated=tuple(replace(entry, patch=patch(entry.patch)) for entry in decision.mutated),
    )


def redacted_denials(request: ReplayRequest, decision: Decision, *, redact: bool) -> Decision:
    """A decision whose denials show nothing that must not be seen; all else is left for those who go on with it."""
    if not redact or not decision.denials:
        return decision
    return replace(decision, denials=_denials(redactor_of(request, redact=redact), decision.denials))


def _denials(redactor: Redactor, denials: tuple[Denial, ...]) -> tuple[Denial, ...]:
    return tuple(replace(denial, message=redactor.text(denial.message)) for denial in denials)


def store_redactors(store: Store, *, redact: bool) -> ObjectRedactors:
    """Redactors for the rows of a store."""
    return ObjectRedactors(lambda: store.query("secret_bodies").iter_rows(), redact=redact)
