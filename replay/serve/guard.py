"""Checks before a reader's request is answered: the reader, the host name, and the size.

Pages can be read by anyone on this machine, by holders of a token, with a client certificate, or through a named proxy.
No GET request changes anything. A form carries a token that only our own pages hold.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from replay.audit.live.patience import HAS_CERTIFICATE
from replay.audit.live.tls import is_loopback
from replay.serve.settings import Readers

COOKIE = "replay_session"
LOGIN, ACCEPT = "login", "accept"
"""Purposes of forms."""
LARGEST_FORM = 16 << 10
LONGEST_TARGET = 4096
HEADERS = {
    "content-security-policy": "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
"""Headers of every answer."""
PROBES = frozenset({"/healthz", "/readyz"})
"""Paths that answer everyone under any host name, because a kubelet asks so."""
OPEN = frozenset({"/login", "/static/serve.css", "/static/document.css"})
"""Paths that need no authentication. They reveal nothing about the log."""


class Guard:
    """Checks of one process. Its key signs sessions and forms, and is new at each start."""

    def __init__(self, readers: Readers) -> None:
        """Create a key."""
        self._readers = readers
        self._key = secrets.token_bytes(32)

    def refusal(self, request: Request) -> Response | None:
        """Return the answer to a refused request, or None if the request may be answered."""
        if len(request.url.path) + len(request.url.query) > LONGEST_TARGET:
            return PlainTextResponse("the address is too long\n", 414)
        path = request.url.path
        if path in PROBES or self._has_bearer(request):
            return None  # no other site's page can make a browser send the token
        if not self._is_known_host(request.headers.get("host", "")):
            return PlainTextResponse("this name of the server is not known: start it with --host NAME\n", 421)
        if path in OPEN or self.is_reader(request):
            return None
        if "text/html" in request.headers.get("accept", "") and self._readers.token and request.method == "GET":
            return Response(status_code=303, headers={"location": "/login"})
        return PlainTextResponse("log in, or send a token\n", 401, {"www-authenticate": "Bearer"})

    def is_reader(self, request: Request) -> bool:
        """Return whether a request comes from a reader.

        Any configured way of authentication suffices. Without any, everyone is a reader.
        """
        readers = self._readers
        if not (readers.token or readers.proxy or readers.tls.client_ca):
            return True
        if readers.tls.client_ca and request.scope.get("state", {}).get(HAS_CERTIFICATE):
            return True
        if readers.proxy is not None:
            address, header = readers.proxy
            client = request.client.host if request.client else ""
            if client == address and request.headers.get(header):
                return True
        session = request.cookies.get(COOKIE, "").encode()
        return bool(readers.token) and (
            self._has_bearer(request) or hmac.compare_digest(session, self.session().encode())
        )

    def _has_bearer(self, request: Request) -> bool:
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        return kind.lower() == "bearer" and self.is_token(token.strip())

    def is_token(self, text: str) -> bool:
        """Return whether a text is the readers' token. The comparison takes constant time."""
        return bool(self._readers.token) and hmac.compare_digest(text.encode(), self._readers.token.encode())

    def session(self) -> str:
        """Return the value of the cookie of a reader who has logged in."""
        return self._signed("session")

    def form_token(self, purpose: str) -> str:
        """Return the token of the forms for a purpose.

        Everyone can get the token of the login, so it must not be valid for another form.
        """
        return self._signed(f"form {purpose}")

    def is_own_form(self, request: Request, purpose: str, token: str) -> bool:
        """Return whether one of our own pages sent a form for a purpose."""
        site = request.headers.get("sec-fetch-site", "same-origin")
        own = self.form_token(purpose)
        return site in ("same-origin", "none") and hmac.compare_digest(token.encode(), own.encode())

    def _signed(self, purpose: str) -> str:
        return hmac.new(self._key, purpose.encode(), hashlib.sha256).hexdigest()

    def _is_known_host(self, header: str) -> bool:
        """Return whether a host name is one of ours.

        Otherwise any web page could point its own name to this address and read the answers (DNS rebinding).
        """
        name = (
            header.rpartition(":")[0]
            if header.count(":") == 1 or (header.endswith("]") is False and "]:" in header)
            else header
        )
        name = name.strip("[]").lower()
        bound, _ = self._readers.host_and_port
        return name == bound.lower() or name in self._readers.hosts or (is_loopback(bound) and is_loopback(name))
