"""The server around a receiver: an address, TLS with client certificates, and a thread that answers during ingests."""

from __future__ import annotations

import re
import socket
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from threading import Thread

from replay.audit.live.journal import Journal
from replay.audit.live.receiver import PATH, Receiver
from replay.audit.live.source import LogBatch
from replay.audit.live.tls import ServerTls
from replay.distribution import install_command
from replay.errors import ReplayError, reason_of

try:
    import uvicorn

    from replay.audit.live.patience import patient_config
except ImportError as error:  # pragma: no cover - where the extra is not installed
    raise ReplayError(f"--listen needs an extra: {install_command('listen')}") from error

BACKLOG_BYTES = 1 << 30
"""Number of bytes that may wait for the ingest before the answer is 429. They are on disk, and briefly in memory."""
_ADDRESS = re.compile(r"(?:\[(?P<v6>[^\]]+)\]|(?P<host>[^:]+)):(?P<port>\d{1,5})")
_IDLE_SECONDS = 120
"""Longer than the client of an API server keeps an idle connection (90 s).

Otherwise the client could send a batch into a connection that is being closed.
"""
_CONNECTIONS = 256
_LAST_SECONDS = 10
_REPORT_SECONDS = 10.0
"""Minimum interval between reports of refusals, in seconds. Anyone who reaches the address can cause refusals."""


class Listener:
    """See `LiveLog`. The lines are those that API servers send, from a journal."""

    def __init__(
        self,
        address: str,
        tls: ServerTls,
        journal: Path,
        report: Callable[[str], None] = lambda _line: None,
        backlog: int = BACKLOG_BYTES,
    ) -> None:
        """Listen at `HOST:PORT`, with port 0 for a free one. `report` receives messages for the operator.

        Raises ReplayError if that is not possible, and `OSError` for the journal.
        """
        match = _ADDRESS.fullmatch(address)
        if match is None or int(match["port"]) > 0xFFFF:
            raise ReplayError(f"no address `{address}`: write HOST:PORT, such as 127.0.0.1:8443")
        host = match["v6"] or match["host"]
        tls.require(host)
        self._socket = _bound(host, int(match["port"]))
        self._journal = Journal(journal)
        self._receiver = Receiver(self._journal, backlog)
        self._report = report
        self._reported, self._reported_at = 0, 0.0
        self._server = uvicorn.Server(_config(self._receiver, tls))
        self._thread = Thread(target=self._server.run, args=([self._socket],), name="listener", daemon=True)
        scheme = "http" if tls.certificate is None else "https"
        name = f"[{host}]" if match["v6"] else host
        self.url = f"{scheme}://{name}:{self._socket.getsockname()[1]}{PATH}"
        self._thread.start()

    def close(self) -> None:
        """Answer the requests in progress and accept no more."""
        self._server.should_exit = True
        self._thread.join()
        self._socket.close()
        self._journal.close()

    def waiting(self) -> int:
        """See `LiveLog.waiting`."""
        if not self._thread.is_alive() and not self._server.should_exit:
            raise ReplayError(f"{self.url}: the server has ended; start it again")
        self._report_refusals()
        return self._journal.waiting()

    def take(self, spool: Path, limit: int) -> LogBatch:
        """See `LiveLog.take`."""
        return self._journal.take(spool, limit)

    def _report_refusals(self) -> None:
        count, now = self._receiver.refused - self._reported, time.monotonic()
        if count and now - self._reported_at >= _REPORT_SECONDS:
            self._reported, self._reported_at = self._receiver.refused, now
            self._report(f"{count:,} {'request' if count == 1 else 'requests'} refused")


def _bound(host: str, port: int) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=_CONNECTIONS)
    except OSError as error:
        raise ReplayError(f"cannot listen at {host}:{port}: {reason_of(error)}") from error


def _config(receiver: Receiver, tls: ServerTls) -> uvicorn.Config:
    return patient_config(
        receiver,
        tls,
        ssl.CERT_REQUIRED,
        interface="asgi3",
        timeout_keep_alive=_IDLE_SECONDS,
        timeout_graceful_shutdown=_LAST_SECONDS,
        limit_concurrency=_CONNECTIONS,
    )
