"""Errors of rule evaluation; `str()` is Kyverno's text if it has one."""

from __future__ import annotations


class RuleError(Exception):
    """A rule cannot be evaluated: Kyverno makes an error of it, which `failurePolicy` answers."""


class JMESPathError(RuleError):
    """An expression cannot be read or evaluated."""


class NotFoundError(JMESPathError):
    """An object lacks the requested key."""

    def __init__(self, key: str) -> None:
        """`key` as the expression spells it."""
        super().__init__(f'Unknown key "{key}" in path')


class GoPanicError(Exception):
    """Kyverno's engine stops with a runtime error on this input; `str()` is Go's text."""


class UndeterminedError(Exception):
    """A rule reads an unknown value; `str()` says what and why in one clause."""
