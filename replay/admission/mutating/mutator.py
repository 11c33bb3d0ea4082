"""One mutating policy, compiled (`k8s.io/apiserver/pkg/admission/plugin/policy/mutating/compilation.go`, `patch/`)."""

from __future__ import annotations

from functools import cached_property, partial
from typing import Any

from msgspec import Struct

from replay.admission.alike import AlikeResults, Projection, projection
from replay.admission.conversion import Object
from replay.admission.inputs import BUDGET as MATCH_CONDITIONS_BUDGET
from replay.admission.inputs import MATCHES, Inputs, MatchConditionsResult, evaluations, match_conditions, shown_roots
from replay.admission.mutating.input_value import InputValues, is_go_object
from replay.admission.mutating.inputs import AS_IT_CAME, MutationInputs, Shown
from replay.admission.mutating.mutation_value import MutationError, apply_configuration_from, json_patch_from
from replay.admission.mutating.object_patcher import ObjectPatcher, StatusError
from replay.admission.observer import MutationObserver
from replay.admission.partial_patch import Change, is_same, patch_partially
from replay.admission.validating.evaluation import RUNTIME_BUDGET
from replay.cel.ast.factory import ACCUMULATOR
from replay.cel.ast.operator import ADD
from replay.cel.ast.tree import Ast, Call, Expr, Ident
from replay.cel.ast.walk import descendants, with_deep_stack
from replay.cel.value.values import Unknown
from replay.cellib.composition import Evaluated
from replay.cellib.environment import ExpressionKind
from replay.cellib.expression import CompiledExpression, ExpressionCompiler
from replay.cellib.policy import PATCH_KINDS, compiler_of
from replay.cellib.version import KubernetesVersion
from replay.json import JSON
from replay.kube import names
from replay.kube.admissionregistration import MutatingAdmissionPolicy, Mutation
from replay.kube.attributes import Missing

MOST_RESULTS = 1024
"""Number of cached results of a policy's conditions, and of its mutations."""


class MutateResult(Struct, frozen=True):
    """Effect of a policy for one binding and parameter.

    `matched` says that its match conditions hold, `dirty` that a mutation was applied, even without a change.
    `failurePolicy` decides about `errors`, which are in order; `status` ends the request. `unknown` says what the
    effect depends on. Then `object` is `Missing` too, unless its known part cannot change; `never_fails` says that the
    mutations fail for no object, and leave every valid one valid. `shown` is the form of the objects for everything
    that follows.
    """

    object: Object
    matched: bool = False
    dirty: bool = False
    errors: tuple[str, ...] = ()
    status: StatusError | None = None
    unknown: tuple[Missing, ...] = ()
    never_fails: bool = False
    shown: Shown = AS_IT_CAME


