"""Requests to a webhook and its answers.

The admission layer does no I/O: a `WebhookBackend` from outside calls a real endpoint or reads the log.

Policy engines answer for their own webhooks with the objects of a set, in this process.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Protocol, runtime_checkable

from msgspec import Struct, field

from replay.admission.decision import Denial, Triggered
from replay.admission.mutating.object_patcher import ObjectPatchers
from replay.admission.webhook.webhooks import WebhookInvocation
from replay.errors import ManifestError
from replay.go.format import quote
from replay.go.time import duration_text
from replay.identity import IdentityMap
from replay.json import JSON
from replay.kcp.annotation import shown_to_webhook
from replay.kube.admission_request import unknown_part
from replay.kube.admissionregistration import ManifestSet, Phase, Webhook
from replay.kube.attributes import Attributes, Missing
from replay.kube.denial import webhook_denial
from replay.kube.discovery import Discovery
from replay.kube.engine_policy import ENGINES, function_of
from replay.kube.lister import Lister

CALL_ANNOTATIONS: Final = ("mutation.webhook.admission.k8s.io/", "patch.webhook.admission.k8s.io/")
"""Prefixes of the audit annotations that the server writes about each call of a mutating webhook."""


class WebhookReview(Struct, frozen=True):
    """One call: `request` is the AdmissionRequest (`admission.k8s.io/v1`) without its uid."""

    invocation: WebhookInvocation
    phase: Phase
    request: JSON


class WebhookAnswer(Struct, frozen=True):
    """The answer of a webhook. `error` says why there is no usable answer (the text after `failed calling webhook`).

    `status` is the `metav1.Status` of a refusal. `patch` are the operations of a mutating webhook. `undecodable_patch`
    says why its patch is invalid, if that is the error. `is_late` says that the answer did not come in time. A policy
    engine in this process adds details: `policies` are those that refuse, `places` where in them. `unknown` are the
    undetermined policies with their reasons, `mutated` the changes of each policy, and `triggered` what policies do later.
    """

    allowed: bool = False
    status: Mapping[str, Any] = field(default_factory=dict)
    patch: tuple[JSON, ...] = ()
    warnings: tuple[str, ...] = ()
    audit_annotations: Mapping[str, str] = field(default_factory=dict)
    error: str | None = None
    undecodable_patch: str = ""
    is_late: bool = False
    policies: tuple[str, ...] = ()
    places: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    unknown: tuple[tuple[str, Missing], ...] = ()
    mutated: tuple[tuple[str, tuple[JSON, ...]], ...] = ()
    triggered: tuple[Triggered, ...] = ()

    @property
    def text(self) -> str:
        """The answer in a word or a line, for `WebhookCall.answer`."""
        if self.error:
            return f"failed: {self.error}"
        if not self.allowed:
            return f"denied: {self.status.get('message') or self.status.get('reason') or 'without explanation'}"
        return "patched" if self.patch else "allowed"


class WebhookBackend(Protocol):
    """Source of a webhook's answers."""

    def review(self, reviews: Sequence[WebhookReview]) -> Sequence[WebhookAnswer | Missing]:
        """Return the answers in the order of the reviews, `Missing` for an unavailable one.

        All reviews are sent at the same time.
        """
        ...


@runtime_checkable
class RecallingBackend(Protocol):
    """A backend that can answer without the complete request: from the log, or from the policies themselves."""

    def recall(
        self, invocation: WebhookInvocation, phase: Phase, attributes: Attributes
    ) -> WebhookAnswer | Missing | None:
        """Return the answer about this object, None if only the answer about another object is known."""
        ...


def webhook_request(attributes: Attributes, invocation: WebhookInvocation) -> JSON | Missing:
    """Return the AdmissionRequest of a call (`webhook/request.CreateV1AdmissionReview`), or an unknown part of it."""
    request = admission_request(attributes)
    if isinstance(request, Missing):
        return request
    # A replayed call must have no side effects.
    named = {"kind": invocation.kind._asdict(), "resource": invocation.resource._asdict(), "dryRun": True}
    return {**request, **named}


def admission_request(attributes: Attributes) -> dict[str, JSON] | Missing:
    """Return the AdmissionRequest for the kind and resource of the request itself, or an unknown part of it."""
    request = partial_request(attributes)
    return unknown_part(request) or request


def partial_request(attributes: Attributes) -> dict[str, JSON]:
    """Return the AdmissionRequest for the kind and resource of the request itself.

    Its objects and options may be partly or wholly unknown.
    """
    kind, resource = attributes.kind._asdict(), attributes.resource._asdict()
    request: dict[str, Any] = {
        "kind": kind,
        "resource": resource,
        "requestKind": kind,
        "requestResource": resource,
        "operation": str(attributes.operation),
        "userInfo": dict(attributes.user_info.value),
        "object": shown_to_webhook(attributes),
        "oldObject": attributes.old_object,
        "dryRun": attributes.dry_run,
        "options": attributes.options,
    }
    if attributes.subresource:
        request["subResource"] = request["requestSubResource"] = attributes.subresource
    if attributes.name:
        request["name"] = attributes.name
    if attributes.namespace:
        request["namespace"] = attributes.namespace
    return request


