"""Evaluates single expressions, and returns the decision that a policy would make.

The inputs are cases or documents.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

from replay.admission.inputs import BUDGET as MATCH_CONDITIONS_BUDGET
from replay.admission.mutating.input_value import InputValues
from replay.admission.mutating.mutation_value import (
    CrashError,
    MutationError,
    apply_configuration_from,
    json_from,
    json_patch_from,
)
from replay.admission.params import as_read_again
from replay.admission.request import NAMESPACE_KIND
from replay.admission.validating.evaluation import RUNTIME_BUDGET
from replay.admission.validating.validator import audit_annotation, denial
from replay.cel.ast.walk import with_deep_stack
from replay.cel.value.text import type_text
from replay.cel.value.values import TypedMap
from replay.cellib.activation import Views
from replay.cellib.composition import Evaluated, Evaluation
from replay.cellib.environment import ExpressionKind
from replay.cellib.expression import CompiledExpression, ExpressionCompiler
from replay.cellib.library.authorizer import authorizer_bindings
from replay.cellib.tagged import shown, tagged
from replay.cellib.version import NEWEST, KubernetesVersion
from replay.errors import ReplayError
from replay.json import JSON, integer
from replay.kube.admissionregistration import FailurePolicy, Validation
from replay.kube.attributes import Attributes, Operation, UserInfo
from replay.kube.authorizer import AuthorizationAttributes, AuthorizationDecision
from replay.kube.gvk import GroupVersionKind, GroupVersionResource, split_api_version

CelCase = Mapping[str, Any]


class DenyAll:
    """An authorizer that denies everything."""

    def authorize(self, attributes: AuthorizationAttributes) -> AuthorizationDecision:  # noqa: ARG002
        """Return a denial without a reason."""
        return AuthorizationDecision(allowed=False)


def results(lines: Iterable[str], version: KubernetesVersion = NEWEST) -> Iterator[dict[str, Any]]:
    """Yield the result of each case, one per line. Raise `ReplayError` for an invalid line."""
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                case = with_deep_stack(partial(json.loads, line, parse_int=integer))
                kind = ExpressionKind(case.get("kind", "variable"))
                expression = case["expr"]
            except (ValueError, KeyError, AttributeError, RecursionError) as error:
                raise ReplayError("not a case: a JSON object with `kind` and `expr`", line=number) from error
            yield {"id": case.get("id", str(number)), **_result(case, kind, expression, version)}


def _result(case: CelCase, kind: ExpressionKind, expression: str, version: KubernetesVersion) -> dict[str, Any]:
    try:
        return with_deep_stack(lambda: _Run(case, kind, expression, version).result())
    except RecursionError:
        return {"error": "the value is nested too deeply to be written"}


class _Run:
    """One case."""

    def __init__(self, case: CelCase, kind: ExpressionKind, expression: str, version: KubernetesVersion) -> None:
        self._case = case
        self._kind = kind
        self._expression = expression
        self._version = version
        self._compiler, self._variables = self._new_compiler(version)
        self._bindings = bindings_of(case, version, mutation=kind.is_mutation)
        budget = MATCH_CONDITIONS_BUDGET if kind is ExpressionKind.MATCH_CONDITION else RUNTIME_BUDGET
        self._budget = budget
        self._evaluation = Evaluation(self._compiler, self._bindings, budget, exact=True)

    def _new_compiler(self, compatible: KubernetesVersion) -> tuple[ExpressionCompiler, dict[str, CompiledExpression]]:
        has_params = "params" in self._case.get("vars", {})
        compiler = ExpressionCompiler(self._version, has_params=has_params, compatible=compatible)
        variables = {}
        for variable in self._case.get("variables", ()):
            variables[variable["name"]] = compiler.declare_variable(variable["name"], variable["expression"])
        return compiler, variables

    def result(self) -> dict[str, Any]:
        """Return the result with type, cost, decision and compile errors."""
        for earlier in self._case.get("before", ()):
            self._evaluation.evaluate(self._compiler.compile(self._kind, earlier))
        compiled = self._compiler.compile(self._kind, self._expression)
        result: dict[str, Any] = {}
        if compiled.output_type is None:
            result["compile_error"] = compiled.error
        else:
            result["type"] = self._compiler.type_text(compiled.output_type)
            result.update(self._estimated(compiled))
            result.update(self._evaluated(compiled))
        return {**result, **self._on_create(compiled), **self._variable_results()}

    def _estimated(self, compiled: CompiledExpression) -> dict[str, list[str]]:
        """Return the estimated cost range of a single expression."""
        if self._variables or compiled.program is None:
            return {}
        least, most = compiled.program.estimated_cost()
        return {"estimated": [str(least), str(most)]}

    def _evaluated(self, compiled: CompiledExpression) -> dict[str, Any]:
        evaluated = self._evaluation.evaluate(compiled)
        if evaluated.out_of_budget:
            outcome: dict[str, Any] = {"error": evaluated.error, "out_of_budget": True}
        elif evaluated.error is not None:
            outcome = {"error": evaluated.error, "cost": self._cost()}
        elif evaluated.unknown:
            return {"undetermined": "; ".join(missing.reason for missing in evaluated.unknown)}
        else:
            try:
                outcome = {"value": tagged(evaluated.value), "cost": self._cost(), **self._patch(evaluated)}
            except CrashError as error:
                outcome = {"error": f"internal error: {error}"}
        # A policy makes a decision for each expression, but a case states only one.
        decision = None if self._case.get("before") else self._decision(compiled, evaluated)
        return {**outcome, "decision": decision} if decision is not None else outcome

    def _cost(self) -> int:
        return self._budget - self._evaluation.exactly_remaining()

    def _patch(self, evaluated: Evaluated) -> dict[str, Any]:
        inputs = InputValues(self._bindings, _kinds(self._bindings), self._version)
        try:
            if self._kind is ExpressionKind.APPLY_CONFIGURATION:
                return _apply_configuration(apply_configuration_from(evaluated.value, inputs))
            if self._kind is ExpressionKind.JSON_PATCH:
                return {"patch": json_patch_from(evaluated.value, inputs)}
        except CrashError:
            raise
        except MutationError as error:
            return {"patch_error": str(error)}
        return {}

    def _decision(self, compiled: CompiledExpression, evaluated: Evaluated) -> dict[str, Any] | None:
        """Return the validator's decision with `failurePolicy: Fail`."""
        error = evaluated.error
        if error is not None and not evaluated.out_of_budget:
            error = f"expression '{self._expression}' resulted in error: {error}"
        match self._kind:
            case ExpressionKind.VALIDATION:
                return self._validation_decision(evaluated, error)
            case ExpressionKind.MATCH_CONDITION:
                return {"matches": evaluated.value is True} if error is None else {"matches": False, "error": error}
            case ExpressionKind.MESSAGE_EXPRESSION:
                validation = Validation("false", self._case.get("message", ""))
                return {"message": denial(validation, evaluated).message}
            case ExpressionKind.AUDIT_ANNOTATION:
                annotation = audit_annotation("key", compiled, evaluated, FailurePolicy.FAIL)
                details = {"value": annotation.value, "error": annotation.error}
                return {"action": str(annotation.action), **{key: text for key, text in details.items() if text}}
        return None

    def _validation_decision(self, evaluated: Evaluated, error: str | None) -> dict[str, Any]:
        if error is not None:
            return {"action": "deny", "evaluation": "error", "message": error}
        if evaluated.value is True:
            return {"action": "admit", "evaluation": "admit"}
        decision = denial(Validation(self._expression), None)
        return {"action": "deny", "evaluation": "deny", "message": decision.message, "reason": decision.reason}

    def _on_create(self, compiled: CompiledExpression) -> dict[str, str]:
        """Return the server's answer for a new expression, if it differs.

        Only the libraries of the minor before count.
        """
        previous, _ = self._new_compiler(self._version.previous)
        error = previous.compile(self._kind, self._expression).error
        return {"compile_error_on_create": error} if error is not None and error != compiled.error else {}

    def _variable_results(self) -> dict[str, Any]:
        types = {
            name: self._compiler.type_text(each.output_type)
            for name, each in self._variables.items()
            if each.output_type
        }
        errors = {name: each.error for name, each in self._variables.items() if each.error is not None}
        named = {"variable_types": types, "variable_compile_errors": errors}
        return {name: values for name, values in named.items() if values}


