"""Results of all constraints for one object (`constraint/pkg/client/client.go`, the drivers of Rego and CEL)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, cast

from msgspec import Struct
from msgspec.structs import replace

from replay.gatekeeper.alike import Finding, ResultCache, ReviewResults
from replay.gatekeeper.cel_template import CELInputs, CELTemplate
from replay.gatekeeper.constraint import ORIGINAL, Constraint, Matchable, MatchError, NotKnownError, group_kind_of
from replay.gatekeeper.policy_set import GatekeeperPolicies
from replay.gatekeeper.rego.builtins.registry import Answers, answering
from replay.gatekeeper.rego.lexer import TooLargeError
from replay.gatekeeper.rego.program import Program
from replay.gatekeeper.rego.runtime import STEPS, ConflictError, TooManyStepsError
from replay.gatekeeper.rego.value import (
    Number,
    Set,
    UnknownTouchedError,
    Value,
    from_json,
    key_of,
    members_of,
    text_of_number,
)
from replay.json import JSON
from replay.kube.admission_request import attributes_of
from replay.kube.attributes import Attributes, Operation

_UNMATCHED = "unable to match constraints"
_NO_OBJECT = "invalid request object: neither object nor old object are defined"


Inventory = Callable[[], Value]
"""Function that returns the synchronized objects. It is called only if a template reads them."""


class Violation(Struct):
    """Violation of a constraint: its message, its actions, and its place in the template."""

    constraint: Constraint
    message: str
    actions: tuple[str, ...]
    details: Value = None
    line: int = 0
    """Line of the Rego rule, or number of the CEL validation, from 1. It is 0 if neither reported it."""

    @property
    def place(self) -> str:
        """Place in the template, with the code. It is empty if neither a rule nor a validation reported the violation."""
        template = self.constraint.template
        if not self.line:
            return ""
        if template.cel is not None:
            expression = " ".join(str(template.cel.source["validations"][self.line - 1].get("expression")).split())
            return f"validation {self.line - 1} of ConstraintTemplate/{template.name}: {expression}"
        code = template.rego_text.splitlines()[self.line - 1].strip()
        return f"line {self.line} of the Rego of ConstraintTemplate/{template.name}: {code}"


class ReviewError(Exception):
    """Failure of the whole review. `str()` is Gatekeeper's message."""


class Review(Struct, dict=True):
    """Object under review: the request as constraints see it, and what the constraints match."""

    request: Mapping[str, JSON]
    received: Mapping[str, JSON]
    """Request as the webhook received it."""
    known: Attributes | None
    """Attributes of a request that is partly unknown."""
    object: Mapping[str, JSON] | None
    old_object: Mapping[str, JSON] | None
    namespace: Mapping[str, JSON] | None
    source: str
    operation: str
    namespace_object: Mapping[str, JSON] | None = None
    """Namespace as policies see it."""

    @cached_property
    def attributes(self) -> Attributes:
        """Attributes that CEL expressions see."""
        return _attributes(self.received) if self.known is None else self.known


class Reviewed(Struct):
    """Result of a review: violations, and constraints whose result is unknown with the reason."""

    violations: list[Violation]
    undetermined: list[tuple[Constraint, str]]


def review(policies: GatekeeperPolicies, under: Review, inventory: Inventory, point: str) -> Reviewed:
    """Return the violations of all constraints at an enforcement point. Raises ReviewError."""
    found = Reviewed([], [])
    asked: dict[str, list[tuple[Constraint, tuple[str, ...]]]] = {}
    objects = [each for each in (under.object, under.old_object) if each is not None]
    for constraint, actions in policies.index.constraints_for(
        frozenset(map(group_kind_of, objects)), under.operation, point
    ):
        try:
            if _matches(constraint, under, objects):
                asked.setdefault(constraint.template.kind, []).append((constraint, actions))
        except MatchError as error:
            found.violations.append(Violation(constraint, f"{_UNMATCHED}: {error}", actions))
        except NotKnownError as error:
            found.undetermined.append((constraint, str(error)))
    inputs = _Inputs(under, inventory, policies.answers)
    for group in asked.values():
        results = _violations([constraint for constraint, _ in group], inputs, policies.alike)
        actions_of = {constraint.key: actions for constraint, actions in group}
        found.violations += [
            Violation(each.constraint, each.message, actions_of[each.constraint.key], each.details, each.line)
            for each in results.findings
        ]
        found.undetermined += results.undetermined
    return found


