"""Decisions of validating policies, and their result for one set while a request is decided.

Source: `policy/validating.PolicyDecision` and `ValidateResult`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

import orjson
from msgspec import Struct, field

from replay.admission.decision import Decision, Denial, Undetermined, Verdict
from replay.cellib.version import KubernetesVersion
from replay.kube.admissionregistration import (
    FailurePolicy,
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
)
from replay.kube.attributes import Missing
from replay.kube.denial import PolicyWarning

DEFAULT_REASON = "Invalid"

_CODES = {"Forbidden": 403, "Unauthorized": 401, "RequestEntityTooLarge": 413, "Invalid": 422}


class Action(StrEnum):
    """Effect of a decision."""

    ADMIT = "admit"
    DENY = "deny"
    UNKNOWN = "unknown"


class DecisionEvaluation(StrEnum):
    """Result of the evaluation that caused the decision."""

    ADMIT = "admit"
    ERROR = "error"
    DENY = "deny"
    UNKNOWN = "unknown"


class AuditAnnotationAction(StrEnum):
    """Effect of an audit annotation's evaluation."""

    PUBLISH = "publish"
    ERROR = "error"
    EXCLUDE = "exclude"
    UNKNOWN = "unknown"


class PolicyDecision(NamedTuple):
    """The decision of one validation, or of the whole policy.

    `unknown` are the missing inputs on which the action depends, or only the message of a certain denial.
    """

    action: Action
    evaluation: DecisionEvaluation
    message: str = ""
    reason: str = DEFAULT_REASON
    unknown: tuple[Missing, ...] = ()


class PolicyAuditAnnotation(NamedTuple):
    """An evaluated entry of `auditAnnotations`."""

    key: str
    action: AuditAnnotationAction
    value: str = ""
    error: str | None = None
    unknown: tuple[Missing, ...] = ()


class ValidateResult(NamedTuple):
    """The decisions in the order of the validations, or a single one of the policy as a whole.

    `unknown` are the missing inputs on which it depends whether there is any decision. Then there are none here.
    """

    decisions: tuple[PolicyDecision, ...] = ()
    audit_annotations: tuple[PolicyAuditAnnotation, ...] = ()
    as_a_whole: bool = False
    unknown: tuple[Missing, ...] = ()


NO_DECISION = ValidateResult()
"""Result without denials, warnings, annotations or unknowns: the policy is skipped, or every validation is true."""

ADMITTED = PolicyDecision(Action.ADMIT, DecisionEvaluation.ADMIT)


def action_for_error(failure_policy: FailurePolicy) -> Action:
    """Return the action for an error."""
    return Action.ADMIT if failure_policy is FailurePolicy.IGNORE else Action.DENY


def error_decision(failure_policy: FailurePolicy, message: str) -> PolicyDecision:
    """Return the decision of a failed evaluation. The server gives it no reason, and answers as for `Invalid`."""
    return PolicyDecision(action_for_error(failure_policy), DecisionEvaluation.ERROR, message)


def reason_to_code(reason: str) -> int:
    """Return the HTTP status of a reason."""
    # `reasonToCode` answers unknown reasons as Invalid.
    return _CODES.get(reason, 422)


# Audit annotations of validating policies (`policy/validating/dispatcher.go`).

VALIDATION_FAILURE_KEY = "validation.policy.admission.k8s.io/validation_failure"

ALL_FAILURES_SINCE = 37
"""First minor that lists all failures. Before it, each was written separately, and an annotation cannot be overwritten.
"""

MAX_VALIDATION_FAILURES = 50
MAX_VALUE_BYTES = 10 * 1024

_GO_ESCAPES = (("<", "\\u003c"), (">", "\\u003e"), ("&", "\\u0026"), ("\u2028", "\\u2028"), ("\u2029", "\\u2029"))
"""Characters that encoding/json escapes for HTML and JavaScript."""


class ValidationFailure(Struct, frozen=True):
    """Denial by a binding with the action Audit."""

    message: str
    policy: str
    binding: str
    expression_index: int
    validation_actions: tuple[str, ...]


