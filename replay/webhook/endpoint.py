"""Client of a named admission webhook.

As the API server does: HTTPS with the configured `caBundle`, POST of an AdmissionReview v1, the webhook's own timeout.
Reviews are always dry runs, so webhooks with side effects are not called.
"""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from replay.admission.webhook.answer import WebhookAnswer, WebhookReview
from replay.kube.admissionregistration import Webhook
from replay.kube.attributes import Missing
from replay.webhook.client import CallError, Client, ClientTls
from replay.webhook.review import ResponseError, UndecodablePatchError, admission_review, answer_from


class EndpointBackend:
    """Asks one URL; at most `concurrency` calls are under way at a time."""

    def __init__(self, url: str, *, concurrency: int = 8) -> None:
        """Nothing is sent yet. Raises `ReplayError` for a URL that the API server would not call."""
        self._client = Client.of(url, "https")
        self._concurrency = concurrency
        self._executor: ThreadPoolExecutor | None = None

    def __reduce__(self) -> tuple[type[EndpointBackend], tuple[str], dict[str, int]]:
        """Another process opens its own connections."""
        return EndpointBackend, (self._client.url,), {"_concurrency": self._concurrency}

    def review(self, reviews: Sequence[WebhookReview]) -> Sequence[WebhookAnswer | Missing]:
        """Send all reviews concurrently, within a limit."""
        if len(reviews) == 1:
            return [self._ask(reviews[0])]
        if self._executor is None:
            self._executor = ThreadPoolExecutor(self._concurrency, thread_name_prefix="webhook")
        return list(self._executor.map(self._ask, reviews))

    def close(self) -> None:
        """Let the threads end."""
        if self._executor is not None:
            self._executor.shutdown()
            self._executor = None

    def _ask(self, review: WebhookReview) -> WebhookAnswer | Missing:
        webhook = review.invocation.hook.webhook
        if webhook.side_effects not in {"None", "NoneOnDryRun"}:
            return Missing("webhook", f"`{webhook.name}` has side effects, and only dry runs are sent")
        if "v1" not in webhook.admission_review_versions:
            return Missing("webhook", f"`{webhook.name}` does not take AdmissionReview v1")
        uid, body = admission_review(review)
        try:
            answer = self._post(webhook, body)
            return answer_from(answer, uid, mutating=review.phase == "mutating")
        except UndecodablePatchError as error:
            return WebhookAnswer(error=str(error), undecodable_patch=error.reason)
        except ResponseError as error:
            return WebhookAnswer(error=str(error), is_late=error.is_late)

    def _post(self, webhook: Webhook, body: bytes) -> bytes:
        """The body of the response. Raises `ResponseError`."""
        tls = _tls(webhook, self._client.host)
        try:
            return self._client.post(body, webhook.timeout_seconds, tls).content
        except CallError as error:
            raise ResponseError(f"failed to call webhook: {error}", is_late=error.is_late) from None


def _tls(webhook: Webhook, host: str) -> ClientTls:
    """The webhook's `caBundle` alone is trusted, if it has one, and the name is the one that the server would check."""
    config = webhook.client_config
    bundle = config.ca_bundle.decode("ascii", "replace") if config.ca_bundle else None
    try:
        context = ssl.create_default_context(cadata=bundle)
    except ssl.SSLError:
        raise ResponseError("could not get REST client: unable to load root certificates") from None
    service = config.service
    return ClientTls(context, f"{service.name}.{service.namespace}.svc" if service is not None else host)
