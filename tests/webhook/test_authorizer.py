"""Calls of an authorization webhook on this machine."""

from __future__ import annotations

from typing import NamedTuple

import orjson
import pytest

from replay.authorization.trace import AuthorizerDecision
from replay.authorization.webhook import AuthorizerAnswer
from replay.errors import ReplayError
from replay.json import JSON
from replay.webhook.client import PATIENCE, AuthorizerEndpoint
from tests.webhook.server import DATA, serving

SPEC = {"user": "jane", "groups": ["dev"]}


class Row(NamedTuple):
    name: str
    version: str
    code: int
    body: str
    sent: JSON
    wanted: AuthorizerAnswer


def review(version: str, **status: JSON) -> str:
    kind = {"kind": "SubjectAccessReview", "apiVersion": f"authorization.k8s.io/{version}"}
    return orjson.dumps({**kind, "status": status}).decode()


ROWS = [
    Row("allowed", "v1", 201, review("v1", allowed=True), SPEC, AuthorizerAnswer(AuthorizerDecision.ALLOW, "")),
    Row(
        "denied with a reason",
        "v1",
        200,
        review("v1", allowed=False, denied=True, reason="no"),
        SPEC,
        AuthorizerAnswer(AuthorizerDecision.DENY, "no"),
    ),
    Row(
        "v1beta1 says group",
        "v1beta1",
        200,
        review("v1beta1", allowed=False),
        {"user": "jane", "group": ["dev"]},
        AuthorizerAnswer(AuthorizerDecision.NO_OPINION, ""),
    ),
]


@pytest.fixture(autouse=True)
def _trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(DATA / "server.crt"))


@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
def test_answers(row: Row) -> None:
    with serving(lambda _: (row.code, row.body.encode())) as (url, got):
        endpoint = AuthorizerEndpoint(url, 3)
        answers = [endpoint.answer("w", row.version, SPEC) for _ in range(2)]
    sent = [(each["path"], each["apiVersion"], each["spec"]) for each in got]
    assert answers == [row.wanted] * 2
    assert sent == [("/check?timeout=3s", f"authorization.k8s.io/{row.version}", row.sent)]


def test_an_endpoint_that_is_not_there_is_given_up() -> None:
    with serving(lambda _: (200, b"{}")) as (url, _):
        pass
    endpoint = AuthorizerEndpoint(url, 0.5)
    answers = [endpoint.answer("w", "v1", {"user": str(number)}) for number in range(PATIENCE + 1)]
    refused = AuthorizerAnswer(
        AuthorizerDecision.NO_OPINION, "", f'Post "{url}?timeout=500ms": connection refused', failed=True
    )
    assert answers == [refused] * PATIENCE + [None]


@pytest.mark.parametrize("url", ["http://localhost/check", "https://", "https://jane@localhost/"])
def test_urls_that_are_not_called(url: str) -> None:
    with pytest.raises(ReplayError):
        AuthorizerEndpoint(url, 3)
