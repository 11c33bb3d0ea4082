"""The ValidatingAdmissionPolicy plugin (`k8s.io/apiserver/pkg/admission/plugin/policy/validating/dispatcher.go`).

All policies are evaluated. A denial does not stop the others. Several manifest sets are decided at once: common
policies are compiled once and, for one request, matched and evaluated once, whatever their names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from replay.admission.alike import AlikeResults, PlainBindings, Projection, RequestBindings, projection
from replay.admission.conversion import Object, ObjectConverter
from replay.admission.decision import Decision, Denial
from replay.admission.effects import ADMITTED
from replay.admission.hooks import (
    BoundBinding,
    HookIndex,
    HookWalk,
    HookWalker,
    PlannedHook,
    PolicyHook,
    observed_hooks,
    policy_hooks,
)
from replay.admission.inputs import Inputs
from replay.admission.observer import HookObserver
from replay.admission.params import NO_PARAMS, Params, ParamsError
from replay.admission.request import admission_request, namespace_object
from replay.admission.validating.evaluation import SharedEvaluation
from replay.admission.validating.outcome import NO_DECISION, OutcomeCollector, ValidateResult
from replay.admission.validating.validator import Validator
from replay.cellib.library.authorizer import authorizer_bindings
from replay.cellib.version import KubernetesVersion
from replay.json import JSON
from replay.kube.admissionregistration import (
    ManifestSet,
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
)
from replay.kube.attributes import Attributes, Missing, PartialObject
from replay.kube.authorizer import Authorizer
from replay.kube.discovery import APIResource, Discovery
from replay.kube.gvk import GroupVersionKind
from replay.kube.lister import Lister
from replay.kube.rbac_authorizer import RBACAuthorizer
from replay.matching.matcher import Match, Matcher, MatchError
from replay.matching.rules import EquivalentResourceMapper

# Plans of the policies that requests of a class may match.
# They are grouped by the inputs that show that they decide nothing.

_Planned = PlannedHook[ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding, Validator]

_GroupResults = tuple[tuple[int, ValidateResult], ...]
"""Results of policies by their position in a group, without empty ones."""

_BY_MESSAGES: _GroupResults = ((-1, NO_DECISION),)
"""The marker for results that depend on the inputs of messages."""

MOST_DECISIONS = 1024
"""Number of cached decisions of a plan."""
MOST_RESULTS = 32768
"""Number of cached projections in total, each of at most `projection.LONGEST` bytes."""


class AlikePolicies:
    """Policies with equal matches and equal reads. One projection of the input determines the result."""

    def __init__(self, match: Match, validators: tuple[Validator, ...]) -> None:
        """`validators` all have the same `footprint_without_messages`."""
        self.match = match
        self.validators = validators
        self.projection = projection(validators[0].footprint_without_messages)
        """The projection of the inputs that are read, None if they cannot be projected."""
        self.has_messages = any(each.has_messages for each in validators)

    @cached_property
    def projection_with_messages(self) -> Projection | None:
        """The projection for results with evaluated messages."""
        return projection(frozenset[str]().union(*(each.footprint for each in self.validators)))

    def may_read_messages(self, results: _GroupResults, shared: SharedEvaluation) -> bool:
        """Return whether messages may have influenced results: as texts of denials, or by their cost."""
        return self.has_messages and (bool(results) or shared.most > self._affordable)

    @cached_property
    def _affordable(self) -> int:
        """The highest cost of one expression that each of the policies can certainly pay."""
        return min(each.affordable for each in self.validators)


class _ValidationPlan:
    """Hooks of a set for a class of requests. Hooks that certainly match are grouped by equal reads."""

    def __init__(self, hooks: Sequence[_Planned], groups: _AlikeGroups) -> None:
        """Plan the hooks that may match. `groups` are shared by all plans."""
        self.hooks = hooks
        self.is_certain = all(planned.match is not None for planned in hooks)
        members: dict[tuple[Match, frozenset[str]], list[int]] = {}
        for index, planned in enumerate(hooks):
            if planned.match is not None:
                key = (planned.match, planned.hook.evaluator.footprint_without_messages)
                members.setdefault(key, []).append(index)
        self.groups = tuple(
            (groups.group_for(match, tuple(hooks[index].hook.evaluator for index in indices)), tuple(indices))
            for (match, _), indices in members.items()
        )
        """Each group with the indices of its hooks."""
        self.decisions: AlikeResults[Decision] = AlikeResults(MOST_DECISIONS)
        """Decisions by the results of hooks and their indices, if all hooks certainly match."""


class PolicyRequest(Protocol):
    """Request for groups of policies."""

    @property
    def attributes(self) -> Attributes:
        """Return the request's attributes."""
        ...

    @property
    def plain(self) -> PlainBindings:
        """Return the bindings from which projections are made."""
        ...

    def shared(self, match: Match, /) -> SharedEvaluation:
        """Return the expressions for a match, evaluated once."""
        ...

    def result(self, validator: Validator, match: Match, /) -> ValidateResult:
        """Return the result of a policy."""
        ...


