"""Values of Secrets: `data` and `stringData`, in every form in which a text may repeat them."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

import orjson

from replay.json import JSON
from replay.kube.attributes import Missing, PartialObject

SECRET_FIELDS = ("data", "stringData")
UNREADABLE = object()
"""Stands for the body of a Secret that cannot be decoded: what its values are is not known."""
_ANYTHING = re.compile(r".+", re.DOTALL)
_SHORT = 4
"""Shorter values are looked for as whole words: inside other words they are found everywhere."""
_LINE = 8
"""Lines of a text of several (a key, a file) are looked for one by one from this length on."""
_HTML = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})
"""Characters that only Go's `encoding/json` escapes."""


def secret_pattern(bodies: Iterable[JSON | PartialObject]) -> re.Pattern[str] | None:
    """Return a pattern for each value in Secrets, patches of Secrets and lists of Secrets; None if there is none.

    For an `UNREADABLE` body it matches everything.
    """
    bodies = list(bodies)
    if any(body is UNREADABLE for body in bodies):
        return _ANYTHING
    forms = {form for body in bodies for value in _values(body) for form in _forms(value)}
    longest_first = sorted(forms, key=lambda text: (-len(text), text))
    parts = [re.escape(text) if len(text) >= _SHORT else rf"(?<!\w){re.escape(text)}(?!\w)" for text in longest_first]
    return re.compile("|".join(parts)) if parts else None


def _values(body: JSON | PartialObject) -> Iterator[str]:
    value = body.value if isinstance(body, PartialObject) else body
    if isinstance(value, Mapping):
        items = value.get("items")
        for each in (value, *(items if isinstance(items, list) else ())):
            yield from _data_of(each)
    elif isinstance(value, list):
        for operation in value:
            yield from _values_of_operation(operation)


def _data_of(secret: JSON) -> Iterator[str]:
    if isinstance(secret, Mapping):
        for name in SECRET_FIELDS:
            yield from _texts(secret.get(name))


def _values_of_operation(operation: JSON) -> Iterator[str]:
    """The values in an operation of a JSON patch (RFC 6902)."""
    if isinstance(operation, Mapping):
        parts = str(operation.get("path", "")).split("/")[1:]
        if not parts:
            yield from _data_of(operation.get("value"))
        elif parts[0] in SECRET_FIELDS:
            yield from _texts(operation.get("value"))


def _texts(value: JSON) -> Iterator[str]:
    """Yield the leaves of a value as texts."""
    stack = [value]
    while stack:
        each = stack.pop()
        if isinstance(each, Mapping):
            stack += each.values()
        elif isinstance(each, Sequence) and not isinstance(each, str):
            stack += each
        elif each is not None and not isinstance(each, bool | Missing):
            yield str(each)


def _forms(value: str) -> Iterator[str]:
    """Yield a value unchanged, decoded, encoded, trimmed, line by line, and as JSON spells each of them."""
    encoded = base64.b64encode(value.encode("utf-8", "replace")).decode()
    for text in (value, _decoded(value), encoded):
        lines = [line.strip() for line in text.splitlines()]
        for form in (text, text.strip(), *(line for line in lines if len(line) >= _LINE)):
            if form:
                in_json = orjson.dumps(form).decode()[1:-1]
                yield from (form, in_json, in_json.translate(_HTML))


def _decoded(text: str) -> str:
    try:
        return base64.b64decode(text, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return ""
