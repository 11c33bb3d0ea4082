"""One validating policy, compiled (`k8s.io/apiserver/pkg/admission/plugin/policy/validating/validator.go`)."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from replay.admission.inputs import BUDGET as MATCH_CONDITIONS_BUDGET
from replay.admission.inputs import MATCHES, Inputs, KindEvaluation, match_conditions
from replay.admission.observer import ValidationObserver
from replay.admission.validating.evaluation import RUNTIME_BUDGET, OwnEvaluation, PolicyEvaluation, SharedEvaluation
from replay.admission.validating.outcome import (
    ADMITTED,
    DEFAULT_REASON,
    NO_DECISION,
    Action,
    AuditAnnotationAction,
    DecisionEvaluation,
    PolicyAuditAnnotation,
    PolicyDecision,
    ValidateResult,
    error_decision,
)
from replay.cellib.composition import Evaluated
from replay.cellib.environment import PER_CALL_LIMIT, ExpressionKind
from replay.cellib.expression import CompiledExpression, ExpressionCompiler
from replay.cellib.policy import compiler_of
from replay.cellib.version import KubernetesVersion
from replay.kube.admissionregistration import FailurePolicy, ValidatingAdmissionPolicy, Validation

# `celconfig.MaxEvaluatedMessageExpressionSizeBytes`.
MAX_MESSAGE_BYTES = 5 * 1024

# The characters that Go's `strings.TrimSpace` trims. `unicode.IsSpace` differs from `str.isspace`.
_GO_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"


class Validator:
    """The expressions of a policy, compiled at first use. Policies that differ only in name or match share one."""

    def __init__(self, policy: ValidatingAdmissionPolicy, version: KubernetesVersion) -> None:
        """Start without compiled expressions."""
        self._policy = policy
        self._version = version
        self.failure_policy = policy.failure_policy
        self.has_messages = any(each.message_expression for each in policy.validations)

    @cached_property
    def _compiler(self) -> ExpressionCompiler:
        """The compiler, with the variables declared in order."""
        return compiler_of(self._policy, self._version)

    @cached_property
    def match_conditions(self) -> tuple[CompiledExpression, ...]:
        """The compiled match conditions."""
        kind = ExpressionKind.MATCH_CONDITION
        return tuple(self._compiler.compile(kind, each.expression) for each in self._policy.match_conditions)

    @cached_property
    def validations(self) -> tuple[CompiledExpression, ...]:
        """The compiled validations."""
        kind = ExpressionKind.VALIDATION
        return tuple(self._compiler.compile(kind, each.expression) for each in self._policy.validations)

    @cached_property
    def _messages(self) -> tuple[CompiledExpression | None, ...]:
        """The compiled message expressions, in the order of the validations."""
        kind = ExpressionKind.MESSAGE_EXPRESSION
        return tuple(
            self._compiler.compile(kind, each.message_expression) if each.message_expression else None
            for each in self._policy.validations
        )

    @cached_property
    def _messages_limit(self) -> int:
        """The highest possible cost of all message expressions and the variables that they may read."""
        messages = sum(1 for each in self._policy.validations if each.message_expression)
        return PER_CALL_LIMIT * (messages + len(self._message_variables))

    @cached_property
    def _message_variables(self) -> frozenset[str]:
        """The variables that message expressions may read."""
        texts = (each.message_expression for each in self._policy.validations)
        return frozenset[str]().union(*(self._compiler.variables_of(text) for text in texts if text))

    def _covers_messages(self, validations: KindEvaluation) -> bool:
        """Return whether the budget that the validations left certainly covers all message expressions.

        Variables that the validations have read cost the same again, and all of them together at most what the
        validations cost.
        """
        limit = self._messages_limit
        if validations.covers(limit):
            return True
        again = len(self._message_variables & validations.computed_variables.keys())
        spent = RUNTIME_BUDGET - validations.remaining
        return validations.covers(limit - PER_CALL_LIMIT * again + spent)

    @cached_property
    def _audit_annotations(self) -> tuple[tuple[str, CompiledExpression], ...]:
        """The compiled audit annotations with their keys."""
        kind = ExpressionKind.AUDIT_ANNOTATION
        annotations = self._policy.audit_annotations
        return tuple((each.key, self._compiler.compile(kind, each.value_expression)) for each in annotations)

    @cached_property
    def footprint(self) -> frozenset[str]:
        """All inputs that the expressions may read. Inputs with equal values there give the same result."""
        return self.footprint_of_messages | self.footprint_without_messages

    @cached_property
    def footprint_without_messages(self) -> frozenset[str]:
        """The footprint if no message is evaluated.

        It holds if nothing is denied and `affordable` is not exceeded.
        """
        annotations = (compiled for _, compiled in self._audit_annotations)
        expressions = (*self.match_conditions, *self.validations, *annotations)
        return frozenset[str]().union(*(each.footprint for each in expressions))

    @cached_property
    def footprint_of_messages(self) -> frozenset[str]:
        """All inputs that the message expressions may read."""
        return frozenset[str]().union(*(each.footprint for each in self._messages if each is not None))

    @cached_property
    def affordable(self) -> int:
        """The cost per expression up to which the budgets certainly cover all expressions and variables."""
        variables = len(self._policy.variables)
        conditions, annotations = len(self._policy.match_conditions), len(self._policy.audit_annotations)
        return min(
            MATCH_CONDITIONS_BUDGET // (conditions + variables or 1),
            (RUNTIME_BUDGET - self._messages_limit) // (len(self._policy.validations) + variables or 1),
            RUNTIME_BUDGET // (annotations + variables or 1),
            PER_CALL_LIMIT,
        )

    def decide(self, shared: SharedEvaluation) -> ValidateResult:
        """Return the result, from expressions that all policies share.

        `NO_DECISION` stands for every result without effect.
        """
        # All match conditions are evaluated, because the budget must cover all.
        for condition in self.match_conditions:
            shared[condition]
        result = self._decided(shared, None)
        # Shared results do not count costs. A policy that may exceed a budget is evaluated alone, with its costs
        # counted.
        return result if shared.most <= self.affordable else self.validate(shared.inputs)

    def validate(self, inputs: Inputs, observer: ValidationObserver | None = None) -> ValidateResult:
        """Return the result with the policy's own budgets, independent of other policies."""
        return self._decided(OwnEvaluation(self._compiler, inputs), observer)

    def _decided(self, policy: PolicyEvaluation, observer: ValidationObserver | None) -> ValidateResult:
        """Return the result: match conditions first, then everything else."""
        inputs = policy.inputs
        matched = MATCHES
        if self._policy.match_conditions:
            matched = match_conditions(self.match_conditions, policy.conditions(), self.failure_policy)
        if observer is not None:
            observer.conditions(self._compiler, self.match_conditions, inputs, matched)
        if matched.error:
            return self._error(matched.error)
        if not matched.matches:
            return NO_DECISION
        if observer is not None:
            validations = tuple(zip(self.validations, self._messages, strict=True))
            observer.validations(self._compiler, validations, self._audit_annotations, inputs)
        if not matched.unknown:
            return self._validate(policy)
        if self.failure_policy is FailurePolicy.IGNORE and self._validate(policy) is NO_DECISION:
            return NO_DECISION  # whether the condition is true, false or an error, the policy decides nothing
        return ValidateResult(unknown=matched.unknown)

    def _validate(self, policy: PolicyEvaluation) -> ValidateResult:
        """Return the result of validations and messages, then of the audit annotations, which have their own budget."""
        validations = policy.validations()
        results: list[Evaluated | None] = []
        are_true = True  # as usual
        for compiled in self.validations:
            # An expression that does not compile is not evaluated, so that it costs nothing.
            evaluated = None if compiled.error else validations.evaluate(compiled)
            # `ForInput` fails as a whole if the budget is exceeded, so that the results so far are lost.
            if evaluated is not None and evaluated.out_of_budget:
                return self._error(str(evaluated.error))
            are_true = are_true and evaluated is not None and evaluated.value is True
            results.append(evaluated)
        if not (are_true and self._covers_messages(validations)):
            decisions = self._decide(results, policy, validations)
        elif self._policy.audit_annotations:
            decisions = (ADMITTED,) * len(results)
        else:
            return NO_DECISION
        annotations = self._annotate(policy)
        # An exceeded budget of the annotations replaces all decisions, even denials (`validator.Validate`).
        if isinstance(annotations, str):
            return self._error(annotations)
        if not annotations and all(decision.action is Action.ADMIT for decision in decisions):
            return NO_DECISION
        return ValidateResult(decisions, annotations)

    def _decide(
        self, results: list[Evaluated | None], policy: PolicyEvaluation, validations: KindEvaluation
    ) -> tuple[PolicyDecision, ...]:
        """Return a decision for each validation. A result of None means that the expression does not compile."""
        messages = self._evaluate_messages(results, policy, validations)
        decisions = []
        for index, (compiled, evaluated) in enumerate(zip(self.validations, results, strict=True)):
            # The order of `validator.Validate`: an error of the expression, then one of all messages, then the value.
            error = _error_of(compiled, evaluated)
            if error is not None:
                decision = error_decision(self.failure_policy, error)
            elif isinstance(messages, str):
                decision = error_decision(self.failure_policy, f"failed messageExpression: {messages}")
            elif evaluated is not None and evaluated.unknown:
                decision = PolicyDecision(Action.UNKNOWN, DecisionEvaluation.UNKNOWN, unknown=evaluated.unknown)
            elif evaluated is not None and evaluated.value is True:
                decision = ADMITTED
            else:
                decision = denial(self._policy.validations[index], messages[index])
            decisions.append(decision)
        return tuple(decisions)

    def _evaluate_messages(
        self, results: list[Evaluated | None], policy: PolicyEvaluation, validations: KindEvaluation
    ) -> list[Evaluated | None] | str:
        """Return the evaluated messages, with the budget that the validations left, or the error of exceeding it.

        The server evaluates all messages, whatever the validations return. A message of a validation that does not deny
        matters only for its cost. It is skipped if the budget covers the limit of every expression.
        """
        covered = self._covers_messages(validations)
        messages = None
        evaluated_messages: list[Evaluated | None] = []
        for compiled, result in zip(self._messages, results, strict=True):
            if compiled is None or compiled.error or (covered and not _denies(result)):
                evaluated_messages.append(None)
                continue
            if messages is None:
                messages = policy.messages(validations.remaining)
            evaluated = messages.evaluate(compiled)
            if evaluated.out_of_budget:
                return str(evaluated.error)
            evaluated_messages.append(evaluated)
        return evaluated_messages

    def _annotate(self, policy: PolicyEvaluation) -> tuple[PolicyAuditAnnotation, ...] | str:
        """Return the audit annotations that are not excluded, or the error of exceeding the budget."""
        if not self._policy.audit_annotations:
            return ()
        evaluation = policy.annotations()
        annotations = []
        for key, compiled in self._audit_annotations:
            evaluated = None if compiled.error else evaluation.evaluate(compiled)
            if evaluated is not None and evaluated.out_of_budget:
                return str(evaluated.error)
            annotations.append(audit_annotation(key, compiled, evaluated, self.failure_policy))
        return tuple(each for each in annotations if each.action is not AuditAnnotationAction.EXCLUDE)

    def _error(self, message: str) -> ValidateResult:
        """Return the result of a policy that failed as a whole. With `Ignore` it has no effect."""
        decision = error_decision(self.failure_policy, message)
        return NO_DECISION if decision.action is Action.ADMIT else ValidateResult((decision,), as_a_whole=True)


