"""What all constraints say of one object under review (`constraint/pkg/client/client.go`, the drivers of Rego and CEL)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, cast

from msgspec import Struct
from msgspec.structs import replace

from replay.gatekeeper.cel_template import CELInputs
from replay.gatekeeper.constraint import WEBHOOK, Constraint
from replay.gatekeeper.match import ORIGINAL, Matchable, MatchError, NotKnownError
from replay.gatekeeper.rego.builtins.external import Answers, answering
from replay.gatekeeper.rego.runtime import STEPS, ConflictError, TooManyStepsError
from replay.gatekeeper.rego.text import TooLargeError
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
"""The synchronized objects, looked up where a template reads them."""


class Violation(Struct):
    """A violation of a constraint: its message, the actions, and where in the template it comes from."""

    constraint: Constraint
    message: str
    actions: tuple[str, ...]
    details: Value = None
    line: int = 0
    """The line of the Rego rule, or the number of the CEL validation, from 1; 0 where neither said it."""

    @property
    def place(self) -> str:
        """Where in the template it comes from, with the code; empty where neither a rule nor a validation said it."""
        template = self.constraint.template
        if not self.line:
            return ""
        if template.cel is not None:
            expression = " ".join(str(template.cel.source["validations"][self.line - 1].get("expression")).split())
            return f"validation {self.line - 1} of ConstraintTemplate/{template.name}: {expression}"
        code = template.rego_text.splitlines()[self.line - 1].strip()
        return f"line {self.line} of the Rego of ConstraintTemplate/{template.name}: {code}"


class ReviewError(Exception):
    """The whole review fails; Gatekeeper's text."""


class Review(Struct):
    """An object under review: the request as the webhook passes it on, and what the constraints are matched with."""

    request: Mapping[str, JSON]
    attributes: Attributes
    object: Mapping[str, JSON] | None
    old_object: Mapping[str, JSON] | None
    namespace: Mapping[str, JSON] | None
    source: str
    operation: str
    namespace_object: Mapping[str, JSON] | None = None
    """The namespace as policies see it."""


class Reviewed(Struct):
    """What a review found: violations, and what could not be known of which constraint."""

    violations: list[Violation]
    undetermined: list[tuple[Constraint, str]]


def review(
    constraints: Iterable[Constraint],
    under: Review,
    inventory: Inventory,
    point: str,
    answers: Answers = MappingProxyType({}),
) -> Reviewed:
    """The violations of all constraints at an enforcement point; raises `ReviewError`. `answers` are those of providers."""
    found = Reviewed([], [])
    asked: dict[str, list[tuple[Constraint, tuple[str, ...]]]] = {}
    for constraint in constraints:
        actions = constraint.actions_at(point)
        if not actions or (point == WEBHOOK and not constraint.template.handles(under.operation)):
            continue
        try:
            if _matches(constraint, under):
                asked.setdefault(constraint.template.kind, []).append((constraint, actions))
        except MatchError as error:
            found.violations.append(Violation(constraint, f"{_UNMATCHED}: {error}", actions))
        except NotKnownError as error:
            found.undetermined.append((constraint, str(error)))
    if not asked:
        return found
    rego_input: Value = None
    cel_inputs: CELInputs | None = None
    for group in asked.values():
        template = group[0][0].template
        if template.unsupported:
            found.undetermined += [(constraint, template.unsupported) for constraint, _ in group]
        elif template.cel is not None:
            cel_inputs = cel_inputs or CELInputs(under.attributes, under.namespace_object)
            for constraint, actions in group:
                for said in template.cel.violations(cel_inputs, constraint.object):
                    if said.unknown:
                        found.undetermined.append((constraint, said.unknown))
                    else:
                        found.violations.append(Violation(constraint, said.message, actions, line=said.validation + 1))
        else:
            if rego_input is None:
                rego_input = from_json(dict(under.request))
            uses_inventory = template.rego is not None and template.rego.uses_inventory
            with answering(answers):
                _ask_rego(group, rego_input, inventory() if uses_inventory else {}, found)
    return found


def _matches(constraint: Constraint, under: Review) -> bool:
    """Whether the new object or the old one is in scope (`matchAny`)."""
    if constraint.match is None:
        return True
    objects = [each for each in (under.object, under.old_object) if each is not None]
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


def _ask_rego(
    group: Sequence[tuple[Constraint, tuple[str, ...]]], review_input: Value, inventory: Value, found: Reviewed
) -> None:
    """All constraints of one template, in one query: an error is the message of each of them."""
    rego = group[0][0].template.rego
    assert rego is not None
    left = [STEPS]
    results: list[tuple[Value, Violation]] = []
    for constraint, actions in group:
        try:
            said, context = rego.ask({"review": review_input, "parameters": constraint.parameters}, inventory, left)
            if context.unknown:
                found.undetermined.append((constraint, context.unknown[0]))
            for value in members_of(said):
                message = _field(value, "msg")
                if message is not None:
                    given = _field(value, "details")
                    details = {} if given is None else given[0]
                    line = context.lines.get(key_of(value), 0)
                    results.append(
                        (
                            _response(constraint, details, message[0]),
                            Violation(constraint, message[0], actions, details, line),
                        )
                    )
        except ConflictError as error:
            found.violations += [Violation(each, str(error), own) for each, own in group]
            return
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
            found.undetermined.append((constraint, str(error) or type(error).__name__))
    for _, violation in _in_order(results):
        if type(violation.message) is not str:
            raise ReviewError(
                f"Rego: extracting message binding: .msg accessor error: {_go(violation.message)}, expected string\n"
            )
        found.violations.append(violation)


def _field(value: Value, name: str) -> list[Value] | None:
    """A field of a violation in a list of one, None where it has none."""
    return [value[name]] if isinstance(value, dict) and name in value else None


def _response(constraint: Constraint, details: Value, message: Value) -> Value:
    return {"details": details, "key": {"kind": constraint.template.kind, "name": constraint.name}, "msg": message}


def _in_order(results: list[tuple[Value, Violation]]) -> Iterable[tuple[Value, Violation]]:
    """The responses as members of a set, in its order."""
    by_key = {key_of(response): (response, violation) for response, violation in results}
    if len(by_key) < 2:
        return by_key.values()
    ordered = members_of(Set(response for response, _ in by_key.values()))
    return [by_key[key_of(response)] for response in ordered]


def _go(value: Any) -> str:
    """A value and its type as Go prints them in an accessor's error."""
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
    """A request under review; on DELETE the old object stands as the object, too (`setObjectOnDelete`).

    `attributes` are those of the request where some of it is not known.
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
    known = _attributes(request) if attributes is None else attributes
    return Review(seen, known, value, old, namespace, ORIGINAL, operation, namespace)


def reviewed_object(value: dict[str, JSON], namespace: JSON, operation: str, source: str) -> Review:
    """An object under review without a request (`augmentedUnstructuredToAdmissionRequest`)."""
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
    attributes = _attributes({**request, "object": None if operation == "DELETE" else value})
    return Review(request, attributes, value, old, namespace, source, operation, namespace)


def _attributes(request: Mapping[str, JSON]) -> Attributes:
    """The attributes that expressions see; a request without an operation has none."""
    kind, resource = (
        {"group": "", "version": "", name: "", **(request.get(name) or {})} for name in ("kind", "resource")
    )
    operation = request.get("operation") or ""
    own = {"kind": kind, "resource": resource, "operation": operation or "CREATE"}
    asked = {"requestKind": None, "requestResource": None, "requestSubResource": None}
    found = attributes_of({**request, **asked, **own})
    return found if operation else replace(found, operation=cast("Operation", ""))