class _AlikeGroups:
    """Groups of all plans, shared if equal, and their results. Of alike requests only the first is evaluated."""

    def __init__(self) -> None:
        """Start without groups."""
        self._groups: dict[tuple[Match, tuple[Validator, ...]], AlikePolicies] = {}
        self._results: AlikeResults[_GroupResults] = AlikeResults(MOST_RESULTS)

    def group_for(self, match: Match, validators: tuple[Validator, ...]) -> AlikePolicies:
        """Return the group of some policies."""
        key = (match, validators)
        if key not in self._groups:
            self._groups[key] = AlikePolicies(match, validators)
        return self._groups[key]

    def results(self, group: AlikePolicies, request: PolicyRequest) -> _GroupResults:
        """Return the results of a group's policies.

        INVARIANT: a result without messages depends on messages neither by their texts nor by their cost.
        """
        match, attributes, by_messages, earlier = group.match, request.attributes, False, None
        # The plain bindings hold the objects in the version in which they were sent.
        is_as_sent = match.resource == attributes.resource and match.kind == attributes.kind
        project = group.projection if is_as_sent else None
        projected = None if project is None else project(request.plain)
        if projected is not None:
            earlier = self._results.get((group, by_messages, projected))
        # The result depends on what messages read, so this belongs to the key.
        if earlier is _BY_MESSAGES:
            by_messages, project = True, group.projection_with_messages
            projected = None if project is None else project(request.plain)
            earlier = None if projected is None else self._results.get((group, by_messages, projected))
        if earlier is not None:
            return earlier
        shared, deciding = request.shared(match), list[tuple[int, ValidateResult]]()
        for place, validator in enumerate(group.validators):
            result = request.result(validator, match)
            if result is not NO_DECISION:
                deciding.append((place, result))
        results = tuple(deciding)
        # From now on the key includes what messages read.
        if projected is not None and not by_messages and group.may_read_messages(results, shared):
            self._results.remember((group, by_messages, projected), _BY_MESSAGES)
            by_messages, project = True, group.projection_with_messages
            projected = None if project is None else project(request.plain)
        if projected is not None:
            self._results.remember((group, by_messages, projected), results)
        return results


Hook = PolicyHook[ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding, Validator]
Bound = BoundBinding[ValidatingAdmissionPolicyBinding]
PolicyWalker = HookWalker[ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding, Validator]
PolicyWalk = HookWalk[ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding, Validator]
Plans = tuple[_ValidationPlan, ...]
"""The hooks of each set that may match a request."""


class CertainPolicies(NamedTuple):
    """Policies that certainly match: for each set their names, each with those of its bindings, and all that they read."""

    names: tuple[tuple[tuple[str, ...], ...], ...]
    footprint: frozenset[str]