def validation_failure_value(failures: Sequence[ValidationFailure], server: KubernetesVersion) -> str:
    """Return the annotation's JSON, byte for byte as Go writes it.

    It has the first 50 failures, or only the first on older servers.
    """
    most = MAX_VALIDATION_FAILURES if server.minor >= ALL_FAILURES_SINCE else 1
    rows = [
        {
            "message": failure.message,
            "policy": failure.policy,
            "binding": failure.binding,
            "expressionIndex": failure.expression_index,
            "validationActions": failure.validation_actions,
        }
        for failure in failures[:most]
    ]
    try:
        text = orjson.dumps(rows).decode()
    except TypeError:  # a text with lone surrogates
        text = json.dumps(rows, ensure_ascii=False, separators=(",", ":"))
    for character, escape in _GO_ESCAPES:
        text = text.replace(character, escape)
    return text


class AuditAnnotationCollector(dict[str, dict[str, None]]):
    """The distinct values of one policy's annotations over its bindings and parameters, by key."""

    def add(self, key: str, value: str) -> None:
        """Add a value, cut to 10 KiB, unless it is present."""
        self.setdefault(key, {})[_truncated(value)] = None

    def published(self, policy: str) -> dict[str, str]:
        """Return the annotations by full key, with several values joined."""
        return {f"{policy}/{key}": ", ".join(values) for key, values in self.items()}


def _truncated(value: str) -> str:
    """Return the first 10 KiB. Each byte of a character that is cut in the middle becomes one U+FFFD in the log."""
    data = value.encode("utf-8", "surrogatepass")
    if len(data) <= MAX_VALUE_BYTES:
        return value
    data = data[:MAX_VALUE_BYTES]
    text = data.decode("utf-8", "ignore")
    return text + "\ufffd" * (len(data) - len(text.encode("utf-8")))


_Policy = ValidatingAdmissionPolicy
_Binding = ValidatingAdmissionPolicyBinding


