"""Secrets kept out of explanations: values of expressions over Secrets, and bearer tokens wherever they stand."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from replay.cel.value.typed import untyped
from replay.cel.value.values import Value
from replay.json import JSON
from replay.kube.attributes import Attributes, PartialObject
from replay.kube.redact import REDACTED, redacted_object, redacted_patch, redacted_text

_OPEN = ("object.metadata.", "oldObject.metadata.", "request.", "namespaceObject", "has(")
_SHORTEST = 4
"""Shorter values cannot be looked for in texts: they would be found everywhere."""


class Concealer:
    """What may be shown about one request; with `redact` false everything."""

    def __init__(self, attributes: Attributes | None, *, redact: bool) -> None:
        """Remember the values that must not appear."""
        self._redact = redact
        self._resource = attributes.resource.resource if attributes is not None else ""
        objects = (attributes.object, attributes.old_object) if attributes is not None else ()
        found = {text for each in objects for text in _secrets(each)} if self._resource == "secrets" else set()
        self._secrets = sorted(found, key=lambda text: (-len(text), text))

    def value(self, text: str, value: Value) -> Value:
        """The value of the part of an expression that reads `text`."""
        plain = untyped(value)
        if not self._redact or not isinstance(plain, str | bytes | list | dict):
            return value
        if self._resource == "secrets" and not text.startswith(_OPEN):
            return REDACTED
        if isinstance(plain, str):
            return self.text(plain)
        return value if isinstance(plain, bytes) else redacted_object(self._resource, plain)

    def text(self, text: str) -> str:
        """A message or an annotation."""
        if not self._redact:
            return text
        for secret in self._secrets:
            text = text.replace(secret, REDACTED)
        return redacted_text(text)

    def patch(self, patch: Iterable[JSON]) -> tuple[JSON, ...]:
        """A JSON patch."""
        return redacted_patch(self._resource, patch) if self._redact else tuple(patch)


def _secrets(value: Any) -> Iterator[str]:
    """The values in the data of a Secret, as they stand there and decoded."""
    body = value.value if isinstance(value, PartialObject) else value
    if not isinstance(body, Mapping):
        return
    for name in ("data", "stringData"):
        data = body.get(name)
        for text in data.values() if isinstance(data, Mapping) else ():
            if isinstance(text, str) and len(text) >= _SHORTEST:
                yield text
                decoded = _decoded(text)
                if len(decoded) >= _SHORTEST:
                    yield decoded


def _decoded(text: str) -> str:
    try:
        return base64.b64decode(text, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return ""
