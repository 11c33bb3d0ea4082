from __future__ import annotations

import base64

import pytest

from replay.json import JSON
from replay.kube.attributes import Missing, PartialObject
from replay.kube.redact import UNREADABLE, ObjectRedactors, Redactor

TOKEN = "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJrdWJlcm5ldGVzIn0.c2lnbmF0dXJl"


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


SECRET = {
    "kind": "Secret",
    "metadata": {"name": "s"},
    "data": {
        "password": encoded("hunter2\n"),
        "pin": encoded("42"),
        "key": encoded("-----BEGIN\nAAAABBBB\n-----END\n"),
    },
    "stringData": {"odd": 's3cr<t"q'},
}

TEXTS = [
    ("as it stands in data", f"it is {SECRET['data']['password']}", "it is (redacted)"),  # type: ignore[index]
    ("decoded, and trimmed as messages are", "it is hunter2!", "it is (redacted)!"),
    ("inside another word", "xhunter2y", "x(redacted)y"),
    ("short values as words", "42 is not 142", "(redacted) is not 142"),
    ("a line of several", "begins with AAAABBBB", "begins with (redacted)"),
    ("as JSON spells it", 'says "s3cr<t\\"q"', 'says "(redacted)"'),
    ("as Go's JSON spells it", '[{"message":"s3cr\\u003ct\\"q"}]', '[{"message":"(redacted)"}]'),
    ("stringData as the server stores it", encoded('s3cr<t"q'), "(redacted)"),
    ("a token without a space before it", f"token{TOKEN} is one", "token(redacted) is one"),
    ("a token after dots", f"aaaaaaaaaaaaaaaa.{TOKEN}", "aaaaaaaaaaaaaaaa.(redacted)"),
    ("anything else", "metadata.name is s", "metadata.name is s"),
]


@pytest.mark.parametrize(("text", "shown"), [row[1:] for row in TEXTS], ids=[row[0] for row in TEXTS])
def test_text(text: str, shown: str) -> None:
    assert Redactor("secrets", [SECRET]).text(text) == shown
    assert Redactor("secrets", [SECRET], redact=False).text(text) == text


BODIES: list[tuple[str, JSON | PartialObject]] = [
    ("an object", {"data": {"a": "hunter2"}}),
    ("an object with unknown parts", PartialObject({"data": {"a": "hunter2", "b": Missing("object.data.b", "")}}, ())),
    ("a list", {"kind": "SecretList", "items": [{"data": {"a": "hunter2"}}]}),
    ("a merge patch", {"stringData": {"a": "hunter2"}}),
    ("a JSON patch of a key", [{"op": "add", "path": "/data/a", "value": "hunter2"}]),
    ("a JSON patch of all", [{"op": "replace", "path": "", "value": {"data": {"a": "hunter2"}}}]),
    ("values that are no text", {"data": {"a": [{"b": "hunter2"}]}}),
    ("what cannot be decoded", UNREADABLE),
]


@pytest.mark.parametrize("body", [row[1] for row in BODIES], ids=[row[0] for row in BODIES])
def test_where_values_stand(body: JSON | PartialObject) -> None:
    assert "hunter2" not in Redactor("secrets", [None, body]).text("it is hunter2")


def test_patches_and_objects() -> None:
    redactor = Redactor("secrets", [SECRET])
    patch = {"op": "add", "path": "/metadata/labels/hunter2", "value": {"q": ["hunter2"]}}
    assert redactor.patch([patch]) == (
        {"op": "add", "path": "/metadata/labels/(redacted)", "value": {"q": ["(redacted)"]}},
    )
    assert redactor.object({**SECRET, "metadata": {"labels": {"hunter2": "is hunter2"}}})["metadata"] == {
        "labels": {"(redacted)": "is (redacted)"}
    }
    assert redactor.texts({"p/hunter2": "hunter2"}) == {"p/(redacted)": "(redacted)"}


def test_other_kinds_keep_what_looks_the_same() -> None:
    assert Redactor("configmaps", [SECRET]).text("hunter2") == "hunter2"


def test_rows_about_an_object_hide_what_any_request_shows_of_it() -> None:
    rows = [
        ("a", "s", '{"data":{"x":"hunter2"}}', None),
        ("a", "s", None, '{"data":{"x":"hunter3"}}'),
        ("b", "s", "{", None),
    ]
    redactors = ObjectRedactors(lambda: rows, redact=True)
    assert redactors.redactor_for("secrets", "a", "s").text("hunter2 hunter3") == "(redacted) (redacted)"
    assert redactors.redactor_for("secrets", "b", "s").text("hunter2") == "(redacted)"
    assert redactors.redactor_for("secrets", "c", "s").text("hunter2") == "hunter2"
    assert ObjectRedactors(lambda: rows, redact=False).redactor_for("secrets", "a", "s").text("hunter2") == "hunter2"
