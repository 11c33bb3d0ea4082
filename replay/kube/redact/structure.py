"""Secrets by their place: the data of Secrets and bearer tokens, wherever a body or a patch shows them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import msgspec

from replay.json import JSON
from replay.kube.redact.values import SECRET_FIELDS

REDACTED = "(redacted)"
_BEFORE_TOKEN = rf"\1{REDACTED}"
_TOKEN_FIELDS = frozenset({"token", "id_token", "refresh_token", "bearerToken", "client-key-data"})
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_encode = msgspec.json.Encoder().encode
# A JSON Web Token: two base64url objects, each beginning with `{"`, and a signature. Service account tokens are such. It may
# follow other text without a space. Each run of letters is looked at once, from its beginning: texts may be long.
_WEB_TOKEN = re.compile(r"(?<![\w-])((?:(?!eyJ)[\w-])*+)eyJ[\w-]{10,}+\.eyJ[\w-]{10,}+\.[\w-]*+")


def redacted_object(resource: str, body: JSON) -> JSON:
    """A copy of an object without secrets; `resource` is the plural name of the request's resource."""
    if resource == "secrets" and isinstance(body, Mapping):
        body = {key: _masked(value) if key in SECRET_FIELDS else value for key, value in body.items()}
    return _without_tokens(body, hide_last_applied=resource == "secrets")


def redacted_patch(resource: str, patch: Iterable[JSON]) -> tuple[JSON, ...]:
    """A JSON patch without secrets: an operation keeps its path, a value inside Secret data is hidden."""
    operations = tuple(patch)
    if resource != "secrets" and not may_show_token(operations):
        return operations
    return tuple(_redacted_operation(resource, operation) for operation in operations)


def redacted_text(text: str) -> str:
    """Text such as a policy's message without bearer tokens."""
    return _WEB_TOKEN.sub(_BEFORE_TOKEN, text) if "eyJ" in text else text


def redacted_line(text: str) -> str:
    """Redact a log line that is not an event, because the place of Secret data in it is unknown."""
    return REDACTED if "secret" in text.lower() else redacted_text(text)


def may_show_token(value: object) -> bool:
    """Whether a text that tokens go with occurs at all: looking for it is ten times faster than taking the value apart."""
    try:
        text = _encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError):  # a number or a text that is not JSON
        return True
    # What occurs in the text of all that is hidden in other objects than Secrets (`token`, `bearerToken`), one after the other:
    # every request is asked.
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
    """The keys of Secret data are no secret, its values are."""
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
