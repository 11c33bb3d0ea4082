"""What goes wrong while a rule is evaluated; `str()` is Kyverno's text where Kyverno has one."""

from __future__ import annotations


class RuleError(Exception):
    """A rule cannot be evaluated: Kyverno makes an error of it, which `failurePolicy` answers."""


class JMESPathError(RuleError):
    """An expression cannot be read or evaluated."""


class NotFoundError(JMESPathError):
    """An object does not have the key that is asked for."""

    def __init__(self, key: str) -> None:
        """`key` as the expression spells it."""
        super().__init__(f'Unknown key "{key}" in path')


class GoPanicError(Exception):
    """Kyverno's engine stops with a runtime error on this input; `str()` is Go's text."""


class UndeterminedError(Exception):
    """What a rule reads is not known; `str()` says what and why in one clause."""
