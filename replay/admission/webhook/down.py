"""A webhook in an outage: every call fails after its time limit, and `failurePolicy` decides."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from replay.admission.webhook.answer import WebhookAnswer, WebhookReview
from replay.admission.webhook.webhooks import Phase, WebhookInvocation
from replay.go.format import quote
from replay.go.time import duration_text
from replay.kube.admissionregistration import Webhook
from replay.kube.attributes import Attributes, Missing


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
