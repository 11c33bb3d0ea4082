"""Audit annotations of validating policies (`policy/validating/dispatcher.go`)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

import orjson

from replay.cellib.version import KubernetesVersion

VALIDATION_FAILURE_KEY = "validation.policy.admission.k8s.io/validation_failure"

ALL_FAILURES_SINCE = 37
"""First minor that lists all failures. Before it, each was written separately, and an annotation cannot be overwritten.
"""

MAX_VALIDATION_FAILURES = 50
MAX_VALUE_BYTES = 10 * 1024

_GO_ESCAPES = (("<", "\\u003c"), (">", "\\u003e"), ("&", "\\u0026"), ("\u2028", "\\u2028"), ("\u2029", "\\u2029"))
"""Characters that encoding/json escapes for HTML and JavaScript."""


class ValidationFailure(NamedTuple):
    """Denial by a binding with the action Audit."""

    message: str
    policy: str
    binding: str
    expression_index: int
    validation_actions: tuple[str, ...]


def validation_failure_value(failures: Sequence[ValidationFailure], server: KubernetesVersion) -> str:
    """Return the annotation's JSON, byte for byte as Go writes it.

    It has the first 50 failures, or only the first on older servers.
    """
    most = MAX_VALIDATION_FAILURES if server.minor >= ALL_FAILURES_SINCE else 1
    rows = [
        {
            "message": failure.message,
            "policy": failure.policy,
            "binding": failure.binding,
            "expressionIndex": failure.expression_index,
            "validationActions": failure.validation_actions,
        }
        for failure in failures[:most]
    ]
    try:
        text = orjson.dumps(rows).decode()
    except TypeError:  # a text with lone surrogates
        text = json.dumps(rows, ensure_ascii=False, separators=(",", ":"))
    for character, escape in _GO_ESCAPES:
        text = text.replace(character, escape)
    return text


class AuditAnnotationCollector:
    """The published annotations of one policy over its bindings and parameters."""

    __slots__ = ("_values",)

    def __init__(self) -> None:
        """Start without annotations."""
        self._values: dict[str, dict[str, None]] = {}

    def add(self, key: str, value: str) -> None:
        """Add a value, cut to 10 KiB, unless it is present."""
        self._values.setdefault(key, {})[_truncated(value)] = None

    def published(self, policy: str) -> dict[str, str]:
        """Return the annotations by full key, with several values joined."""
        return {f"{policy}/{key}": ", ".join(values) for key, values in self._values.items()}


def _truncated(value: str) -> str:
    """Return the first 10 KiB. Each byte of a character that is cut in the middle becomes one U+FFFD in the log."""
    data = value.encode("utf-8", "surrogatepass")
    if len(data) <= MAX_VALUE_BYTES:
        return value
    data = data[:MAX_VALUE_BYTES]
    text = data.decode("utf-8", "ignore")
    return text + "\ufffd" * (len(data) - len(text.encode("utf-8")))
