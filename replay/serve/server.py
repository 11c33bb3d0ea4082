"""`replay serve` as a function: starts and ends the processes, the threads and the page."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Thread

from replay.distribution import install_command
from replay.errors import ReplayError
from replay.serve.settings import ServeSettings

try:
    import uvicorn

    from replay.audit.live.patience import patient_config
    from replay.serve.app import Page
except ImportError as error:  # pragma: no cover - where the extra is not installed
    raise ReplayError(f"`replay serve` needs an extra: {install_command('serve')}") from error

from replay.serve.notices import Notices
from replay.serve.processes import Ingest, Weekly
from replay.serve.questions import Questions
from replay.serve.runner import ArrivalLane, WholeStoreLane
from replay.serve.stores import Stores
from replay.serve.trials import TrialBoard

_CONNECTIONS = 64
_IDLE_SECONDS = 15
_LAST_SECONDS = 10


def serve(settings: ServeSettings, tell: Callable[[str], None], is_ended: Callable[[], bool]) -> None:
    """Serve until `is_ended` returns true. `tell` receives lines for the operator. Raises ReplayError."""
    settings.require()
    host, port = settings.readers.host_and_port
    settings.data.mkdir(mode=0o700, parents=True, exist_ok=True)
    notices = Notices(settings, tell)
    board, stores = TrialBoard(settings, notices.add), Stores(settings.stores)
    ingest, weekly = Ingest(settings, tell), Weekly(settings, stores, tell)
    lanes = (WholeStoreLane(settings, board, stores), ArrivalLane(settings, board, stores))
    questions = Questions(settings)
    page = Page(settings, board, questions, stores, ingest)
    server = uvicorn.Server(page_config(page, settings, host, port))
    web = Thread(target=server.run, name="page", daemon=True)
    web.start()
    while not server.started:
        if not web.is_alive():
            raise ReplayError(f"cannot listen at {host}:{port}", path="--address")
        time.sleep(0.05)
    bound = server.servers[0].sockets[0].getsockname()[1]
    scheme = "http" if settings.readers.tls.certificate is None else "https"
    tell(f"page at {scheme}://{f'[{host}]' if ':' in host else host}:{bound}/")
    for thread in (notices, ingest, *lanes, weekly):
        thread.start()
    try:
        while not is_ended():
            if not web.is_alive():
                raise ReplayError("the page has ended; start it again")
            time.sleep(0.2)
    finally:
        server.should_exit = True
        for lane in lanes:
            lane.end()
        weekly.end()
        ingest.end()
        notices.end()
        questions.close()
        web.join(timeout=_LAST_SECONDS)


def page_config(page: Page, settings: ServeSettings, host: str, port: int) -> uvicorn.Config:
    """Return the web server's configuration for a page."""
    import ssl  # noqa: PLC0415 - only the server needs it

    return patient_config(
        page.asgi,
        settings.readers.tls,
        ssl.CERT_OPTIONAL,  # a token will do as well
        host=host,
        port=port,
        timeout_keep_alive=_IDLE_SECONDS,
        timeout_graceful_shutdown=_LAST_SECONDS,
        limit_concurrency=_CONNECTIONS,
    )
