"""CEL in templates (`gatekeeper/pkg/drivers/k8scel`): a native policy whose parameter is the constraint.

It has two more variables: `anyObject` and `params`.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from replay.admission.alike import AlikeOutcomes, Projection, ProjectionKey, RequestBindings
from replay.admission.inputs import Inputs, KindEvaluation, root_of
from replay.admission.request import admission_request
from replay.admission.validating.evaluation import OwnEvaluation
from replay.admission.validating.outcome import Action, ValidateResult
from replay.admission.validating.validator import Validator
from replay.cel.env import Env
from replay.cellib.environment import ExpressionKind, admission_env
from replay.cellib.expression import CompiledExpression, ExpressionCompiler
from replay.cellib.version import KubernetesVersion
from replay.gatekeeper.generated_policy import ANY_OBJECT, PARAMETERS
from replay.identity import IdentityMap
from replay.json import JSON
from replay.kube.admissionregistration import (
    FailurePolicy,
    MatchCondition,
    ParamKind,
    ValidatingAdmissionPolicy,
    Validation,
    Variable,
)
from replay.kube.attributes import Attributes, Missing, PartialObject

RESERVED = "gatekeeper_internal_"
VERSION = KubernetesVersion(1, 36)
"""Version of the libraries that Gatekeeper 3.23 is built with (`k8s.io/apiserver` 0.36)."""


class CELTemplateError(Exception):
    """CEL that Gatekeeper refuses. `str()` is the message."""


class CELViolation(NamedTuple):
    """Message, and the index of the validation that has it. `unknown` is the reason if the result is unknown."""

    message: str
    validation: int
    unknown: str = ""


class _Compiler(ExpressionCompiler):
    """Compiler without `authorizer`. Only variables see the whole constraint as `params`."""

    def compile(self, kind: ExpressionKind, expression: str) -> CompiledExpression:
        """Compile an expression, which sees the variables declared before it."""
        # Not shared with native policies, whose expressions see other names.
        return self.compiled_here(kind, expression)

    def _env(self, kind: ExpressionKind) -> Env:
        has_params = kind is ExpressionKind.VARIABLE
        return admission_env(self._version, kind, has_params=has_params, variables=self._types, has_authorizer=False)


class _Evaluation:
    """Expressions of a template for one input. It records whether a message was evaluated."""

    def __init__(self, compiler: ExpressionCompiler, inputs: Inputs) -> None:
        own = OwnEvaluation(compiler, inputs)
        self.inputs = inputs
        self.conditions, self.validations, self.annotations = own.conditions, own.validations, own.annotations
        self._own = own
        self.has_read_messages = False

    def messages(self, budget: int) -> KindEvaluation:
        self.has_read_messages = True
        return self._own.messages(budget)


class _Validator(Validator):
    """Validator of a template's expressions."""

    @property
    def compiler(self) -> ExpressionCompiler:
        return self._compiler

    def decided(self, evaluation: _Evaluation) -> ValidateResult:
        return self._decided(evaluation, None)

    @cached_property
    def _compiler(self) -> ExpressionCompiler:
        compiler = _Compiler(self._version, has_params=True)
        for variable in self._policy.variables:
            compiler.declare_variable(variable.name, variable.expression)
        return compiler


