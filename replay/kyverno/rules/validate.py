"""Rules that validate by `pattern`, `anyPattern`, `deny` or `foreach` (`pkg/engine/handlers/validation`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from replay.json import JSON
from replay.kyverno.rules.condition import evaluate_conditions, shown_conditions
from replay.kyverno.rules.context import Context, LoaderSource, declare_entries
from replay.kyverno.rules.go_value import as_map, json_kind, type_name
from replay.kyverno.rules.match import matches_rule
from replay.kyverno.rules.match_pattern import PatternError, match_pattern
from replay.kyverno.rules.request import Request
from replay.kyverno.rules.response import (
    ERROR,
    FAIL,
    PASS,
    SKIP,
    GoPanicError,
    RuleError,
    RuleResponse,
    UndeterminedError,
    rule_error,
)
from replay.kyverno.rules.substitution import substitute

MOST_ELEMENTS = 100_000
"""Limit of ours for the elements of one `foreach` list."""


def is_enforced(rule: Mapping[str, Any], policy: Mapping[str, Any]) -> bool:
    """Return whether the failure action of a rule, or of its policy, is Enforce."""
    action = as_map(rule.get("validate")).get("failureAction") or as_map(policy.get("spec")).get(
        "validationFailureAction"
    )
    return str(action or "").lower() == "enforce"


def allows_existing_violations(rule: Mapping[str, Any]) -> bool:
    """Return whether an object that violated the rule before may continue to."""
    return as_map(rule.get("validate")).get("allowExistingViolations") is not False


def elements_of(context: Context, expression: str) -> list[JSON]:
    """Return the elements of a `foreach` list. Another value is the only element. Raises RuleError."""
    found = context.query(expression)
    elements = list(found) if isinstance(found, list) else [found]
    if len(elements) > MOST_ELEMENTS:
        raise UndeterminedError(f"a foreach has more than {MOST_ELEMENTS} elements")
    return elements


def add_element(request: Request, element: JSON, index: int, nesting: int, scope: bool | None) -> None:
    """Add an element to the variables, and make it the object of patterns if it is a map. Raises RuleError.

    `scope` is `elementScope`, None if it is not set.
    """
    names = {"element": element, f"element{nesting}": element, "elementIndex": index, f"elementIndex{nesting}": index}
    request.context.put(names, overwrite=True)
    is_map = type(element) is dict
    if scope and not is_map:
        raise RuleError(
            "cannot use elementScope=true foreach rules for elements that are not maps, "
            f"expected type=map got type={type_name(element)}"
        )
    if scope is None:
        scope = is_map
    if scope:
        request.element = element


class Validator:
    """Validation of one rule, or of one element of its `foreach`, for one request."""

    def __init__(
        self,
        request: Request,
        policy: Mapping[str, Any],
        rule: Mapping[str, Any],
        source: LoaderSource,
        loop: Mapping[str, Any] | None = None,
        nesting: int = 0,
    ) -> None:
        """`loop` is the entry of `foreach` that is evaluated instead of the rule itself."""
        self._request = request
        self._policy = policy
        self._rule = rule
        self._source = source
        self._nesting = nesting
        self._element: JSON = None
        body = as_map(rule.get("validate")) if loop is None else loop
        self._entries = () if loop is None else loop.get("context") or ()
        self._preconditions = rule.get("preconditions") if loop is None else loop.get("preconditions")
        self._pattern = body.get("pattern")
        self._any_pattern = body.get("anyPattern")
        self._deny = body.get("deny")
        self._loops = body.get("foreach")

    @property
    def _name(self) -> str:
        return str(self._rule.get("name") or "")

    @property
    def _message(self) -> str:
        return str(as_map(self._rule.get("validate")).get("message") or "")

    @property
    def _context(self) -> Context:
        return self._request.context

    def validate(self) -> RuleResponse | None:
        """Return the result, or None if there is nothing to compare. Raises UndeterminedError."""
        try:
            declare_entries(self._context, self._entries, self._source)
        except RuleError as error:
            return rule_error(self._name, "failed to load context", error)
        try:
            met, message = evaluate_conditions(self._context, self._preconditions)
        except RuleError as error:
            return rule_error(self._name, "failed to evaluate preconditions", error)
        if not met:
            text = "; ".join(filter(None, ("preconditions not met", message)))
            return RuleResponse(self._name, SKIP, text, self._deciding_conditions(self._preconditions, holding=False))
        response: RuleResponse | None = None
        if self._deny is not None:
            response = self._denied()
        elif self._pattern is not None or self._any_pattern is not None:
            try:
                self._substitute_patterns()
            except RuleError as error:
                return rule_error(self._name, "variable substitution failed", error)
            response = self._compared()
        elif self._loops is not None:
            response = self._looped()
        return self._unless_existing(response)

    def _unless_existing(self, response: RuleResponse | None) -> RuleResponse | None:
        """Return the result, or a skip if the old object violated the rule too."""
        request = self._request
        if not (
            is_enforced(self._rule, self._policy)
            and request.is_update
            and allows_existing_violations(self._rule)
            and self._nesting == 0
        ):
            return response
        if request.operation != "UPDATE":
            return RuleResponse(self._name, SKIP, "failed to validate old object")
        prior = self._prior()
        if response is not None and prior is not None and response.status == FAIL == prior.status:
            return RuleResponse(self._name, SKIP, "skipping the rule evaluation as pre-existing violations are allowed")
        return response

    def _prior(self) -> RuleResponse | None:
        """Return the result for the old object, as if it were created."""
        with self._request.as_creation_of_old() as old:
            if not matches_old(self._rule, self._policy, self._request, old):
                return RuleResponse(self._name, SKIP, "resource not matched")
            return self.validate()

    def _looped(self) -> RuleResponse | None:
        applied = 0
        list_error: RuleError | None = None
        for loop in self._loops or ():
            try:
                elements = elements_of(self._context, str(loop.get("list") or ""))
            except RuleError as error:
                # A list that does not exist has no elements. Kyverno tells that from other errors by their text.
                if "Unknown key" not in str(error):
                    list_error = error
                continue
            response, count = self._elements(loop, elements)
            if response.status != PASS:
                return response
            applied += count
        if applied:
            return RuleResponse(self._name, PASS, "rule passed")
        return rule_error(self._name, "failed to evaluate list", list_error) if list_error is not None else None

    def _elements(self, loop: Mapping[str, Any], elements: list[JSON]) -> tuple[RuleResponse, int]:
        """Return the result for all elements, and how many passed. The first failure or error decides."""
        outer = self._request.element
        self._context.checkpoint()
        try:
            applied = 0
            for index, element in enumerate(elements):
                if element is None:
                    continue
                self._context.reset()
                self._request.element = outer
                try:
                    add_element(self._request, element, index, self._nesting, loop.get("elementScope"))
                except RuleError as error:
                    return rule_error(self._name, "failed to process foreach", error), applied
                inner = Validator(self._request, self._policy, self._rule, self._source, loop, self._nesting + 1)
                response = inner.validate()
                if response is None or response.status == SKIP:
                    continue
                if response.status != PASS:
                    if response.status == ERROR and "failed to evaluate preconditions" in response.message:
                        continue
                    message = f"validation failure: {response.message}"
                    place = self._place(f"element {index} of {loop.get('list')}", *response.place)
                    return RuleResponse(self._name, response.status, message, place), applied
                applied += 1
            return RuleResponse(self._name, PASS, ""), applied
        finally:
            self._request.element = outer
            self._context.restore()

    def _denied(self) -> RuleResponse:
        try:
            denied, message = evaluate_conditions(self._context, as_map(self._deny).get("conditions"))
        except RuleError as error:
            return rule_error(self._name, "failed to check deny conditions", error)
        if not denied:
            return RuleResponse(self._name, PASS, f"validation rule '{self._name}' passed.")
        told = self._deciding_conditions(as_map(self._deny).get("conditions"), holding=True)
        return RuleResponse(self._name, FAIL, self._deny_message(message), told)

    def _deciding_conditions(self, conditions: JSON, *, holding: bool) -> tuple[str, ...]:
        """Return the conditions that decided, if the request asks for places."""
        if not self._request.tells_places:
            return ()
        try:
            return shown_conditions(self._context, conditions, holding=holding)
        except RuleError:
            return ()

    def _place(self, *texts: str) -> tuple[str, ...]:
        return texts if self._request.tells_places else ()

    def _deny_message(self, message: str) -> str:
        if not self._message and not message:
            return f"validation error: rule {self._name} failed"
        try:
            text = substitute(self._context, "; ".join(filter(None, (self._message, message))))
        except RuleError:
            return message
        if isinstance(text, str):
            return text
        return "the produced message didn't resolve to a string, check your policy definition."

    def _substitute_patterns(self) -> None:
        if self._pattern is not None:
            self._pattern = substitute(self._context, self._pattern)
        else:
            self._any_pattern = substitute(self._context, self._any_pattern)

    def _compared(self) -> RuleResponse | None:
        if self._request.element is not None:
            return self._against(self._request.element)
        if self._request.operation == "DELETE":
            return None
        return self._against(self._request.new)

    def _against(self, resource: JSON) -> RuleResponse:
        if self._pattern is not None:
            return self._against_pattern(resource)
        if not isinstance(self._any_pattern, list):
            message = "failed to deserialize anyPattern, expected type array"
            return rule_error(
                self._name,
                message,
                RuleError(
                    f"json: cannot unmarshal {json_kind(self._any_pattern)} into Go value of type []interface {{}}"
                ),
            )
        return self._against_any(resource, self._any_pattern)

    def _against_pattern(self, resource: JSON) -> RuleResponse:
        try:
            match_pattern(resource, self._pattern)
        except PatternError as error:
            if error.skip:
                return RuleResponse(self._name, SKIP, str(error))
            status = FAIL if error.path else ERROR
            return RuleResponse(self._name, status, self._pattern_message(error), self._place(f"pattern: {error}"))
        return RuleResponse(self._name, PASS, f"validation rule '{self._name}' passed.")

    def _against_any(self, resource: JSON, patterns: list[JSON]) -> RuleResponse:
        failed, skipped, places = [], [], []
        for index, pattern in enumerate(patterns):
            try:
                match_pattern(resource, pattern)
            except PatternError as error:
                place = f"rule {self._name}[{index}]"
                places.append(f"anyPattern[{index}]: {error}")
                if error.skip:
                    skipped.append(f"{place} skipped: {error}")
                elif error.path:
                    failed.append(f"{place} failed at path {error.path}")
                else:
                    failed.append(f"{place} failed: {error}")
            else:
                return RuleResponse(self._name, PASS, f"validation rule '{self._name}' anyPattern[{index}] passed.")
        if failed:
            return RuleResponse(self._name, FAIL, self._any_pattern_message(" ".join(failed)), self._place(*places))
        if skipped:
            return RuleResponse(self._name, SKIP, " ".join(skipped))
        return RuleResponse(self._name, PASS, self._message)

    def _pattern_message(self, error: PatternError) -> str:
        place = f"failed at path {error.path}" if error.path else f"execution error: {error}"
        if not self._message:
            return f"validation error: rule {self._name} {place}"
        try:
            message = self._substituted_message()
        except RuleError:
            return f"validation error: variables substitution error in rule {self._name} execution error: {error}"
        message = message if message.endswith(".") else f"{message}."
        return f"validation error: {message} rule {self._name} {place}"

    def _any_pattern_message(self, errors: str) -> str:
        if not self._message:
            return f"validation error: {errors}"
        try:
            message = self._substituted_message()
        except RuleError:
            return f"validation error: variables substitution error in rule {self._name} execution error: {errors}"
        return (
            f"validation error: {message} {errors}"
            if message.endswith(".")
            else f"validation error: {message}. {errors}"
        )

    def _substituted_message(self) -> str:
        message = substitute(self._context, self._message)
        if not isinstance(message, str):
            raise GoPanicError(f"interface conversion: interface {{}} is {type_name(message)}, not string")
        return message


def matches_old(rule: Mapping[str, Any], policy: Mapping[str, Any], request: Request, old: JSON) -> bool:
    """Return whether a rule also matches the old object, without the user of this request."""
    if rule.get("preconditions") is not None:
        # Kyverno hands over the wrapper of the conditions instead of them, which are then never met.
        return False
    namespace = str(policy["metadata"].get("namespace") or "")
    return matches_rule(rule, old, request.old_subject(old or {}), namespace)
