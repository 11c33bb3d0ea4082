"""`replay ingest --listen`: the audit webhook backend of API servers, as an ASGI application over a journal, and its server.

The API server repeats a batch without a success a few times (`k8s.io/apiserver/plugin/pkg/audit/webhook`,
`k8s.io/apiserver/pkg/util/webhook`). Its client respects Retry-After (`k8s.io/client-go/rest/with_retry.go`). So 200
means that the events are on disk. A lost answer causes a duplicate, which the store counts once.
"""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
import time
import zlib
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from threading import Thread
from typing import Any

import msgspec

from replay.audit.live.journal import Journal
from replay.audit.live.tls import ServerTls
from replay.audit.source import LogBatch
from replay.distribution import install_command
from replay.errors import ReplayError, reason_of

# The `audit.k8s.io/v1` EventList that an audit webhook backend sends, as lines of a log.
# `k8s.io/apiserver/plugin/pkg/audit/webhook` posts the list that `k8s.io/apiserver/plugin/pkg/audit/buffered` makes of a batch. Its
# items omit kind and apiVersion, which the list states.

API_VERSION = "audit.k8s.io/v1"
_EXPECTED = f"an {API_VERSION} EventList is expected"
_KIND = b'"kind":"Event"'
_VERSION = b'"apiVersion":"audit.k8s.io/v1"'
_LINE_ENDS = bytes.maketrans(b"\r\n", b"  ")


class _EventListError(ValueError):
    """A body that is not a list of events. `str()` is the reason."""


class _EventList(msgspec.Struct):
    kind: str = ""
    apiVersion: str = ""  # noqa: N815 - the API's name
    items: list[msgspec.Raw] | None = None


class _Event(msgspec.Struct):
    kind: str | None = None
    apiVersion: str | None = None  # noqa: N815 - the API's name


_LIST = msgspec.json.Decoder(_EventList)
_ITEM = msgspec.json.Decoder(_Event)


def _lines_of(body: bytes) -> bytes:
    """Return the events of a list, one per line with kind and apiVersion. Raises `_EventListError`.

    The ingest judges and counts unusable events. A list that nests deeper than this decoder also goes to the ingest, so
    that one such object cannot keep out the other events of a batch.
    """
    try:
        event_list = _LIST.decode(body)
        if (event_list.kind, event_list.apiVersion) != ("EventList", API_VERSION):
            raise _EventListError(f"{_EXPECTED}, this is `{event_list.apiVersion}` `{event_list.kind}`")
        if b"\n" in body or b"\r" in body:  # between tokens, as the body is JSON
            event_list = _LIST.decode(_on_one_line(body))
        return b"".join(_lines(event_list.items or ()))
    except RecursionError:
        return _on_one_line(body) + b"\n"
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise _EventListError(f"{_EXPECTED}: {error}") from error


def _on_one_line(body: bytes) -> bytes:
    return body.translate(_LINE_ENDS)


def _lines(items: Iterable[msgspec.Raw]) -> Iterator[bytes | memoryview]:
    """Yield the pieces of the lines: the fields that the list states for all, then the event without its first brace."""
    for item in items:
        said = _ITEM.decode(item)
        rest = memoryview(item)[1:]
        stated = [text for text, is_said in ((_KIND, said.kind), (_VERSION, said.apiVersion)) if not is_said]
        yield b"{" + b",".join(stated)
        yield b"," if stated and rest[0] != ord("}") else b""
        yield rest
        yield b"\n"


PATH = "/audit"
LARGEST_BODY = 64 << 20
"""Largest body in bytes. A batch has 400 events by default, and an event may have a list of all objects of a kind."""
LARGEST_HELD = 256 << 20
"""Maximum number of bytes in memory, of all requests together."""
RETRY_SECONDS = 5
_GZIP = zlib.MAX_WBITS | 16
_JSON = "application/json"

AsgiScope = Mapping[str, Any]
Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


class _Answer(Exception):  # noqa: N818 - a refusal is an answer like any other
    """End of a request: status, message and additional headers."""

    def __init__(self, status: HTTPStatus, message: str, **headers: str) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers


def _retry_later(status: HTTPStatus, message: str) -> _Answer:
    return _Answer(status, message, **{"retry-after": str(RETRY_SECONDS)})


