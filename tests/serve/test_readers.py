"""Who may read: client certificates, a token, and a service that is reached by other machines."""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import NamedTuple

import pytest
import uvicorn
from msgspec.structs import replace

from replay.audit.live.tls import ServerTls
from replay.serve.server import page_config
from replay.serve.settings import Readers, ServeSettings
from tests.serve.conftest import page_of
from tests.support.certificates import Authority

TOKEN = "a-token-of-twenty-one"


class Secure(NamedTuple):
    """A page over TLS, and the authorities of a test."""

    port: int
    own: Authority
    other: Authority


@pytest.fixture
def secure(settings: ServeSettings, tmp_path: Path) -> Iterator[Secure]:
    """A page for holders of a certificate or of a token."""
    own, other = Authority(tmp_path, "own"), Authority(tmp_path, "other")
    tls = ServerTls(*own.issue("server"), own.path)
    changed = replace(settings, readers=Readers("127.0.0.1:0", tls, TOKEN))
    with page_of(changed) as page:
        server = uvicorn.Server(page_config(page, changed, "127.0.0.1", 0))
        thread = Thread(target=server.run, daemon=True)
        thread.start()
        while not server.started:
            thread.join(0.01)
        yield Secure(server.servers[0].sockets[0].getsockname()[1], own, other)
        server.should_exit = True
        thread.join()


def asked(secure: Secure, path: str, certificate: tuple[Path, Path] | None, headers: dict[str, str]) -> int:
    """The status of an answer, 0 where the connection is refused."""
    context = ssl.create_default_context(cafile=str(secure.own.path))
    if certificate is not None:
        context.load_cert_chain(*certificate)
    connection = http.client.HTTPSConnection("127.0.0.1", secure.port, timeout=30, context=context)
    try:
        connection.request("GET", path, headers=headers)
        return connection.getresponse().status
    except OSError:
        return 0
    finally:
        connection.close()


class Row(NamedTuple):
    """Who asks for what, and the status."""

    name: str
    path: str
    authority: str
    headers: dict[str, str]
    status: int


ROWS = [
    Row("a certificate of the authority", "/", "own", {}, 200),
    Row("a certificate of another authority", "/", "other", {}, 0),
    Row("no certificate", "/", "", {}, 401),
    Row("a token", "/api/v1/trials", "", {"Authorization": f"Bearer {TOKEN}"}, 200),
    Row("a token, by another name of the server", "/metrics", "", {"Authorization": f"Bearer {TOKEN}", "Host": "10.0.0.7:8080"}, 200),
    Row("a wrong token", "/", "", {"Authorization": "Bearer no"}, 401),
    Row("a certificate, by another name of the server", "/", "own", {"Host": "evil.example"}, 421),
    Row("a probe of a kubelet", "/readyz", "", {"Host": "10.0.0.7:8080"}, 200),
]  # fmt: skip


def test_who_may_read(secure: Secure) -> None:
    certificates = {"own": secure.own.issue("reader"), "other": secure.other.issue("stranger"), "": None}
    found = {row.name: asked(secure, row.path, certificates[row.authority], row.headers) for row in ROWS}
    assert found == {row.name: row.status for row in ROWS}
