"""Calls of a backend of ImagePolicyWebhook on this machine; failures as a kube-apiserver 1.37 words them."""

from __future__ import annotations

import pickle
import time
from typing import Any, NamedTuple

import orjson
import pytest

from replay.admission.builtin.pod.image import Failed, ImageReviewStatus
from replay.errors import ReplayError
from replay.json import JSON
from replay.kube.attributes import Missing
from replay.webhook.client import PATIENCE, CallError, Client
from replay.webhook.image_review import ImageEndpoint
from tests.webhook.server import DATA, serving

SPEC = {
    "containers": [{"image": "a"}, {"image": "b"}],
    "annotations": {"x.image-policy.k8s.io/y": "1"},
    "namespace": "n",
}
SENT = {
    "kind": "ImageReview",
    "apiVersion": "imagepolicy.k8s.io/v1alpha1",
    "metadata": {},
    "spec": SPEC,
    "status": {"allowed": False},
    "path": "/check?timeout=30s",
}
HEADER = r'struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }'
NO_HEADER = "couldn't get version/kind; json parse error: json: cannot unmarshal %s into Go value of type " + HEADER


class Row(NamedTuple):
    name: str
    code: int
    body: str
    wanted: ImageReviewStatus | Failed
    content_type: str = "application/json"


def status(**fields: JSON) -> str:
    return orjson.dumps({"status": fields}).decode()


def a_status(reason: str) -> str:
    return orjson.dumps(
        {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "boo", "reason": reason}
    ).decode()


def typed(found: str, field: str, kind: str) -> Failed:
    return Failed(f"json: cannot unmarshal {found} into Go struct field {field} of type {kind}")


ROWS = [
    Row("allowed", 200, status(allowed=True), ImageReviewStatus(allowed=True)),
    Row("as text", 200, status(allowed=True), ImageReviewStatus(allowed=True), "text/plain"),
    Row(
        "denied",
        201,
        status(allowed=False, reason="not signed", auditAnnotations={"a": "b"}),
        ImageReviewStatus(allowed=False, reason="not signed", audit_annotations={"a": "b"}),
    ),
    Row("nothing said", 200, "{}", ImageReviewStatus(allowed=False)),
    Row("null", 200, "null", ImageReviewStatus(allowed=False)),
    Row("allowed is text", 200, status(allowed="yes"), typed("string", "ImageReviewStatus.status.allowed", "bool")),
    Row("reason is a number", 200, status(reason=5), typed("number", "ImageReviewStatus.status.reason", "string")),
    Row("empty", 200, "", Failed("0-length response with status code: 200 and content type: application/json")),
    Row("an array", 200, "[]", Failed(NO_HEADER % "array")),
    Row("no JSON", 200, "<html>", Failed(NO_HEADER % "string"), "text/html"),
    Row(
        "another version",
        200,
        '{"apiVersion":"imagepolicy.k8s.io/v1","kind":"ImageReview","status":{"allowed":true}}',
        Failed(
            'no kind "ImageReview" is registered for version "imagepolicy.k8s.io/v1" in scheme "pkg/runtime/scheme.go:111"'
        ),
    ),
    Row(
        "207",
        207,
        status(allowed=True),
        Failed("the server responded with the status code 207 but did not return more information"),
    ),
    Row("400", 400, "bad", Failed("the server rejected our request for an unknown reason"), "text/plain"),
    Row("403", 403, " bad ", Failed("bad", is_forbidden=True), "text/plain"),
    Row("403 with JSON", 403, "{}", Failed("unknown", is_forbidden=True)),
    Row("406", 406, "bad", Failed("bad"), "text/plain"),
    Row("409", 409, "bad", Failed("the server reported a conflict"), "text/plain"),
    Row("422", 422, "bad", Failed("the server rejected our request due to an error in our request"), "text/plain"),
    Row(
        "500",
        500,
        'no "luck"\n',
        Failed(r'an error on the server ("no \"luck\"") has prevented the request from succeeding'),
        "text/plain",
    ),
    Row(
        "500 of no type",
        500,
        "plain",
        Failed('an error on the server ("plain") has prevented the request from succeeding'),
        "",
    ),
    Row(
        "500 with JSON",
        500,
        '{"x":1}',
        Failed('an error on the server ("unknown") has prevented the request from succeeding'),
    ),
    Row("500 with a Status", 500, a_status("InternalError"), Failed("boo")),
    Row("403 with a Status", 403, a_status("Forbidden"), Failed("boo", is_forbidden=True)),
    Row("503", 503, "x", Failed("the server is currently unable to handle the request"), "text/plain"),
]


@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
def test_answers(row: Row) -> None:
    with serving(lambda _: (row.code, row.body.encode()), scheme="http", content_type=row.content_type) as (url, got):
        endpoint = ImageEndpoint(url)
        assert [endpoint.reviewed(SPEC), endpoint.reviewed(dict(reversed(SPEC.items())))] == [row.wanted] * 2
    assert got == [SENT]


def test_over_https_by_who_is_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(_: dict[str, Any]) -> tuple[int, bytes]:
        return 200, status(allowed=True).encode()

    with serving(answer) as (url, got):
        untrusted = ImageEndpoint(url).reviewed(SPEC)
        monkeypatch.setenv("SSL_CERT_FILE", str(DATA / "server.crt"))
        assert ImageEndpoint(url).reviewed(SPEC) == ImageReviewStatus(allowed=True)
    shown = f'Post "{url}?timeout=30s": tls: failed to verify certificate: '
    assert isinstance(untrusted, Failed)
    assert untrusted.error.startswith(shown)
    assert got == [SENT]


def test_who_keeps_silent_is_given_up() -> None:
    def answer(_: dict[str, Any]) -> tuple[int, bytes]:
        time.sleep(1.5)
        return 200, b""

    with serving(answer, scheme="http") as (url, got):
        endpoint = ImageEndpoint(url, timeout=1)
        found = endpoint.reviewed(SPEC)
        assert endpoint.reviewed(SPEC) == found == Failed(f'Post "{url}?timeout=1s": context deadline exceeded')
    assert len(got) == 1


def test_patience_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    def late(*_: object) -> None:
        raise CallError("late", is_late=True)

    monkeypatch.setattr(Client, "post", late)
    endpoint = ImageEndpoint("http://127.0.0.1:9/")
    found = [endpoint.reviewed({"namespace": str(number)}) for number in range(PATIENCE + 1)]
    reason = f"the endpoint did not answer {PATIENCE} calls in a row in time, so replay stopped calling it"
    assert found[:-1] == [Failed("late")] * PATIENCE
    assert found[-1] == Missing("object.spec", reason)
    assert endpoint.reviewed({"namespace": "0"}) == found[0]


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("ftp://localhost/", "a webhook is called over https or http only, not at `ftp://localhost/`"),
        ("http://", "a webhook is called over https or http only, not at `http://`"),
        (
            "http://localhost:port/",
            "`http://localhost:port/` is no URL: Port could not be cast to integer value as 'port'",
        ),
        ("http://h/?a=b", "a webhook's URL has neither user, query nor fragment: `http://h/?a=b`"),
    ],
)
def test_what_is_never_called(url: str, message: str) -> None:
    with pytest.raises(ReplayError) as refused:
        ImageEndpoint(url)
    assert refused.value.message == message


def test_another_process_asks_for_itself() -> None:
    endpoint = ImageEndpoint("https://localhost:1/x", timeout=3)
    assert vars(pickle.loads(pickle.dumps(endpoint)))["_client"] == vars(endpoint)["_client"]
