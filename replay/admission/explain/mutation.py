"""The mutating policies of one set on one request explained: which of them ran on which object, pass by pass.

Who runs is not decided here: the plugin is run as `Chain` runs it, and watched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, NamedTuple

from replay.admission.change import changes
from replay.admission.explain.explanation import (
    BindingExplanation,
    ExpressionStep,
    PolicyExplanation,
    Step,
    TracedExpressions,
    explain_conditions,
    param_name,
    refusal_of,
    skipped,
)
from replay.admission.explain.hook import Hook, HookExplainer, not_asked
from replay.admission.hooks import BoundBinding, policy_hooks
from replay.admission.inputs import Inputs
from replay.admission.mutating.invocation import Invocation
from replay.admission.mutating.mutator import MutateResult, Mutator, Object
from replay.admission.mutating.plugin import MutatingAdmission, MutatingRequest, PolicyPlugin
from replay.admission.mutating.shown import AS_IT_CAME, Shown
from replay.cellib.composition import ExpressionCompiler
from replay.cellib.environment import ExpressionKind
from replay.cellib.version import KubernetesVersion
from replay.json import JSON
from replay.kube.admissionregistration import ManifestSet, MutatingAdmissionPolicy
from replay.kube.attributes import Attributes, Operation, PartialObject
from replay.kube.discovery import Discovery
from replay.kube.lister import Lister
from replay.matching.equivalence import EquivalentResourceMapper
from replay.matching.matcher import Match, Matcher

_KIND = "MutatingAdmissionPolicy"
_KINDS = {
    "ApplyConfiguration": ExpressionKind.APPLY_CONFIGURATION,
    "JSONPatch": ExpressionKind.JSON_PATCH,
}


class _Ran(NamedTuple):
    """A policy that ran, and the object that it was given."""

    invocation: Invocation
    before: Object
    shown: Shown
    result: MutateResult


class _Watched(MutatingRequest):
    """A request that remembers which policies ran."""

    def __init__(self, admission: MutatingAdmission, attributes: Attributes, lister: Lister) -> None:
        super().__init__(admission, attributes, lister)
        self.ran: list[_Ran] = []

    def mutate(self, invocation: Invocation, value: Object, shown: Shown = AS_IT_CAME) -> MutateResult:
        """Mutate, and remember it."""
        result = super().mutate(invocation, value, shown)
        self.ran.append(_Ran(invocation, value, shown, result))
        return result

    def match_error(self, invocation: Invocation, value: Object, shown: Shown) -> str:
        """The error of the match conditions of a policy that does not run again, which counts all the same."""
        error = super().match_error(invocation, value, shown)
        if error:
            self.ran.append(_Ran(invocation, value, shown, MutateResult(value, errors=(error,))))
        return error


class PolicyWatch:
    """The mutating policies of one set on one request."""

    def __init__(
        self,
        admission: MutatingAdmission,
        index: int,
        manifests: ManifestSet,
        where: tuple[Attributes, Lister],
        context: tuple[KubernetesVersion, Discovery],
    ) -> None:
        """`index` is the position of the set among those of the plugin; `where` are the attributes before mutation."""
        self._admission = admission
        self._manifests = manifests
        self._attributes, self._lister = where
        self._version, self._discovery = context
        self._watched = _Watched(admission, self._attributes, self._lister)
        candidates = admission.candidates(self._attributes, self._lister)
        self._policies = PolicyPlugin(candidates[index] if candidates else (), self._watched)

    def step(self, value: Object, refused: str, *, reinvoke: bool) -> Step:
        """One pass."""
        ran = self._watched.ran
        ran.clear()
        changed = False
        if not refused:
            result = self._policies.admit(value, reinvoke=reinvoke)
            value, changed, refused = result.object, result.should_reinvoke, refusal_of(result.denials)
        explained = self._ran_again(ran) if reinvoke else self._first(self._manifests, ran, refused)
        return Step(value, changed, refused, explained)

    def _first(self, manifests: ManifestSet, ran: Sequence[_Ran], refused: str) -> tuple[PolicyExplanation, ...]:
        """All policies, in the first pass."""
        matcher = Matcher(EquivalentResourceMapper(self._discovery))
        policies = manifests.mutating_policies
        hooks = policy_hooks(policies, manifests.mutating_bindings, policies, matcher)
        if self._attributes.operation is Operation.DELETE:
            return tuple(not_asked(hook, _KIND, "the plugin does not see DELETE") for hook in hooks)
        by_key = {each.invocation.key: each for each in ran}

        def evaluate(
            hook: Hook, bound: BoundBinding[Any], match: Match, param: JSON | PartialObject | None
        ) -> BindingExplanation:
            found = by_key.get(Invocation(hook, bound.binding, match, param, None).key)
            if found is None:
                return BindingExplanation(bound.binding.name, outcome=f"not asked: {refused}")
            return self._binding(found)

        matching = HookExplainer(self._discovery, matcher, self._attributes, self._lister, _KIND, evaluate)
        return tuple(matching.of(hook) for hook in hooks)

    def _ran_again(self, ran: Sequence[_Ran]) -> tuple[PolicyExplanation, ...]:
        """The policies that ran in the second pass."""
        return tuple(
            PolicyExplanation(
                policy.name, _KIND, policy.failure_policy, bindings=tuple(self._binding(each) for each in own)
            )
            for policy, own in groupby(ran, key=lambda each: each.invocation.hook.policy)
        )

    def _binding(self, ran: _Ran) -> BindingExplanation:
        """One policy, binding and parameter on the object that it was given."""
        invocation, before, shown, result = ran
        policy: MutatingAdmissionPolicy = invocation.hook.policy
        explained = BindingExplanation(invocation.binding.name, param=param_name(invocation.param))
        compiler = ExpressionCompiler(self._version, has_params=policy.param_kind is not None)
        for variable in policy.variables:
            compiler.declare_variable(variable.name, variable.expression)
        if policy.match_conditions:
            shown = shown.read(matching=True)
        inputs = self._inputs(invocation, before, shown)
        matched, steps = explain_conditions(compiler, policy.match_conditions, inputs, policy.failure_policy)
        end = skipped(matched, steps)
        if end:
            return replace(explained, steps=tuple(steps), outcome=end)
        for index in range(len(policy.mutations)):
            steps += self._mutation(compiler, ran, index)
        patch = () if invocation.unknown else changes(before, result.object)
        return replace(explained, steps=tuple(steps), outcome=_outcome(ran, patch), patch=patch)

    def _inputs(self, invocation: Invocation, value: Object, shown: Shown) -> Inputs:
        """What the expressions read, with the object in the version that was matched."""
        admission, lister, kind = self._admission, self._lister, invocation.match.kind
        versioned = admission.converter.versioned(replace(self._attributes, object=value), kind, lister).object
        inputs = admission.inputs(invocation.match, self._attributes, lister, invocation.param)
        return inputs.with_object(versioned, shown)

    def _mutation(self, compiler: ExpressionCompiler, ran: _Ran, index: int) -> list[ExpressionStep]:
        """One mutation, on what those before it left."""
        invocation = ran.invocation
        policy = invocation.hook.policy
        mutation = policy.mutations[index]
        earlier = Mutator(replace(policy, mutations=policy.mutations[:index]), self._version)
        alone = invocation._replace(hook=replace(invocation.hook, evaluator=earlier))
        request = MutatingRequest(self._admission, self._attributes, self._lister)
        left = request.mutate(alone, ran.before, ran.shown)
        traced = TracedExpressions(compiler, self._inputs(invocation, left.object, left.shown.read()))
        compiled = compiler.compile(_KINDS[mutation.patch_type], mutation.expression)
        step = traced.step(f"mutation {index} ({mutation.patch_type})", compiled)
        return [step, *traced.variables()]


def _outcome(ran: _Ran, patch: tuple[JSON, ...]) -> str:
    """What a policy did, in words."""
    result = ran.result
    if result.unknown or (ran.invocation.unknown and (result.errors or result.object is not ran.before)):
        return "undetermined"
    if result.status is not None:
        return f"refused: {result.status.message}"
    if result.errors:
        return f"failed: {result.errors[0]}"
    return "changes the object" if patch else "changes nothing"
