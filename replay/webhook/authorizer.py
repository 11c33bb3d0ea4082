"""Asking a real authorization webhook, because the operator named it: a POST of a SubjectAccessReview.

Unlike admission, nothing that is asked changes anything. A call that fails counts as failed at once: the server would try again.
"""

from __future__ import annotations

import ssl
from http.client import HTTPException, HTTPSConnection
from urllib.parse import urlsplit

import orjson

from replay.authorization.trace import AuthorizerDecision
from replay.authorization.webhook import GROUP, WebhookAnswer, answer_from_response, spec_key
from replay.errors import ReplayError
from replay.json import JSON

MAX_RESPONSE_BYTES = 1024 * 1024
"""A longer answer is cut, and then is no answer."""
PATIENCE = 10
"""After how many failed calls in a row an endpoint is not asked again."""


class AuthorizerEndpoint:
    """Asks one URL, each question once."""

    def __init__(self, url: str, timeout: float) -> None:
        """`timeout` in seconds; nothing is sent yet. Raises `ReplayError` for a URL that is not called."""
        parts = urlsplit(url)
        if parts.scheme != "https" or not parts.hostname:
            raise ReplayError(f"a webhook is called over https only, not at `{url}`")
        self._host, self._port = parts.hostname, parts.port or 443
        self._path = parts.path or "/"
        self._timeout = timeout
        self._known: dict[bytes, WebhookAnswer] = {}
        self._failed = 0

    def is_known(self, webhook: str) -> bool:
        """Always: it is asked."""
        del webhook
        return True

    def answer(self, webhook: str, version: str, spec: JSON) -> WebhookAnswer | None:
        """The answer; None once too many calls in a row have failed."""
        key = spec_key([webhook, version, spec])
        known = self._known.get(key)
        if known is not None:
            return known
        if self._failed >= PATIENCE:
            return None
        answer = self._known[key] = self._ask(version, spec)
        self._failed = self._failed + 1 if answer.failed else 0
        return answer

    def _ask(self, version: str, spec: JSON) -> WebhookAnswer:
        body = orjson.dumps(_review(version, spec))
        connection = HTTPSConnection(
            self._host, self._port, timeout=self._timeout, context=ssl.create_default_context()
        )
        try:
            headers = {"Content-Type": "application/json", "Accept": "application/json"}
            connection.request("POST", self._path, body, headers)
            response = connection.getresponse()
            content, code = response.read(MAX_RESPONSE_BYTES), response.status
        except (OSError, HTTPException) as error:
            text = str(error) or type(error).__name__
            return WebhookAnswer(AuthorizerDecision.NO_OPINION, "", f"the call failed: {text}", failed=True)
        finally:
            connection.close()
        return answer_from_response(code, _decoded(content), version)


def _review(version: str, spec: JSON) -> JSON:
    """The review as it is sent; v1beta1 calls groups `group`."""
    if version == "v1beta1":
        spec = {("group" if name == "groups" else name): value for name, value in spec.items()}
    return {
        "kind": "SubjectAccessReview",
        "apiVersion": f"{GROUP}/{version}",
        "metadata": {},
        "spec": spec,
        "status": {"allowed": False},
    }


def _decoded(content: bytes) -> JSON:
    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError:
        return content.decode("utf-8", "replace")
