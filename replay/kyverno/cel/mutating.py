"""MutatingPolicy and NamespacedMutatingPolicy (`pkg/cel/policies/mpol`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from replay.admission.mutating.input_value import InputValues
from replay.admission.mutating.mutation_value import (
    MutationError,
    NilSlice,
    apply_configuration_from,
    json_patch_from,
)
from replay.admission.mutating.mutator import joins_lists
from replay.admission.mutating.object_patcher import (
    ObjectPatcher,
    ObjectPatchers,
    StatusError,
    check_object,
    internal_error,
    with_json_patch,
)
from replay.admission.partial_patch import Change, patch_partially
from replay.cel.ast.tree import Ident
from replay.cel.ast.walk import descendants, with_deep_stack
from replay.cel.value.values import Value
from replay.cellib.environment import VARIABLES, ExpressionKind
from replay.cellib.expression import CompiledExpression
from replay.go.format import marshal
from replay.json import JSON
from replay.kube.admissionregistration import FailurePolicy, MatchResources
from replay.kube.attributes import Missing
from replay.kyverno.cel.autogen import generated_specs
from replay.kyverno.cel.compiler import VERSION, PolicyCompiler, PolicyError, Purpose
from replay.kyverno.cel.evaluation import (
    EvaluationError,
    PolicyInputs,
    compiled_annotations,
    compiled_exceptions,
    exempted_rule,
    undetermined,
)
from replay.kyverno.cel.library.context import Reader
from replay.kyverno.cel.request import CELRequest, Constraints, MatchingError, Object
from replay.kyverno.cel.spec import MutatingSpec, PolicyException, constraints_of, read_spec
from replay.kyverno.rules.go_value import as_map
from replay.kyverno.rules.response import PASS, SKIP, RuleResponse, UndeterminedError, rule_error

_READ = ("object", "oldObject", "request", "namespaceObject")
_FORBIDDEN = (
    "Forbidden: variables cannot be referenced in matchConditions when spec.autogen.mutatingAdmissionPolicy.enabled is true; "
    "native MutatingAdmissionPolicy evaluates match conditions before variables, so inline the expression instead"
)


class _Mutation(NamedTuple):
    expression: CompiledExpression
    is_configuration: bool


class MutationResult(NamedTuple):
    """Result of a policy. `object` is None if the policy does not change the object."""

    rule: RuleResponse
    object: Object | None = None


class MutatingPolicy:
    """Compiled mutating policy. Its spec may be a generated one."""

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
        self.spec = read_spec({"spec": spec}, MutatingSpec)
        self.fails = self.spec.on_failure is FailurePolicy.FAIL
        self._constraints = Constraints(constraints_of(spec) or MatchResources())
        self._compiler = PolicyCompiler(self.namespace, Purpose.MUTATE)
        self._compile(exceptions)

    def _compile(self, exceptions: Sequence[PolicyException]) -> None:
        """Compile all expressions in Kyverno's order. Match conditions see the variables."""
        compiler, spec = self._compiler, self.spec
        compiler.declare("spec.variables", spec.named_variables)
        self._conditions = compiler.conditions("spec.matchConditions", spec.conditions)
        if spec.generates_policy:
            self._refuse_variables()
        self._exceptions = compiled_exceptions(compiler, exceptions)
        self._annotations = compiled_annotations(compiler, spec.audit_annotations or ())
        self._mutations = tuple(self._compiled_mutations())
        programs = [each.program for each in self._compiler.variables.values()]
        programs += [each.expression.program for each in self._mutations]
        self._joins_lists = any(joins_lists(each.ast) for each in programs if each is not None)

    def _refuse_variables(self) -> None:
        errors = [
            f"spec.matchConditions[{index}].expression: {_FORBIDDEN}"
            for index, each in enumerate(self._conditions)
            if each.program is not None
            and any(isinstance(node, Ident) and node.name == VARIABLES for node in descendants(each.program.ast.expr))
        ]
        if errors:
            raise PolicyError(errors)

    def _compiled_mutations(self) -> Iterable[_Mutation]:
        forms = {
            "JSONPatch": ("jsonPatch", ExpressionKind.JSON_PATCH),
            "ApplyConfiguration": ("applyConfiguration", ExpressionKind.APPLY_CONFIGURATION),
        }
        for index, each in enumerate(self.spec.mutations or ()):
            if each.patch_type not in forms:
                continue
            name, kind = forms[each.patch_type]
            is_configuration = kind is ExpressionKind.APPLY_CONFIGURATION
            patch = each.apply_configuration if is_configuration else each.json_patch
            if patch is None:
                continue
            path = f"spec.mutations[{index}].{name}.expression"
            yield _Mutation(self._compiler.checked(path, kind, patch.expression or ""), is_configuration)

    def mutate(self, request: CELRequest, reader: Reader, patchers: ObjectPatchers) -> MutationResult | None:
        """Return the result of the policy, or None if it does not match. Raises UndeterminedError."""
        try:
            matched = self._constraints.matches(request)
        except MatchingError as error:
            return MutationResult(rule_error("match", "failed to execute matching", error))
        if matched is False:
            return None
        if isinstance(matched, Missing):
            raise undetermined(matched)
        if self._is_extracted:
            text = "extraction mode: mutation for custom workload CRDs is not yet supported"
            return MutationResult(RuleResponse("", SKIP, text))
        try:
            return self._mutated(request, reader, patchers)
        except (EvaluationError, MutationError, StatusError) as error:
            return MutationResult(rule_error("evaluation", "failed to evaluate policy", error))

    def is_triggered(self, request: CELRequest, reader: Reader) -> bool:
        """Return whether a request makes the policy change its existing target objects. An error is no trigger.

        Raises UndeterminedError.
        """
        try:
            matched = self._constraints.matches(request)
            if isinstance(matched, Missing):
                raise undetermined(matched)
            inputs = PolicyInputs(self._compiler, request, reader, self.namespace, mutates=True)
            return matched and inputs.match(self._conditions, ignores_errors=False)
        except (MatchingError, EvaluationError):
            return False

    def _mutated(self, request: CELRequest, reader: Reader, patchers: ObjectPatchers) -> MutationResult:
        inputs = PolicyInputs(self._compiler, request, reader, self.namespace, mutates=True)
        exempted = inputs.exempted(self._exceptions, ignores_errors=False)
        if exempted.exceptions:
            return MutationResult(exempted_rule(exempted.exceptions))
        if not inputs.match(self._conditions, ignores_errors=False):
            return MutationResult(RuleResponse("", SKIP, "skip"))
        value = request.object
        for mutation in self._mutations:
            change = self._change(mutation, inputs, patchers.patcher_for(request.kind))
            changed = patch_partially(value, change)
            if isinstance(changed, Missing):
                raise undetermined(changed)
            value = changed
            inputs.bind("object", value)
        inputs.annotations(self._annotations, '"')
        return MutationResult(RuleResponse("", PASS, "success"), value)

    def _change(self, mutation: _Mutation, inputs: PolicyInputs, patcher: ObjectPatcher | None) -> Change:
        """Return a mutation's change of an object. Raises the errors of evaluation and conversion."""
        # The fast engine does not tell a nil Go slice from an empty one, which a joined list may be.
        result: Value = inputs.value(mutation.expression, exact=self._joins_lists)
        read = {name: inputs.bindings[name] for name in _READ}
        values = InputValues({**read, "answers": inputs.answers}, {}, VERSION)
        if not mutation.is_configuration:
            operations = with_deep_stack(lambda: json_patch_from(result, values))
            return Change(partial(_patched, operations=operations), operations)
        configuration = with_deep_stack(lambda: apply_configuration_from(result, values))
        if patcher is None:
            raise UndeterminedError("object: the schema of its kind is not known")
        replaces = self.spec.is_applied_as_by_clients
        return Change(partial(_merged, patcher=patcher, configuration=configuration, replaces=replaces))


