"""Hostile requests on both ports: no traceback, no error but 503, no file from elsewhere, no secret in any answer."""

from __future__ import annotations

import gzip
import json
import random
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

import pytest

from replay.audit.live import patience
from replay.audit.live.listener import LARGEST_BODY, Listener
from replay.audit.live.tls import ServerTls
from replay.serve.settings import Readers
from tests.serve.conftest import ROW
from tests.serve.test_page import REFUSALS, VIEWS, WORKLOAD
from tests.support.audit_webhook import event_list

TOKEN = "the-token-of-all-readers"
SECRET = "the-secret-that-signs-notices"
OUTSIDE = "what-another-file-holds"
COUNTS = [1500, pytest.param(5000, marks=pytest.mark.nightly)]
PROGRAM = (sys.prefix, sys.base_prefix, str(Path(__file__).parents[2] / "replay"))
"""Where the program's own files are."""
FORM = {"form": "0" * 64, "token": "wrong", "reason": "r", "expires": "90d", "policy": ROW["policy"]}
ESCAPES = (
    "../outside",
    "..%2foutside",
    "%2e%2e/outside",
    "..%5coutside",
    "....//outside",
    "%00",
    "//etc/passwd",
    "file:///etc/passwd",
)
PLACES = (
    "/weekly/{}",
    "/weekly/{}/report.html",
    "/static/{}",
    "/trials/{}/report.html",
    "/trials/next/{}",
    "/{}",
    "/api/v1/trials/{}",
)
SPICE = (b"\x00", b"\r\n", b"\xff\xfe", b"%0d%0aSet-Cookie: a=b", b"{{7*7}}", b"<script>", b"'", b"../", b"A" * 5000)


class Seed(NamedTuple):
    """A request to begin with; `body` is sent with its length."""

    line: str
    headers: tuple[str, ...]
    body: bytes = b""


def form(path: str, **fields: str) -> Seed:
    body = urlencode({**FORM, **fields}).encode()
    return Seed(f"POST {path} HTTP/1.1", ("Content-Type: application/x-www-form-urlencoded",), body)


def batch(body: bytes, *headers: str, line: str = "POST /audit HTTP/1.1") -> Seed:
    return Seed(line, ("Content-Type: application/json", *headers), body)


PAGE_SEEDS = [
    *(Seed(f"GET {path} HTTP/1.1", ("Accept: text/html",)) for path in (*(row.path for row in VIEWS), *(row.path for row in REFUSALS))),
    *(Seed(f"GET {place.format(escape)} HTTP/1.1", ()) for place in PLACES for escape in ESCAPES),
    *(Seed(f"GET /{path} HTTP/1.1", (f"Authorization: Bearer {TOKEN[:-1]}",)) for path in ("metrics", "api/v1/trials", "openapi.json", "log.json")),
    *(Seed(f"GET /trials/next/workload?{WORKLOAD}&format={name} HTTP/1.1", ()) for name in ("json", "md", "csv", "exe")),
    form("/login"), form("/login", token=TOKEN[:-1]), form("/trials/next/accept"), form("/trials/../accept"),
    Seed("POST /login HTTP/1.1", ("Content-Type: application/x-www-form-urlencoded", "Content-Encoding: gzip"), gzip.compress(b"a" * (1 << 20))),
    Seed("POST /login HTTP/1.1", ("Content-Type: multipart/form-data; boundary=x",), b"--x\r\n\r\n--x--"),
]  # fmt: skip
PLAIN = event_list(0, 3)
DEEP = b'{"kind":"EventList","apiVersion":"audit.k8s.io/v1","items":[' + b'{"a":' * 5000 + b"1" + b"}" * 5000 + b"]}"
LISTENER_SEEDS = [
    batch(PLAIN), batch(gzip.compress(PLAIN), "Content-Encoding: gzip"), batch(gzip.compress(PLAIN)[:-9], "Content-Encoding: gzip"),
    batch(gzip.compress(PLAIN) * 2, "Content-Encoding: gzip"), batch(b"", "Content-Encoding: gzip"), batch(PLAIN, "Content-Encoding: br"),
    batch(DEEP), batch(b"[" * 100_000), batch(PLAIN[:-2]), batch(b"null"), batch(json.dumps({"items": 1}).encode()),
    batch(PLAIN.replace(b'"id-0"', b'"\\ud800"')), batch(PLAIN.replace(b'"id-0"', b"1e999")), batch(PLAIN + PLAIN),
    batch(b"3\r\n{}\n\r\n0\r\n\r\n", "Transfer-Encoding: chunked"), batch(b"ffffffffff\r\n", "Transfer-Encoding: chunked"),
    batch(PLAIN, "Expect: 100-continue"), batch(PLAIN, line="POST /audit?timeout=30s HTTP/1.1"), batch(PLAIN, line="PUT /audit HTTP/1.1"),
    *(Seed(f"GET {place.format(escape)} HTTP/1.1", ()) for place in ("/audit/{}", "/{}") for escape in ESCAPES),
    Seed("POST /audit HTTP/1.1", ("Content-Type: text/plain",), PLAIN),
]  # fmt: skip