def _apply_configuration(value: dict[str, Any]) -> dict[str, Any]:
    try:
        return {"patch": json_from(value)}
    except MutationError as error:
        return {"patch_error": f"json: {error}"}


def _kinds(bindings: Mapping[str, Any]) -> dict[str, GroupVersionKind]:
    """Return the kinds of the bindings that are Go objects."""
    kinds = {"namespaceObject": NAMESPACE_KIND}
    for name, value in bindings.items():
        if isinstance(value, TypedMap):
            kind = GroupVersionKind(*split_api_version(value.value.get("apiVersion", "")), value.value.get("kind", ""))
            kinds[name] = kind
    return kinds


def bindings_of(case: CelCase, version: KubernetesVersion = NEWEST, *, mutation: bool = False) -> dict[str, Any]:
    """Return the bindings of a case. `request` gets the fields of every AdmissionRequest.

    A `mutation` without match conditions sees plain JSON objects.
    """
    forms = case.get("form", {})
    bindings: dict[str, Any] = {}
    for name, value in case.get("vars", {}).items():
        is_typed = forms.get(name) == "typed" and isinstance(value, dict)
        is_plain = Views.for_server(version).is_plain
        if is_typed and (is_plain or not (mutation and name in {"object", "oldObject"})):
            bindings[name] = TypedMap(value)
        else:
            bindings[name] = as_read_again(value) if name == "params" and not is_plain else value
    bindings["request"] = admission_request(case.get("vars", {}))
    return {**bindings, **authorizer_bindings(DenyAll(), _attributes(bindings["request"]))}


