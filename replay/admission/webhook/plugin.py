"""The two webhook plugins, for webhooks that have a backend.

Mutating webhooks are called one at a time, each with the result of the one before (`webhook/mutating/dispatcher.go`).
Validating webhooks are called all at once, and any refusal denies (`webhook/validating/dispatcher.go`). A webhook
without a backend is only listed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from replay.admission.conversion import Object
from replay.admission.decision import Denial, Mutated, Undetermined
from replay.admission.effects import Effects, changes
from replay.admission.mutating.object_patcher import ObjectPatchers, StatusError, internal_error
from replay.admission.observer import WebhookObserver
from replay.admission.webhook.answer import (
    PATCH_FAILURES_SINCE,
    RecallingBackend,
    WebhookAnswer,
    WebhookBackend,
    WebhookReview,
    call_failure,
    internal_failure,
    refusals,
    webhook_request,
)
from replay.admission.webhook.webhooks import WebhookAdmission, WebhookHook, WebhookInvocation
from replay.go.format import marshal, quote
from replay.identity import IdentityMap
from replay.kube.admissionregistration import FailurePolicy, Phase
from replay.kube.attributes import Attributes, Missing
from replay.kube.json_patch import JSONPatchError, apply, equal
from replay.kube.lister import Lister

UNKNOWN = "unknown"
"""Answer of a called webhook whose real answer is unavailable."""

Backends = Mapping[str, WebhookBackend]
"""Backends by webhook name."""


def unknown(effects: Effects, hook: WebhookHook, what: str, missing: Missing, policy: str = "") -> None:
    """Record that a webhook, or a policy of its engine, depends on something unknown."""
    is_unknown = f"is not known: {missing.reason}"
    reason = (
        f"{what} {is_unknown}"
        if missing.path == "webhook"
        else f"{what} depends on `{missing.path}`, which {is_unknown}"
    )
    name = policy or hook.configuration
    effects.undetermined.append(Undetermined(name, hook.webhook.name, reason, missing.path, missing.fix))


def unanswered(effects: Effects, invocation: WebhookInvocation, phase: Phase, missing: Missing) -> None:
    """Record a call whose answer is unknown."""
    effects.calls.append(invocation.call(phase, UNKNOWN))
    unknown(effects, invocation.hook, "its answer", missing)


def undecided(effects: Effects, invocation: WebhookInvocation, phase: Phase, answer: WebhookAnswer) -> None:
    """Record the undetermined policies in an engine's answer."""
    effects.calls.append(invocation.call(phase, UNKNOWN))
    for policy, missing in answer.unknown:
        unknown(effects, invocation.hook, "its answer", missing, policy)


def answered(effects: Effects, invocation: WebhookInvocation, answer: WebhookAnswer) -> None:
    """Record the warnings and audit annotations of an answer."""
    name = invocation.hook.webhook.name
    effects.warnings.extend(answer.warnings)
    effects.triggered.extend(answer.triggered)
    effects.audit_annotations.update({f"{name}/{key}": value for key, value in answer.audit_annotations.items()})


def validate(
    admission: WebhookAdmission,
    hooks: Sequence[WebhookHook],
    where: tuple[Attributes, Lister],
    backends: Backends,
    observer: WebhookObserver | None = None,
) -> Effects:
    """Return the effects of one set's validating webhooks. A refusal before any call ends the phase."""
    (attributes, lister), effects = where, Effects()
    reviews_asked: list[tuple[WebhookBackend, WebhookReview]] = []
    recalled: list[tuple[WebhookInvocation, WebhookAnswer | Missing]] = []
    for hook in hooks:
        answer = admission.should_call(hook, attributes, lister, observer)
        if observer is not None and answer is not None:
            observer.called(hook, answer)
        if isinstance(answer, Denial):
            # `ShouldCallHook` runs for all webhooks before the first call, so that its error discards the calls found
            # so far.
            return Effects(denials=[answer], undetermined=effects.undetermined)
        if isinstance(answer, Missing):
            unknown(effects, hook, "whether it is called", answer)
        elif answer is not None:
            backend = backends.get(hook.webhook.name)
            request = None if backend is None else webhook_request(attributes, answer)
            if backend is None or request is None:
                effects.calls.append(answer.call("validating"))
            elif isinstance(request, Missing):
                recalled_reply = (
                    backend.recall(answer, "validating", attributes) if isinstance(backend, RecallingBackend) else None
                )
                recalled.append((answer, request if recalled_reply is None else recalled_reply))
            else:
                reviews_asked.append((backend, WebhookReview(answer, "validating", request)))
    replies = [(review.invocation, reply) for review, reply in _replies(reviews_asked)]
    # The server calls validating webhooks in parallel, so the order of their answers has no meaning.
    for index, (invocation, reply) in enumerate([*replies, *recalled]):
        _validated(invocation, reply, index, effects)
    return effects