class CELTemplate:
    """Template whose code is CEL."""

    def __init__(self, name: str, source: JSON) -> None:
        """Compile the code. Raises CELTemplateError for reserved names."""
        self.name = name
        self.source = source
        _check(source)
        self._validator = _Validator(self.policy(), VERSION)
        self.generates_policy = source.get("generateVAP")
        self._known: IdentityMap[JSON, AlikeOutcomes[tuple[CELViolation, ...]]] = IdentityMap()
        """Earlier results of each constraint."""

    def policy(self) -> ValidatingAdmissionPolicy:
        """Return the code as a native policy, without match constraints."""
        own = self.source.get("variables") or ()
        return ValidatingAdmissionPolicy(
            name=self.name,
            static=False,
            param_kind=ParamKind("constraints.gatekeeper.sh/v1beta1", self.name),
            failure_policy=FailurePolicy(self.source.get("failurePolicy") or "Fail"),
            match_conditions=tuple(
                MatchCondition(each.get("name") or "", each.get("expression") or "")
                for each in self.source.get("matchCondition") or ()
            ),
            variables=(
                Variable("anyObject", ANY_OBJECT),
                Variable("params", PARAMETERS),
                *(Variable(each.get("name") or "", each.get("expression") or "") for each in own),
            ),
            validations=tuple(
                Validation(
                    expression=each.get("expression") or "",
                    message=each.get("message") or "",
                    message_expression=each.get("messageExpression") or "",
                )
                for each in self.source.get("validations") or ()
            ),
        )

    @property
    def broken(self) -> tuple[tuple[str, str], ...]:
        """Expressions that do not compile, with the error.

        Gatekeeper accepts them, but each request then gets the error.
        """
        found = (*self._validator.match_conditions, *self._validator.validations)
        return tuple((each.expression, each.error) for each in found if each.error is not None)

    def violations(self, inputs: CELInputs, constraint: JSON) -> Sequence[CELViolation]:
        """Return the violations of a constraint for a request. The result of an alike request is reused."""
        known = self._known.get(constraint)
        if known is None:
            known = self._known[constraint] = self._outcomes()
        results = known.find(inputs.projected)
        if results is None:
            evaluation = _Evaluation(self._validator.compiler, inputs.inputs_for(constraint))
            results = tuple(_message_of(self._validator.decided(evaluation)))
            if not any(each.unknown for each in results):
                known.remember(inputs.projected, results, has_read_messages=evaluation.has_read_messages)
        return results

    def _outcomes(self) -> AlikeOutcomes[tuple[CELViolation, ...]]:
        validator = self._validator
        return AlikeOutcomes(
            _request_footprint(validator.footprint_without_messages), _request_footprint(validator.footprint)
        )


def _request_footprint(footprint: frozenset[str]) -> frozenset[str]:
    """Return the part of a footprint outside of the constraint, which never changes."""
    return frozenset(path for path in footprint if root_of(path) != "params")


def _message_of(result: ValidateResult) -> list[CELViolation]:
    if result.unknown:
        return [CELViolation("", -1, result.unknown[0].reason)]
    return [
        CELViolation(
            decision.message,
            -1 if result.as_a_whole else place,
            decision.unknown[0].reason if decision.unknown else "",
        )
        for place, decision in enumerate(result.decisions)
        if decision.action is Action.DENY or decision.unknown
    ]


class CELInputs:
    """Inputs of all templates' expressions for one request."""

    def __init__(self, attributes: Attributes, namespace: JSON | PartialObject | Missing | None) -> None:
        """`attributes` are those of the request as the webhook received it."""
        request = admission_request(attributes, attributes.resource, attributes.kind)
        self._bindings: dict[str, Any] = {
            "object": attributes.object,
            "oldObject": attributes.old_object,
            "request": request,
            "namespaceObject": namespace,
        }
        self._request = request
        self._attributes = attributes
        self._projections: dict[Projection, ProjectionKey | None] = {}

    @cached_property
    def _plain(self) -> RequestBindings:
        plain = RequestBindings(self._attributes)
        plain |= {"request": self._request, "namespaceObject": self._bindings["namespaceObject"]}
        return plain

    def projected(self, reads: Projection) -> tuple[ProjectionKey, Hashable] | None:
        """Return the values that expressions read, with the kind, as a key. Return None if there is no such key."""
        if isinstance(self._bindings["namespaceObject"], PartialObject | Missing):
            return None
        if reads not in self._projections:
            self._projections[reads] = reads(self._plain)
        projected = self._projections[reads]
        return None if projected is None else (projected, self._attributes.kind)

    def inputs_for(self, constraint: JSON) -> Inputs:
        """Return the inputs with a constraint as parameter."""
        return Inputs({**self._bindings, "params": constraint}, self._request)


def _check(source: Mapping[str, JSON]) -> None:
    """Raise CELTemplateError if the code is invalid (`schema.Source.Validate`)."""
    for condition in source.get("matchCondition") or ():
        if str(condition.get("name") or "").startswith(RESERVED):
            raise CELTemplateError(
                f'invalid match condition: {condition["name"]} is not a valid match condition; cannot have "{RESERVED}" as a prefix'
            )
    for variable in source.get("variables") or ():
        name = str(variable.get("name") or "")
        if name.startswith(RESERVED):
            raise CELTemplateError(
                f'invalid variable definition: {name} is not a valid variable; cannot have "{RESERVED}" as a prefix'
            )
        if name in ("params", "anyObject"):
            raise CELTemplateError(
                f'invalid variable definition: {name} an invalid variable name, "{name}" is a reserved keyword'
            )
    policy = source.get("failurePolicy")
    if policy is not None and policy not in ("Fail", "Ignore"):
        raise CELTemplateError(f"invalid failure policy: unrecognized failure policy: {policy}")
