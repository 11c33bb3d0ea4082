"""Constraints: refusals, matching, and actions on violations (`constraint/pkg/client`)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

from msgspec import Struct

from replay.gatekeeper.match import Match, match_of
from replay.gatekeeper.rego.value import Value, number_of
from replay.gatekeeper.template import ConstraintTemplate, RefusedError
from replay.go.format import float_text
from replay.json import JSON
from replay.kube.custom_schema import defaulted, problems, pruned, unknown_fields
from replay.manifests.match_validation import validate_label_selector

GROUP = "constraints.gatekeeper.sh"
WEBHOOK, AUDIT, GATOR, NATIVE = "validation.gatekeeper.sh", "audit.gatekeeper.sh", "gator.gatekeeper.sh", "vap.k8s.io"
ACTIONS = ("deny", "warn", "dryrun")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)


class Constraint(Struct, frozen=True):
    """Constraint of a template."""

    template: ConstraintTemplate
    name: str
    object: JSON
    match: Match | None
    """Match criteria. None matches every object."""
    action: str
    scoped: dict[str, tuple[str, ...]]
    """Actions by enforcement point, if the action is `scoped`."""
    parameters: Value

    @property
    def key(self) -> str:
        """Kind and name."""
        return f"{self.template.kind}/{self.name}"

    def actions_at(self, point: str) -> tuple[str, ...]:
        """Return the actions of a violation at an enforcement point.

        There are none if the constraint is not enforced there.
        """
        if self.action != "scoped":
            return (self.action,)
        return self.scoped.get(point, ())


def constraint_of(value: JSON, template: ConstraintTemplate, *, prune: bool = False) -> Constraint:
    """Return a constraint. Raises RefusedError.

    `prune` drops unknown fields first, as the API server does.
    """
    metadata = value.get("metadata") or {}
    name = metadata.get("name") or ""
    if not name:
        raise RefusedError("invalid Constraint: missing metadata.name")
    if prune:
        value = pruned(template.schema, value, is_root=True)
    match = ((value.get("spec") or {}).get("match")) if isinstance(value.get("spec"), dict | None) else None
    for field in ("labelSelector", "namespaceSelector"):
        _check_selector((match or {}).get(field) if isinstance(match, dict) else None)
    # The order of these checks is Gatekeeper's: only the first error is reported.
    if not _SUBDOMAIN.fullmatch(name) or len(name) > 253:
        raise RefusedError(
            "invalid Constraint: invalid name: \"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end "
            "with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')\""
        )
    if value.get("kind") != template.kind:
        raise RefusedError(
            f'invalid Constraint: wrong kind "{value.get("kind")}" for constraint "{name}"; want "{template.kind}"'
        )
    version = str(value.get("apiVersion") or "").rpartition("/")[2]
    if version not in ("v1alpha1", "v1beta1"):
        raise RefusedError(
            f'invalid Constraint: unsupported version "{version}" for Constraint "{name}"; supported versions: map[v1alpha1:true v1beta1:true]'
        )
    found = list(problems(template.schema, _with_floats(value)))
    if found:
        raise RefusedError("schema validation failed: " + aggregate([f"[].{each}" for each in found]))
    unknown = list(unknown_fields(template.schema, value, is_root=True))
    if unknown:
        raise RefusedError(f"invalid Constraint: unknown fields: [{' '.join(unknown)}]")
    value = defaulted(template.schema, value)
    spec = value.get("spec") or {}
    action = spec.get("enforcementAction", "deny")
    parameters = spec.get("parameters")
    return Constraint(
        template=template,
        name=name,
        object=value,
        match=None if spec.get("match") is None else match_of(spec["match"]),
        action=action,
        scoped=_scoped(spec) if action == "scoped" else {},
        parameters={} if parameters is None else stored(parameters),
    )


def _check_selector(value: JSON) -> None:
    if not isinstance(value, dict):
        return
    expressions = [
        {"key": each.get("key") or "", "operator": each.get("operator") or "", "values": each.get("values")}
        for each in value.get("matchExpressions") or ()
    ]
    selector = {"matchLabels": value.get("matchLabels"), "matchExpressions": expressions}
    # Gatekeeper names `labelSelector` for both selectors, and not `match` above it.
    if found := [str(error) for error in validate_label_selector(selector, "spec.labelSelector")]:
        raise RefusedError(f"invalid Constraint: {aggregate(found)}")


def aggregate(problems: Sequence[str]) -> str:
    """Return several problems as one text, as an `Aggregate` error of Kubernetes does."""
    return problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"


def _scoped(spec: JSON) -> dict[str, tuple[str, ...]]:
    """Return the actions by enforcement point (`GetEnforcementActionsForEP`). Raises RefusedError."""
    given = spec.get("scopedEnforcementActions")
    if not isinstance(given, list):
        raise RefusedError("missing required field: spec.scopedEnforcementActions must be defined")
    found: dict[str, dict[str, None]] = {point: {} for point in (WEBHOOK, AUDIT, GATOR, NATIVE)}
    for each in given:
        action = str(each.get("action") or "")
        for point in each.get("enforcementPoints") or ():
            name = point.get("name") or ""
            if name == "*":
                for actions in found.values():
                    actions[action] = None
                break
            if name in found:
                found[name][action] = None
    return {point: tuple(actions) for point, actions in found.items()}


def stored(value: Any) -> Value:
    """Return a value as it is in OPA's storage: written as JSON, with integers in full."""
    if isinstance(value, dict):
        return {key: stored(item) for key, item in value.items()}
    if isinstance(value, list):
        return [stored(item) for item in value]
    return number_of(float_text(value)) if isinstance(value, float) else value


def _with_floats(value: JSON) -> JSON:
    """Return a value with all numbers as float64, as Gatekeeper validates it against the schema."""
    if isinstance(value, dict):
        return {key: _with_floats(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_with_floats(each) for each in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


GroupKind = tuple[str, str]
Asked = tuple[tuple[Constraint, tuple[str, ...]], ...]
"""Constraints with the actions on a violation."""
_MOST_ASKED: Final = 4096
"""Size limit of the cache by kinds, operation and enforcement point. The kinds come from untrusted objects."""


class ConstraintIndex:
    """Constraints of a set, indexed by the kind, operation and enforcement point that they may match."""

    def __init__(self, constraints: Iterable[Constraint]) -> None:
        """Keep the constraints in the given order."""
        self._constraints = tuple(constraints)
        self._asked: dict[tuple[frozenset[GroupKind], str, str], Asked] = {}

    def constraints_for(self, kinds: frozenset[GroupKind], operation: str, point: str) -> Asked:
        """Return the constraints that are enforced at a point and may match one of the kinds and the operation."""
        key = kinds, operation, point
        asked = self._asked.get(key)
        if asked is None:
            if len(self._asked) >= _MOST_ASKED:
                self._asked.clear()
            asked = self._asked[key] = tuple(
                (each, actions)
                for each in self._constraints
                if (actions := each.actions_at(point))
                and (point != WEBHOOK or each.template.handles(operation))
                and (each.match is None or not kinds or any(each.match.may_match(*kind) for kind in kinds))
            )
        return asked
