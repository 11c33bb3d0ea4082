"""Expressions of a policy for one request: match conditions, exceptions, audit annotations.

The rules are those of `pkg/cel/policies/*/compiler/policy.go`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from replay.admission.explain.explanation import TracedExpressions
from replay.admission.inputs import Evaluations, Inputs, evaluations
from replay.cel.value.values import Value
from replay.cellib.composition import Evaluated, Evaluation
from replay.cellib.environment import ExpressionKind
from replay.cellib.expression import CompiledExpression
from replay.json import JSON
from replay.kube.attributes import Missing
from replay.kyverno.cel.compiler import PolicyCompiler
from replay.kyverno.cel.library.context import Reader, context_bindings
from replay.kyverno.cel.library.data import NOW, data_bindings
from replay.kyverno.cel.library.image import exception
from replay.kyverno.cel.request import CELRequest
from replay.kyverno.cel.spec import AuditAnnotation, PolicyException
from replay.kyverno.rules.response import PASS, SKIP, RuleResponse, UndeterminedError

_BUDGET = 10**15
"""Cost budget that all expressions of a policy together cannot reach. Each expression has its own limit."""


class CELResult(NamedTuple):
    """Result of one policy for a request: its rule, its actions (`Deny`, `Audit`, `Warn`) and details for reports."""

    policy: str
    namespace: str
    rule: RuleResponse
    actions: tuple[str, ...] = ()
    properties: Mapping[str, str] = {}


class EvaluationError(Exception):
    """Failure of an expression that a policy needs. `str()` is the message."""


class CompiledException(NamedTuple):
    """Exception with its compiled match conditions."""

    exception: PolicyException
    conditions: tuple[CompiledExpression, ...]


def compiled_exceptions(
    compiler: PolicyCompiler, exceptions: Iterable[PolicyException]
) -> tuple[CompiledException, ...]:
    """Return exceptions with their match conditions, compiled in the policy's environment. Raises PolicyError."""
    return tuple(
        CompiledException(each, compiler.conditions("spec.matchConditions", each.spec.conditions))
        for each in exceptions
    )


def compiled_annotations(
    compiler: PolicyCompiler, annotations: Sequence[AuditAnnotation]
) -> tuple[tuple[str, CompiledExpression], ...]:
    """Return compiled audit annotations with their keys. Raises PolicyError with all their errors."""
    compiled = compiler.all_checked(
        ExpressionKind.AUDIT_ANNOTATION,
        (
            (f"spec.auditAnnotations[{index}].valueExpression", each.value_expression)
            for index, each in enumerate(annotations)
        ),
    )
    return tuple((each.key, expression) for each, expression in zip(annotations, compiled, strict=True))


class Exempted(NamedTuple):
    """Effect of exceptions on a request.

    `exceptions` are those that match, if one of them exempts the whole request. Otherwise `images` and `values` are
    allowed.
    """

    exceptions: tuple[PolicyException, ...]
    images: tuple[str, ...] = ()
    values: tuple[str, ...] = ()


