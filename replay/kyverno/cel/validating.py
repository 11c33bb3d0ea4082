"""ValidatingPolicy and NamespacedValidatingPolicy (`pkg/cel/policies/vpol`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from replay.admission.alike import AlikeOutcomes
from replay.admission.explain.explanation import ExpressionStep
from replay.cellib.environment import ExpressionKind
from replay.cellib.expression import CompiledExpression
from replay.json import JSON
from replay.kube.admissionregistration import FailurePolicy
from replay.kube.attributes import Missing
from replay.kyverno.cel.autogen import ExtractionError, extracted_requests, generated_specs
from replay.kyverno.cel.compiler import PolicyCompiler, PolicyError, Purpose
from replay.kyverno.cel.evaluation import (
    CELResult,
    EvaluationError,
    PolicyInputs,
    compiled_annotations,
    compiled_exceptions,
    exempted_rule,
    undetermined,
)
from replay.kyverno.cel.library.context import Reader
from replay.kyverno.cel.request import CELRequest, Constraints, MatchingError
from replay.kyverno.cel.spec import PolicyException, ValidatingSpec, constraints_of, read_spec
from replay.kyverno.rules.response import ERROR, FAIL, PASS, SKIP, RuleResponse, rule_error
from replay.matching.rules import RuleKey

_REFUSED = "<nil>: Internal error: validating policy compiler 1.0 error: failed to compile policy"


class _Validation(NamedTuple):
    expression: CompiledExpression
    message: str
    message_expression: CompiledExpression | None


_NO_PROPERTIES: Mapping[str, str] = {}


class _Outcome(NamedTuple):
    """Result of a policy for one object.

    `error` or `message` says why it does not pass. `place` is the index of the validation. `exceptions` exempt the
    object.
    """

    passes: bool = False
    error: str = ""
    message: str = ""
    place: int = 0
    annotations: Mapping[str, str] = _NO_PROPERTIES
    exceptions: tuple[PolicyException, ...] = ()


class ValidatingPolicy:
    """Compiled validating policy. Its spec may be a generated one."""

    def __init__(
        self,
        policy: JSON,
        spec: Mapping[str, Any],
        exceptions: Sequence[PolicyException],
        *,
        is_extracted: bool = False,
    ) -> None:
        """`spec` is the policy's spec, or one generated from it. Raises PolicyError."""
        metadata = policy["metadata"]
        self.name = str(metadata["name"])
        self.namespace = str(metadata.get("namespace") or "")
        self._is_extracted = is_extracted
        self.spec = read_spec({"spec": spec}, ValidatingSpec)
        self.actions = self.spec.actions
        self._ignores_errors = self.spec.on_failure is FailurePolicy.IGNORE
        constraints = constraints_of(spec)
        # A policy about documents matches no request.
        self._constraints = None if constraints is None or self.spec.is_for_json else Constraints(constraints)
        self._compiler = PolicyCompiler(self.namespace, Purpose.VALIDATE)
        try:
            self._compile(exceptions)
        except PolicyError as error:
            raise PolicyError([*(() if self.spec.is_for_json else (_REFUSED,)), *error.errors]) from None

    def _compile(self, exceptions: Sequence[PolicyException]) -> None:
        """Compile all expressions in Kyverno's order. Match conditions do not see the variables."""
        compiler, spec = self._compiler, self.spec
        self._conditions = compiler.conditions("spec.matchConditions", spec.conditions)
        compiler.declare("spec.variables", spec.named_variables)
        self._validations = tuple(
            self._validation(f"spec.validations[{index}]", each) for index, each in enumerate(spec.validations or ())
        )
        self._annotations = compiled_annotations(compiler, spec.audit_annotations or ())
        self._exceptions = compiled_exceptions(compiler, exceptions)

    def _validation(self, path: str, validation: Any) -> _Validation:
        expression = self._compiler.checked(f"{path}.expression", ExpressionKind.VALIDATION, validation.expression)
        message = validation.message_expression
        kind = ExpressionKind.MESSAGE_EXPRESSION
        compiled = self._compiler.checked(f"{path}.messageExpression", kind, message) if message else None
        return _Validation(expression, validation.message or "", compiled)

    def may_match(self, key: RuleKey) -> bool:
        """Return whether the rules match requests with this key."""
        return self._constraints is not None and self._constraints.may_match(key)

    @cached_property
    def _earlier_results(self) -> AlikeOutcomes[CELResult] | None:
        """Earlier results for requests that agree in everything the policy reads.

        It is None if the result depends on more than the request.
        """
        if self._exceptions or self._is_extracted:
            return None
        messages = (each.message_expression for each in self._validations if each.message_expression is not None)
        annotations = (compiled for _, compiled in self._annotations)
        expressions = (*self._conditions, *(each.expression for each in self._validations), *annotations)
        plain = frozenset[str]().union(*(each.footprint for each in expressions))
        return AlikeOutcomes(plain, plain.union(*(each.footprint for each in messages)))

    def validate(self, request: CELRequest, reader: Reader) -> CELResult | None:
        """Return the result of the policy, or None if it does not match. Raises UndeterminedError."""
        if self._constraints is None:
            return None
        try:
            matched = self._constraints.matches(request)
        except MatchingError as error:
            return self._result(rule_error("match", "failed to execute matching", error))
        if matched is False:
            return None
        if isinstance(matched, Missing):
            raise undetermined(matched)
        alike = self._earlier_results
        known = None if alike is None else alike.find(request.projected)
        if known is not None:
            return known
        try:
            outcome = self._extracted(request, reader) if self._is_extracted else self._outcome(request, reader)
        except EvaluationError as error:
            return self._result(rule_error("evaluation", "failed to load context", error))
        result = self._result(*_reported(outcome))
        if alike is not None:
            alike.remember(request.projected, result, has_read_messages=outcome is not None and not outcome.passes)
        return result

    def _result(self, rule: RuleResponse, properties: Mapping[str, str] = _NO_PROPERTIES) -> CELResult:
        return CELResult(self.name, self.namespace, rule, self.actions, properties)

    def steps(self, request: CELRequest, reader: Reader) -> Iterator[ExpressionStep]:
        """Yield the expressions with the values of their parts, up to the one that decides.

        There are none for pods inside another object.
        """
        if self._is_extracted:
            return
        inputs = PolicyInputs(self._compiler, request, reader, self.namespace, mutates=False)
        try:
            inputs.exempted(self._exceptions, ignores_errors=True)
        except EvaluationError:
            return
        traced = inputs.traced
        names = [f"matchCondition {each.name}" for each in self.spec.conditions]
        expressions = list(zip(names, self._conditions, strict=True))
        expressions += [(f"validation {index}", each.expression) for index, each in enumerate(self._validations)]
        steps = []
        for label, compiled in expressions:
            steps.append(traced.step(label, compiled))
            if steps[-1].value is not True:
                break
        yield from traced.variables()
        yield from steps

    def _outcome(self, request: CELRequest, reader: Reader) -> _Outcome | None:
        """Return the outcome of the policy, or None if a match condition is false. Raises EvaluationError."""
        inputs = PolicyInputs(self._compiler, request, reader, self.namespace, mutates=False)
        exempted = inputs.exempted(self._exceptions, ignores_errors=self._ignores_errors)
        if exempted.exceptions:
            return _Outcome(exceptions=exempted.exceptions)
        if not inputs.match(self._conditions, ignores_errors=self._ignores_errors):
            return None
        for index, validation in enumerate(self._validations):
            try:
                if inputs.value(validation.expression):
                    continue
                message = self._message(validation, inputs, index)
                return _Outcome(message=message, place=index, annotations=inputs.annotations(self._annotations, "'"))
            except EvaluationError as error:
                return _Outcome(error=str(error), place=index)
        return _Outcome(passes=True, annotations=inputs.annotations(self._annotations, "'"))

    def _message(self, validation: _Validation, inputs: PolicyInputs, index: int) -> str:
        message = validation.message
        if validation.message_expression is not None:
            try:
                message = inputs.value(validation.message_expression)
            except EvaluationError as error:
                message = f"failed to evaluate message expression: {error}"
        return message or f"CEL expression validation failed at index {index}"

    def _extracted(self, request: CELRequest, reader: Reader) -> _Outcome | None:
        """Return the outcome for the pods inside an object of a custom kind. The first one that does not pass decides."""
        try:
            pods = extracted_requests(request)
        except ExtractionError as error:
            return _Outcome(error=str(error))
        last: _Outcome | None = None
        exceptions: list[PolicyException] = []
        for path, pod in pods:
            try:
                outcome = self._outcome(pod, reader)
            except EvaluationError as error:
                raise EvaluationError(f"pod template at {path}: {error}") from None
            if outcome is None:
                continue
            if outcome.exceptions:
                exceptions += outcome.exceptions
                continue
            if not outcome.passes:
                where = f" (pod template at {path})"
                return outcome._replace(
                    error=outcome.error and outcome.error + where, message=outcome.message and outcome.message + where
                )
            last = outcome
        return _Outcome(exceptions=tuple(exceptions)) if last is None and exceptions else last