def _matches(constraint: Constraint, under: Review, objects: Sequence[Mapping[str, JSON]]) -> bool:
    """Return whether the new or the old object matches (`matchAny`). Raises MatchError and NotKnownError."""
    if constraint.match is None:
        return True
    for each in objects:
        try:
            if constraint.match.matches(Matchable(each, under.namespace, under.source)):
                return True
        except MatchError as error:
            name = (each.get("metadata") or {}).get("name") or ""
            raise MatchError(
                f"error matching the requested object: {name} :failed to run Match criteria: {error}"
            ) from None
    if not objects:
        raise MatchError(_NO_OBJECT)
    return False


class _Inputs:
    """Inputs of templates' code for a review, created on first use."""

    def __init__(self, under: Review, inventory: Inventory, answers: Answers) -> None:
        self.request = under.request
        self.answers = answers
        self._under = under
        self._inventory = inventory

    @cached_property
    def cel(self) -> CELInputs:
        return CELInputs(self._under.attributes, self._under.namespace_object)

    @cached_property
    def rego(self) -> Value:
        return from_json(dict(self.request))

    @cached_property
    def inventory(self) -> Value:
        return self._inventory()


def _violations(constraints: Sequence[Constraint], inputs: _Inputs, alike: ResultCache) -> ReviewResults:
    """Return the violations of one template's constraints.

    Results of a template that reads the inventory are not reused, because the inventory changes between requests.
    """
    template = constraints[0].template
    if template.unsupported:
        return ReviewResults(undetermined=tuple((constraint, template.unsupported) for constraint in constraints))
    if template.cel is not None:
        each = [_violations_by_cel(template.cel, constraint, inputs.cel) for constraint in constraints]
        return ReviewResults(
            tuple(f for results in each for f in results.findings),
            tuple(u for results in each for u in results.undetermined),
        )
    assert template.rego is not None
    # The inventory is no part of the request, by which earlier results are found.
    if template.rego.uses_inventory:
        return _violations_by_rego(template.rego, constraints, inputs)[0]
    keys = tuple(constraint.key for constraint in constraints)
    results = alike.find(keys, inputs.request)
    if results is None:
        results, reads = _violations_by_rego(template.rego, constraints, inputs)
        alike.remember(keys, inputs.request, template.rego.paths(reads), results)
    return results


def _violations_by_cel(cel: CELTemplate, constraint: Constraint, inputs: CELInputs) -> ReviewResults:
    results = cel.violations(inputs, constraint.object)
    return ReviewResults(
        tuple(Finding(constraint, each.message, line=each.validation + 1) for each in results if not each.unknown),
        tuple((constraint, each.unknown) for each in results if each.unknown),
    )


def _violations_by_rego(
    rego: Program, constraints: Sequence[Constraint], inputs: _Inputs
) -> tuple[ReviewResults, set[int]]:
    """Return the violations of one template's constraints, and the numbers of the paths that they read.

    A conflict between rules is the message of each constraint.
    """
    # Gatekeeper evaluates all constraints of a template in one query, so they share one budget.
    left = [STEPS]
    reads: set[int] = set()
    results: list[tuple[Value, Finding]] = []
    undetermined: list[tuple[Constraint, str]] = []
    inventory = inputs.inventory if rego.uses_inventory else {}
    for constraint in constraints:
        try:
            with answering(inputs.answers):
                entries, context = rego.ask(
                    {"review": inputs.rego, "parameters": constraint.parameters}, inventory, left, reads
                )
            if context.unknown:
                undetermined.append((constraint, context.unknown[0]))
            for value in members_of(entries):
                message = _field(value, "msg")
                if message is not None:
                    given = _field(value, "details")
                    details = {} if given is None else given[0]
                    line = context.lines.get(key_of(value), 0)
                    finding = Finding(constraint, message[0], details, line)
                    results.append((_response(constraint, details, message[0]), finding))
        except ConflictError as error:
            # The whole query fails, so that every constraint of the template reports the error.
            return ReviewResults(tuple(Finding(each, str(error)) for each in constraints), tuple(undetermined)), reads
        except (
            UnknownTouchedError,
            TooManyStepsError,
            TooLargeError,
            RecursionError,
            MemoryError,
            OverflowError,
            ValueError,
            NotImplementedError,
        ) as error:
            undetermined.append((constraint, str(error) or type(error).__name__))
    findings = tuple(_in_order(results))
    for finding in findings:
        if type(finding.message) is not str:
            raise ReviewError(
                f"Rego: extracting message binding: .msg accessor error: {_go(finding.message)}, expected string\n"
            )
    return ReviewResults(findings, tuple(undetermined)), reads