class Mutator:
    """The expressions of a policy, compiled at first use. Policies that differ only in name or match share one."""

    def __init__(self, policy: MutatingAdmissionPolicy, version: KubernetesVersion) -> None:
        """Start without compiled expressions."""
        self._policy = policy
        self._version = version
        self.has_match_conditions = bool(policy.match_conditions)
        self._matches: AlikeResults[MatchConditionsResult] = AlikeResults(MOST_RESULTS)
        self._changes: AlikeResults[Change] = AlikeResults(MOST_RESULTS)

    @cached_property
    def _compiler(self) -> ExpressionCompiler:
        """The compiler, with the variables declared in order."""
        return compiler_of(self._policy, self._version)

    @cached_property
    def _match_conditions(self) -> tuple[CompiledExpression, ...]:
        kind = ExpressionKind.MATCH_CONDITION
        return tuple(self._compiler.compile(kind, each.expression) for each in self._policy.match_conditions)

    @cached_property
    def _mutations(self) -> tuple[tuple[Mutation, CompiledExpression], ...]:
        return tuple(
            (mutation, self._compiler.compile(PATCH_KINDS[mutation.patch_type], mutation.expression))
            for mutation in self._policy.mutations
        )

    @cached_property
    def footprint(self) -> frozenset[str]:
        """Return everything that the expressions may read."""
        expressions = (*self._match_conditions, *(each for _, each in self._mutations))
        return frozenset[str]().union(*(each.footprint for each in expressions))

    @cached_property
    def _conditions_projection(self) -> Projection | None:
        """The projection for all match conditions."""
        return projection(frozenset[str]().union(*(each.footprint for each in self._match_conditions)))

    @cached_property
    def _joins_lists(self) -> bool:
        """Return whether a mutation may produce `list + list`.

        Only the strict engine distinguishes it from other lists.
        """
        compiled = [*self._compiler.variables.values(), *(each for _, each in self._mutations)]
        return any(joins_lists(each.program.ast) for each in compiled if each.program is not None)

    def mutate(
        self,
        inputs: MutationInputs,
        value: Object,
        patcher: ObjectPatcher | None,
        shown: Shown = AS_IT_CAME,
        observer: MutationObserver | None = None,
    ) -> MutateResult:
        """Mutate `value`, with `inputs` for everything else.

        `shown` is the form in which earlier policies left the objects.

        Without a patcher the schema of the kind is unknown, and so is the result.
        """
        # Match conditions change the form of the objects even if they are false, because the server has converted them
        # to typed values by then.
        matched = self.match(inputs, value, shown, observer)
        if self.has_match_conditions:
            shown = shown.read(matching=True)
        if matched.error:
            return MutateResult(value, errors=(matched.error,), shown=shown)
        if not matched.matches:
            return MutateResult(value, shown=shown)
        # A deletion has no object, and `dispatchInvocations` calls no patcher without one.
        if value is None:
            return MutateResult(None, matched=True, shown=shown)
        result = self._mutate(inputs, value, patcher, shown, observer)
        if not matched.unknown:
            return result
        # An unknown match makes no difference if the mutations change nothing.
        if is_same(result.object, value) and not (result.errors or result.status or result.unknown):
            return MutateResult(value, shown=result.shown)
        return _unknown(matched.unknown)

    def match(
        self, inputs: MutationInputs, value: Object, shown: Shown, observer: MutationObserver | None = None
    ) -> MatchConditionsResult:
        """Return whether the match conditions hold for `value`; arguments as for `mutate`."""
        if not self.has_match_conditions:
            return MATCHES
        shown = shown.read(matching=True)
        projected = None if observer is not None else inputs.projected(self._conditions_projection, value)
        key = (inputs.match, shown, projected)
        earlier = None if projected is None else self._matches.get(key)
        if earlier is not None:
            return earlier
        inputs_seen = inputs.with_object(value, shown)
        evaluation = evaluations(self._compiler, inputs_seen, MATCH_CONDITIONS_BUDGET, matching=True)
        matched = match_conditions(self._match_conditions, evaluation, self._policy.failure_policy)
        if observer is not None:
            observer.conditions(self._compiler, self._match_conditions, inputs_seen, matched)
        # The reason of an unknown match names parts of this object, so it is not kept for others.
        if projected is not None and not matched.unknown:
            self._matches.remember(key, matched)
        return matched

    def _mutate(
        self,
        inputs: MutationInputs,
        value: Object,
        patcher: ObjectPatcher | None,
        shown: Shown,
        observer: MutationObserver | None,
    ) -> MutateResult:
        """Apply the mutations in order, each to the result of the one before. A failed one is skipped."""
        errors: list[str] = []
        dirty = False
        for mutation, compiled in self._mutations:
            try:
                # A mutation that does not compile fails before it reads the objects.
                shown = shown if compiled.error else shown.read()
                if observer is not None:
                    observer.mutation(self._compiler, compiled, inputs.with_object(value, shown))
                change = self._change(mutation, compiled, inputs, value, shown, patcher)
                mutated: Object | Unknown = change if isinstance(change, Unknown) else patch_partially(value, change)
            # The server notes such an error and goes on with the next mutation (`addConfigError`).
            except MutationError as error:
                errors.append(str(error))
                continue
            # Such an error ends the request, whatever `failurePolicy` says.
            except StatusError as error:
                return MutateResult(value, True, dirty, tuple(errors), error)
            if isinstance(mutated, Unknown):
                return _unknown(mutated.missing)
            if isinstance(mutated, Missing):
                return _unknown((mutated,), never_fails=self._never_fails(inputs, value, shown, patcher))
            value, dirty, shown = mutated, True, shown.updated()
        return MutateResult(value, matched=True, dirty=dirty, errors=tuple(errors), shown=shown)

    def _never_fails(self, inputs: MutationInputs, value: Object, shown: Shown, patcher: ObjectPatcher | None) -> bool:
        """Return whether the mutations fail for no object, and leave every valid one valid.

        So it is if each is an apply configuration that reads nothing unknown and sets only labels and annotations. The
        server checks a configuration by itself: one that fits an empty object fits all
        (`patch.ApplyStructuredMergeDiff`).
        """
        for mutation, compiled in self._mutations:
            if mutation.patch_type != "ApplyConfiguration":
                return False
            try:
                change = self._change(mutation, compiled, inputs, value, shown, patcher)
                if isinstance(change, Unknown) or patcher is None:
                    return False
                if not _sets_only_labels(patcher.apply_configuration({}, {}), change.apply({})):
                    return False
            except MutationError:
                return False
        return True

    def _change(  # noqa: PLR0913, PLR0917 - what a mutation is made of
        self,
        mutation: Mutation,
        compiled: CompiledExpression,
        inputs: MutationInputs,
        value: Object,
        shown: Shown,
        patcher: ObjectPatcher | None,
    ) -> Change | Unknown:
        """Return a mutation's effect on alike objects; both may raise `MutationError` and `StatusError`."""
        projected = inputs.projected(projection(compiled.footprint), value)
        key = (compiled, inputs.match, shown, projected, patcher)
        earlier = None if projected is None else self._changes.get(key)
        if earlier is not None:
            return earlier
        change = self._evaluated_change(mutation, compiled, inputs, inputs.with_object(value, shown), patcher)
        # The reason of an unknown change names parts of this object, so it is not kept for others.
        if projected is not None and not isinstance(change, Unknown):
            self._changes.remember(key, change)
        return change

    def _evaluated_change(
        self,
        mutation: Mutation,
        compiled: CompiledExpression,
        inputs: MutationInputs,
        object_inputs: Inputs,
        patcher: ObjectPatcher | None,
    ) -> Change | Unknown:
        """Return the effect of a mutation by evaluating it. Raise like `_change`."""
        if compiled.error:
            raise MutationError(compiled.error)
        evaluated = evaluations(self._compiler, object_inputs, RUNTIME_BUDGET, exact=self._joins_lists).evaluate(
            compiled
        )
        if evaluated.unknown:
            return Unknown(evaluated.unknown)
        if evaluated.error is not None:
            raise MutationError(_error_text(evaluated, compiled))
        if patcher is None:
            return Unknown((_NO_SCHEMA,))
        activation = object_inputs.activation(compiled.footprint)
        names = shown_roots(compiled.footprint)
        bindings = {**activation.bindings, **activation.plain(compiled.kind, self._compiler.views)}
        values = InputValues(
            {name: value for name, value in bindings.items() if name in names},
            {name: kind for name, kind in inputs.kinds.items() if is_go_object(activation.bindings.get(name), name)},
            self._version,
        )
        if mutation.patch_type == "ApplyConfiguration":
            # Values may be nested deeper than the usual stack of Python allows.
            configuration = with_deep_stack(lambda: apply_configuration_from(evaluated.value, values))
            return Change(partial(patcher.apply_configuration, configuration=configuration))
        operations = with_deep_stack(lambda: json_patch_from(evaluated.value, values))
        return Change(partial(patcher.json_patch, operations=operations), operations)


