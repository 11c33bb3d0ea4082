"""A page over the store of the short sample, with a result that is already there, without processes or threads of its own."""

from __future__ import annotations

import json
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import uvicorn
from msgspec.structs import replace

from replay.audit.live.patience import PatientProtocol
from replay.serve.app import Page
from replay.serve.growth import row_key
from replay.serve.processes import Ingest, Intake
from replay.serve.questions import Questions
from replay.serve.settings import Readers, ServeSettings, Trial
from replay.serve.stores import LogState, Stores
from replay.serve.trials import TrialBoard, TrialPhase, TrialState

ROW: dict[str, Any] = {
    "outcome": "newly_denied",
    "policy": "team-label.static.k8s.io",
    "origin": "next/team.yaml:3",
    "owner": "blue",
    "namespace": "shop",
    "workload": "Deployment/<b>web</b>",
    "resources": ["deployments.apps"],
    "users": ["alice"],
    "requests": 3,
    "alone": 3,
    "follow": 2,
    "first": "2026-11-20T10:00:00.000000Z",
    "last": "2026-11-21T10:00:00.000000Z",
    "message": "a team is needed | `x`",
    "auditID": "4643ba19-8f5c-4d9d-921a-eb6cb22bdb75",
}
"""A row of findings whose names an attacker chose."""
NODE: dict[str, Any] = {
    **ROW,
    "policy": "nodes",
    "workload": "Node/a",
    "namespace": "",
    "users": ["system:node:a"],
    "requests": 1,
}
POLICY = {
    "name": ROW["policy"],
    "requests": 3,
    "workloads": 1,
    "follow": 2,
    "origin": {"file": "next/team.yaml", "line": 3},
}


def summary(*rows: Mapping[str, Any], unknown: int = 0) -> dict[str, Any]:
    """Return the document of `replay run --json`, as far as pages read it."""
    denied = sum(row["requests"] for row in rows)
    part = {"observed": 10, "reproduced": 9, "undetermined": 0, "differs": 1, "notInLog": 0}
    return {
        "roots": {"newly_denied": denied} if denied else {},
        "decided": {"requests": 100 - unknown, "of": 100},
        "fidelity": {"denials": part, "failures": part, "annotations": part, "disagreements": 3},
        "findings": {"newly_denied": {"policies": [POLICY]}} if rows else {},
        "rows": [dict(row) for row in rows],
        "deniedByDay": {ROW["policy"]: {"2026-11-20": 1, "2026-11-21": 2}} if rows else {},
        "undetermined": [
            {"policy": "p", "path": "object", "reason": "no body", "fix": "record it", "requests": unknown}
        ]
        if unknown
        else [],
    }


def state_of(trial: Trial, document: dict[str, Any], seen: dict[str, float] | None = None) -> TrialState:
    """Return a trial with a result."""
    return TrialState(
        trial, TrialPhase.READY, summary=document, shown=document, seen=seen or {}, decided=1_700_000_000.0, seconds=2.0
    )


LOG = LogState(4269, 4408, 1000, 1_700_000_000_000_000, 1_700_000_100_000_000, rejects={"not JSON": 2})


class Logs(Stores):
    """The state of a store that is not there."""

    def now(self) -> dict[str, LogState]:
        """Return it."""
        return {"": LOG}


class Received(Ingest):
    """A listener that has received something."""

    is_running = True

    def __init__(self, settings: ServeSettings) -> None:
        """Start nothing."""
        super().__init__(settings, print)
        self.intake = Intake(4410, 2)


class Answered(NamedTuple):
    """An answer of the page."""

    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.text)


class Site(NamedTuple):
    """A running page."""

    port: int
    settings: ServeSettings
    board: TrialBoard

    def get(self, path: str, **headers: str) -> Answered:
        """Ask by GET; a redirection is not followed."""
        return self.send("GET", path, None, headers)

    def send(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> Answered:
        """Send one request."""
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", body, dict(headers), method=method)
        try:
            with urllib.request.build_opener(_Stay()).open(request, timeout=30) as answer:
                return Answered(answer.status, dict(answer.headers), answer.read().decode())
        except urllib.error.HTTPError as error:
            with error:
                return Answered(error.code, dict(error.headers), error.read().decode())


class _Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_arguments: object, **_named: object) -> None:
        return None


@contextmanager
def page_of(settings: ServeSettings, states: tuple[TrialState, ...] = ()) -> Iterator[Page]:
    """Make a page over some states of trials."""
    board = TrialBoard(settings)
    for state in states:
        board.put(state)
    questions = Questions(settings)
    yield Page(settings, board, questions, Logs({}), Received(settings))
    questions.close()


@contextmanager
def served(settings: ServeSettings, states: tuple[TrialState, ...]) -> Iterator[Site]:
    """Serve some states of trials on a free port."""
    with page_of(settings, states) as page, socket.create_server(("127.0.0.1", 0)) as bound:
        server = uvicorn.Server(
            uvicorn.Config(
                page.asgi,
                http=PatientProtocol,
                ws="none",
                lifespan="off",
                log_config=None,
                log_level="error",
                access_log=False,
            )
        )
        thread = threading.Thread(target=server.run, args=([bound],), daemon=True)
        thread.start()
        while not server.started:
            thread.join(0.01)
        yield Site(bound.getsockname()[1], settings, page.board)
        server.should_exit = True
        thread.join()


@pytest.fixture
def settings(tmp_path: Path) -> ServeSettings:
    """Settings with three trials."""
    (tmp_path / "next").mkdir()
    store = str(tmp_path / "store")
    trials = tuple(Trial(name, tmp_path / "next", store) for name in ("next", "clean", "young"))
    return ServeSettings(store, tmp_path / "data", trials)


@pytest.fixture
def states(settings: ServeSettings) -> tuple[TrialState, ...]:
    """One trial that would deny two workloads, one that would deny nothing, and one without a result."""
    first, second, third = settings.trials
    return (
        state_of(first, summary(ROW, NODE), {row_key(ROW): 0.0, row_key(NODE): time.time()}),
        state_of(second, summary()),
        TrialState(third),
    )


@pytest.fixture
def site(settings: ServeSettings, states: tuple[TrialState, ...]) -> Iterator[Site]:
    """The page without a check of the reader."""
    with served(settings, states) as running:
        yield running


@pytest.fixture
def site_of(settings: ServeSettings, states: tuple[TrialState, ...]) -> Callable[..., Any]:
    """A page with other settings."""

    def make(**changed: Any) -> Any:
        return served(replace(settings, **changed), states)

    return make


__all__ = ["LOG", "NODE", "ROW", "Answered", "Readers", "Site", "page_of", "state_of", "summary"]