class PolicyInputs:
    """Inputs of a policy's expressions for one request."""

    def __init__(
        self, compiler: PolicyCompiler, request: CELRequest, reader: Reader, namespace: str, *, mutates: bool
    ) -> None:
        """`namespace` is the namespace of the policy, empty for cluster-wide policies."""
        self._compiler = compiler
        self.answers: list[JSON] = []
        """Results of reads of the cluster and of parsed texts."""
        self.bindings: dict[str, Any] = {
            "object": request.object,
            "oldObject": request.old_object,
            "request": request.shown(extracted=mutates),
            "namespaceObject": request.shown_namespace,
            NOW: request.time,
            **data_bindings(self.answers),
            **context_bindings(reader, namespace, self.answers),
        }
        self._computed: Mapping[str, Any] = {}
        self._evaluation: Evaluation | Evaluations | None = None

    @property
    def traced(self) -> TracedExpressions:
        """Return an evaluator that keeps the values of all subexpressions."""
        return TracedExpressions(self._compiler, self._inputs)

    @property
    def _inputs(self) -> Inputs:
        return Inputs(self.bindings, self.bindings["request"])

    def bind(self, name: str, value: Value) -> None:
        """Bind a name to another value for later expressions. Variables that were already computed keep their values."""
        self._reset()
        self.bindings[name] = value

    def _reset(self) -> None:
        # Kyverno computes a variable once per request, even if the object changes afterwards.
        if self._evaluation is not None:
            self._computed = self._evaluation.computed_variables
            self._evaluation = None
            self.bindings = dict(self.bindings)

    def evaluate(self, compiled: CompiledExpression, *, exact: bool = False) -> Evaluated:
        """Evaluate an expression. `exact` asks only the strict engine."""
        if exact:
            self._reset()
        if self._evaluation is None:
            self._evaluation = evaluations(self._compiler, self._inputs, _BUDGET, exact=exact, variables=self._computed)
        return self._evaluation.evaluate(compiled)

    def value(self, compiled: CompiledExpression, *, exact: bool = False) -> Value:
        """Return the value of an expression. Raises EvaluationError and UndeterminedError."""
        evaluated = self.evaluate(compiled, exact=exact)
        if evaluated.unknown:
            raise undetermined(evaluated.unknown[0])
        if evaluated.error is not None:
            raise EvaluationError(evaluated.error)
        return evaluated.value

    def match(self, conditions: Iterable[CompiledExpression], *, ignores_errors: bool) -> bool:
        """Return whether all conditions are true.

        A false condition decides, even after an error. Raises EvaluationError and UndeterminedError.
        """
        errors: list[str] = []
        unknown: Missing | None = None
        for condition in conditions:
            evaluated = self.evaluate(condition)
            if evaluated.unknown:
                unknown = unknown or evaluated.unknown[0]
            elif evaluated.error is not None:
                errors.append(evaluated.error)
            # A false condition decides, whatever else is unknown or has failed.
            elif evaluated.value is False:
                return False
        if unknown is not None and not (errors and ignores_errors):
            raise undetermined(unknown)
        if errors and not ignores_errors:
            raise EvaluationError("; ".join(errors))
        return not errors

    def exempted(self, exceptions: Sequence[CompiledException], *, ignores_errors: bool) -> Exempted:
        """Return the effect of exceptions on the request, and bind `exceptions` for later expressions.

        Raises EvaluationError and UndeterminedError.
        """
        matched: list[PolicyException] = []
        images: list[str] = []
        values: list[str] = []
        is_whole = False
        for each in exceptions:
            try:
                if not self.match(each.conditions, ignores_errors=ignores_errors):
                    continue
            except EvaluationError:
                if is_whole:
                    continue  # what is granted already is not taken back
                raise
            if each.exception.has_expired(self.bindings[NOW]):
                continue
            matched.append(each.exception)
            is_whole = is_whole or each.exception.spec.is_complete
            if not is_whole:
                images += each.exception.spec.images or ()
                values += each.exception.spec.allowed_values or ()
        if is_whole:
            return Exempted(tuple(matched))
        self.bind("exceptions", exception(images, values))
        return Exempted((), tuple(images), tuple(values))

    def annotations(self, annotations: Sequence[tuple[str, CompiledExpression]], quoted: str) -> dict[str, str]:
        """Return the non-empty audit annotations. Raises EvaluationError and UndeterminedError.

        `quoted` is the quotation mark around a key in messages.
        """
        made: dict[str, str] = {}
        for key, compiled in annotations:
            try:
                value = self.value(compiled)
            except EvaluationError as error:
                name = f"{quoted}{key}{quoted}"
                raise EvaluationError(f"failed to evaluate auditAnnotation {name}: {error}") from None
            if not isinstance(value, str):
                name = f"{quoted}{key}{quoted}"
                text = f"failed to convert auditAnnotation {name} expression: "
                raise EvaluationError(f"{text}type conversion error from 'null_type' to 'string'")
            if value:
                made[key] = value
        return made


def undetermined(missing: Missing) -> UndeterminedError:
    """Return the error for an unknown value."""
    return UndeterminedError(f"{missing.path}: {missing.reason}")


def exempted_rule(exceptions: Sequence[PolicyException]) -> RuleResponse:
    """Return the result of a policy from which a request is exempt. The exception with the highest priority decides."""
    chosen = exceptions[0]
    highest = 0
    for each in exceptions:
        if each.priority > highest:
            chosen, highest = each, each.priority
    passes = chosen.spec.report_result == "pass"
    keys = ", ".join(each.key for each in exceptions)
    text = f"rule is {'passed' if passes else 'skipped'} due to policy exception: {keys}"
    return RuleResponse("exception", PASS if passes else SKIP, text)
