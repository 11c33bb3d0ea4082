"""Results of rules and policies (`pkg/engine/api`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from replay.json import JSON

# Errors of rule evaluation. `str()` is Kyverno's message if there is one.


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


PASS, FAIL, ERROR, SKIP = "pass", "fail", "error", "skip"


class RuleResponse(Struct, frozen=True):
    """Result of one rule.

    `place` names the part of the rule and of the object that it comes from, outermost first. It is empty unless the
    request asks for it.
    """

    name: str
    status: str
    message: str
    place: tuple[str, ...] = ()


class PolicyResponse(Struct):
    """Results of one policy's rules, with the object before and after them."""

    policy: Mapping[str, Any]
    resource: JSON
    patched: JSON
    namespace_labels: Mapping[str, str]
    rules: list[RuleResponse] = field(default_factory=list)

    @property
    def policy_name(self) -> str:
        """Name of the policy."""
        return str(self.policy["metadata"]["name"])

    @property
    def is_error(self) -> bool:
        """Whether a rule could not be evaluated."""
        return any(rule.status == ERROR for rule in self.rules)

    @property
    def is_successful(self) -> bool:
        """Whether no rule failed and all could be evaluated."""
        return not any(rule.status in (FAIL, ERROR) for rule in self.rules)


def rule_error(name: str, message: str, error: Exception | None = None) -> RuleResponse:
    """Return the result of a rule that cannot be evaluated."""
    return RuleResponse(name, ERROR, f"{message}: {error}" if error is not None else message)
