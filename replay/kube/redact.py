"""Redaction: the values of Secrets, in every form in which a text may repeat them, and bearer tokens anywhere."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec
import orjson

from replay.json import JSON
from replay.kube.attributes import Missing, PartialObject

SECRET_FIELDS = ("data", "stringData")
UNREADABLE = object()
"""The stand-in for a Secret's body that cannot be decoded, whose values are unknown."""
_ANYTHING = re.compile(r".+", re.DOTALL)
_SHORT = 4
"""The length below which values match only as whole words. Inside other words they would match everywhere."""
_LINE = 8
"""The length from which the lines of a longer text (a key, a file) are matched one by one."""
_HTML = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})
"""Characters that only Go's `encoding/json` escapes."""


def secret_pattern(bodies: Iterable[JSON | PartialObject]) -> re.Pattern[str] | None:
    """Return a pattern for each value in Secrets, patches of Secrets and lists of Secrets, or None if there is none.

    For an `UNREADABLE` body it matches everything.
    """
    bodies = list(bodies)
    if any(body is UNREADABLE for body in bodies):
        return _ANYTHING
    forms = {form for body in bodies for value in _values(body) for form in _forms(value)}
    # The pattern takes the first alternative that matches, so a value must come before its own prefixes.
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
    """Yield the values in an operation of a JSON patch (RFC 6902)."""
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


REDACTED = "(redacted)"
_BEFORE_TOKEN = rf"\1{REDACTED}"
_TOKEN_FIELDS = frozenset({"token", "id_token", "refresh_token", "bearerToken", "client-key-data"})
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_encode = msgspec.json.Encoder().encode
# A JSON Web Token, such as that of a service account: two base64url objects, each beginning with `{"`, and a signature.
# It may follow other text without a space. Possessive quantifiers visit each run of letters once, because texts may be
# long.
_WEB_TOKEN = re.compile(r"(?<![\w-])((?:(?!eyJ)[\w-])*+)eyJ[\w-]{10,}+\.eyJ[\w-]{10,}+\.[\w-]*+")


def redacted_object(resource: str, body: JSON) -> JSON:
    """Return a copy of an object without secrets. `resource` is the plural name of the request's resource."""
    if resource == "secrets" and isinstance(body, Mapping):
        body = {key: _masked(value) if key in SECRET_FIELDS else value for key, value in body.items()}
    return _without_tokens(body, hide_last_applied=resource == "secrets")


def redacted_patch(resource: str, patch: Iterable[JSON]) -> tuple[JSON, ...]:
    """Return a JSON patch without secrets. Operations keep their paths, and values inside Secret data are redacted."""
    operations = tuple(patch)
    if resource != "secrets" and not may_show_token(operations):
        return operations
    return tuple(_redacted_operation(resource, operation) for operation in operations)


def redacted_text(text: str) -> str:
    """Return a text, such as a policy's message, without bearer tokens."""
    return _WEB_TOKEN.sub(_BEFORE_TOKEN, text) if "eyJ" in text else text


def redacted_line(text: str) -> str:
    """Redact a log line that is not an event, because the place of Secret data in it is unknown."""
    return REDACTED if "secret" in text.lower() else redacted_text(text)


def may_show_token(value: object) -> bool:
    """Return whether any text may hold a token. Such a search is ten times faster than a walk through the value."""
    try:
        text = _encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError):  # a number or a text that is not JSON
        return True
    # One of these occurs in every value with a token (`oken` is part of `token` and `bearerToken`). Plain substring
    # searches are used because this runs for every request.
    return b"oken" in text or b"eyJ" in text or b"client-key-data" in text or b"last-applied-configuration" in text


def _redacted_operation(resource: str, operation: JSON) -> JSON:
    if not isinstance(operation, Mapping) or "value" not in operation:
        return operation
    parts = str(operation.get("path", "")).split("/")[1:]
    value = operation["value"]
    if resource == "secrets" and parts[:1] and parts[0] in SECRET_FIELDS:
        value = _masked(value)
    elif resource == "secrets" and not parts:
        value = redacted_object(resource, value)
    elif parts and (parts[-1] in _TOKEN_FIELDS or parts[-1].replace("~1", "/") == _LAST_APPLIED):
        value = REDACTED
    return {**operation, "value": _without_tokens(value, hide_last_applied=resource == "secrets")}