def _replies(
    reviews: Sequence[tuple[WebhookBackend, WebhookReview]],
) -> list[tuple[WebhookReview, WebhookAnswer | Missing]]:
    """Return the answers. Each backend gets all of its reviews in one call."""
    answers: IdentityMap[WebhookReview, WebhookAnswer | Missing] = IdentityMap()
    for backend in IdentityMap((backend, backend) for backend, _ in reviews).values():
        own = [review for each, review in reviews if each is backend]
        for review, answer in zip(own, backend.review(own), strict=True):
            answers[review] = answer
    return [(review, answers[review]) for _, review in reviews]


def _validated(invocation: WebhookInvocation, reply: WebhookAnswer | Missing, index: int, effects: Effects) -> None:
    if isinstance(reply, Missing):
        unanswered(effects, invocation, "validating", reply)
        return
    if reply.unknown:
        undecided(effects, invocation, "validating", reply)
        effects.triggered.extend(reply.triggered)
        # These policies cannot undo what another one denies.
        if reply.policies:
            effects.denials += refusals(invocation, reply)
        return
    effects.calls.append(invocation.call("validating", reply.text))
    if reply.error:
        _failed(invocation, reply, f"validating.webhook.admission.k8s.io/round_0_index_{index}", effects)
        return
    answered(effects, invocation, reply)
    if not reply.allowed:
        effects.denials += refusals(invocation, reply)


def _failed(invocation: WebhookInvocation, answer: WebhookAnswer, key: str, effects: Effects) -> None:
    """Record a failed call. `Ignore` admits the request and adds an annotation."""
    if invocation.hook.webhook.failure_policy is FailurePolicy.IGNORE:
        effects.audit_annotations[f"failed-open.{key}"] = invocation.hook.webhook.name
    else:
        effects.denials.append(call_failure(invocation, answer))


