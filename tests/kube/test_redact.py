from __future__ import annotations

import pytest

from replay.json import JSON
from replay.kube.redact import REDACTED, redacted_line, redacted_object, redacted_patch, redacted_text

TOKEN = "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJrdWJlcm5ldGVzIn0.c2lnbmF0dXJl"

OBJECTS: list[tuple[str, str, JSON, JSON]] = [
    (
        "secret data keeps its keys",
        "secrets",
        {"kind": "Secret", "data": {"password": "aHVudGVyMg=="}, "stringData": {"a": "b"}, "type": "Opaque"},
        {"kind": "Secret", "data": {"password": REDACTED}, "stringData": {"a": REDACTED}, "type": "Opaque"},
    ),
    (
        "what kubectl applied repeats the data",
        "secrets",
        {"metadata": {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}", "a": "b"}}},
        {"metadata": {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": REDACTED, "a": "b"}}},
    ),
    ("a config map is shown", "configmaps", {"data": {"a": "b"}}, {"data": {"a": "b"}}),
    ("a token request", "serviceaccounts", {"status": {"token": "opaque"}}, {"status": {"token": REDACTED}}),
    ("a token in any text", "configmaps", {"data": {"a": [f"x {TOKEN} y"]}}, {"data": {"a": [f"x {REDACTED} y"]}}),
    ("an empty token says that there is none", "pods", {"token": ""}, {"token": ""}),
]


@pytest.mark.parametrize(
    ("resource", "body", "expected"), [row[1:] for row in OBJECTS], ids=[row[0] for row in OBJECTS]
)
def test_redacted_object(resource: str, body: JSON, expected: JSON) -> None:
    assert redacted_object(resource, body) == expected


LINES = [
    (
        "a cut event about a Secret",
        '{"requestURI":"/api/v1/namespaces/a/secrets","requestObject":{"data":{"a":"aHVu',
        REDACTED,
    ),
    ("a token", f"no JSON {TOKEN}", f"no JSON {REDACTED}"),
    ("anything else", "no JSON", "no JSON"),
]


@pytest.mark.parametrize(("line", "shown"), [row[1:] for row in LINES], ids=[row[0] for row in LINES])
def test_redacted_line(line: str, shown: str) -> None:
    assert redacted_line(line) == shown


PATCHES: list[tuple[str, str, JSON, JSON]] = [
    (
        "one key",
        "secrets",
        {"op": "add", "path": "/data/a", "value": "x"},
        {"op": "add", "path": "/data/a", "value": REDACTED},
    ),
    (
        "all keys",
        "secrets",
        {"op": "add", "path": "/data", "value": {"a": "x"}},
        {"op": "add", "path": "/data", "value": {"a": REDACTED}},
    ),
    ("no value", "secrets", {"op": "remove", "path": "/data/a"}, {"op": "remove", "path": "/data/a"}),
    ("labels", "secrets", {"op": "add", "path": "/metadata/labels/a", "value": "b"}, None),
    ("another kind", "configmaps", {"op": "add", "path": "/data/a", "value": "x"}, None),
    *(
        (name, "pods", {"op": "add", "path": path, "value": value}, {"op": "add", "path": path, "value": expected})
        for name, path, value, expected in (
            ("a token", "/metadata/annotations/a", TOKEN, REDACTED),
            ("a token deep inside", "/metadata/annotations", {"a": [TOKEN]}, {"a": [REDACTED]}),
            ("the field of a token", "/spec/bearerToken", "opaque", REDACTED),
            ("the key of a client", "/spec/client-key-data", "opaque", REDACTED),
            (
                "what was applied last",
                "/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration",
                "{}",
                REDACTED,
            ),
            ("a token beside a large number", "/spec", {"a": 1 << 70, "token": "x"}, {"a": 1 << 70, "token": REDACTED}),
        )
    ),
]


@pytest.mark.parametrize(
    ("resource", "operation", "expected"), [row[1:] for row in PATCHES], ids=[row[0] for row in PATCHES]
)
def test_redacted_patch(resource: str, operation: JSON, expected: JSON) -> None:
    assert redacted_patch(resource, [operation]) == (expected or operation,)


def test_redacted_text() -> None:
    assert redacted_text(f"token {TOKEN} is not allowed") == f"token {REDACTED} is not allowed"
    assert redacted_text("eyJ is no token") == "eyJ is no token"