def _field(value: Value, name: str) -> list[Value] | None:
    """Return a field of a violation in a list, or None if it has no such field."""
    return [value[name]] if isinstance(value, dict) and name in value else None


def _response(constraint: Constraint, details: Value, message: Value) -> Value:
    return {"details": details, "key": {"kind": constraint.template.kind, "name": constraint.name}, "msg": message}


def _in_order(results: list[tuple[Value, Finding]]) -> Iterable[Finding]:
    """Return the findings in the order of their responses, which OPA returns as a set."""
    by_key = {key_of(response): (response, finding) for response, finding in results}
    if len(by_key) < 2:
        return [finding for _, finding in by_key.values()]
    ordered = members_of(Set(response for response, _ in by_key.values()))
    return [by_key[key_of(response)][1] for response in ordered]


def _go(value: Any) -> str:
    """Return a value and its type as Go prints them in an accessor's error."""
    if isinstance(value, bool):
        return f"{str(value).lower()} is of the type bool"
    if value is None:
        return "<nil> is of the type <nil>"
    if isinstance(value, int | Number):
        return f"{text_of_number(value)} is of the type json.Number"
    if isinstance(value, list | Set):
        return f"{_go_value(value)} is of the type []interface {{}}"
    return f"{_go_value(value)} is of the type map[string]interface {{}}"


def _go_value(value: Any) -> str:
    if isinstance(value, list | Set):
        items = value if isinstance(value, list) else members_of(value)
        return "[" + " ".join(map(_go_value, items)) + "]"
    if isinstance(value, dict):
        return "map[" + " ".join(f"{key}:{_go_value(value[key])}" for key in sorted(value)) + "]"
    if isinstance(value, int | Number) and not isinstance(value, bool):
        return text_of_number(value)
    return (
        {None: "<nil>", True: "true", False: "false"}[value] if value is None or isinstance(value, bool) else str(value)
    )


_FIELDS = (
    "uid",
    "kind",
    "resource",
    "subResource",
    "requestKind",
    "requestResource",
    "requestSubResource",
    "name",
    "namespace",
    "operation",
    "userInfo",
    "dryRun",
)
_ALWAYS = frozenset({"uid", "operation"})


def reviewed_request(request: Mapping[str, JSON], namespace: JSON, attributes: Attributes | None = None) -> Review:
    """Return the review of a request. On DELETE the old object is also the object (`setObjectOnDelete`).

    `attributes` are given if a part of the request is unknown.
    """
    value, old = request.get("object"), request.get("oldObject")
    operation = str(request.get("operation") or "")
    seen = {
        name: request[name]
        for name in _FIELDS
        if name in request and (name in _ALWAYS or request[name] not in (None, ""))
    }
    seen.setdefault("uid", "")
    if operation == "DELETE":
        value = old
    seen |= {
        "object": value,
        "oldObject": old,
        "options": request.get("options"),
        "namespaceObject": {} if namespace is None else namespace,
    }
    return Review(seen, request, attributes, value, old, namespace, ORIGINAL, operation, namespace)


def reviewed_object(value: dict[str, JSON], namespace: JSON, operation: str, source: str) -> Review:
    """Return the review of an object without a request (`augmentedUnstructuredToAdmissionRequest`)."""
    group, slash, version = str(value.get("apiVersion") or "").rpartition("/")
    metadata = value.get("metadata") or {}
    old = value if operation == "DELETE" else None
    request: dict[str, JSON] = {
        "uid": "",
        "kind": {"group": group if slash else "", "version": version, "kind": value.get("kind") or ""},
        "resource": {"group": "", "version": "", "resource": ""},
        "operation": operation,
        "userInfo": {},
    }
    for name in ("name", "namespace"):
        if metadata.get(name):
            request[name] = metadata[name]
    request |= {
        "object": value,
        "oldObject": old,
        "options": None,
        "namespaceObject": {} if namespace is None else namespace,
    }
    asked = {**request, "object": None if operation == "DELETE" else value}
    return Review(request, asked, None, value, old, namespace, source, operation, namespace)


def _attributes(request: Mapping[str, JSON]) -> Attributes:
    """Return the attributes that CEL expressions see. The operation is empty if the request has none."""
    kind, resource = (
        {"group": "", "version": "", name: "", **(request.get(name) or {})} for name in ("kind", "resource")
    )
    operation = request.get("operation") or ""
    own = {"kind": kind, "resource": resource, "operation": operation or "CREATE"}
    asked = {"requestKind": None, "requestResource": None, "requestSubResource": None}
    found = attributes_of({**request, **asked, **own})
    return found if operation else replace(found, operation=cast("Operation", ""))