def refusals(invocation: WebhookInvocation, answer: WebhookAnswer) -> list[Denial]:
    """Return the denials of a webhook that refuses a request, one for each refusing engine policy.

    All of them have the one message that the client sees.
    """
    name, status = invocation.hook.webhook.name, answer.status
    message = webhook_denial(name, status.get("message") or status.get("reason"))
    code = status.get("code")
    # The server answers a refusal with 400 at least.
    code = code if isinstance(code, int) and code >= 400 else 400
    reason = str(status.get("reason") or "")
    policies = answer.policies or (invocation.hook.configuration,)
    return [
        Denial(policy, name, None, message, reason, code, of_webhook=True, places=answer.places.get(policy, ()))
        for policy in policies
    ]


PATCH_FAILURES_SINCE = 34
"""First minor for which an undecodable patch is a failed call. Before it, the request failed in spite of `Ignore`."""


def internal_failure(invocation: WebhookInvocation, reason: str) -> Denial:
    """Return the denial of an error that `failurePolicy` does not cover."""
    hook = invocation.hook
    message = f"Internal error occurred: {reason}"
    return Denial(hook.configuration, hook.webhook.name, None, message, "InternalError", 500, of_webhook=True)


def call_failure(invocation: WebhookInvocation, answer: WebhookAnswer) -> Denial:
    """Return the denial of a failed call, for the `failurePolicy` Fail."""
    name = invocation.hook.webhook.name
    message = f"Internal error occurred: failed calling webhook {quote(name)}: {answer.error}"
    return Denial(invocation.hook.configuration, name, None, message, "InternalError", 500, of_webhook=True)


# A webhook in an outage: every call fails after its time limit, and `failurePolicy` decides.


class DownBackend(Struct, frozen=True):
    """A backend that never answers (`webhook/{mutating,validating}/dispatcher.go`, `callHook`)."""

    def review(self, reviews: Sequence[WebhookReview]) -> Sequence[WebhookAnswer | Missing]:
        """Return one failed call for each review."""
        return [failed_call(review.invocation.hook.webhook) for review in reviews]

    def recall(
        self, invocation: WebhookInvocation, phase: Phase, attributes: Attributes
    ) -> WebhookAnswer | Missing | None:
        """Return a failed call even if the request is only partly known: it fails before anything reads the request."""
        del phase, attributes
        return failed_call(invocation.hook.webhook)


def failed_call(webhook: Webhook) -> WebhookAnswer:
    """Return the call that ends at the webhook's own time limit, with the text of the server's client."""
    limit = duration_text(webhook.timeout_seconds * 10**9)
    text = f"failed to call webhook: Post {quote(f'{called_url(webhook)}?timeout={limit}')}: context deadline exceeded"
    return WebhookAnswer(error=text, is_late=True)


def called_url(webhook: Webhook) -> str:
    """Return the URL at which the server calls a webhook.

    Source: `k8s.io/apiserver/pkg/util/webhook/client.go`, `HookClient`.
    """
    service = webhook.client_config.service
    if service is None:
        return webhook.client_config.url
    path = f"/{service.path.lstrip('/')}" if service.path else "/"
    return f"https://{service.name}.{service.namespace}.svc:{service.port}{path}"


DOWN = DownBackend()


_MOST = 64


class Refused(Protocol):
    """An object that an engine refuses, with the engine's text."""

    @property
    def kind(self) -> str: ...  # noqa: D102
    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def message(self) -> str: ...  # noqa: D102


class WebhookEngine(Protocol):
    """A policy engine with the objects of one set."""

    def answers_for(self, webhook: str) -> bool:
        """Return whether the engine answers for the webhook of this name."""
        ...

    def looked_up(self) -> Iterator[tuple[str, str]]:
        """Yield the kinds of other objects that the engine looks up, as group and kind."""
        ...

    @property
    def refused(self) -> Sequence[Refused]:
        """The objects that the engine refuses, so that they have no effect."""
        ...

    @property
    def refused_if_new(self) -> Sequence[Refused]:
        """The objects that the engine would refuse on a write.

        Those that a cluster already has were accepted, and have effect.
        """
        ...

    @property
    def later(self) -> Sequence[str]:
        """Sentences about policies that decide no request, but act after requests or at times."""
        ...

    def backend(self, lister: Lister, discovery: Discovery, patchers: ObjectPatchers) -> WebhookBackend:
        """Return a backend for requests in a cluster with these objects and kinds."""
        ...


_known: IdentityMap[object, tuple[WebhookEngine, ...]] = IdentityMap()


def check_engines(manifests: ManifestSet) -> tuple[str, ...]:
    """Return what a set's engines leave undecided: cluster objects that they refuse, and policies that act later.

    Raise ManifestError for a refused object in a file of the set.
    """
    engines = engines_of(manifests)
    refused = [each for engine in engines for each in engine.refused]
    for each in (*refused, *(each for engine in engines for each in engine.refused_if_new)):
        origin = manifests.origins.get((each.kind, each.name))
        if origin is not None:
            raise ManifestError(f"{each.kind}/{each.name}: {each.message}", path=origin.file, line=origin.line)
    undecided = [f"{each.kind}/{each.name} of the snapshot decides nothing: {each.message}" for each in refused]
    return (*undecided, *(text for engine in engines for text in engine.later))


def engines_of(manifests: ManifestSet) -> tuple[WebhookEngine, ...]:
    """Return the engines of a set, created once for its objects."""
    global _known  # noqa: PLW0603 - what was compiled is kept for the process
    if not manifests.engine_objects:
        return ()
    key = manifests.engine_objects
    if key not in _known:
        if len(_known) >= _MOST:
            _known = IdentityMap()
        made = (function_of(engine.backend)(manifests) for engine in ENGINES)
        _known[key] = tuple(engine for engine in made if engine is not None)
    return _known[key]