class OutcomeCollector(Struct, eq=False):
    """Collects denials, warnings, audit annotations and undetermined policies, in the server's order.

    The annotations are those of the version of `_server`.
    """

    _server: KubernetesVersion
    _denials: list[Denial] = field(default_factory=list)
    _warnings: list[str] = field(default_factory=list)
    _failures: list[ValidationFailure] = field(default_factory=list)
    _failures_are_certain: bool = True
    _annotations: dict[str, str] = field(default_factory=dict)
    _collector: AuditAnnotationCollector = field(default_factory=AuditAnnotationCollector)
    _unknown_keys: set[str] = field(default_factory=set)
    _undetermined: dict[Undetermined, None] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Return whether the request is admitted without any effect."""
        return not (self._denials or self._warnings or self._failures or self._annotations or self._undetermined)

    def configuration_error(self, policy: _Policy, binding: _Binding | None, message: str) -> None:
        """Record an unusable policy or binding: `failurePolicy` decides, independent of the binding's actions."""
        if policy.failure_policy is FailurePolicy.FAIL:
            text = f"failed to configure {'binding' if binding else 'policy'}: {message}"
            self._deny(policy, binding, PolicyDecision(Action.DENY, DecisionEvaluation.ERROR, text), None)

    def undetermined(self, policy: _Policy, binding: _Binding | None, unknown: tuple[Missing, ...]) -> None:
        """Record that the policy may or may not decide something, including its annotations."""
        self._unknown(policy, binding, unknown)
        self._unknown_keys.update(f"{policy.name}/{each.key}" for each in policy.audit_annotations)

    def begin_annotations(self) -> None:
        """Collect the audit annotations of the next policy."""
        self._collector, self._unknown_keys = AuditAnnotationCollector(), set()

    def publish_annotations(self, policy: _Policy) -> None:
        """Publish the annotations that all bindings of the policy have collected, as far as they are certain."""
        for key, value in self._collector.published(policy.name).items():
            if key not in self._unknown_keys:
                self._annotations[key] = value

    def add(self, policy: _Policy, binding: _Binding, result: ValidateResult) -> None:
        """Add the result for one parameter of a binding."""
        if result.unknown:
            self.undetermined(policy, binding, result.unknown)
        for index, decision in enumerate(result.decisions):
            if decision.action is Action.UNKNOWN:
                self._unknown(policy, binding, decision.unknown)
            elif decision.action is Action.DENY:
                self._denied(policy, binding, decision, index, as_a_whole=result.as_a_whole)
        for annotation in result.audit_annotations:
            if annotation.action is AuditAnnotationAction.PUBLISH:
                self._collector.add(annotation.key, annotation.value)
            elif annotation.action is AuditAnnotationAction.UNKNOWN:
                self._unknown(policy, binding, annotation.unknown)
                self._unknown_keys.add(f"{policy.name}/{annotation.key}")
            # `dispatcher.Dispatch` denies for such an error even if the binding's actions do not include Deny.
            elif annotation.action is AuditAnnotationAction.ERROR:
                decision = PolicyDecision(Action.DENY, DecisionEvaluation.ERROR, annotation.error or "")
                self._deny(policy, binding, decision, None)

    def add_for_all(self, policy: _Policy, bindings: Sequence[_Binding], result: ValidateResult) -> None:
        """Add the same result for all bindings of a policy."""
        if policy.audit_annotations:
            self.begin_annotations()
        for binding in bindings:
            self.add(policy, binding, result)
        if policy.audit_annotations:
            self.publish_annotations(policy)

    def decision(self) -> Decision:
        """Return the decision. Everything in it is certain."""
        annotations = dict(self._annotations)
        if self._failures and self._failures_are_certain:
            annotations[VALIDATION_FAILURE_KEY] = validation_failure_value(self._failures, self._server)
        verdict = Verdict.DENIED if self._denials else Verdict.ADMITTED
        return Decision(
            verdict=Verdict.UNDETERMINED if self._undetermined else verdict,
            denials=tuple(self._denials),
            # The server writes each warning once (`recorder.AddWarning`).
            warnings=tuple(dict.fromkeys(self._warnings)),
            audit_annotations=annotations,
            undetermined=tuple(self._undetermined),
        )

    def _unknown(self, policy: _Policy, binding: _Binding | None, unknown: tuple[Missing, ...]) -> None:
        """Record an unknown part of a policy. With the action Audit, the list of failures is unknown then."""
        name = binding.name if binding else ""
        first, others = unknown[0], len(unknown) - 1
        more = f" (and {others} more)" if others else ""
        reason = f"`{first.path}` is not known: {first.reason}{more}"
        entry = Undetermined(policy.name, name, reason, first.path, first.fix, _never_refuses(policy, binding))
        self._undetermined[entry] = None
        # The annotation lists all failures in one value, so that one uncertain failure makes the whole list uncertain.
        if binding is None or "Audit" in binding.validation_actions:
            self._failures_are_certain = False

    def _denied(
        self, policy: _Policy, binding: _Binding, decision: PolicyDecision, index: int, *, as_a_whole: bool
    ) -> None:
        """Record a validation that denies, for each action of the binding.

        If only the message is unknown, the denial is certain and has an empty message; warning and annotation are
        uncertain.
        """
        if decision.unknown:
            self._unknown(policy, binding, decision.unknown)
        for action in binding.validation_actions:
            if action == "Deny":
                self._deny(policy, binding, decision, None if as_a_whole else index)
            elif action == "Audit":
                actions = binding.validation_actions
                failure = ValidationFailure(decision.message, binding.policy_name, binding.name, index, actions)
                self._failures.append(failure)
            elif action == "Warn" and not decision.unknown:
                self._warnings.append(PolicyWarning(policy.name, binding.name, decision.message).text)

    def _deny(self, policy: _Policy, binding: _Binding | None, decision: PolicyDecision, index: int | None) -> None:
        """Record a denial of the request."""
        name = binding.name if binding else ""
        is_error = decision.evaluation is DecisionEvaluation.ERROR
        # Decisions about errors have no reason, and `dispatcher.Dispatch` then takes Invalid.
        reason = decision.reason or DEFAULT_REASON
        self._denials.append(_denial(policy.name, name, index, decision.message, reason, is_error=is_error))


@lru_cache(maxsize=65536)
def _denial(  # noqa: PLR0913 - what a denial is made of
    policy: str, binding: str, index: int | None, message: str, reason: str, *, is_error: bool
) -> Denial:
    """Return a denial. Cached, because requests are often denied for the same reasons."""
    return Denial(policy, binding, index, message, reason, reason_to_code(reason), is_error)


def _never_refuses(policy: _Policy, binding: _Binding | None) -> bool:
    """Return whether a policy refuses nothing with a binding, whatever it decides.

    Without the action Deny, only an error of its parameters or of an audit annotation refuses (`dispatcher.Dispatch`).
    """
    is_safe = policy.param_kind is None and not policy.audit_annotations
    return is_safe and binding is not None and "Deny" not in binding.validation_actions
