"""Notices reach each URL once, after outages and restarts."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import orjson
import pytest
from msgspec.structs import replace

from replay.serve.notices import TRIES, Notices
from replay.serve.settings import ServeSettings
from tests.serve.conftest import NODE, ROW, state_of, summary

_WAIT_SECONDS = 30.0


class Hook(HTTPServer):
    """A URL that refuses some requests, and takes the notices of the others."""

    def __init__(self) -> None:
        """Listen on a free port."""
        super().__init__(("127.0.0.1", 0), _Taker)
        self.refuses = 0
        self.asked = 0
        self.taken: list[str] = []
        self.url = f"http://127.0.0.1:{self.server_port}/"


class _Taker(BaseHTTPRequestHandler):
    server: Hook

    def do_POST(self) -> None:
        """Take or refuse a notice."""
        body = orjson.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.asked += 1
        is_taken = self.server.asked > self.server.refuses
        if is_taken:
            self.server.taken.append(body["first"][0]["workload"])
        self.send_response(204 if is_taken else 503)
        self.end_headers()

    def log_message(self, *_arguments: object) -> None:
        """Print nothing."""


@pytest.fixture
def hooks() -> Iterator[tuple[Hook, Hook]]:
    """Two URLs."""
    both = Hook(), Hook()
    for hook in both:
        threading.Thread(target=hook.serve_forever, daemon=True).start()
    yield both
    for hook in both:
        hook.shutdown()
        hook.server_close()


def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + _WAIT_SECONDS
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("refuses", "is_restarted"),
    [
        pytest.param(0, False, id="at once"),
        pytest.param(TRIES - 1, False, id="at the last try"),
        pytest.param(TRIES + 1, False, id="after a rest"),
        pytest.param(TRIES, True, id="after a restart"),
    ],
)
def test_each_url_gets_each_notice_once(
    settings: ServeSettings, hooks: tuple[Hook, Hook], refuses: int, is_restarted: bool
) -> None:
    flaky, good = hooks
    flaky.refuses = refuses
    notified = replace(settings, notify=(flaky.url, good.url))
    settings.data.mkdir()
    state = state_of(settings.trials[0], summary(ROW, NODE))
    told: list[str] = []
    notices = Notices(notified, told.append, 0.001, 600 if is_restarted else 0.01)
    for row in (ROW, NODE):
        notices.add(state, [row])
    notices.start()
    if is_restarted:
        until(lambda: len(good.taken) == 2)
        notices.end()
        assert (flaky.taken, len(list((settings.data / "notices").iterdir()))) == ([], 2)
        notices = Notices(notified, told.append, 0.001)
        notices.start()
    until(lambda: not list((settings.data / "notices").iterdir()))
    notices.end()
    assert [flaky.taken, good.taken] == [[ROW["workload"], NODE["workload"]]] * 2
    assert told == [f"a notice waits after {TRIES} tries: HTTPError"] * (refuses >= TRIES)


def test_an_end_sends_no_further_notice(settings: ServeSettings, hooks: tuple[Hook, Hook]) -> None:
    hook, _ = hooks
    hook.refuses = 1
    settings.data.mkdir()
    notices = Notices(replace(settings, notify=(hook.url,)), print, 600)
    for row in (ROW, NODE):
        notices.add(state_of(settings.trials[0], summary(ROW, NODE)), [row])
    notices.start()
    until(lambda: hook.asked == 1)
    notices.end()
    assert (hook.asked, hook.taken, len(list((settings.data / "notices").iterdir()))) == (1, [], 2)
