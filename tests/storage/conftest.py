"""A directory and a bucket, and the S3 server of the bucket."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path

import pytest

from replay.storage.location import opened
from replay.storage.storage import Storage

_NUMBERS = count()


@pytest.fixture(scope="session")
def endpoint() -> Iterator[str]:
    """An S3 server of this process, in memory."""
    server = pytest.importorskip("moto.server")
    running = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    running.start()
    _, port = running.get_host_and_port()
    yield f"http://127.0.0.1:{port}"
    running.stop()


@pytest.fixture
def bucket(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of a prefix in an empty bucket; what the clouds' tools read from the environment leads to it."""
    name = f"bucket-{next(_NUMBERS)}"
    urllib.request.urlopen(urllib.request.Request(f"{endpoint}/{name}", method="PUT")).close()
    for key, value in {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
    }.items():
        monkeypatch.setenv(key, value)
    return f"s3://{name}/cluster/store"


@pytest.fixture(params=["directory", "bucket"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Storage]:
    """Each kind of storage, empty."""
    location = tmp_path / "store" if request.param == "directory" else request.getfixturevalue("bucket")
    with ExitStack() as stack:
        found = opened(location, stack)
        found.make("segments")
        yield found
