"""Gatekeeper's two webhooks: from an AdmissionRequest to an answer (`gatekeeper/pkg/webhook/{policy,mutation}.go`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct, field

from replay.gatekeeper.constraint import ACTIONS, GENERATED, ORIGINAL, WEBHOOK, MatchError, NotKnownError, is_namespace
from replay.gatekeeper.expansion import ExpansionError
from replay.gatekeeper.mutation.mutator import OPERATIONS
from replay.gatekeeper.mutation.walk import MutationError
from replay.gatekeeper.policy_set import GROUPS, GatekeeperPolicies
from replay.gatekeeper.review import (
    Inventory,
    Review,
    ReviewError,
    Violation,
    review,
    reviewed_object,
    reviewed_request,
)
from replay.gatekeeper.template import TARGET
from replay.json import JSON
from replay.kube.attributes import Attributes

SERVICE_ACCOUNT = "system:serviceaccount:gatekeeper-system:gatekeeper-admin"
EMPTY_REQUEST: dict[str, JSON] = {
    "uid": "",
    "kind": {"group": "", "version": "", "kind": ""},
    "resource": {"group": "", "version": "", "resource": ""},
    "operation": "",
    "userInfo": {},
}
"""Zero value of an AdmissionRequest."""

Namespaces = Callable[[str], JSON]
"""Function from a name to a namespace, None if there is none. Raises NotKnownError."""


class GatekeeperAnswer(Struct):
    """Answer of a webhook: allowed or not, with messages. `code` is 500 if the webhook fails."""

    allowed: bool = True
    code: int = 0
    message: str = ""
    denials: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    violations: list[Violation] = field(default_factory=list)
    undetermined: list[tuple[str, str]] = field(default_factory=list)
    """Undetermined parts with the reason. The key is a constraint, empty if everything depends on it."""
    object: dict[str, JSON] | None = None
    """Object after all mutators, or None if it did not change."""
    patches: dict[str, list[JSON]] = field(default_factory=dict)
    """Changes by mutator."""


def mutate(policies: GatekeeperPolicies, request: Mapping[str, JSON], namespaces: Namespaces) -> GatekeeperAnswer:
    """Return the answer of the mutating webhook."""
    user = (request.get("userInfo") or {}).get("username") or ""
    operation, value = request.get("operation") or "", request.get("object")
    if user == SERVICE_ACCOUNT or operation not in OPERATIONS or _is_own(request) or not policies.mutates:
        return GatekeeperAnswer()
    if not isinstance(value, dict) or not value.get("kind"):
        return GatekeeperAnswer(
            allowed=False,
            code=500,
            message="unexpected end of JSON input" if value is None else "Object 'Kind' is missing",
        )
    if _is_excluded(policies, "mutation-webhook", request, value):
        return GatekeeperAnswer()
    of_namespace = _is_of_namespace(request)
    name = "" if of_namespace else request.get("namespace") or ""
    try:
        namespace: JSON = value if of_namespace else None
        if name:
            namespace = namespaces(name)
            if namespace is None:
                return GatekeeperAnswer(allowed=False, code=500, message=f'namespaces "{name}" not found')
        before = _in_namespace(value, name)
        after, patches = policies.mutation.mutate(before, namespace, ORIGINAL, str(operation))
    except MutationError as error:
        return GatekeeperAnswer(allowed=False, code=500, message=str(error))
    except NotKnownError as error:
        return GatekeeperAnswer(undetermined=[("", str(error))])
    if after == before:
        return GatekeeperAnswer()
    # The request's namespace was set for matching only. The patch must not contain it.
    return GatekeeperAnswer(
        object=_in_namespace(after, (value.get("metadata") or {}).get("namespace") or ""), patches=patches
    )


def _in_namespace(value: Mapping[str, JSON], namespace: str) -> dict[str, JSON]:
    """Return an object with another namespace. An empty namespace is removed (`SetNamespace`)."""
    metadata = dict(value.get("metadata") or {})
    if namespace:
        metadata["namespace"] = namespace
    else:
        metadata.pop("namespace", None)
    if "metadata" not in value and not metadata:
        return dict(value)
    return {**value, "metadata": metadata}


def validate(  # noqa: PLR0913, PLR0917 - the request, and what it meets
    policies: GatekeeperPolicies,
    request: Mapping[str, JSON],
    namespaces: Namespaces,
    inventory: Inventory,
    point: str = WEBHOOK,
    attributes: Attributes | None = None,
) -> GatekeeperAnswer:
    """Return the answer of the validating webhook, or of another enforcement point."""
    if (request.get("userInfo") or {}).get("username") == SERVICE_ACCOUNT or not policies.validates:
        return GatekeeperAnswer()
    operation = str(request.get("operation") or "")
    raw = request.get("oldObject") if operation == "DELETE" else request.get("object")
    if isinstance(raw, dict) and _is_excluded(policies, "webhook", request, raw):
        return GatekeeperAnswer()
    name = "" if _is_of_namespace(request) else request.get("namespace") or ""
    try:
        namespace = namespaces(name) if name else None
        if name and namespace is None:
            return _failed(f'failed to create augmentedReview: namespaces "{name}" not found')
        request = dict(request)
        # The API server also sends a namespace for Namespaces. Gatekeeper removes it.
        if not name:
            request.pop("namespace", None)
        resultants = _expanded(policies, request, raw, namespace)
    except NotKnownError as error:
        return GatekeeperAnswer(undetermined=[("", str(error))])
    except (ExpansionError, MutationError, MatchError) as error:
        return _failed(f"unable to expand object: {error}")
    if operation == "DELETE" and raw is None:
        return _failed(
            f'error reviewing resource {request.get("name") or ""}: {TARGET}: target.HandleReview failed for target "{TARGET}": oldObject cannot be nil for DELETE operations\n'
        )
    answer = GatekeeperAnswer()
    try:
        _add(answer, policies, reviewed_request(request, namespace, attributes), inventory, point)
    except ReviewError as error:
        return _failed(f"error reviewing resource {request.get('name') or ''}: {TARGET}: {error}\n")
    for each in resultants:
        try:
            _add(
                answer,
                policies,
                reviewed_object(each.object, namespace, operation, GENERATED),
                inventory,
                point,
                each.template,
                each.action,
            )
        except ReviewError as error:
            return _failed(f"error reviewing resultant resource: {TARGET}: {error}\n")
    _set_messages(answer)
    return answer


def _failed(message: str) -> GatekeeperAnswer:
    return GatekeeperAnswer(allowed=False, code=500, message=message)


def _is_own(request: Mapping[str, JSON]) -> bool:
    return ((request.get("kind") or {}).get("group") or "") in GROUPS


def _is_of_namespace(request: Mapping[str, JSON]) -> bool:
    kind = request.get("kind") or {}
    return kind.get("kind") == "Namespace" and not kind.get("group")


def _is_excluded(
    policies: GatekeeperPolicies, process: str, request: Mapping[str, JSON], value: Mapping[str, JSON]
) -> bool:
    """Return whether the configuration excludes the request's namespace (`skipExcludedNamespace`)."""
    if not policies.excluded.get(process):
        return False
    name = (value.get("metadata") or {}).get("name") if is_namespace(value) else request.get("namespace")
    return policies.excludes(process, str(name or ""))