def raw(seed: Seed, chance: random.Random) -> bytes:
    """A seed as bytes, with some of them changed."""
    headers = ["Host: 127.0.0.1", "Connection: close", *seed.headers]
    if seed.body and "Transfer-Encoding: chunked" not in seed.headers:
        length = len(seed.body) if chance.random() < 0.9 else chance.choice((0, 1, 1 << 40, -1, 10**30))
        headers.append(f"Content-Length: {length}")
    if chance.random() < 0.1:
        headers += [
            chance.choice(
                ("Range: bytes=0-", "Cookie: replay_session=a; b", "X-Remote-User: admin", f"X-Long: {'a' * 70_000}")
            )
        ]
    content = bytearray("\r\n".join((seed.line, *headers, "", "")).encode() + seed.body)
    for _ in range(chance.choice((0, 0, 1, 1, 2, 5))):
        place = chance.randrange(len(content))
        match chance.randrange(4):
            case 0:
                content[place] = chance.randrange(256)
            case 1:
                content[place:place] = chance.choice(SPICE)
            case 2:
                del content[place : place + chance.randrange(1, 20)]
            case _:
                content[place:place] = content[place : place + chance.randrange(1, 200)]
    return bytes(content)


def sent(port: int, content: bytes, pieces: int = 1, pause: float = 0.0, patience: float = 30.0) -> bytes:
    """What is answered to some bytes; after some seconds without an answer nothing more is sent."""
    size = max(len(content) // pieces, 1)
    answer = b""
    with socket.create_connection(("127.0.0.1", port), timeout=patience) as connection:
        try:
            for place in range(0, len(content), size):
                connection.sendall(content[place : place + size])
                time.sleep(pause)
            while part := connection.recv(65536):
                answer += part
        except TimeoutError:
            connection.shutdown(socket.SHUT_WR)
        except ConnectionError:
            pass
    return answer


def answers_to(port: int, requests: list[bytes]) -> list[bytes]:
    """What is answered to requests, several at the same time."""
    with ThreadPoolExecutor(16) as pool:
        return list(pool.map(lambda content: sent(port, content, patience=0.5), requests))


def bad(answer: bytes) -> str:
    """What is wrong with an answer, empty for nothing."""
    status = int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/") else 200
    if status >= 500 and status != 503:
        return f"status {status}"
    told = [text for text in ("Traceback", 'File "', TOKEN, SECRET, OUTSIDE, "root:x:") if text.encode() in answer]
    return f"tells {told[0]}" if told else ""


OPENED: list[str] = []
WATCHED: set[int] = set()
"""Threads that may open only files of their own."""


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" and WATCHED and threading.get_ident() not in WATCHED and isinstance(arguments[0], str):
        OPENED.append(arguments[0])


@pytest.fixture
def opened() -> Iterator[list[str]]:
    """The files that other threads open."""
    if not getattr(_watch, "is_added", False):
        sys.addaudithook(_watch)
        _watch.is_added = True  # type: ignore[attr-defined]
    OPENED.clear()
    WATCHED.add(threading.get_ident())
    yield OPENED
    WATCHED.clear()


@pytest.mark.slow
@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("token", ["", TOKEN], ids=["open to all", "with a token"])
def test_the_page(site_of: Callable[..., Any], token: str, count: int, tmp_path: Path, opened: list[str]) -> None:
    (tmp_path / "outside").write_text(OUTSIDE)
    chance = random.Random(f"page {token}")
    with site_of(readers=Readers(token=token), notify_secret=SECRET) as site:
        answers = answers_to(site.port, [raw(chance.choice(PAGE_SEEDS), chance) for _ in range(count // 2)])
        healthy = site.get("/healthz").text
    allowed = (str(tmp_path / "data"), str(tmp_path / "store"), *PROGRAM)
    assert (set(map(bad, answers)) - {""}, healthy) == (set(), "ok\n")
    assert len([answer for answer in answers if answer]) > count // 4
    assert [path for path in set(opened) if not path.startswith(allowed)] == []


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[Listener]:
    (tmp_path / "store").mkdir()
    (tmp_path / "outside").write_text(OUTSIDE)
    running = Listener("127.0.0.1:0", ServerTls(), tmp_path / "store" / "journal")
    yield running
    running.close()


def port_of(listener: Listener) -> int:
    return int(listener.url.rpartition(":")[2].partition("/")[0])


@pytest.mark.slow
@pytest.mark.parametrize("count", COUNTS)
def test_the_listener(listener: Listener, count: int, tmp_path: Path, opened: list[str]) -> None:
    chance = random.Random("listener")
    requests = [raw(chance.choice(LISTENER_SEEDS), chance) for _ in range(count)]
    answers = answers_to(port_of(listener), requests)
    assert set(map(bad, answers)) - {""} == set()
    assert len([answer for answer in answers if answer]) > count // 2
    assert b" 200 " in sent(port_of(listener), plain(LISTENER_SEEDS[0]))
    assert [path for path in set(opened) if not path.startswith((str(tmp_path / "store"), *PROGRAM))] == []


def test_a_compressed_bomb_is_too_large(listener: Listener) -> None:
    bomb = gzip.compress(b" " * (LARGEST_BODY + 1))
    assert b" 413 " in sent(port_of(listener), plain(batch(bomb, "Content-Encoding: gzip")))


def plain(seed: Seed) -> bytes:
    """A seed as it is."""
    headers = ("Host: 127.0.0.1", "Connection: close", *seed.headers, f"Content-Length: {len(seed.body)}")
    return "\r\n".join((seed.line, *headers, "", "")).encode() + seed.body


def test_a_client_that_is_always_in_a_request_is_served(
    site_of: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit is for one request. Each of these is short, and the next one begins before the look at the client."""
    monkeypatch.setattr(patience, "OWED_SECONDS", 0.6)
    monkeypatch.setattr(patience, "_LOOK_SECONDS", 0.01)
    request = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 2\r\n\r\n{"
    with site_of() as site, socket.create_connection(("127.0.0.1", site.port), timeout=10) as connection:
        connection.sendall(request)
        answered = b""
        for served in range(1, 16):
            time.sleep(0.1)
            connection.sendall(b"}" + request)  # the end of one request, and the beginning of the next one
            while answered.count(b" 200 ") < served:  # an answer may arrive in several pieces
                part = connection.recv(4096)
                assert part, f"cut off after {served - 1} answers"
                answered += part


def test_slow_clients_are_cut_off_and_others_served(
    site_of: Callable[..., Any], listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patience, "OWED_SECONDS", 2.0)
    monkeypatch.setattr(patience, "_LOOK_SECONDS", 0.2)
    with site_of() as site:
        slow = [
            socket.create_connection(("127.0.0.1", port), timeout=10)
            for port in (site.port, port_of(listener))
            for _ in range(8)
        ]
        for connection in slow:
            connection.sendall(
                b"POST /audit HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\nContent-Type: application/json\r\n\r\n{"
            )
        assert site.get("/healthz").status == 200
        assert b" 200 " in sent(port_of(listener), plain(LISTENER_SEEDS[0]), pieces=20, pause=0.01)
        for connection in slow:
            with connection:
                try:
                    while connection.recv(4096):
                        pass
                except ConnectionResetError:
                    continue