def _reported(outcome: _Outcome | None) -> tuple[RuleResponse, Mapping[str, str]]:
    """Return the rule of a result, and its details: the audit annotations and the index of a failed validation."""
    if outcome is None:
        return RuleResponse("", SKIP, "skip"), _NO_PROPERTIES
    if outcome.exceptions:
        return exempted_rule(outcome.exceptions), _NO_PROPERTIES
    if outcome.passes:
        return RuleResponse("", PASS, "success"), outcome.annotations
    properties = {"cel.validationIndex": str(outcome.place), **outcome.annotations}
    if outcome.error:
        return RuleResponse("", ERROR, f"error: {outcome.error}"), properties
    return RuleResponse("", FAIL, outcome.message), properties


def validating_policies(policy: JSON, exceptions: Iterable[PolicyException]) -> list[ValidatingPolicy]:
    """Return the policy and those that are generated from it for pod controllers. Raises PolicyError."""
    own = [
        each for each in exceptions for _ in range(each.is_from(str(policy["kind"]), str(policy["metadata"]["name"])))
    ]
    first = ValidatingPolicy(policy, policy.get("spec"), own)
    generated = generated_specs(policy["spec"], first.spec.controllers, mutates=False)
    return [
        first,
        *(ValidatingPolicy(policy, each.spec, own, is_extracted=each.is_extracted) for each in generated),
    ]
