"""`replay serve` as a function: the processes, the threads and the page, from the start to the end."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from threading import Lock, Thread

from replay.audit.catalog import CATALOG, JOURNAL
from replay.audit.info import store_info
from replay.distribution import install_command
from replay.errors import ReplayError
from replay.serve.settings import ServeSettings
from replay.serve.views import LogState

try:
    import uvicorn

    from replay.serve.app import Page
except ImportError as error:  # pragma: no cover - where the extra is not installed
    raise ReplayError(f"`replay serve` needs an extra: {install_command('serve')}") from error

from replay.serve.notices import Notices
from replay.serve.processes import Ingest, Weekly
from replay.serve.questions import Questions
from replay.serve.trials import TrialBoard, TrialRunner

_CONNECTIONS = 64
_IDLE_SECONDS = 15
_LAST_SECONDS = 10


class StoreWatch:
    """The state of the store, read again when the store has changed."""

    def __init__(self, store: str) -> None:
        """Read nothing yet."""
        self._store = Path(store)
        self._lock = Lock()
        self._seen: tuple[int, int] | None = None
        self._state = LogState()

    def now(self) -> LogState:
        """Return the state of the store."""
        with self._lock:
            stamp = _stamp(self._store / CATALOG)
            if stamp is not None and stamp != self._seen:
                try:
                    self._state = _read(self._store)
                    self._seen = stamp
                except ReplayError:  # a store that is put in order now is read the next time
                    pass
            waiting = sum(path.stat().st_size for path in _journals(self._store))
        return LogState(
            self._state.requests,
            self._state.events,
            self._state.octets,
            self._state.first,
            self._state.last,
            waiting,
            self._state.rejects,
        )


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


def _journals(store: Path) -> list[Path]:
    try:
        return [path for path in (store / JOURNAL).iterdir() if path.is_file()]
    except OSError:
        return []


def _read(store: Path) -> LogState:
    info = store_info(store)
    events = sum(segment.events for segment in info.segments)
    return LogState(info.requests, events, info.octets, info.first, info.last, 0, dict(info.rejects))


def serve(settings: ServeSettings, tell: Callable[[str], None], is_ended: Callable[[], bool]) -> None:
    """Serve until `is_ended`; `tell` is called with lines for the operator. Raises ReplayError."""
    settings.readers.require()
    host, port = settings.readers.host_and_port
    settings.data.mkdir(mode=0o700, parents=True, exist_ok=True)
    notices = Notices(settings, tell)
    board = TrialBoard(settings, notices.add)
    ingest, weekly, runner = Ingest(settings, tell), Weekly(settings, tell), TrialRunner(settings, board)
    questions = Questions(settings)
    page = Page(settings, board, questions, StoreWatch(settings.store).now, lambda: ingest.is_running)
    server = uvicorn.Server(_config(page, settings, host, port))
    web = Thread(target=server.run, name="page", daemon=True)
    web.start()
    while not server.started:
        if not web.is_alive():
            raise ReplayError(f"cannot listen at {host}:{port}", path="--address")
        time.sleep(0.05)
    bound = server.servers[0].sockets[0].getsockname()[1]
    scheme = "http" if settings.readers.tls.certificate is None else "https"
    tell(f"page at {scheme}://{f'[{host}]' if ':' in host else host}:{bound}/")
    for thread in (notices, ingest, runner, weekly):
        thread.start()
    try:
        while not is_ended():
            if not web.is_alive():
                raise ReplayError("the page has ended; start it again")
            time.sleep(0.2)
    finally:
        server.should_exit = True
        runner.end()
        weekly.end()
        ingest.end()
        notices.end()
        questions.close()
        web.join(timeout=_LAST_SECONDS)


def _config(page: Page, settings: ServeSettings, host: str, port: int) -> uvicorn.Config:
    import ssl  # noqa: PLC0415 - only the server needs it

    tls = settings.readers.tls
    return uvicorn.Config(
        page.asgi,
        host=host,
        port=port,
        http="h11",
        ws="none",
        lifespan="off",
        loop="asyncio",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=_IDLE_SECONDS,
        timeout_graceful_shutdown=_LAST_SECONDS,
        limit_concurrency=_CONNECTIONS,
        ssl_certfile=tls.certificate,
        ssl_keyfile=tls.key,
        ssl_ca_certs=str(tls.client_ca) if tls.client_ca else None,
        ssl_cert_reqs=ssl.CERT_REQUIRED if tls.client_ca else ssl.CERT_NONE,
    )