class ValidatingAdmission:
    """The validating policies of several manifest sets."""

    def __init__(
        self,
        sets: Sequence[ManifestSet],
        version: KubernetesVersion,
        discovery: Discovery,
        authorizer: Callable[[Lister], Authorizer | Missing] = RBACAuthorizer,
    ) -> None:
        """`authorizer` returns the authorizer for a lister's time.

        Expressions are compiled when a request first needs them.
        """
        self._count = len(sets)
        self.version = version
        self._authorizer = authorizer
        self._converter = ObjectConverter(discovery)
        self._matcher = Matcher(EquivalentResourceMapper(discovery))
        self.walker: PolicyWalker = HookWalker(self._matcher, discovery, version)
        self._validators: dict[Any, Validator] = {}
        self.hooks = [self._hooks(manifests) for manifests in sets]
        """The policies of each set that can match at all, in order."""
        self.groups = _AlikeGroups()
        index = HookIndex(self.hooks, self._matcher, self._plan)
        self.plans: Callable[[Attributes, Lister], Plans | None] = index.candidates
        """Returns, for each set, the policies that may match a request, None if there are none."""

    def _hooks(self, manifests: ManifestSet) -> tuple[Hook, ...]:
        """Return the hooks of one set."""
        policies = manifests.of(ValidatingAdmissionPolicy)
        validators = [self._validator(policy) for policy in policies]
        return policy_hooks(policies, manifests.of(ValidatingAdmissionPolicyBinding), validators, self._matcher)

    def _validator(self, policy: ValidatingAdmissionPolicy) -> Validator:
        """Return the validator of a policy, shared by all policies with the same content."""
        key = (
            policy.failure_policy,
            policy.param_kind is not None,
            policy.match_conditions,
            policy.variables,
            policy.validations,
            policy.audit_annotations,
        )
        if key not in self._validators:
            self._validators[key] = Validator(policy, self.version)
        return self._validators[key]

    def _plan(self, hooks: tuple[_Planned, ...]) -> _ValidationPlan:
        return _ValidationPlan(hooks, self.groups)

    def certain(self, attributes: Attributes, lister: Lister) -> CertainPolicies | None:
        """Return the policies that match a request, and all requests of its kind with the same namespace labels.

        None if a match depends on more, or if a policy may read more than the request as it was sent.
        """
        plans = self.plans(attributes, lister) or ()
        hooks = [planned for plan in plans for planned in plan.hooks]
        sent = attributes.resource, attributes.kind
        if any(each.match is None or (each.match.resource, each.match.kind) != sent for each in hooks):
            return None
        return CertainPolicies(
            tuple([_names(plan.hooks) for plan in plans]),
            frozenset[str]().union(*(each.hook.evaluator.footprint for each in hooks)),
        )

    def decide(self, attributes: Attributes, lister: Lister) -> list[Decision]:
        """Return the decision of each set about a request, in the order of the sets."""
        plans = self.plans(attributes, lister)
        return [ADMITTED] * self._count if plans is None else self.decide_by(plans, attributes, lister)

    def decide_by(self, plans: Plans, attributes: Attributes, lister: Lister) -> list[Decision]:
        """Return the decisions if the policies that may match are known."""
        walk = HookWalk(self.walker, attributes, lister)
        request = _Request(self, walk, attributes, RequestBindings(attributes))
        decisions = []
        for plan in plans:
            decision = request.dispatch(plan) if plan.hooks else ADMITTED
            decisions.append(decision)
        return decisions

    def decide_each(
        self,
        plans: Plans | None,
        objects: Sequence[Object],
        attributes: Attributes,
        lister: Lister,
    ) -> list[Decision]:
        """Return the decisions if each set validates an object of its own. `objects` are in the order of the sets.

        Decisions about an object other than the first say which denials the mutation causes or prevents.
        """
        if plans is None:
            return [ADMITTED] * len(objects)
        # Sets whose mutations agree share one object, so identity finds it and nothing is compared.
        requests: dict[int, _Request] = {}
        for value in objects:
            if id(value) not in requests:
                own = attributes if value is attributes.object else attributes.with_object(value)
                walk = HookWalk(self.walker, own, lister)
                requests[id(value)] = _Request(self, walk, own, RequestBindings(own))
        first = requests[id(objects[0])]
        return [
            _decided(plan, requests[id(value)], first) if plan.hooks else ADMITTED
            for plan, value in zip(plans, objects, strict=True)
        ]

    def observe(self, index: int, attributes: Attributes, lister: Lister, observer: HookObserver) -> Decision:
        """Return the decision of one set about a request, with an observer."""
        hooks = observed_hooks(self.hooks[index], attributes, observer)
        walk = HookWalk(self.walker, attributes, lister, observer)
        return _Request(self, walk, attributes, RequestBindings(attributes)).dispatch(self._plan(hooks))

    def cel_value(self, value: Object, kind: GroupVersionKind) -> Any:
        """Return an object of a kind as expressions see it."""
        return self._converter.cel_value(value, kind)

    def inputs(
        self, match: Match, attributes: Attributes, lister: Lister, param: JSON | PartialObject | None
    ) -> Inputs:
        """Return the inputs of the expressions, with the objects in the matched version."""
        objects = self._converter.versioned(attributes, match.kind, lister)
        request = admission_request(attributes, match.resource, match.kind)
        is_as_sent = match.resource == attributes.resource
        return Inputs(
            {
                "object": self._converter.cel_value(objects.object, match.kind),
                "oldObject": self._converter.cel_value(objects.old_object, match.kind),
                "request": request,
                "namespaceObject": namespace_object(attributes),
                "params": param,
                **authorizer_bindings(self._authorizer(lister), attributes),
            },
            request if is_as_sent else admission_request(attributes, attributes.resource, match.kind),
        )


