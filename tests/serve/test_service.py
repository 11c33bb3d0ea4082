"""The whole service in processes: a log that grows, results like those of `replay run`, kills, signed notices."""

from __future__ import annotations

import hashlib
import hmac
import json
import random
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from replay.serve.notices import SIGNATURE
from tests.support.short_sample import SAMPLE, write_first_lines

pytestmark = pytest.mark.slow
SECRET = "a-secret-of-twenty-ab"
WAIT_SECONDS = 180


class Service:
    """A running `replay serve`."""

    def __init__(self, process: subprocess.Popen[bytes], url: str) -> None:
        self.process = process
        self.url = url

    def json(self, path: str) -> Any:
        """The JSON form of a page."""
        with urllib.request.urlopen(f"{self.url}{path}", timeout=150) as answer:
            return json.loads(answer.read())

    def until(self, holds: Callable[[Any], bool], path: str = "/api/v1/trials/next") -> Any:
        """Wait until an answer is as wanted."""
        deadline = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < deadline:
            found = self.json(path)
            if holds(found):
                return found
            time.sleep(0.3)
        raise AssertionError(found)


@contextmanager
def service(place: Path, *options: str) -> Iterator[Service]:
    """Start the service over a store in a directory, and stop it as an operator does."""
    command = [
        *(sys.executable, "-m", "replay", "serve", "--store", str(place / "store"), "--address", "127.0.0.1:0"),
        *("--trial", f"next={place / 'next'}", "--current", str(SAMPLE / "current"), "--workers", "1"),
        *("--cluster", str(SAMPLE / "cluster.jsonl.zst"), "--flush-age", "1s", "--every", "1s", *options),
    ]
    said = place / "said"
    with said.open("w") as errors:
        process = subprocess.Popen(command, stderr=errors)
    deadline = time.monotonic() + WAIT_SECONDS
    while (match := re.search(r"page at (http://[^/]+)/", said.read_text())) is None:
        assert process.poll() is None, said.read_text()
        assert time.monotonic() < deadline
        time.sleep(0.1)
    try:
        yield Service(process, match[1])
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        code = process.wait(timeout=60)
    assert code in (0, -signal.SIGKILL)


def candidate(place: Path, text: str) -> None:
    """Write a candidate that denies Deployments whose name does not begin with a text."""
    (place / "next").mkdir(exist_ok=True)
    (place / "next" / "policy.yaml").write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "List",
                "items": [
                    {
                        "apiVersion": "admissionregistration.k8s.io/v1",
                        "kind": "ValidatingAdmissionPolicy",
                        "metadata": {"name": "names"},
                        "spec": {
                            "matchConstraints": {
                                "resourceRules": [
                                    {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["deployments"]}
                                ]
                            },
                            "validations": [{"expression": f"object.metadata.name.startsWith('{text}')"}],
                        },
                    },
                    {
                        "apiVersion": "admissionregistration.k8s.io/v1",
                        "kind": "ValidatingAdmissionPolicyBinding",
                        "metadata": {"name": "names"},
                        "spec": {"policyName": "names", "validationActions": ["Deny"]},
                    },
                ],
            }
        )
    )  # fmt: skip


def run_json(place: Path, cluster: str = "") -> Any:
    """What `replay run` prints over the same store."""
    command = [
        *(
            sys.executable,
            "-m",
            "replay",
            "run",
            "--store",
            str(place / "store" / cluster),
            "--candidate",
            str(place / "next"),
        ),
        *("--current", str(SAMPLE / "current"), "--cluster", str(SAMPLE / "cluster.jsonl.zst"), "--json"),
    ]
    return json.loads(subprocess.run(command, check=False, capture_output=True, text=True).stdout)


def test_a_growing_log_an_edited_trial_and_a_restart(tmp_path: Path) -> None:
    candidate(tmp_path, "app-1")
    log = tmp_path / "audit.jsonl"
    write_first_lines(log, 1200)
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines[:600]))
    with service(tmp_path, "--follow", str(log)) as running:
        first = running.until(lambda found: found["phase"] == "ready")
        assert first["result"] == run_json(tmp_path)
        with log.open("ab") as file:
            file.writelines(lines[600:])
        arrived = running.until(lambda found: found["decidedOnArrival"] > 0)
        assert arrived["result"] == first["result"]
        grown = running.until(
            lambda found: found["phase"] == "ready" and found["result"]["log"]["events"] == len(lines)
        )
        assert grown["result"] == run_json(tmp_path)
        for name in ("directDenials", "workloads", "determined", "matchWithLog"):
            assert arrived[name] == grown[name], name
        assert grown["directDenials"] > first["directDenials"]
        candidate(tmp_path, "web")
        edited = running.until(
            lambda found: found["phase"] == "ready" and found["directDenials"] > grown["directDenials"]
        )
        assert edited["result"] == run_json(tmp_path)
        (tmp_path / "next" / "policy.yaml").write_text("kind: [")
        failed = running.until(lambda found: found["phase"] == "failed")
        assert failed["result"] == edited["result"]
        assert "policy.yaml" in failed["error"]
        candidate(tmp_path, "web")
        running.until(lambda found: found["phase"] == "ready")
    with service(tmp_path, "--follow", str(log)) as again:
        assert again.json("/api/v1/trials/next")["result"] == edited["result"]