def _denies(evaluated: Evaluated | None) -> bool:
    """Return whether a validation was evaluated and is not true."""
    return evaluated is not None and evaluated.error is None and not evaluated.unknown and evaluated.value is not True


def denial(validation: Validation, message: Evaluated | None) -> PolicyDecision:
    """Return the denial by a false validation. `message` is its evaluated message expression, None if it has none."""
    reason = validation.reason or DEFAULT_REASON
    if message is not None and message.unknown:
        return PolicyDecision(Action.DENY, DecisionEvaluation.DENY, "", reason, message.unknown)
    text = "" if message is None or message.error is not None else _message(message.value)
    text = text or trim_space(validation.message) or f"failed expression: {trim_space(validation.expression)}"
    return PolicyDecision(Action.DENY, DecisionEvaluation.DENY, text, reason)


def audit_annotation(
    key: str, compiled: CompiledExpression, evaluated: Evaluated | None, failure_policy: FailurePolicy
) -> PolicyAuditAnnotation:
    """Return the effect of an audit annotation. `evaluated` is None if the expression does not compile."""
    error = _error_of(compiled, evaluated)
    if error is not None:
        if failure_policy is FailurePolicy.IGNORE:
            return PolicyAuditAnnotation(key, AuditAnnotationAction.EXCLUDE)
        return PolicyAuditAnnotation(key, AuditAnnotationAction.ERROR, error=error)
    assert evaluated is not None
    if evaluated.unknown:
        return PolicyAuditAnnotation(key, AuditAnnotationAction.UNKNOWN, unknown=evaluated.unknown)
    value = trim_space(evaluated.value) if isinstance(evaluated.value, str) else ""
    # An annotation is a string or null, and null publishes nothing.
    if not value:
        return PolicyAuditAnnotation(key, AuditAnnotationAction.EXCLUDE)
    return PolicyAuditAnnotation(key, AuditAnnotationAction.PUBLISH, value)


def trim_space(text: str) -> str:
    """Return a text without surrounding space, like Go's `strings.TrimSpace`."""
    return text.strip(_GO_SPACE)


def _message(value: Any) -> str:
    """Return the result of a message expression, empty if the server does not use it."""
    if not isinstance(value, str):
        return ""
    text = trim_space(value)
    # Go's `len` counts bytes, so that the limit is one of bytes too.
    return "" if "\n" in text or len(text.encode("utf-8", "surrogatepass")) > MAX_MESSAGE_BYTES else text


def _error_of(compiled: CompiledExpression, evaluated: Evaluated | None) -> str | None:
    """Return the text of a compile or run-time error, None if there is none."""
    if compiled.error:
        return f"compilation error: {compiled.error}"
    if evaluated is None or evaluated.error is None or evaluated.unknown:
        return None
    return f"expression '{compiled.expression}' resulted in error: {evaluated.error}"
