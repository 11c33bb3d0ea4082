"""The audit webhook backend: what it accepts is on the disk, what it refuses it refuses in HTTP's words."""

from __future__ import annotations

import asyncio
import errno
import gzip
import http.client
import json
import os
import ssl
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from replay.audit.live import listener as receiver
from replay.audit.live.journal import Journal
from replay.audit.live.listener import Listener, Receiver
from replay.audit.live.tls import ServerTls
from replay.audit.store import Store
from replay.errors import ReplayError
from tests.support import log_lines
from tests.support.audit_webhook import event_list, post
from tests.support.certificates import Authority

ANYWHERE = "127.0.0.1:0"
JSON = {"Content-Type": "application/json"}
GZIP = {**JSON, "Content-Encoding": "gzip"}


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    return tmp_path / "journal"


@pytest.fixture
def listener(journal: Path) -> Iterator[Listener]:
    found = Listener(ANYWHERE, ServerTls(), journal)
    yield found
    found.close()


def kept(journal: Path) -> list[Any]:
    """The events on the disk."""
    return [json.loads(line) for path in sorted(journal.iterdir()) for line in path.read_bytes().splitlines()]


def test_what_is_accepted_is_on_the_disk(listener: Listener, journal: Path) -> None:
    answer = post(listener.url, event_list(0, 3))
    assert (answer.status, answer.text) == (200, "")
    assert kept(journal) == [json.loads(log_lines.event(n, auditID=f"id-{n}")) for n in range(3)]


def listed(**fields: Any) -> bytes:
    return event_list(0, 1, **fields)


def whole(name: str) -> bytes:
    """A list whose items state something themselves."""
    return listed(items=[{name: {"kind": "Event", "apiVersion": "audit.k8s.io/v1"}[name], "auditID": "id-0"}])


