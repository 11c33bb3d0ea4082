"""How decisions name Gatekeeper's objects, behind which webhooks they decide, and which of them a refusal names."""

from __future__ import annotations

import re
from typing import Final

from replay.json import JSON
from replay.kube.engine_policy import group_of, name_and_message, policy_name

VALIDATION, MUTATION = "validation.gatekeeper.sh", "mutation.gatekeeper.sh"
"""The names of Gatekeeper's webhooks."""
_GATEKEEPER: Final = {"constraints.gatekeeper.sh": VALIDATION, "mutations.gatekeeper.sh": MUTATION}
"""The groups whose objects are policies, with the webhook that evaluates them."""
_MUTATES: Final = {"mutations.gatekeeper.sh", "config.gatekeeper.sh"}
_OF_GATEKEEPER: Final = ".gatekeeper.sh"
_CONSTRAINT: Final = re.compile(r"(?:^|\n)\[([a-z0-9][-a-z0-9.]*)\] ")


def policy_names(value: JSON, webhook: str) -> tuple[str, ...]:
    """Return the name of a constraint or mutator, if the webhook or, for an empty name, any webhook decides by it."""
    decides_by = _GATEKEEPER.get(group_of(value))
    return (policy_name(value),) if decides_by is not None and (not webhook or webhook.startswith(decides_by)) else ()


def concerns(value: JSON, webhook: str) -> bool:
    """Return whether a webhook's decisions may depend on an object. Mutation reads no templates and constraints."""
    group = group_of(value)
    return group.endswith(_OF_GATEKEEPER) and (webhook == VALIDATION or (webhook == MUTATION and group in _MUTATES))


def denied(webhook: str, message: str) -> list[tuple[str, str]]:
    """Return the constraints that a refusal names: a line begins with the name in brackets (`webhook/policy.go`)."""
    return (
        name_and_message(_CONSTRAINT.split(message)[1:]) if webhook == VALIDATION and _CONSTRAINT.match(message) else []
    )
