"""Secrets kept out of explanations: values of expressions over Secrets, and what a redactor hides elsewhere."""

from __future__ import annotations

from collections.abc import Iterable

from replay.cel.value.typed import untyped
from replay.cel.value.values import Value
from replay.json import JSON
from replay.kube.redact.redactor import SECRETS, Redactor
from replay.kube.redact.structure import REDACTED

_OPEN = ("object.metadata.", "oldObject.metadata.", "request.", "namespaceObject", "has(")


class Concealer:
    """Redaction of an explanation."""

    def __init__(self, redactor: Redactor) -> None:
        """`redactor` knows what must not appear of the request."""
        self._redactor = redactor

    def value(self, text: str, value: Value) -> Value:
        """The value of the part of an expression that reads `text`."""
        plain = untyped(value)
        if not self._redactor.redact or not isinstance(plain, str | bytes | list | dict):
            return value
        if self._redactor.resource == SECRETS and not text.startswith(_OPEN):
            return REDACTED
        if isinstance(plain, str):
            return self.text(plain)
        return value if isinstance(plain, bytes) else self._redactor.object(plain)

    def text(self, text: str) -> str:
        """A message or an annotation."""
        return self._redactor.text(text)

    def patch(self, patch: Iterable[JSON]) -> tuple[JSON, ...]:
        """A JSON patch."""
        return self._redactor.patch(patch)
