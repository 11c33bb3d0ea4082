"""Calling a real webhook, because the operator asked for it by name.

As the API server does: HTTPS with the configured `caBundle`, a POST of an AdmissionReview v1, the webhook's own timeout. What
is sent is always marked as a dry run, so webhooks with side effects are not called.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException, HTTPResponse, HTTPSConnection
from urllib.parse import urlsplit

from replay.admission.webhook.answer import WebhookAnswer, WebhookReview
from replay.errors import ReplayError
from replay.kube.admissionregistration import Webhook
from replay.kube.attributes import Missing
from replay.webhook.review import ResponseError, UndecodablePatchError, admission_review, answer_from

MAX_RESPONSE_BYTES = 16 * 1024 * 1024
"""A longer answer is taken for a failed call."""

_CHUNK = 64 * 1024


class EndpointBackend:
    """Asks one URL; at most `concurrency` calls are under way at a time."""

    def __init__(self, url: str, *, concurrency: int = 8) -> None:
        """Nothing is sent yet. Raises `ReplayError` for a URL that the API server would not call."""
        parts = urlsplit(url)
        if parts.scheme != "https" or not parts.hostname:
            raise ReplayError(f"a webhook is called over https only, not at `{url}`")
        if parts.username is not None or parts.query or parts.fragment:
            raise ReplayError(f"a webhook's URL has neither user, query nor fragment: `{url}`")
        self._url = url
        self._host = parts.hostname
        self._port = parts.port or 443
        self._path = parts.path or "/"
        self._concurrency = concurrency
        self._executor: ThreadPoolExecutor | None = None

    def __reduce__(self) -> tuple[type[EndpointBackend], tuple[str], dict[str, int]]:
        """Another process opens connections of its own."""
        return EndpointBackend, (self._url,), {"_concurrency": self._concurrency}

    def review(self, reviews: Sequence[WebhookReview]) -> Sequence[WebhookAnswer | Missing]:
        """Ask for all reviews at the same time, as far as the bound allows."""
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
            return WebhookAnswer(error=str(error))

    def _post(self, webhook: Webhook, body: bytes) -> bytes:
        """The body of the response. Raises `ResponseError`."""
        deadline = time.monotonic() + webhook.timeout_seconds
        shown = f'failed to call webhook: Post "{self._url}?timeout={webhook.timeout_seconds}s"'
        connection = _Connection(self._host, self._port, webhook)
        try:
            path = f"{self._path}?timeout={webhook.timeout_seconds}s"
            connection.request("POST", path, body, {"Content-Type": "application/json", "Accept": "application/json"})
            response = connection.getresponse()
            content = _read(connection, response, deadline)
        except TimeoutError:
            raise ResponseError(f"{shown}: context deadline exceeded") from None
        except ssl.SSLError as error:
            reason = error.verify_message if isinstance(error, ssl.SSLCertVerificationError) else error.reason
            raise ResponseError(f"{shown}: tls: failed to verify certificate: {reason}") from None
        except (OSError, HTTPException) as error:
            text = (
                error.strerror if isinstance(error, OSError) and error.strerror else str(error) or type(error).__name__
            )
            raise ResponseError(f"{shown}: {text.lower()}") from None
        finally:
            connection.close()
        if not 200 <= response.status < 300:
            raise ResponseError(f"failed to call webhook: {_status_text(response.status, content)}")
        return content


class _Connection(HTTPSConnection):
    """A connection that trusts the webhook's `caBundle` alone, if it has one, and checks the name that the server would."""

    def __init__(self, host: str, port: int, webhook: Webhook) -> None:
        config = webhook.client_config
        bundle = config.ca_bundle.decode("ascii", "replace") if config.ca_bundle else None
        try:
            self._tls = ssl.create_default_context(cadata=bundle)
        except ssl.SSLError:
            raise ResponseError("could not get REST client: unable to load root certificates") from None
        service = config.service
        self._server_name = f"{service.name}.{service.namespace}.svc" if service is not None else host
        super().__init__(host, port, timeout=webhook.timeout_seconds, context=self._tls)

    def connect(self) -> None:
        """Connect and verify."""
        plain = socket.create_connection((self.host, self.port), self.timeout)
        try:
            self.sock = self._tls.wrap_socket(plain, server_hostname=self._server_name)
        except BaseException:
            plain.close()
            raise


def _read(connection: _Connection, response: HTTPResponse, deadline: float) -> bytes:
    """The body, within the deadline and the size limit."""
    parts: list[bytes] = []
    size = 0
    while True:
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            raise TimeoutError
        if connection.sock is not None:
            connection.sock.settimeout(remaining)
        part = response.read1(_CHUNK)
        if not part:
            return b"".join(parts)
        size += len(part)
        if size > MAX_RESPONSE_BYTES:
            raise ResponseError(f"failed to call webhook: the answer is longer than {MAX_RESPONSE_BYTES} bytes")
        parts.append(part)


def _status_text(code: int, content: bytes) -> str:
    """What the server's client says about a response that is no success (`apierrors.NewGenericServerResponse`)."""
    known = {
        401: "the server has asked for the client to provide credentials",
        403: "the server does not allow access to the requested resource",
        404: "the server could not find the requested resource",
        405: "the server does not allow this method on the requested resource",
        429: "the server has received too many requests and has asked us to try again later",
        503: "the server is currently unable to handle the request",
        504: "the server was unable to return a response in the time allotted, but may still be processing the request",
    }
    if code in known:
        return known[code]
    if code >= 500:
        text = content.decode("utf-8", "replace").strip() or "unknown"
        return f'an error on the server ("{text[:2048]}") has prevented the request from succeeding'
    return f"the server responded with the status code {code} but did not return more information"
