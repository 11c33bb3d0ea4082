"""Texts of denials and warnings of policies and webhooks: how the server words them, and how a message shows them.

`k8s.io/apiserver`, `plugin/policy/validating/dispatcher.go`, `plugin/policy/generic/policy_dispatcher.go`,
`plugin/webhook/errors/statuserror.go`. The view `decision` reads the same texts in SQL.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from replay.go.format import quote

VALIDATING_DENIAL: Final = re.compile(
    r"ValidatingAdmissionPolicy '([^']+)' (?:with binding '([^']+)' )?denied request: "
)
MUTATING_DENIAL: Final = re.compile(r"^policy (?:'([^']+)' with binding '([^']+)'|\"([^\"]+)\") denied request: ")
"""Message of `generic.PolicyError`, which the mutating dispatcher returns unchanged."""
WEBHOOK_DENIAL: Final = re.compile(r'admission webhook "([^"]*)" denied the request')
DENIAL: Final = re.compile(
    r"(?:(?:ValidatingAdmissionPolicy|policy) ['\"](?P<policy>[^'\"]*)['\"]"
    r"(?: with binding '(?P<binding>[^']*)')? denied request: (?P<message>.*)"
    r'|(?:admission webhook|failed calling webhook|failed calling admission webhook) "(?P<webhook>[^"]*)"'
    r"(?: denied the request(?:: (?P<said>.*)| without explanation)|(?: failed)?: (?P<failure>.*)))",
    re.DOTALL,
)
"""The server's own wording of any denial, which is the first match in a message. Later text is of a policy or webhook."""
_WARNING: Final = re.compile(
    r"Validation failed for ValidatingAdmissionPolicy '([^']*)' with binding '([^']*)': (.*)", re.DOTALL
)


class PolicyWarning(NamedTuple):
    """Warning of a validating policy."""

    policy: str
    binding: str
    message: str

    @property
    def text(self) -> str:
        """The warning as the client gets it."""
        where = f"ValidatingAdmissionPolicy '{self.policy}' with binding '{self.binding}'"
        return f"Validation failed for {where}: {self.message}"


def policy_warning(text: str) -> PolicyWarning | None:
    """Return the warning of a policy that a text is, or None."""
    match = _WARNING.fullmatch(text)
    return None if match is None else PolicyWarning(*match.groups())


def webhook_denial(webhook: str, explanation: str | None) -> str:
    """Return the message of a webhook's denial (`ToStatusErr`)."""
    denied_by = f"admission webhook {quote(webhook)} denied the request"
    return f"{denied_by}: {explanation}" if explanation else f"{denied_by} without explanation"


def without_webhook(message: str) -> str:
    """Return what a webhook says in its denial. Another message stays as it is."""
    match = DENIAL.match(message)
    return (match and match["said"]) or message


def deniers(message: str) -> tuple[str, ...]:
    """Return the policy and binding, or the webhook, that a message says denied a request. Empty for another message."""
    for pattern in (VALIDATING_DENIAL, MUTATING_DENIAL, WEBHOOK_DENIAL):
        if match := pattern.search(message):
            return tuple(name for name in match.groups() if name)
    return ()
