"""Warnings about policies that protect labelled objects from updates, although an update can remove the label.

The rule: an UPDATE is judged only by a label or annotation of `object`, although the old object is the protected one.
Otherwise the policy may only check who changes the object, or that it stays the same. Policies that judge the new
object itself are not meant.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from replay.cel.value.types import DYN
from replay.cellib.environment import ExpressionKind, admission_env
from replay.cellib.version import NEWEST
from replay.manifests.expression import CheckedExpression
from replay.manifests.lint import catalogue
from replay.manifests.lint.condition import Condition
from replay.manifests.lint.reachable import Facts
from replay.manifests.lint.reading import Reading, SchemaPath
from replay.manifests.lint.rule import operations_of
from replay.manifests.lint.warning import LintContext, SilenceableWarning, warned
from replay.manifests.loader import LoadedObject

_LABELS: tuple[SchemaPath, ...] = (("metadata", "labels"), ("metadata", "annotations"))
_IDENTITY: tuple[SchemaPath, ...] = (("metadata", "name"), ("metadata", "namespace"), ("kind",), ("apiVersion",))
_WHO: tuple[SchemaPath, ...] = (("request", "userInfo"), ("authorizer",))
_UPDATE: tuple[SchemaPath, str] = (("request", "operation"), "UPDATE")


def lint_guard_label(
    policy: LoadedObject, compiled: Sequence[CheckedExpression], context: LintContext
) -> Iterator[SilenceableWarning]:
    """Yield a warning for a label that decides about protection and is read in the new object."""
    if policy.kind != "ValidatingAdmissionPolicy" or "UPDATE" not in operations_of(policy):
        return
    if not any("Deny" in (each.value["spec"].get("validationActions") or ()) for each in context.bindings(policy)):
        return
    guard = _Guard(compiled, has_create="CREATE" in operations_of(policy))
    for kind in _LABELS:
        where = guard.first_reading(kind)
        if where is not None and guard.is_escaped_without(kind):
            name = f"metadata.{kind[1]}"
            message = (
                f"an UPDATE that takes away what `object.{name}` is asked for passes, whatever else it changes: look at "
                f"`oldObject.{name}`, which is what is protected"
            )
            yield warned(policy, catalogue.REMOVABLE_LABEL, message, where)


class _Guard:
    """The conditions and validations of a policy, as they are for an UPDATE."""

    def __init__(self, compiled: Sequence[CheckedExpression], *, has_create: bool) -> None:
        self._has_create = has_create
        names = {each.variable: DYN for each in compiled if each.variable}
        env = admission_env(NEWEST, ExpressionKind.VALIDATION, has_params=True, variables=names)
        self._variables = {e.variable: Condition(env, e.compiled.expression) for e in compiled if e.variable}
        kinds = (ExpressionKind.MATCH_CONDITION, ExpressionKind.VALIDATION)
        self._parts = [
            (each.path, each.compiled.kind, Condition(env, each.compiled.expression))
            for each in compiled
            if each.compiled.kind in kinds and not each.variable
        ]
        known = Facts(dict([_UPDATE]))
        variables: dict[str, Reading] = {}
        self._readings: dict[str, Reading] = {}
        for each in compiled:
            condition = Condition(env, each.compiled.expression)
            if (each.variable or each.compiled.kind in kinds) and (reading := condition.reading(known, variables)):
                self._readings[each.path] = reading
                if each.variable:
                    variables[each.variable] = reading
        self._paths = {path for each in self._readings.values() for path in _read(each)}

    def first_reading(self, kind: SchemaPath) -> str | None:
        """Return the path of the expression that reads labels (or annotations) of the new object.

        None if some expression reads those of the old object.
        """
        if any(path[1:3] == kind for path in self._paths if path[0] == "oldObject"):
            return None
        for field_path, reading in self._readings.items():
            if any(path[:3] == ("object", *kind) for path in _read(reading)):
                return field_path
        return None

    def is_escaped_without(self, kind: SchemaPath) -> bool:
        """Return whether the policy protects the old object, and certainly admits an update that removes its labels."""
        return self._is_protection() and self._admits(Facts(dict([_UPDATE]), {("object", *kind): False}))

    def _is_protection(self) -> bool:
        """Return whether the policy only restricts who changes an object, or which parts stay the same."""
        old = {path[1:] for path in self._paths if path[0] == "oldObject"}
        new = {path[1:] for path in self._paths if path[0] == "object" and len(path) > 1}
        others = {
            path for path in new if path[:2] not in _LABELS and path not in _IDENTITY and not _is_among(path, old)
        }
        is_compared = bool(old - {()})
        by_user = any(path[: len(who)] == who for path in self._paths for who in _WHO)
        return not others and (is_compared or (by_user and not self._has_create))

    def _admits(self, facts: Facts) -> bool:
        values, presence = dict(facts.values), dict(facts.presence)
        for name, condition in self._variables.items():
            value = condition.value(Facts(values, presence))
            if isinstance(value, bool):
                values["variables", name] = value
            elif value == {}:
                presence["variables", name] = False  # what is absent is looked for in an empty map too
        known = Facts(values, presence)
        results = [(kind, condition.value(known)) for _, kind, condition in self._parts]
        if any(kind is ExpressionKind.MATCH_CONDITION and value is False for kind, value in results):
            return True
        return all(value is True for kind, value in results if kind is ExpressionKind.VALIDATION)


def _read(reading: Reading) -> set[SchemaPath]:
    """Return the paths that are read or tested, without the prefixes of other paths."""
    paths = reading.paths | reading.guards
    on_the_way = {path[:end] for path in paths for end in range(1, len(path))}
    return {path for path in paths if path not in on_the_way}


def _is_among(path: SchemaPath, others: set[SchemaPath]) -> bool:
    """Return whether a path, a prefix of it or something below it is among others."""
    return any(path[: len(each)] == each or each[: len(path)] == path for each in others if each)
