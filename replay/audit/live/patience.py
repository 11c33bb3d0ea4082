"""HTTP with a time limit: a client that stops in the middle of its request, or does not read the answer, is cut off."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from replay.audit.live.tls import ServerTls

OWED_SECONDS = 120.0
"""Seconds that a client may take for one request, or leave an answer unread."""
HAS_CERTIFICATE = "has_certificate"
_LOOK_SECONDS = 5.0


class PatientProtocol(H11Protocol):
    """One connection. uvicorn limits only the pause between two requests. This also limits the one before the first.

    The state of a request says whether the client has shown a certificate of the server's client CA.
    """

    _owes_since: float | None = None
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start to watch the client."""
        super().connection_made(transport)
        self.app_state = {**self.app_state, HAS_CERTIFICATE: bool(transport.get_extra_info("peercert"))}
        self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)
        self._timer = self.loop.call_later(_LOOK_SECONDS, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop to watch the client."""
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """Start the time limit again. A client that sends several requests in a row is not late with an answered one."""
        self._owes_since = None
        super().on_response_complete()

    def _look(self) -> None:
        now = self.loop.time()
        self._owes_since = (now if self._owes_since is None else self._owes_since) if self._owes() else None
        if self._owes_since is not None and now - self._owes_since >= OWED_SECONDS:
            self.transport.abort()
            return
        self._timer = self.loop.call_later(_LOOK_SECONDS, self._look)

    def _owes(self) -> bool:
        """Return whether the client is in the middle of a request, or has not read all of an answer."""
        is_sending = self.conn.their_state is h11.SEND_BODY or bool(self.conn.trailing_data[0])
        return is_sending or self.transport.get_write_buffer_size() > 0


def patient_config(app: Any, tls: ServerTls, client: ssl.VerifyMode, **limits: Any) -> uvicorn.Config:
    """Return the configuration of a server. `client` says whether a client of `client_ca` shows a certificate."""
    return uvicorn.Config(
        app,
        http=PatientProtocol,
        ws="none",
        lifespan="off",
        loop="asyncio",
        log_config=None,
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ssl_certfile=tls.certificate,
        ssl_keyfile=tls.key,
        ssl_ca_certs=str(tls.client_ca) if tls.client_ca else None,
        ssl_cert_reqs=client if tls.client_ca else ssl.CERT_NONE,
        **limits,
    )
