"""Rules that hold pods to the Pod Security Standards (`pkg/engine/handlers/validation/validate_pss.go`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from replay.json import JSON
from replay.kyverno.rules.errors import UndeterminedError
from replay.kyverno.rules.request import Request
from replay.kyverno.rules.response import RuleResponse


def validate_pod_security(
    request: Request,
    policy: Mapping[str, Any],
    rule: Mapping[str, Any],
    resource: JSON,
    exceptions: Sequence[Mapping[str, Any]],
) -> RuleResponse | None:
    """The answer of a rule, None for a request that deletes. Raises UndeterminedError."""
    del policy, resource, exceptions
    if request.operation == "DELETE":
        return None
    raise UndeterminedError(f"rule {rule.get('name') or ''} uses podSecurity, which is not evaluated")
