"""Errors of rule evaluation. `str()` is Kyverno's message if there is one."""

from __future__ import annotations


class RuleError(Exception):
    """Rule that cannot be evaluated. Kyverno reports an error, and `failurePolicy` decides."""


class JMESPathError(RuleError):
    """Expression that cannot be parsed or evaluated."""


class NotFoundError(JMESPathError):
    """Key that an object does not have."""

    def __init__(self, key: str) -> None:
        """`key` is written as in the expression."""
        super().__init__(f'Unknown key "{key}" in path')


class GoPanicError(Exception):
    """Input on which Kyverno's engine panics. `str()` is Go's message."""


class UndeterminedError(Exception):
    """Unknown value that a rule reads. `str()` names the value and the reason."""