class MutatingWebhookPlugin:
    """The mutating webhooks of one set for one request. It remembers between the two passes which webhooks ran."""

    def __init__(
        self,
        admission: WebhookAdmission,
        hooks: Sequence[WebhookHook],
        patchers: ObjectPatchers,
        where: tuple[Attributes, Lister],
        backends: Backends,
    ) -> None:
        """Keep the hooks of the set that may match. `where` are the attributes before mutation and the lister."""
        self.admission = admission
        self.hooks = hooks
        self.effects = Effects()
        self._patchers = patchers
        self._original, self._lister = where
        self._backends = backends
        self._last_output: Object = None
        self._invoked: set[int] = set()
        self._again: set[int] = set()
        self.observer: WebhookObserver | None = None
        """Observer of the calls, None if there is none."""

    def admit(self, value: Object, *, reinvoke: bool) -> tuple[Object, bool]:
        """Run one pass; return the object, and whether all mutating plugins must run again."""
        attributes, effects = self._original.with_object(value), self.effects
        # Another plugin changed the object since the webhooks of the first pass.
        if reinvoke and not equal(self._last_output, attributes.object):
            self._require()
        changed = False
        for hook in self.hooks:
            answer = self.admission.should_call(hook, attributes, self._lister, self.observer)
            # As in the API server, a webhook that was not called in the first pass is not called in the second, even if
            # it matches. A match condition that fails denies before this is asked (`mutatingDispatcher.Dispatch`).
            if answer is None or (reinvoke and hook.index not in self._again and not isinstance(answer, Denial)):
                continue
            if self.observer is not None:
                self.observer.called(hook, answer)
            original = attributes.object
            attributes = replace(attributes, object=self._ask(hook, answer, attributes, effects, reinvoke=reinvoke))
            # A mutating webhook that denies ends the phase. The following webhooks are not called.
            if effects.denials:
                break
            # Identity is cheap and usually decides. Only a changed object is compared.
            if attributes.object is not original and not equal(original, attributes.object):
                self._require()
                changed = True
            # Added after the check above, so that a webhook never requires its own second call.
            if hook.webhook.reinvocation_policy == "IfNeeded":
                self._invoked.add(hook.index)
        self._last_output = attributes.object
        return attributes.object, changed

    def _require(self) -> None:
        self._again |= self._invoked
        self._invoked = set()

    def _ask(
        self,
        hook: WebhookHook,
        answer: WebhookInvocation | Denial | Missing,
        attributes: Attributes,
        effects: Effects,
        *,
        reinvoke: bool,
    ) -> Object:
        """Return the object after one webhook. `answer` says how the webhook is called."""
        if isinstance(answer, Denial):
            effects.denials.append(answer)
        elif isinstance(answer, Missing):
            unknown(effects, hook, "whether it is called", answer)
        else:
            backend = self._backends.get(hook.webhook.name)
            if backend is not None:
                return self._call(answer, backend, attributes, effects, round_=int(reinvoke))
            # A webhook without a backend is named once, not again for the second pass.
            if not reinvoke:
                effects.calls.append(answer.call("mutating"))
        return attributes.object

    def _call(
        self,
        invocation: WebhookInvocation,
        backend: WebhookBackend,
        attributes: Attributes,
        effects: Effects,
        *,
        round_: int,
    ) -> Object:
        request = webhook_request(attributes, invocation)
        if isinstance(request, Missing):
            known = (
                backend.recall(invocation, "mutating", attributes) if isinstance(backend, RecallingBackend) else None
            )
            reply: WebhookAnswer | Missing = request if known is None else known
        else:
            reply = backend.review([WebhookReview(invocation, "mutating", request)])[0]
        if isinstance(reply, WebhookAnswer) and reply.unknown:
            undecided(effects, invocation, "mutating", reply)
            missing = reply.unknown[0][1]
            return Missing("object", f"the object after a webhook is not known: {missing.reason}", missing.fix)
        if isinstance(reply, Missing):
            unanswered(effects, invocation, "mutating", reply)
            return Missing("object", f"the object after a webhook is not known: {reply.reason}", reply.fix)
        effects.calls.append(invocation.call("mutating", reply.text))
        key = f"mutation.webhook.admission.k8s.io/round_{round_}_index_{invocation.hook.index}"
        # Older servers fail the request here even if the policy is `Ignore`.
        if reply.undecodable_patch and self.admission.version.minor < PATCH_FAILURES_SINCE:
            effects.audit_annotations[key] = _annotation(invocation, mutated=False)
            effects.denials.append(internal_failure(invocation, reply.undecodable_patch))
            return attributes.object
        if reply.error:
            # `callAttrMutatingHook` writes this annotation in a `defer`, so that a failed call leaves it too.
            effects.audit_annotations[key] = _annotation(invocation, mutated=False)
            _failed(invocation, reply, key, effects)
            return attributes.object
        answered(effects, invocation, reply)
        return self._apply(invocation, reply, attributes, effects, key)

    def _apply(
        self,
        invocation: WebhookInvocation,
        answer: WebhookAnswer,
        attributes: Attributes,
        effects: Effects,
        key: str,
    ) -> Object:
        """Return the object after the patch of an answer."""
        original, hook = attributes.object, invocation.hook
        after: Object = original
        if not answer.allowed:
            effects.denials += refusals(invocation, answer)
        elif answer.patch:
            try:
                after = self._patched(invocation, original, answer)
            except StatusError as error:
                names = (hook.configuration, hook.webhook.name, None)
                effects.denials.append(Denial(*names, error.message, error.reason, error.code, of_webhook=True))
        mutated = after is not original and not equal(original, after)
        effects.audit_annotations[key] = _annotation(invocation, mutated=mutated)
        # `addPatchAnnotation` notes every applied patch, even one without a change.
        if after is not original:
            patch = {"patch": list(answer.patch), "patchType": "JSONPatch"}
            effects.audit_annotations[f"patch.{key.removeprefix('mutation.')}"] = _annotation(invocation, **patch)
        if mutated:
            parts = answer.mutated or ((hook.configuration, changes(original, after)),)
            effects.mutated += (Mutated(policy, hook.webhook.name, part) for policy, part in parts)
        return after

    def _patched(self, invocation: WebhookInvocation, original: Object, answer: WebhookAnswer) -> Object:
        if original is None:
            name = quote(invocation.hook.webhook.name)
            raise internal_error(
                f"admission webhook {name} attempted to modify the object, which is not supported for this operation"
            )
        try:
            changed = apply(original, answer.patch)
        except JSONPatchError as error:
            raise internal_error(str(error)) from None
        # The server decodes the patched object, which adds defaults and drops unknown fields.
        patcher = self._patchers.patcher_for(invocation.kind, self._lister)
        return changed if patcher is None else patcher.decode(changed, original, strict=False)


def _annotation(invocation: WebhookInvocation, **values: Any) -> str:
    """Return the value of an annotation about a webhook's call."""
    names = {"configuration": invocation.hook.configuration, "webhook": invocation.hook.webhook.name}
    return "{" + ",".join(f"{marshal(key)}:{marshal(value)}" for key, value in {**names, **values}.items()) + "}"