_NO_SCHEMA = Missing(
    "object",
    "the schema of its kind is not known",
    "add the CustomResourceDefinition to the snapshot (--cluster)",
)


def _unknown(missing: tuple[Any, ...], *, never_fails: bool = False) -> MutateResult:
    first = missing[0]
    reason = f"the object after a mutating policy depends on `{first.path}`, which is not known: {first.reason}"
    unknown = Missing("object", reason, first.fix)
    return MutateResult(unknown, matched=True, dirty=True, unknown=missing, never_fails=never_fails)


def _error_text(evaluated: Evaluated, compiled: CompiledExpression) -> str:
    if evaluated.out_of_budget:
        return str(evaluated.error)
    return f"expression '{compiled.expression}' resulted in error: {evaluated.error}"


def _sets_only_labels(before: JSON, after: JSON) -> bool:
    """Return whether two objects differ in nothing but valid labels and annotations of the second."""
    metadata = after.get("metadata") or {}
    others = {name: value for name, value in metadata.items() if name not in ("labels", "annotations")}
    is_alike = {**after, "metadata": others} == {**before, "metadata": before.get("metadata") or {}}
    return is_alike and not any(names.broken_metadata(metadata, ()))


_ADD_LIST = "add_list"


def joins_lists(ast: Ast) -> bool:
    """Return whether an expression may join lists, except to collect the results of a macro.

    For `list + list` the server has other Go values than for other lists (cel-go `concatList`).
    """
    return any(_joins_lists(node, ast) for node in descendants(ast.expr))


def _joins_lists(node: Expr, ast: Ast) -> bool:
    if not isinstance(node, Call) or node.function != ADD:
        return False
    reference = ast.reference_map.get(node.id)
    left = node.args[0]
    collects = isinstance(left, Ident) and left.name == ACCUMULATOR
    return reference is not None and _ADD_LIST in reference.overload_ids and not collects
