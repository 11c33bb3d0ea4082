"""What an API server's audit webhook backend does: batches of events, posted until they are answered with success."""

from __future__ import annotations

import http.client
import json
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from tests.support import log_lines

PATIENCE_SECONDS = 60.0
_INHERITED = ("kind", "apiVersion")
_FIRST_PAUSE_SECONDS = 0.05
_FACTOR = 1.5


def event_list(first: int, count: int, **fields: Any) -> bytes:
    """A batch of events, written as the API server writes it; `fields` replace those of the list."""
    events = [json.loads(log_lines.event(n % 60, auditID=f"id-{n}")) for n in range(first, first + count)]
    items = [{name: value for name, value in each.items() if name not in _INHERITED} for each in events]
    plain = {"kind": "EventList", "apiVersion": "audit.k8s.io/v1", "metadata": {}, "items": items}
    return json.dumps({**plain, **fields}, separators=(",", ":")).encode()


@dataclass(frozen=True)
class Answer:
    """The status, the headers and the text of an answer."""

    status: int
    headers: Mapping[str, str]
    text: str


def post(
    url: str,
    body: bytes,
    context: ssl.SSLContext | None = None,
    method: str = "POST",
    headers: Mapping[str, str] = {"Content-Type": "application/json"},
) -> Answer:
    """Send one request; raises `OSError` or `http.client.HTTPException` where there is no answer."""
    place = urlsplit(url)
    host, port = place.hostname or "", place.port
    connection = (
        http.client.HTTPSConnection(host, port, timeout=PATIENCE_SECONDS, context=context)
        if place.scheme == "https"
        else http.client.HTTPConnection(host, port, timeout=PATIENCE_SECONDS)
    )
    try:
        connection.request(method, f"{place.path}?timeout=30s", body, dict(headers))
        found = connection.getresponse()
        told = {name.lower(): value for name, value in found.getheaders()}
        return Answer(found.status, told, found.read().decode())
    finally:
        connection.close()


def post_until_accepted(url: Callable[[], str], body: bytes) -> int:
    """Send a batch again with a growing pause until it is accepted, whatever fails; returns how often it was sent."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    pause = _FIRST_PAUSE_SECONDS
    for sent in range(1, 1000):
        try:
            if post(url(), body).status == 200:
                return sent
        except (OSError, http.client.HTTPException):
            pass
        if time.monotonic() > deadline:
            break
        time.sleep(pause)
        pause = min(pause * _FACTOR, 1)
    raise AssertionError("the batch was never accepted")
