"""Redactors for texts apart from the bodies of their request, such as rows of a log."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import orjson

from replay.json import JSON
from replay.kube.redact.redactor import SECRETS, Redactor
from replay.kube.redact.values import UNREADABLE

SecretRow = tuple[str, str, str | None, str | None]
"""Namespace and name of a Secret, and both bodies of a request about it as JSON text."""


class ObjectRedactors:
    """A redactor for each object: what any request shows of a Secret is hidden in all texts about it."""

    def __init__(self, secret_rows: Callable[[], Iterable[SecretRow]], *, redact: bool) -> None:
        """`secret_rows` returns the requests about Secrets; it is called on the first question about one."""
        self._secret_rows = secret_rows
        self._redact = redact
        self._bodies: dict[tuple[str, str], list[JSON]] | None = None
        self._redactors: dict[tuple[str, str, str], Redactor] = {}

    def of(self, resource: str, namespace: str, name: str) -> Redactor:
        """The redactor of an object; `resource` is its plural name."""
        key = (resource, namespace, name) if resource == SECRETS else (resource, "", "")
        redactor = self._redactors.get(key)
        if redactor is None:
            bodies = self._secrets().get((namespace, name), ()) if self._redact and resource == SECRETS else ()
            redactor = self._redactors[key] = Redactor(resource, bodies, redact=self._redact)
        return redactor

    def _secrets(self) -> dict[tuple[str, str], list[JSON]]:
        if self._bodies is None:
            self._bodies = {}
            for namespace, name, *texts in self._secret_rows():
                self._bodies.setdefault((namespace, name), []).extend(map(decoded, texts))
        return self._bodies


def decoded(text: str | None) -> JSON:
    """A body; None for one that is absent, `UNREADABLE` for one that is no JSON or too deep."""
    try:
        return orjson.loads(text) if text else None
    except orjson.JSONDecodeError:
        return UNREADABLE
