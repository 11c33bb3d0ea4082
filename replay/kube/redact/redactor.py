"""Redaction of one request: the values of its Secret anywhere, and texts that look like tokens."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from replay.json import JSON
from replay.kube.attributes import PartialObject
from replay.kube.redact.structure import REDACTED, may_show_token, redacted_object, redacted_patch, redacted_text
from replay.kube.redact.values import secret_pattern

SECRETS = "secrets"


class Redactor:
    """Masks Secret data and tokens in what is shown of one request; with `redact` false it shows everything.

    `resource` is the plural name of the request's resource, `bodies` are all objects and patches of the request: what
    stands in their `data` and `stringData`, decoded or not, is masked in any text, key and value.
    """

    __slots__ = ("_pattern", "redact", "resource")

    def __init__(self, resource: str, bodies: Iterable[JSON | PartialObject] = (), *, redact: bool = True) -> None:
        """Remember the values that must not appear; nothing is looked at for other resources than Secrets."""
        self.redact = redact
        self.resource = resource
        self._pattern = secret_pattern(bodies) if redact and resource == SECRETS else None

    def may_hide(self, value: object) -> bool:
        """Whether anything is hidden in what consists of texts and patches: most has nothing of what hiding goes by."""
        return self.resource == SECRETS or may_show_token(value)

    def text(self, text: str) -> str:
        """A message, an annotation, a key; the same object where nothing is hidden."""
        if not self.redact:
            return text
        if self._pattern is not None:
            text = self._pattern.sub(REDACTED, text)
        return redacted_text(text)

    def texts(self, texts: Mapping[str, str]) -> Mapping[str, str]:
        """Audit annotations."""
        return {self.text(key): self.text(value) for key, value in texts.items()} if self.redact else texts

    def object(self, body: JSON) -> JSON:
        """A copy of an object of the request."""
        return self._masked(redacted_object(self.resource, body)) if self.redact else body

    def patch(self, patch: Iterable[JSON]) -> tuple[JSON, ...]:
        """A JSON patch: the values inside Secret data are hidden, operations and paths are shown."""
        if not self.redact:
            return tuple(patch)
        operations = redacted_patch(self.resource, patch)
        return operations if self._pattern is None else tuple(map(self._masked, operations))

    def _masked(self, value: JSON) -> JSON:
        """A copy without the Secret's values in any text; structure alone has hidden those in the data already."""
        if self._pattern is None:
            return value
        if isinstance(value, str):
            return self._pattern.sub(REDACTED, value)
        if isinstance(value, Mapping):
            return {self._pattern.sub(REDACTED, key): self._masked(item) for key, item in value.items()}
        return [self._masked(item) for item in value] if isinstance(value, list) else value