ACCEPTED: dict[str, tuple[bytes, dict[str, str], list[Any]]] = {
    "no event": (listed(items=[]), JSON, []),
    "a list without items, as Go writes it": (listed(items=None), JSON, []),
    "an unknown field of the list": (listed(newer=[1], items=[{"auditID": "a"}]), JSON, [{"auditID": "a"}]),
    "an unknown field of an event": (listed(items=[{"newer": {"a": 1}}]), JSON, [{"newer": {"a": 1}}]),
    "an event that states its kind": (whole("kind"), JSON, [{"auditID": "id-0"}]),
    "an event that states its version": (whole("apiVersion"), JSON, [{"auditID": "id-0"}]),
    "an event without anything": (listed(items=[{}]), JSON, [{}]),
    "over several lines": (json.dumps(json.loads(listed(items=[{"a": [1]}])), indent=1).encode(), JSON, [{"a": [1]}]),
    "gzip": (gzip.compress(listed(items=[{"auditID": "a"}])), GZIP, [{"auditID": "a"}]),
    "a type with parameters": (
        listed(items=[{"a": 1}]),
        {"Content-Type": "application/json; charset=utf-8"},
        [{"a": 1}],
    ),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_accepted(name: str, listener: Listener, journal: Path) -> None:
    body, headers, wanted = ACCEPTED[name]
    assert post(listener.url, body, headers=headers).status == 200
    stated = {"kind": "Event", "apiVersion": "audit.k8s.io/v1"}
    assert kept(journal) == [{**stated, **event} for event in wanted]


def test_a_list_that_is_nested_too_deep_is_left_to_the_ingest(listener: Listener, journal: Path) -> None:
    body = listed(items=[]).replace(b"[]", b'[{"requestObject":\n' + b"[" * 5000 + b"]" * 5000 + b"}]")
    assert post(listener.url, body).status == 200
    (path,) = journal.iterdir()
    whole = body.replace(b"\n", b" ")
    line = path.read_bytes()
    assert line == whole + b"\n" or (sys.version_info >= (3, 13) and whole.endswith(line[-10_000:-1] + b"]}"))


EXPECTED = "an audit.k8s.io/v1 EventList is expected"
REFUSED: dict[str, tuple[int, str, bytes, dict[str, Any]]] = {
    "another path": (404, "events are sent to /audit", b"", {"path": "/"}),
    "a path below": (404, "events are sent to /audit", b"", {"path": "/audit/a"}),
    "another method": (405, "events are sent by POST", b"", {"method": "GET"}),
    "another type": (415, "events are sent as application/json", b"", {"headers": {"Content-Type": "text/plain"}}),
    "no type": (415, "events are sent as application/json", b"", {"headers": {}}),
    "another encoding": (
        415,
        "a body is sent as it is, or in gzip",
        b"",
        {"headers": {**JSON, "Content-Encoding": "br"}},
    ),
    "nothing": (400, f"{EXPECTED}: Input data was truncated", b"", {}),
    "no JSON": (400, f"{EXPECTED}: JSON is malformed: invalid character (byte 0)", b"+", {}),
    "half a list": (400, f"{EXPECTED}: Input data was truncated", listed()[:-2], {}),
    "an event": (400, f"{EXPECTED}, this is `audit.k8s.io/v1` `Event`", listed(kind="Event"), {}),
    "another version": (
        400,
        f"{EXPECTED}, this is `audit.k8s.io/v1beta1` `EventList`",
        listed(apiVersion="audit.k8s.io/v1beta1"),
        {},
    ),
    "a list of something else": (400, f"{EXPECTED}: Expected `object`, got `int`", listed(items=[1]), {}),
    "no gzip": (400, "the body is not gzip", listed(), {"headers": GZIP}),
    "half a gzip": (400, "the body is cut off", gzip.compress(listed())[:-9], {"headers": GZIP}),
    "too large": (413, "a batch has at most 0 MiB", listed() + b" " * 5000, {}),
    "too large when it is decompressed": (
        413,
        "a batch has at most 0 MiB",
        gzip.compress(listed() + b" " * 5000),
        {"headers": GZIP},
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str, listener: Listener, journal: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receiver, "LARGEST_BODY", 4096)
    status, told, body, options = REFUSED[name]
    url = listener.url.removesuffix("/audit") + options.get("path", "/audit")
    more = {name: value for name, value in options.items() if name != "path"}
    answer = post(url, body, **more)
    assert (answer.status, answer.text, list(journal.iterdir())) == (status, f"{told}\n", [])
    assert answer.headers.get("allow") == ("POST" if status == 405 else None)


def test_who_sends_more_than_can_be_kept_is_told_to_come_again(journal: Path, tmp_path: Path) -> None:
    body = event_list(0, 2)
    listener = Listener(ANYWHERE, ServerTls(), journal, backlog=len(body) * 5 // 2)
    try:
        assert [post(listener.url, body).status for _ in range(2)] == [200, 200]
        answer = post(listener.url, body)
        assert (answer.status, answer.text) == (429, "the store is behind: send it again\n")
        assert answer.headers["retry-after"] == "5"
        listener.take(tmp_path, 1 << 20).commit()
        assert (post(listener.url, body).status, listener.waiting() > 0) == (200, True)
    finally:
        listener.close()


def test_what_is_held_is_counted_whoever_sends_at_the_same_time(journal: Path) -> None:
    body = event_list(0, 1)
    opened = Journal(journal)
    app = Receiver(opened, backlog=1 << 20)
    answers: list[int] = []

    async def send(message: dict[str, Any]) -> None:
        answers.extend([message["status"]] if "status" in message else [])

    async def request() -> None:
        parts = [body[:10], body[10:20], body[20:]]

        async def receive() -> dict[str, Any]:
            await asyncio.sleep(0)
            return {"type": "http.request", "body": parts.pop(0), "more_body": bool(parts)}

        headers = [(b"content-type", b"application/json")]
        await app({"type": "http", "path": "/audit", "method": "POST", "headers": headers}, receive, send)

    async def all_at_once() -> None:
        await asyncio.gather(*(request() for _ in range(10)))

    asyncio.run(all_at_once())
    opened.close()
    assert (answers, app.held) == ([200] * 10, 0)


def test_what_the_disk_refuses_is_not_accepted(
    listener: Listener, journal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert post(listener.url, listed(items=[{"auditID": "a"}])).status == 200

    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        answer = post(listener.url, listed(items=[{"auditID": "b"}]))
    assert (answer.status, answer.text) == (503, "cannot be written: no space left on device\n")
    assert answer.headers["retry-after"] == "5"
    assert post(listener.url, listed(items=[{"auditID": "c"}])).status == 200
    assert [event["auditID"] for event in kept(journal)] == ["a", "c"]


@pytest.fixture(scope="module")
def authorities(tmp_path_factory: pytest.TempPathFactory) -> tuple[Authority, Authority]:
    """That of the server and its clients, and another one."""
    place = tmp_path_factory.mktemp("certificates")
    return Authority(place, "authority"), Authority(place, "other")


def client(authority: Authority, certificate: tuple[Path, Path] | None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(authority.path))
    if certificate is not None:
        context.load_cert_chain(*certificate)
    return context


@pytest.mark.parametrize("issuer", [0, 1, None], ids=["of the authority", "of another one", "none"])
@pytest.mark.parametrize("required", [False, True], ids=["not asked for", "required"])
def test_certificates_of_clients(
    issuer: int | None, required: bool, authorities: tuple[Authority, Authority], journal: Path
) -> None:
    own = authorities[0]
    tls = ServerTls(*own.issue("server"), own.path if required else None)
    certificate = authorities[issuer].issue("client") if issuer is not None else None
    listener = Listener(ANYWHERE, tls, journal)
    try:
        if required and issuer != 0:
            with pytest.raises((ssl.SSLError, ConnectionError, http.client.RemoteDisconnected)):
                post(listener.url, event_list(0, 1), client(own, certificate))
            assert list(journal.iterdir()) == []
        else:
            assert listener.url.startswith("https://127.0.0.1:")
            assert post(listener.url, event_list(0, 1), client(own, certificate)).status == 200
    finally:
        listener.close()


UNUSABLE = {
    "no port": ("127.0.0.1", ServerTls(), "no address `127.0.0.1`: write HOST:PORT, such as 127.0.0.1:8443"),
    "no such port": (
        "127.0.0.1:70000",
        ServerTls(),
        "no address `127.0.0.1:70000`: write HOST:PORT, such as 127.0.0.1:8443",
    ),
    "an address of somebody else": (
        "127.0.0.1:0",
        ServerTls(Path("a")),
        "TLS needs both --tls-cert-file and --tls-private-key-file",
    ),
    "clients alone": (
        "127.0.0.1:0",
        ServerTls(client_ca=Path("a")),
        "--client-ca-file needs --tls-cert-file and --tls-private-key-file",
    ),
    "no TLS for others": (
        "0.0.0.0:0",
        ServerTls(),
        "0.0.0.0 is reached from other machines: give --tls-cert-file and --tls-private-key-file",
    ),
    "no such file": ("127.0.0.1:0", ServerTls(Path("a"), Path("b")), "a: cannot be used: no such file or directory"),
    "no certificate": (
        "127.0.0.1:0",
        ServerTls(Path(__file__), Path(__file__)),
        f"{__file__}: cannot be used: no certificate and its key in PEM",
    ),
}


@pytest.mark.parametrize("name", UNUSABLE)
def test_unusable(name: str, journal: Path) -> None:
    address, tls, told = UNUSABLE[name]
    with pytest.raises(ReplayError) as caught:
        Listener(address, tls, journal)
    assert (str(caught.value), journal.exists()) == (told, False)


def test_an_address_that_is_taken(listener: Listener, tmp_path: Path) -> None:
    address = listener.url.removeprefix("http://").removesuffix("/audit")
    with pytest.raises(ReplayError, match=f"cannot listen at {address}: address already in use"):
        Listener(address, ServerTls(), tmp_path / "another")


def test_a_journal_that_was_left(journal: Path, tmp_path: Path) -> None:
    """Whole lines count, what a killed process did not write to its end does not, and a store takes a journal once."""
    journal.mkdir()
    whole_lines = b"".join(log_lines.event(n, auditID=f"id-{n}") + b"\n" for n in range(3))
    (journal / "webhook-1.jsonl").write_bytes(whole_lines + b'{"kind":"Ev')
    (journal / "webhook-2.jsonl").write_bytes(b'{"kind":"Ev')
    (journal / "webhook-3.jsonl").write_bytes(b"")
    with Store.open(tmp_path / "store") as store:
        for _ in range(2):  # as if it had been killed before the journal was removed
            left = Journal(journal)
            assert left.waiting() == len(whole_lines)
            taken = left.take(tmp_path, 1)
            store.append(taken.files, taken.positions)
            left.close()
        taken.commit()
        assert (left.waiting(), list(journal.iterdir())) == (0, [])
        assert sorted(record.audit_id for record in log_lines.records(store)) == ["id-0", "id-1", "id-2"]
        assert log_lines.rejects(store) == []
