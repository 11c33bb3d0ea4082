"""A body of the log: JSON text that is decoded once, at the first use."""

from __future__ import annotations

import re
from enum import Enum
from functools import cache
from typing import Any

import orjson
from msgspec import Struct

from replay.go.format import parse_uint
from replay.json import JSON, decode_json
from replay.kube.go_decoder import misfit
from replay.kube.gvk import GroupVersionKind


class BodyShape(Enum):
    """Relation of a response body to the kind of the requested object."""

    ABSENT = "absent"
    OBJECT = "object"
    OTHER_VERSION = "other version"
    PARTIAL_METADATA = "PartialObjectMetadata"
    LIST = "list"
    OTHER = "other"


MOST_LEVELS = 250
"""Maximum nesting of a body, because the writer of patches and outcomes has this limit."""


class UnusableBodyError(Exception):
    """A body looked like an object and is not one. `str()` is the problem."""


class Body(Struct, eq=False, dict=True):
    """One body, decoded at the first use of `json` or `fault`.

    `json` is the decoded body, None if there is none or it is unusable: no JSON, nested too deep, or of another form.
    `fault` is the problem of an unusable body as a sentence, else empty.

    A text that begins like an object of the kind counts as one without decoding (`shape`), because most bodies are never
    read. If such a body turns out to be unusable, `json` raises `UnusableBodyError`. A `checked` body never does: it is
    decoded before its shape is reported. `name` says which body it is, `request` or `response`.
    """

    text: str | None
    name: str = "response"
    checked: bool = False
    _is_promised: bool = False

    def __getattr__(self, name: str) -> Any:
        """Decode the text. Python asks this only for what is not there yet: `json` or `fault` before their first use."""
        if name not in ("json", "fault"):
            raise AttributeError(name)
        value, problem = _usable(self.text) if self.text else (None, "")
        self.fault = f"replay cannot use the {self.name} body: {problem}" if problem else ""
        if not (problem and self._is_promised):
            # From now on its form is certain.
            self.json: JSON = value
            self.checked = True
        elif name == "json":
            raise UnusableBodyError(self.fault)
        return self.__dict__[name]

    @property
    def metadata(self) -> dict[str, JSON]:
        """`metadata` of the body, empty if it has none."""
        body = self.json
        metadata = body.get("metadata") if isinstance(body, dict) else None
        return metadata if isinstance(metadata, dict) else {}

    def shape(self, kind: GroupVersionKind | None) -> BodyShape:
        """Return what the body is, for a request whose object is of `kind` (None: unknown)."""
        if kind and not self.checked and self.text and self.text.startswith(_beginning(kind)):
            self._is_promised = True
            return BodyShape.OBJECT
        body = self.json
        if not isinstance(body, dict):
            return BodyShape.ABSENT
        kind_name, api_version = body.get("kind"), body.get("apiVersion")
        if kind_name == "PartialObjectMetadata":
            return BodyShape.PARTIAL_METADATA
        if isinstance(body.get("items"), list):
            return BodyShape.LIST
        if kind is None or kind_name != kind.kind:
            return BodyShape.OTHER
        return BodyShape.OBJECT if api_version == kind.api_version else BodyShape.OTHER_VERSION


def _usable(text: str) -> tuple[JSON, str]:
    """Return `(body, problem)`. One of them is empty."""
    try:
        value = decode_json(text)
    except orjson.JSONDecodeError as error:
        return None, _TOO_DEEP if _levels_open(text[: error.pos]) > MOST_LEVELS else f"it is not JSON ({error.msg})"
    # A text with fewer brackets cannot be nested too deep, so most bodies skip the slow check.
    if text.count("{") + text.count("[") > MOST_LEVELS and not _is_shallow(value):
        return None, _TOO_DEEP
    if isinstance(value, list):  # a JSON patch
        return value, ""
    if not isinstance(value, dict):
        return None, "it is not a JSON object"
    wrong = misfit(text, value.get("apiVersion"), value.get("kind"))
    return (None, f"it does not match the schema of its kind ({wrong})") if wrong else (value, "")


def fault_of(value: dict[str, JSON]) -> str:
    """Return why a decoded object is unusable, as a clause, empty if it is usable."""
    try:
        text = orjson.dumps(value).decode()
    except TypeError as error:
        return _TOO_DEEP if _levels_of(value) > MOST_LEVELS else f"it is not JSON ({error})"
    wrong = misfit(text, value.get("apiVersion"), value.get("kind"))
    return f"it does not match the schema of its kind ({wrong})" if wrong else ""


_TOO_DEEP = f"it is nested deeper than {MOST_LEVELS} levels"
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"?')


def _levels_open(text: str) -> int:
    """Return how many objects and lists are still open at the end of a prefix of a JSON text."""
    outside = _STRING.sub("", text)
    return outside.count("{") + outside.count("[") - outside.count("}") - outside.count("]")


def _levels_of(value: JSON) -> int:
    """Return how many levels of objects and lists a value has."""
    # A loop, because recursion fails on a value that is nested very deeply.
    levels, containers = 0, [value]
    while containers:
        items = (item for each in containers for item in (each.values() if isinstance(each, dict) else each))
        levels, containers = levels + 1, [item for item in items if isinstance(item, dict | list)]
    return levels


def _is_shallow(value: JSON) -> bool:
    """Return whether a value can be written again: orjson writes few more levels than `MOST_LEVELS`."""
    try:
        orjson.dumps(value)
    except TypeError:
        return False
    return True


@cache
def _beginning(kind: GroupVersionKind) -> str:
    """Return the first characters of a built-in object's JSON. Its Go type has `kind` and `apiVersion` first."""
    return f'{{"kind":"{kind.kind}","apiVersion":"{kind.api_version}",'


def revision(metadata: JSON) -> int | None:
    """Return `resourceVersion` as a number, None if absent (KEP-5504: comparable)."""
    text = metadata.get("resourceVersion") if isinstance(metadata, dict) else None
    return revision_of(text) if isinstance(text, str) else None


def revision_of(text: str) -> int | None:
    """Return the revision of a text, an int64 of etcd. "0", which means any, is none."""
    return parse_uint(text, bits=63) or None
