"""A POST of JSON to a webhook, as the API server's REST client makes it (`client-go/rest/request.go`).

An endpoint that does not answer is no longer called. A log of a thousand requests must not wait for a thousand
timeouts. A named authorization webhook gets a SubjectAccessReview. Such a call changes nothing, unlike admission. A
failed call is not repeated, although the server would.
"""

from __future__ import annotations

import socket
import ssl
import time
from functools import cached_property
from http.client import HTTPConnection, HTTPException, HTTPResponse
from typing import NamedTuple
from urllib.parse import urlsplit

import orjson
from msgspec import Struct

from replay.authorization.trace import AuthorizerDecision
from replay.authorization.webhook import GROUP, AuthorizerAnswer, answer_from_response, spec_key
from replay.errors import ReplayError, reason_of
from replay.go.format import quote
from replay.go.time import duration_text
from replay.json import JSON
from replay.kube.attributes import Missing

PATIENCE = 10
"""Number of timeouts in a row after which an endpoint is not called again."""


class TimeoutCounter:
    """A counter of consecutive calls without an answer in time."""

    def __init__(self) -> None:
        """Start at zero."""
        self._late = 0

    @property
    def is_over(self) -> bool:
        """Return whether the endpoint is not called again."""
        return self._late >= PATIENCE

    def note(self, *, is_late: bool) -> None:
        """Count a call."""
        self._late = self._late + 1 if is_late else 0

    def missing(self, path: str) -> Missing:
        """Return `path` as missing, because the endpoint is no longer called."""
        return Missing(
            path, f"the endpoint did not answer {PATIENCE} calls in a row in time, so replay stopped calling it"
        )


MAX_RESPONSE_BYTES = 16 * 1024 * 1024
"""The size of a response above which the call counts as failed."""

_CHUNK = 64 * 1024
_MAX_TEXT = 2048
_PORTS = {"https": 443, "http": 80}


class CallError(Exception):
    """No usable answer came. `str()` is the text of the server's client.

    `is_late` says that none came in time. `is_forbidden` says that the endpoint answered with 403, which the server
    passes on.
    """

    def __init__(self, text: str, *, is_late: bool = False, is_forbidden: bool = False) -> None:
        """Keep the error."""
        super().__init__(text)
        self.is_late = is_late
        self.is_forbidden = is_forbidden


class Response(NamedTuple):
    """Answer of an endpoint. `content_type` is empty if it names none."""

    code: int
    content_type: str
    content: bytes


class ClientTls(Struct, frozen=True):
    """TLS settings of a connection: trusted authorities, and the server name."""

    context: ssl.SSLContext
    server_name: str


class Client(Struct, frozen=True):
    """A client of one URL, with a new connection for each call."""

    url: str
    scheme: str
    host: str
    port: int
    path: str

    @classmethod
    def from_url(cls, url: str, *schemes: str) -> Client:
        """Return the client of a URL with one of some schemes, `https` or `http`.

        Raise `ReplayError` for a URL that the API server would not call.
        """
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError as error:
            raise ReplayError(f"`{url}` is no URL: {error}") from None
        if parts.scheme not in schemes or not parts.hostname:
            raise ReplayError(f"a webhook is called over {' or '.join(schemes)} only, not at `{url}`")
        if parts.username is not None or parts.query or parts.fragment:
            raise ReplayError(f"a webhook's URL has neither user, query nor fragment: `{url}`")
        return cls(url, parts.scheme, parts.hostname, port or _PORTS[parts.scheme], parts.path or "/")

    @property
    def tls(self) -> ClientTls | None:
        """Return the trusted authorities of this machine, or None for http."""
        return ClientTls(ssl.create_default_context(), self.host) if self.scheme == "https" else None

    def post(self, body: bytes, timeout: float, tls: ClientTls | None) -> Response:
        """Return a successful response. Arguments are those of `send`. Raise `CallError`."""
        response = self.send(body, timeout, tls)
        if not 200 <= response.code <= 206:
            raise _refused(response)
        return response

    def send(self, body: bytes, timeout: float, tls: ClientTls | None) -> Response:
        """Return the response to a JSON body within `timeout` seconds. `tls` is for https.

        Raise `CallError` if none comes.
        """
        deadline = time.monotonic() + timeout
        # The server sends its own timeout to the webhook.
        query = f"timeout={duration_text(round(timeout * 1e9))}"
        shown = f'Post "{self.url}?{query}"'
        connection = _Connection(self.host, self.port, timeout, tls)
        try:
            headers = {"Content-Type": "application/json", "Accept": "application/json"}
            connection.request("POST", f"{self.path}?{query}", body, headers)
            response = connection.getresponse()
            content = _read(connection, response, deadline)
        except TimeoutError:
            raise CallError(f"{shown}: context deadline exceeded", is_late=True) from None
        except ssl.SSLError as error:
            reason = error.verify_message if isinstance(error, ssl.SSLCertVerificationError) else error.reason
            raise CallError(f"{shown}: tls: failed to verify certificate: {reason}") from None
        except (OSError, HTTPException) as error:
            raise CallError(f"{shown}: {reason_of(error)}") from None
        finally:
            connection.close()
        return Response(response.status, response.getheader("Content-Type") or "", content)


