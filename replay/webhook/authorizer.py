"""Client of a named authorization webhook: POST of a SubjectAccessReview.

Such a call changes nothing, unlike admission. A failed call is not repeated, although the server would. Too many
timeouts in a row end the calls.
"""

from __future__ import annotations

from functools import cached_property

import orjson

from replay.authorization.trace import AuthorizerDecision
from replay.authorization.webhook import GROUP, AuthorizerAnswer, answer_from_response, spec_key
from replay.json import JSON
from replay.webhook.client import CallError, Client, ClientTls, TimeoutCounter


class AuthorizerEndpoint:
    """A client of one URL. Each question is sent once."""

    def __init__(self, url: str, timeout: float) -> None:
        """Prepare a client. `timeout` is in seconds. Nothing is sent yet.

        Raise `ReplayError` for a URL that the API server would not call.
        """
        self._client = Client.from_url(url, "https")
        self._timeout = timeout
        self._answers: dict[bytes, AuthorizerAnswer] = {}
        self._patience = TimeoutCounter()

    def is_known(self, webhook: str) -> bool:
        """Return True: the endpoint always answers."""
        del webhook
        return True

    def answer(self, webhook: str, version: str, spec: JSON) -> AuthorizerAnswer | None:
        """Return the answer, or None after too many calls in a row have failed."""
        key = spec_key([webhook, version, spec])
        earlier = self._answers.get(key)
        if earlier is not None:
            return earlier
        if self._patience.is_over:
            return None
        answer = self._answers[key] = self._ask(version, spec)
        self._patience.note(is_late=answer.failed)
        return answer

    def _ask(self, version: str, spec: JSON) -> AuthorizerAnswer:
        body = orjson.dumps(_review(version, spec))
        try:
            response = self._client.send(body, self._timeout, self._tls)
        except CallError as error:
            return AuthorizerAnswer(AuthorizerDecision.NO_OPINION, "", str(error), failed=True)
        return answer_from_response(response.code, _decoded(response.content), version)

    @cached_property
    def _tls(self) -> ClientTls | None:
        """Return the trusted authorities of this machine."""
        return self._client.tls


def _review(version: str, spec: JSON) -> JSON:
    """Return the review to send. v1beta1 names groups `group`."""
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
