"""Logs at URLs: what is named is fetched whole, read as a file is, and nothing else is asked."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import obstore
import pytest
from obstore.store import from_url
from typer.testing import CliRunner

from replay.audit.source import is_there
from replay.audit.store import Store
from replay.cli.app import app
from replay.errors import ReplayError
from replay.pipeline.scenario import Scenario
from replay.storage.location import remote_files

SAMPLE = Path(__file__).parents[2] / "sample_audit" / "shop"
LOG = SAMPLE / "audit.jsonl.zst"
NAMES = ("2026/a.jsonl", "2026/b.jsonl.zst", "2026/.hidden.jsonl", "2026/11/c.jsonl", "2027/d[1].jsonl", "top.jsonl")


@pytest.fixture
def root(bucket: str) -> str:
    """A bucket with some objects."""
    found = f"s3://{urlsplit(bucket).netloc}"
    store = from_url(found)
    for name in NAMES:
        obstore.put(store, f"logs/{name}", name.encode())
    return found


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        ("logs/top.jsonl", ["top.jsonl"]),
        ("logs/2026", ["2026/11/c.jsonl", "2026/a.jsonl", "2026/b.jsonl.zst"]),
        ("logs/2026/", ["2026/11/c.jsonl", "2026/a.jsonl", "2026/b.jsonl.zst"]),
        ("logs/2026/*.jsonl*", ["2026/a.jsonl", "2026/b.jsonl.zst"]),
        ("logs/2026/.*", ["2026/.hidden.jsonl"]),
        ("logs/**/*.jsonl", ["2026/11/c.jsonl", "2026/a.jsonl", "2027/d[1].jsonl", "top.jsonl"]),
        ("logs/2026/**/c.jsonl", ["2026/11/c.jsonl"]),
        ("logs/*/[ab].jsonl", ["2026/a.jsonl"]),
        ("logs/*/?.jsonl", ["2026/a.jsonl"]),
        ("logs/202", None),
        ("logs/*.zst", None),
        ("nowhere", None),
    ],
)
def test_objects_are_named_as_files_are(root: str, named: str, expected: list[str] | None) -> None:
    if expected is None:
        with pytest.raises(ReplayError, match="no such object") as raised:
            list(remote_files(f"{root}/{named}"))
        assert "\n" not in str(raised.value)
        return
    found = list(remote_files(f"{root}/{named}"))
    assert [file.url for file in found] == [f"{root}/logs/{name}" for name in expected]
    assert [b"".join(file.pieces()) for file in found] == [name.encode() for name in expected]


@pytest.mark.slow
def test_a_log_in_a_bucket_is_read_as_a_file_is_and_known_again(bucket: str, tmp_path: Path) -> None:
    place = f"s3://{urlsplit(bucket).netloc}/logs/audit.jsonl.zst"
    obstore.put(from_url(place.rpartition("/")[0]), "audit.jsonl.zst", LOG)

    def told(*logs: str) -> str:
        done = CliRunner().invoke(app, ["lookup", *logs, "--json", "--current", str(SAMPLE / "current")])
        assert done.exit_code == 0, done.output
        return done.stdout

    assert told(place).replace(place, str(LOG)) == told(str(LOG))
    with Store.open(bucket) as store:
        assert store.ingest([LOG]).files == 1
        assert store.ingest([place, place, f"{place.rpartition('/')[0]}/*.zst"]).known_files == 1
    assert Scenario((f"{place}?token=secret",)).name == "audit.jsonl.zst"
    assert list(tmp_path.iterdir()) == []


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """The address of a server of this process."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