class _Connection(HTTPConnection):
    """Connection, with TLS if requested."""

    def __init__(self, host: str, port: int, timeout: float, tls: ClientTls | None) -> None:
        super().__init__(host, port, timeout=timeout)
        self._tls = tls

    def connect(self) -> None:
        """Connect and verify."""
        plain = socket.create_connection((self.host, self.port), self.timeout)
        if self._tls is None:
            self.sock = plain
            return
        try:
            self.sock = self._tls.context.wrap_socket(plain, server_hostname=self._tls.server_name)
        except BaseException:
            plain.close()
            raise


def _read(connection: _Connection, response: HTTPResponse, deadline: float) -> bytes:
    """Return the body. Raise TimeoutError after the deadline, and CallError above the size limit."""
    parts: list[bytes] = []
    size = 0
    while True:
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            raise TimeoutError
        # `http.client` drops the socket after the headers of a response that ends the connection.
        if connection.sock is not None:
            connection.sock.settimeout(remaining)
        part = response.read1(_CHUNK)
        if not part:
            return b"".join(parts)
        size += len(part)
        if size > MAX_RESPONSE_BYTES:
            raise CallError(f"the answer is longer than {MAX_RESPONSE_BYTES} bytes")
        parts.append(part)


def _refused(response: Response) -> CallError:
    """Return client-go's error for an unsuccessful response: the Status in it, otherwise by code (`Result.Error`)."""
    try:
        status = orjson.loads(response.content)
    except orjson.JSONDecodeError:
        status = None
    if isinstance(status, dict) and status.get("kind") == "Status" and status.get("status") == "Failure":
        text = str(status.get("message") or "")
        return CallError(text, is_forbidden=status.get("reason") == "Forbidden")
    return CallError(_code_text(response), is_forbidden=response.code == 403)


def _code_text(response: Response) -> str:
    """Return the message for a code (`apierrors.NewGenericServerResponse`). Only a text body is quoted."""
    code = response.code
    is_text = not response.content_type or response.content_type.strip().lower().startswith("text/")
    said = response.content[:_MAX_TEXT].decode("utf-8", "replace").strip() if is_text else "unknown"
    texts = {
        400: "the server rejected our request for an unknown reason",
        401: "the server has asked for the client to provide credentials",
        403: said,
        404: "the server could not find the requested resource",
        405: "the server does not allow this method on the requested resource",
        406: said
        if said not in {"", "unknown"}
        else "the server was unable to respond with a content type that the client supports",
        409: "the server reported a conflict",
        415: said,
        422: "the server rejected our request due to an error in our request",
        429: "the server has received too many requests and has asked us to try again later",
        503: "the server is currently unable to handle the request",
        504: "the server was unable to return a response in the time allotted, but may still be processing the request",
    }
    if code in texts:
        return texts[code]
    if code >= 500:
        return f"an error on the server ({quote(said)}) has prevented the request from succeeding"
    return f"the server responded with the status code {code} but did not return more information"


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