def test_a_fleet_has_one_page(tmp_path: Path) -> None:
    candidate(tmp_path, "app")
    for name, count in (("eu", 500), ("us", 800)):
        write_first_lines(tmp_path / f"{name}.jsonl", count)
    command = ("ingest", tmp_path / "eu.jsonl", "--store", tmp_path / "store", "--cluster-name", "eu")
    subprocess.run([sys.executable, "-m", "replay", *map(str, command)], check=True, capture_output=True)
    pulling = ("--pull", str(tmp_path / "us*.jsonl"), "--pull-every", "1s", "--cluster-name", "us")
    with service(tmp_path, *pulling) as running:
        trials = running.until(
            lambda found: [each["phase"] for each in found["trials"]] == ["ready"] * 2, "/api/v1/trials"
        )["trials"]
        assert [(each["name"], each["cluster"]) for each in trials] == [("eu.next", "eu"), ("us.next", "us")]
        for name, count in (("eu", 500), ("us", 800)):
            result = running.json(f"/api/v1/trials/{name}.next")["result"]
            assert result == run_json(tmp_path, f"cluster={name}")
            assert result["log"]["events"] == count
        assert set(running.json("/api/v1/log")["clusters"]) == {"eu", "us"}
        assert running.json("/search?user=*&cluster=eu&format=json") != running.json(
            "/search?user=*&cluster=us&format=json"
        )
        (tmp_path / "us-2.jsonl").write_bytes((tmp_path / "eu.jsonl").read_bytes()[:-1] + b" \n")
        running.until(lambda found: found["clusters"]["us"]["events"] > 800, "/api/v1/log")


@pytest.mark.nightly
def test_kills_lose_nothing(tmp_path: Path) -> None:
    candidate(tmp_path, "app")
    log = tmp_path / "audit.jsonl"
    write_first_lines(log, 1000)
    chance = random.Random(46)
    for _ in range(6):
        with service(tmp_path, "--follow", str(log)) as running:
            time.sleep(chance.uniform(0.2, 4))
            children = subprocess.run(
                ["pgrep", "-P", str(running.process.pid)], capture_output=True, text=True, check=False
            )
            for child in children.stdout.split():
                subprocess.run(["kill", "-9", child], check=False)
            if chance.random() < 0.5:
                running.process.kill()
    with service(tmp_path, "--follow", str(log)) as running:
        found = running.until(lambda found: found["phase"] == "ready" and found["result"]["log"]["events"] == 1000)
        assert found["result"] == run_json(tmp_path)


class Hook(BaseHTTPRequestHandler):
    """Refuses the first notice and takes the others."""

    seen: list[tuple[str, bytes]] = []  # noqa: RUF012 - of one test

    def do_POST(self) -> None:
        """Take a notice."""
        body = self.rfile.read(int(self.headers["content-length"]))
        self.seen.append((self.headers.get(SIGNATURE, ""), body))
        self.send_response(503 if len(self.seen) == 1 else 204)
        self.end_headers()

    def log_message(self, *_arguments: object) -> None:
        """Print nothing."""


def test_a_notice_is_signed_and_sent_again(tmp_path: Path) -> None:
    candidate(tmp_path, "app")
    write_first_lines(tmp_path / "audit.jsonl", 1000)
    (tmp_path / "secret").write_text(SECRET)
    server = HTTPServer(("127.0.0.1", 0), Hook)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    options = ("--notify", f"http://127.0.0.1:{server.server_port}/", "--notify-secret-file", str(tmp_path / "secret"))
    with service(tmp_path, "--follow", str(tmp_path / "audit.jsonl"), *options) as running:
        first = running.until(lambda found: found["phase"] == "ready" and found["result"]["log"]["events"] == 1000)
        candidate(tmp_path, "web")
        running.until(lambda found: found["phase"] == "ready" and found["directDenials"] > first["directDenials"])
        deadline = time.monotonic() + WAIT_SECONDS
        while len(Hook.seen) < 2 and time.monotonic() < deadline:
            time.sleep(0.2)
    server.shutdown()
    server.server_close()
    (_, refused), (signature, body) = Hook.seen[-2:]
    assert refused == body
    assert signature == "sha256=" + hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
    assert json.loads(body)["kind"] == "replay.newFindings"