def admission_request(variables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the given `request`, or one that creates the given `object`."""
    always = {"uid": "", "object": None, "oldObject": None}
    if isinstance(variables.get("request"), dict):
        return {**always, **variables["request"]}
    shown = variables.get("object") or variables.get("oldObject")
    shown = shown if isinstance(shown, dict) else {}
    group, _, version = str(shown.get("apiVersion", "v1")).rpartition("/")
    kind = {"group": group, "version": version, "kind": str(shown.get("kind", ""))}
    resource = {"group": group, "version": version, "resource": f"{kind['kind'].lower()}s"}
    operation = "CREATE" if variables.get("object") is not None else "DELETE"
    both = {"kind": kind, "resource": resource, "requestKind": kind, "requestResource": resource}
    return {**always, **both, "operation": operation, "userInfo": {}, "dryRun": False, "options": None}


def _attributes(request: Mapping[str, Any]) -> Attributes:
    kind, resource = request.get("kind", {}), request.get("resource", {})
    user = request.get("userInfo", {})
    return Attributes(
        operation=Operation.CREATE,
        kind=GroupVersionKind(kind.get("group", ""), kind.get("version", ""), kind.get("kind", "")),
        resource=GroupVersionResource(
            resource.get("group", ""), resource.get("version", ""), resource.get("resource", "")
        ),
        subresource=request.get("subResource", ""),
        namespace=request.get("namespace", ""),
        name=request.get("name", ""),
        user_info=UserInfo(user.get("username", ""), user.get("uid", ""), tuple(user.get("groups", ()))),
    )


class ExpressionAnswer(NamedTuple):
    """Result of an expression. `evaluated` is None if it does not compile."""

    compiled: CompiledExpression
    evaluated: Evaluated | None

    @property
    def type_text(self) -> str:
        """The type of the result, as text."""
        assert self.compiled.output_type is not None
        return type_text(self.compiled.output_type)

    @property
    def why_undetermined(self) -> str:
        """Why the result is undetermined, empty if it is certain."""
        return "; ".join(missing.reason for missing in self.evaluated.unknown) if self.evaluated is not None else ""

    @property
    def code(self) -> str:
        """Return the generated Python code, or why there is none, with a line end."""
        assert self.compiled.program is not None
        code = self.compiled.program.compiled
        return code.source if code is not None else f"no code: {self.compiled.program.why_not_compiled}\n"


def evaluate(
    expression: str, documents: Mapping[str, JSON], version: KubernetesVersion, kind: ExpressionKind
) -> ExpressionAnswer:
    """Compile and evaluate an expression of a kind. `documents` are the values of variables by name."""
    compiler = ExpressionCompiler(version, has_params="params" in documents)
    compiled = compiler.compile(kind, expression)
    if compiled.program is None:
        return ExpressionAnswer(compiled, None)
    evaluation = Evaluation(compiler, bindings_of({"vars": documents}, version), RUNTIME_BUDGET, exact=True)
    return ExpressionAnswer(compiled, evaluation.evaluate(compiled))


def json_of(answer: ExpressionAnswer) -> dict[str, Any]:
    """Return the answer as a JSON object."""
    compiled, evaluated = answer
    if evaluated is None:
        return {"compile_error": compiled.error}
    result: dict[str, Any] = {"type": answer.type_text, "cost": evaluated.cost}
    if evaluated.unknown:
        result["undetermined"] = answer.why_undetermined
    elif evaluated.error is None:
        result["value"] = tagged(evaluated.value)
    else:
        result["error"] = evaluated.error
    return {**result, "footprint": sorted(compiled.footprint)}


def text_of(answer: ExpressionAnswer) -> str:
    """Return the answer as text, in lines."""
    compiled, evaluated = answer
    if evaluated is None:
        return f"{compiled.error}\n"
    if evaluated.unknown:
        first = f"undetermined: {answer.why_undetermined}"
    else:
        first = f"error: {evaluated.error}" if evaluated.error is not None else shown(evaluated.value)
    lines = [first, f"type: {answer.type_text}", f"cost: {evaluated.cost}"]
    if compiled.footprint:
        lines.append(f"reads: {', '.join(sorted(compiled.footprint))}")
    return "\n".join(lines) + "\n"
