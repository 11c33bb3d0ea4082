"""The mutating phase of one set and request explained: which policies ran on which object, pass by pass.

Who runs is not decided here: the plugins are run as `Chain` runs them, and watched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, NamedTuple

from replay.admission.chain import Chain
from replay.admission.change import changes
from replay.admission.decision import Denial
from replay.admission.explain.explanation import (
    BindingExplanation,
    ExpressionStep,
    PassExplanation,
    PolicyExplanation,
    TracedExpressions,
    WebhookExplanation,
    explain_conditions,
    param_name,
    skipped,
)
from replay.admission.explain.hook import Hook, HookExplainer, not_asked
from replay.admission.explain.webhook import WebhookExplainer
from replay.admission.hooks import BoundBinding, policy_hooks
from replay.admission.inputs import Inputs
from replay.admission.mutating.invocation import Invocation
from replay.admission.mutating.mutator import MutateResult, Mutator, Object
from replay.admission.mutating.plugin import MutatingRequest, PolicyPlugin
from replay.admission.mutating.shown import AS_IT_CAME, Shown
from replay.admission.webhook.plugin import Backends, MutatingWebhookPlugin, WebhookEffects
from replay.admission.webhook.webhooks import WebhookHook, WebhookInvocation
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

    def __init__(self, chain: Chain, attributes: Attributes, lister: Lister) -> None:
        super().__init__(chain.mutating, attributes, lister)
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


@dataclass(frozen=True, slots=True)
class MutatingPhase:
    """What the mutating phase did in each pass, and who was asked; `refused` says why nothing comes after it."""

    passes: tuple[PassExplanation, ...] = ()
    webhooks: tuple[WebhookExplanation, ...] = ()
    refused: str = ""


class MutationExplainer:
    """The mutating phase of one request."""

    def __init__(
        self,
        chain: Chain,
        version: KubernetesVersion,
        discovery: Discovery,
        attributes: Attributes,
        lister: Lister,
    ) -> None:
        """`attributes` are those before mutation."""
        self._chain = chain
        self._version = version
        self._discovery = discovery
        self._attributes = attributes
        self._lister = lister

    def explain(self, index: int, manifests: ManifestSet, backends: Backends) -> MutatingPhase:
        """Both passes; `index` is the position of the set in the chain, which may lack some of its webhooks.

        `backends` answer for webhooks, as in `Chain.decide`.
        """
        attributes, admission = self._attributes, self._chain.mutating_webhooks
        watched = _Watched(self._chain, attributes, self._lister)
        candidates = self._chain.mutating.candidates(attributes, self._lister)
        policies = PolicyPlugin(candidates[index] if candidates else (), watched)
        hooks = admission.candidates(attributes)[index]
        plugin = MutatingWebhookPlugin(admission, hooks, self._chain.mutating.patchers, self._lister, backends)
        passes: list[PassExplanation] = []
        webhooks: tuple[WebhookExplanation, ...] = ()
        value = attributes.object
        for reinvoke in (False, True):
            watched.ran.clear()
            result, effects = policies.admit(value, reinvoke=reinvoke), WebhookEffects()
            value, refused = result.object, _refused(result.denials)
            seen, changed = attributes.with_object(value), False
            if not refused:
                value, changed = plugin.admit(seen, effects, reinvoke=reinvoke)
            if reinvoke:
                called = self._called_again(plugin, hooks, seen)
                passes.append(PassExplanation(2, self._ran_again(watched.ran), called))
            else:
                passes.append(PassExplanation(1, self._first(manifests, watched.ran, refused)))
                explainer = WebhookExplainer(admission, index, manifests, self._version, self._discovery)
                webhooks = explainer.explain(seen, self._lister, refused)
            refused = refused or _refused(effects.denials)
            if refused or not (result.should_reinvoke or changed):
                break
        return MutatingPhase(tuple(each for each in passes if each.policies or each.webhooks), webhooks, refused)

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

    def _called_again(
        self, plugin: MutatingWebhookPlugin, hooks: Sequence[WebhookHook], seen: Attributes
    ) -> tuple[str, ...]:
        """The webhooks that are called in the second pass too."""
        asked = [hook for hook in hooks if plugin.is_asked_again(hook)]
        should_call = self._chain.mutating_webhooks.should_call
        answers = [(hook, should_call(hook, seen, self._lister)) for hook in asked]
        return tuple(hook.webhook.name for hook, answer in answers if isinstance(answer, WebhookInvocation))

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
        admission, lister, kind = self._chain.mutating, self._lister, invocation.match.kind
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
        request = MutatingRequest(self._chain.mutating, self._attributes, self._lister)
        left = request.mutate(alone, ran.before, ran.shown)
        traced = TracedExpressions(compiler, self._inputs(invocation, left.object, left.shown.read()))
        compiled = compiler.compile(_KINDS[mutation.patch_type], mutation.expression)
        step = traced.step(f"mutation {index} ({mutation.patch_type})", compiled)
        return [step, *traced.variables()]


def _refused(denials: Sequence[Denial]) -> str:
    """Why nothing comes after a denial."""
    return f"`{denials[0].policy}` refuses the request" if denials else ""


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