def _masked(value: JSON) -> JSON:
    """Return Secret data with redacted values. Its keys are not secret."""
    return dict.fromkeys(value, REDACTED) if isinstance(value, Mapping) else REDACTED


def _without_tokens(value: JSON, *, hide_last_applied: bool) -> JSON:
    if isinstance(value, str):
        return redacted_text(value)
    if isinstance(value, Mapping):
        return {
            key: REDACTED
            if (key in _TOKEN_FIELDS and isinstance(item, str) and item) or (hide_last_applied and key == _LAST_APPLIED)
            else _without_tokens(item, hide_last_applied=hide_last_applied)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [_without_tokens(item, hide_last_applied=hide_last_applied) for item in value]
    return value


SECRETS = "secrets"


class Redactor:
    """Redaction of Secret data and tokens in all output about one request. With `redact` false it shows everything.

    `resource` is the plural name of the request's resource. `bodies` are all objects and patches of the request. The
    values in their `data` and `stringData`, decoded or not, are redacted in any text, key and value.
    """

    __slots__ = ("_pattern", "redact", "resource")

    def __init__(self, resource: str, bodies: Iterable[JSON | PartialObject] = (), *, redact: bool = True) -> None:
        """Keep the values to redact. Bodies of other resources than Secrets are not read."""
        self.redact = redact
        self.resource = resource
        self._pattern = secret_pattern(bodies) if redact and resource == SECRETS else None

    def text(self, text: str) -> str:
        """Return a redacted message, annotation or key. The same object is returned if nothing is redacted."""
        if not self.redact:
            return text
        if self._pattern is not None:
            text = self._pattern.sub(REDACTED, text)
        return redacted_text(text)

    def texts(self, texts: Mapping[str, str]) -> Mapping[str, str]:
        """Return redacted audit annotations."""
        return {self.text(key): self.text(value) for key, value in texts.items()} if self.redact else texts

    def object(self, body: JSON) -> JSON:
        """Return a redacted copy of an object of the request."""
        return self._masked(redacted_object(self.resource, body)) if self.redact else body

    def patch(self, patch: Iterable[JSON]) -> tuple[JSON, ...]:
        """Return a redacted JSON patch. Values inside Secret data are redacted, operations and paths are not."""
        if not self.redact:
            return tuple(patch)
        operations = redacted_patch(self.resource, patch)
        return operations if self._pattern is None else tuple(map(self._masked, operations))

    def _masked(self, value: JSON) -> JSON:
        """Return a copy without the Secret's values in any text. Those in its data are redacted before."""
        if self._pattern is None:
            return value
        if isinstance(value, str):
            return self._pattern.sub(REDACTED, value)
        if isinstance(value, Mapping):
            return {self._pattern.sub(REDACTED, key): self._masked(item) for key, item in value.items()}
        return [self._masked(item) for item in value] if isinstance(value, list) else value


SecretRow = tuple[str, str, str | None, str | None]
"""The namespace and name of a Secret, and both bodies of a request about it as JSON text."""


class ObjectRedactors:
    """Redactors of objects. A value that any request shows of a Secret is redacted in all texts about it."""

    def __init__(self, secret_rows: Callable[[], Iterable[SecretRow]], *, redact: bool) -> None:
        """Keep the source of Secrets. `secret_rows` returns the requests about them, and is called on first need."""
        self._secret_rows = secret_rows
        self._redact = redact
        self._bodies: dict[tuple[str, str], list[JSON]] | None = None
        self._redactors: dict[tuple[str, str, str], Redactor] = {}

    def redactor_for(self, resource: str, namespace: str, name: str) -> Redactor:
        """Return the redactor of an object. `resource` is its plural name."""
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
    """Return a body, None if it is absent, `UNREADABLE` if it is not JSON or too deeply nested."""
    try:
        return orjson.loads(text) if text else None
    except orjson.JSONDecodeError:
        return UNREADABLE