def _names(hooks: Iterable[_Planned]) -> tuple[tuple[str, ...], ...]:
    return tuple([(each.hook.policy.name, *(binding.name for binding in each.bindings)) for each in hooks])


def _decided(plan: _ValidationPlan, request: _Request, first: _Request) -> Decision:
    """Return the decision about one set's object, with the denials that its mutation causes or prevents."""
    if request is first:
        return first.dispatch(plan)
    # The decision without the set's own mutation is the reference that shows what the mutation caused or prevented.
    plain = first.dispatch(plan)
    return with_mutation_effects(request.dispatch(plan), plain)


class _Request(Struct, eq=False):
    """One request. Computations that several hooks share, in one set or in several, happen once.

    `_walk` are the matching steps of the request, `plain` its bindings for projections.
    """

    _admission: ValidatingAdmission
    _walk: PolicyWalk
    attributes: Attributes
    plain: RequestBindings
    evaluations: dict[Any, SharedEvaluation] = field(default_factory=dict)
    results: dict[Any, ValidateResult] = field(default_factory=dict)
    _params: list[JSON | PartialObject | None] = field(default_factory=list)
    _answers: dict[Any, _GroupResults] = field(default_factory=dict)
    """Results of groups of policies. Most groups are in several sets."""

    def dispatch(self, plan: _ValidationPlan) -> Decision:
        """Return the decision of all hooks."""
        results: list[tuple[int, ValidateResult]] = []
        for group, indices in plan.groups:
            answer = self._answers.get(group)
            if answer is None:
                answer = self._answers[group] = self._admission.groups.results(group, self)
            for place, result in answer:
                results.append((indices[place], result))
        if not plan.is_certain:
            return self._dispatched(plan.hooks, dict(results))
        if not results:
            return ADMITTED
        # Decisions are kept by the results of their hooks, so that equal ones are one object.
        key = tuple(sorted(results))
        decision = plan.decisions.get(key)
        return decision or plan.decisions.remember(key, self._dispatched(plan.hooks, dict(results)))

    def _dispatched(self, hooks: Sequence[_Planned], results: Mapping[int, ValidateResult]) -> Decision:
        """Return the decision. `results` are those of the hooks that certainly match."""
        outcome = OutcomeCollector(self._admission.version)
        for index, planned in enumerate(hooks):
            if planned.match is None:
                self._dispatch_hook(planned.hook, outcome)
            elif index in results:
                outcome.add_for_all(planned.hook.policy, planned.bindings, results[index])
        return ADMITTED if outcome.is_empty else outcome.decision()

    def _dispatch_hook(self, hook: Hook, outcome: OutcomeCollector) -> None:
        """Evaluate one policy with all its bindings.

        An unknown match makes the policy undetermined only if it would decide something.
        """
        match = self._walk.match(hook)
        if match is None:
            return
        if isinstance(match, MatchError):
            outcome.configuration_error(hook.policy, None, match.message)
        elif match.unknown is None:
            self._dispatch_bindings(hook, match, outcome)
        else:
            possible = OutcomeCollector(self._admission.version)
            self._dispatch_bindings(hook, match, possible)
            if not possible.is_empty:
                outcome.undetermined(hook.policy, None, (match.unknown,))

    def _dispatch_bindings(self, hook: Hook, match: Match, outcome: OutcomeCollector) -> None:
        """Evaluate all bindings of a matching policy."""
        # As in `dispatcher.Dispatch`, a paramKind that does not exist counts only after the policy has matched.
        params = self._walk.params(hook)
        if isinstance(params, ParamsError):
            outcome.configuration_error(hook.policy, None, params.message)
            return
        if isinstance(params, Missing):
            outcome.undetermined(hook.policy, None, (params,))
            return
        has_annotations = bool(hook.policy.audit_annotations)
        if has_annotations:
            # One collector serves all bindings, because the server joins their values under one key.
            outcome.begin_annotations()
        for bound in hook.bindings:
            self._dispatch_binding(hook, bound, match, params, outcome)
        if has_annotations:
            outcome.publish_annotations(hook.policy)

    def _dispatch_binding(
        self, hook: Hook, bound: Bound, match: Match, params: APIResource | None, outcome: OutcomeCollector
    ) -> None:
        """Evaluate one binding. An unknown match makes it undetermined only if it would decide something."""
        by_binding = self._walk.bound(hook, bound, match)
        if by_binding is None:
            return
        if isinstance(by_binding, MatchError):
            outcome.configuration_error(hook.policy, bound.binding, by_binding.message)
        elif by_binding.unknown is None:
            self._evaluate(hook, bound, match, params, outcome)
        else:
            possible = OutcomeCollector(self._admission.version)
            self._evaluate(hook, bound, match, params, possible)
            # Collected values must reach the outcome before `is_empty` looks at it.
            possible.publish_annotations(hook.policy)
            if not possible.is_empty:
                outcome.undetermined(hook.policy, bound.binding, (by_binding.unknown,))

    def _evaluate(
        self, hook: Hook, bound: Bound, match: Match, params: APIResource | None, outcome: OutcomeCollector
    ) -> None:
        """Evaluate a binding once for each parameter."""
        policy, binding = hook.policy, bound.binding
        collection = self._walk.collect(hook, bound, params)
        if isinstance(collection, ParamsError):
            outcome.configuration_error(policy, binding, collection.message)
        elif isinstance(collection, Missing):
            outcome.undetermined(policy, binding, (collection,))
        else:
            for result in self._validate(hook, bound, match, collection):
                if result is not NO_DECISION:
                    outcome.add(policy, binding, result)

    def _validate(self, hook: Hook, bound: Bound, match: Match, params: Params) -> list[ValidateResult]:
        """Return the results for all parameters. Each evaluation runs once per request, unless there is an observer.

        INVARIANT: `_params` keeps the parameters alive, so that no other object of the request can have their ids.
        """
        # `NO_PARAMS` holds only None, whose identity is never reused.
        if params is not NO_PARAMS:
            self._params.extend(params)
        observer = self._walk.observer
        if observer is None:
            return [self.result(hook.evaluator, match, param) for param in params]
        results = []
        for param in params:
            watcher = observer.evaluating(hook, bound.binding, param)
            results.append(hook.evaluator.validate(self.shared(match, param).inputs, watcher))
            observer.evaluated(results[-1])
        return results

    def result(self, validator: Validator, match: Match, param: JSON | PartialObject | None = None) -> ValidateResult:
        """Return the result of a policy for one parameter. The matched resource also determines the matched kind."""
        key = (id(validator), match.resource, id(param))
        result = self.results.get(key)
        if result is None:
            result = self.results[key] = validator.decide(self.shared(match, param))
        return result

    def shared(self, match: Match, param: JSON | PartialObject | None = None) -> SharedEvaluation:
        """Return the expressions for a parameter, created once for each version of the objects."""
        key = (match.resource, id(param))
        shared = self.evaluations.get(key)
        if shared is None:
            inputs = self._admission.inputs(match, self.attributes, self._walk.lister, param)
            shared = self.evaluations[key] = SharedEvaluation(inputs)
        return shared


def with_mutation_effects(mutated: Decision, plain: Decision) -> Decision:
    """Return the decision about a mutated object, with the denials that mutation caused or healed.

    Policies that are undetermined in either decision are skipped.
    """
    if not (mutated.denials or plain.denials):
        return mutated
    caused, healed = _without(mutated.denials, plain), _without(plain.denials, mutated)
    return replace(mutated, caused_by_mutation=caused, healed_by_mutation=healed) if caused or healed else mutated


def _without(denials: Iterable[Denial], other: Decision) -> tuple[Denial, ...]:
    """Return the denials whose policy certainly does not deny in the other decision."""
    # A policy that is undetermined in the other decision may deny there too, so that its denial proves nothing.
    there = {(each.policy, each.binding) for each in other.denials}
    there |= {(each.policy, each.binding) for each in other.undetermined}
    return tuple(each for each in denials if (each.policy, each.binding) not in there)