class _Body:
    """Body of a request while it arrives. `held` is the number of bytes in memory."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._parts: list[bytes] = []
        self.held = 0
        self.is_whole = False

    async def more(self) -> int:
        """Receive some bytes, and return their number. Raises `_Answer` if the client has gone."""
        part = await self._next()
        self._parts.append(part)
        self.held += len(part)
        return len(part)

    def content(self) -> bytes:
        """Return the whole body."""
        return b"".join(self._parts)

    async def discard(self) -> None:
        """Read and discard the rest. A client that still sends does not read the answer."""
        self._parts.clear()
        discarded = 0
        with suppress(_Answer):
            while not self.is_whole and discarded <= LARGEST_BODY:
                discarded += len(await self._next())

    async def _next(self) -> bytes:
        message = await self._receive()
        self.is_whole = not message.get("more_body", False)
        if message["type"] == "http.disconnect":
            raise _Answer(HTTPStatus.BAD_REQUEST, "the body is cut off")
        return bytes(message.get("body", b""))


class Receiver:
    """The application. `held` is the number of bytes in memory."""

    def __init__(self, journal: Journal, backlog: int) -> None:
        """Receive into a journal. `backlog` is the number of bytes that may wait, in memory and in the journal together."""
        self._journal = journal
        self._backlog = backlog
        self.held = 0
        self.refused = 0
        """Number of requests with an answer other than 200."""

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        body = _Body(receive)
        answer = _Answer(HTTPStatus.OK, "")
        try:
            await self._accept(scope, body)
        except _Answer as refusal:
            answer = refusal
            self.refused += 1
        finally:
            self.held -= body.held
        await body.discard()
        await _send(send, answer)

    async def _accept(self, scope: AsgiScope, body: _Body) -> None:
        """Write a body to the disk. Raises `_Answer` if it is refused."""
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        _require_batch(scope, headers)
        self._require_room(int(headers.get("content-length", "0")))
        while not body.is_whole:
            size = await body.more()  # others change what is held meanwhile
            self.held += size
            self._require_room(0)
            _require_size(body.held)
        try:
            lines = _lines_of(_decoded(body.content(), headers.get("content-encoding", "")))
        except _EventListError as error:
            raise _Answer(HTTPStatus.BAD_REQUEST, str(error)) from error
        if lines:
            await self._write(lines)

    async def _write(self, lines: bytes) -> None:
        try:
            await asyncio.wrap_future(self._journal.append(lines))
        except OSError as error:
            message = f"cannot be written: {reason_of(error)}"
            raise _retry_later(HTTPStatus.SERVICE_UNAVAILABLE, message) from error

    def _require_room(self, size: int) -> None:
        _require_size(size)
        held = self.held + size
        if held > LARGEST_HELD or self._journal.waiting() + held > self._backlog:
            raise _retry_later(HTTPStatus.TOO_MANY_REQUESTS, "the store is behind: send it again")


def _require_size(size: int) -> None:
    if size > LARGEST_BODY:
        raise _Answer(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a batch has at most {LARGEST_BODY >> 20} MiB")


def _require_batch(scope: AsgiScope, headers: Mapping[str, str]) -> None:
    """Raise `_Answer` for a request that is not a batch of events, by path, method and type."""
    if scope["path"] != PATH:
        raise _Answer(HTTPStatus.NOT_FOUND, f"events are sent to {PATH}")
    if scope["method"] != "POST":
        raise _Answer(HTTPStatus.METHOD_NOT_ALLOWED, "events are sent by POST", allow="POST")
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != _JSON:  # without a type any web page could make a browser of this machine send it
        raise _Answer(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"events are sent as {_JSON}")
    if headers.get("content-encoding", "identity") not in ("identity", "gzip"):
        raise _Answer(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "a body is sent as it is, or in gzip")


def _decoded(body: bytes, encoding: str) -> bytes:
    """Return a body without its encoding. Raises `_Answer` for one that is damaged or too large."""
    if encoding != "gzip":
        return body
    stream = zlib.decompressobj(_GZIP)
    try:
        data = stream.decompress(body, LARGEST_BODY + 1)
    except zlib.error as error:
        raise _Answer(HTTPStatus.BAD_REQUEST, "the body is not gzip") from error
    _require_size(len(data))
    if not stream.eof:
        raise _Answer(HTTPStatus.BAD_REQUEST, "the body is cut off")
    return data


async def _send(send: Send, answer: _Answer) -> None:
    text = f"{answer}\n".encode() if str(answer) else b""
    headers = {"content-type": "text/plain; charset=utf-8", "content-length": str(len(text)), **answer.headers}
    encoded = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": int(answer.status), "headers": encoded})
    await send({"type": "http.response.body", "body": text})


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