class Bucket(BaseHTTPRequestHandler):
    """A bucket of 1,500 objects, of which a list has 1,000 at most; other buckets refuse."""

    refusals = (
        ("nobody", 404, "NoSuchBucket", "The specified bucket does not exist"),
        ("expired", 400, "ExpiredToken", "The provided token has expired."),
        ("denied", 403, "AccessDenied", "Not for &quot;you&quot;"),
    )

    def do_GET(self) -> None:
        """List objects, or refuse."""
        url = urlsplit(self.path)
        for name, code, said, message in self.refusals:
            if url.path == f"/{name}":
                self.answer(code, f"<Error><Code>{said}</Code><Message>{message}</Message><Key>x</Key></Error>")
                return
        first = 1000 if "continuation-token" in parse_qs(url.query) else 0
        objects = "".join(
            f"<Contents><Key>h/{number:04}.jsonl</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>"
            f'<ETag>"e"</ETag><Size>1</Size><StorageClass>STANDARD</StorageClass></Contents>'
            for number in range(first, min(first + 1000, 1500))
        )
        more = "<NextContinuationToken>n</NextContinuationToken>" if not first else ""
        truncated = "true" if not first else "false"
        self.answer(200, f"<ListBucketResult><IsTruncated>{truncated}</IsTruncated>{more}{objects}</ListBucketResult>")

    def answer(self, code: int, text: str) -> None:
        """Send a document."""
        body = f'<?xml version="1.0" encoding="utf-8"?>\n{text}'.encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_arguments: object) -> None:
        """Keep quiet."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Its server, to which the environment leads."""
    with serving(Bucket) as address:
        for key, value in {
            "AWS_ENDPOINT_URL": address,
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_REGION": "us-east-1",
        }.items():
            monkeypatch.setenv(key, value)
        yield


@pytest.mark.usefixtures("server")
def test_all_pages_of_a_list_are_read() -> None:
    found = [file.url for file in remote_files("s3://many/h/*.jsonl")]
    assert found == [f"s3://many/h/{number:04}.jsonl" for number in range(1500)]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("nobody", "NoSuchBucket: The specified bucket does not exist"),
        ("expired", "ExpiredToken: The provided token has expired."),
        ("denied", 'AccessDenied: Not for "you"'),
    ],
)
@pytest.mark.usefixtures("server")
def test_a_refusal_is_in_the_words_of_the_server(name: str, says: str) -> None:
    with pytest.raises(ReplayError) as raised:
        is_there(f"s3://{name}/2026/*.jsonl")
    assert str(raised.value) == f"s3://{name}/2026/*.jsonl: {says}"


class WebServer(BaseHTTPRequestHandler):
    """A server of logs, some of which are not what they should be."""

    asked: list[str] = []  # noqa: RUF012 - of the class: what all requests asked for

    def do_GET(self) -> None:
        """Answer."""
        self.asked.append(self.path)
        path = urlsplit(self.path).path
        content = LOG.read_bytes()
        if path == "/moved":
            self.send_response(302)
            self.send_header("Location", "/log.zst")
            self.end_headers()
        elif path in ("/log.zst", "/short"):
            self.send_response(200)
            self.send_header("Content-Length", str(len(content) + (path == "/short")))
            self.end_headers()
            self.wfile.write(content)
        else:
            self.send_error(404)

    def log_message(self, *_arguments: object) -> None:
        """Keep quiet."""


@pytest.fixture(scope="module")
def web() -> Iterator[str]:
    """The address of a web server of this process."""
    with serving(WebServer) as address:
        yield address


def test_a_log_at_a_web_server_is_read_and_its_query_is_shown_to_nobody(web: str) -> None:
    with Store.open() as store:
        report = store.ingest([f"{web}/log.zst?signature=secret"])
        assert report.files == 1
        names = store.sql("select distinct name from file")["name"].to_list()
    assert names == [f"{web}/log.zst"]


@pytest.mark.parametrize(
    ("path", "message", "asked"),
    [
        ("/moved?token=secret", "/moved: the server answers 302 Found: name the URL that it leads to", 1),
        ("/none", "/none: the server answers 404 Not Found", 1),
        (
            "/short",
            f"/short: the answer ended after {LOG.stat().st_size} of {LOG.stat().st_size + 1} bytes: run again",
            1,
        ),
    ],
)
def test_what_a_web_server_does_not_give_is_said_in_one_line(web: str, path: str, message: str, asked: int) -> None:
    before = len(WebServer.asked)
    with Store.open() as store, pytest.raises(ReplayError) as raised:
        store.ingest([f"{web}{path}"])
    assert str(raised.value) == f"{web}{message}"
    assert len(WebServer.asked) - before == asked


def test_a_server_that_is_not_there_is_said_in_one_line() -> None:
    with Store.open() as store, pytest.raises(ReplayError, match=r"^http://127.0.0.1:9/x: cannot be fetched: [^\n]+$"):
        store.ingest(["http://127.0.0.1:9/x"])