def _merged(obj: JSON, patcher: ObjectPatcher, configuration: dict[str, Any], *, replaces: bool) -> JSON:
    if not as_map(obj).get("kind"):  # a DELETE has no new object
        raise MutationError(
            "error applying patch: failed to convert patch object to typed object: no corresponding type for /, Kind="
        )
    return _with_nulls(patcher.merge(obj, configuration, replaces_atomics=replaces))


def _with_nulls(value: JSON) -> JSON:
    """Return an object with null for lists that are nil in Go. Parts without such lists are returned unchanged."""
    if isinstance(value, NilSlice):
        return None
    if isinstance(value, dict):
        items = {key: _with_nulls(item) for key, item in value.items()}
        return items if any(item is not value[key] for key, item in items.items()) else value
    if isinstance(value, list):
        made = [_with_nulls(item) for item in value]
        return made if any(item is not old for item, old in zip(made, value, strict=True)) else value
    return value


def _patched(obj: JSON, operations: list[dict[str, Any]]) -> JSON:
    changed = with_json_patch(obj, operations)
    check_object(changed)
    if not changed.get("kind"):
        raise internal_error(f"Object 'Kind' is missing in '{marshal(changed)}'")
    return changed


def mutating_policies(policy: JSON, exceptions: Iterable[PolicyException]) -> list[MutatingPolicy]:
    """Return the policy and those that are generated from it for pod controllers. Raises PolicyError."""
    own = [
        each for each in exceptions for _ in range(each.is_from(str(policy["kind"]), str(policy["metadata"]["name"])))
    ]
    first = MutatingPolicy(policy, policy.get("spec"), own)
    generated = generated_specs(policy["spec"], first.spec.controllers, mutates=True)
    return [first, *(MutatingPolicy(policy, each.spec, own, is_extracted=each.is_extracted) for each in generated)]