def _expanded(policies: GatekeeperPolicies, request: Mapping[str, JSON], raw: JSON, namespace: JSON) -> list[Any]:
    """Return the objects that a workload creates, mutated as generated objects.

    Raises ExpansionError, MutationError and NotKnownError.
    """
    if not isinstance(raw, dict) or policies.expansion.is_empty:
        return []
    kind = request.get("kind") or {}
    group, version = kind.get("group") or "", kind.get("version") or ""
    base = _in_namespace(raw, request.get("namespace") or "")
    base["apiVersion"], base["kind"] = (f"{group}/{version}" if group else version), kind.get("kind") or ""

    def mutated(value: dict[str, JSON]) -> dict[str, JSON]:
        try:
            return policies.mutation.mutate(value, namespace, GENERATED, "")[0]
        except MutationError as error:
            name = (value.get("metadata") or {}).get("name") or ""
            raise MutationError(f"failed to mutate resultant resource {name}: {error}") from None

    return policies.expansion.expand(base, namespace, mutated)


def _add(  # noqa: PLR0913, PLR0917 - what a review needs, and who generated the object
    answer: GatekeeperAnswer,
    policies: GatekeeperPolicies,
    under: Review,
    inventory: Inventory,
    point: str,
    template: str = "",
    action: str = "",
) -> None:
    """Review one object and add the findings. Messages begin with the template that generated it."""
    found = review(policies, under, inventory, point)
    for violation in found.violations:
        if template:
            violation.message = f"[Implied by {template}] {violation.message}"
        if action and action != "scoped":
            violation.actions = (action,)
        answer.violations.append(violation)
    answer.undetermined += [
        (constraint.key, reason)
        for constraint, reason in found.undetermined
        if any(each in ("deny", "warn") for each in constraint.actions_at(point))
    ]


def _set_messages(answer: GatekeeperAnswer) -> None:
    """Set the denials and warnings of all violations (`getValidationMessages`). An unknown action has no effect."""
    for violation in answer.violations:
        text = f"[{violation.constraint.name}] {violation.message}"
        for action in violation.actions:
            if action not in ACTIONS:
                continue
            if action == "deny":
                answer.denials.append(text)
            elif action == "warn":
                answer.warnings.append(text)
    if answer.denials:
        answer.allowed, answer.code = False, 403
