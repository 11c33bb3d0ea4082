"""Policies with their bindings, in evaluation order (`policy/generic.PolicyHook`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any, Final, Generic, Protocol, TypeVar

from msgspec import Struct

from replay.admission.observer import HookObserver
from replay.admission.params import Params, ParamsError, collect_params, param_kind
from replay.cellib.version import NEWEST, KubernetesVersion
from replay.kube.admissionregistration import MatchResources, ParamKind, ParamRef
from replay.kube.attributes import Attributes, Missing, Operation
from replay.kube.discovery import APIResource, Discovery
from replay.kube.lister import Lister
from replay.matching.matcher import (
    NO_LABELS,
    Criteria,
    Match,
    Matcher,
    MatchError,
    MatchResult,
    RequestClass,
    RequestMatcher,
    steady_labels,
)
from replay.matching.rules import is_excluded_from_api_policies, is_excluded_from_policies


class Policy(Protocol):
    """Common part of validating and mutating policies."""

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def static(self) -> bool: ...  # noqa: D102
    @property
    def match_constraints(self) -> MatchResources | None: ...  # noqa: D102
    @property
    def param_kind(self) -> ParamKind | None: ...  # noqa: D102


class Binding(Protocol):
    """Common part of their bindings."""

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def static(self) -> bool: ...  # noqa: D102
    @property
    def policy_name(self) -> str: ...  # noqa: D102
    @property
    def match_resources(self) -> MatchResources | None: ...  # noqa: D102
    @property
    def param_ref(self) -> ParamRef | None: ...  # noqa: D102


P = TypeVar("P", bound=Policy)
B = TypeVar("B", bound=Binding)
E = TypeVar("E")
T = TypeVar("T")


class BoundBinding(Struct, Generic[B], frozen=True):
    """A binding with its compiled criteria; None matches everything that the policy matches."""

    binding: B
    criteria: Criteria | None


class PolicyHook(Struct, Generic[P, B, E], frozen=True):
    """A policy with its criteria, its bindings and its evaluator."""

    policy: P
    criteria: Criteria | None
    bindings: tuple[BoundBinding[B], ...]
    evaluator: E


def policy_hooks(
    policies: Sequence[P], bindings: Iterable[B], evaluators: Sequence[E], matcher: Matcher
) -> tuple[PolicyHook[P, B, E], ...]:
    """Return the hooks of a set, in the order of its policies. `evaluators` are in the same order.

    A binding belongs to the policy of its name from the same source: static bindings to static policies. An API-based
    policy without bindings is no hook (`policySource.calculatePolicyData`). A static one is, and matching it can fail.
    """
    by_policy: dict[tuple[str, bool], list[BoundBinding[B]]] = {}
    for binding in bindings:
        criteria = matcher.criteria(binding.match_resources) if binding.match_resources is not None else None
        by_policy.setdefault((binding.policy_name, binding.static), []).append(BoundBinding(binding, criteria))
    hooks = []
    for policy, evaluator in zip(policies, evaluators, strict=True):
        bound = by_policy.get((policy.name, policy.static), [])
        if bound or policy.static:
            constraints = policy.match_constraints
            criteria = matcher.criteria(constraints) if constraints is not None else None
            hooks.append(PolicyHook(policy, criteria, tuple(bound), evaluator))
    return tuple(hooks)


class PlannedHook(Struct, Generic[P, B, E], frozen=True):
    """A hook that a request may match, and what is known before the request itself is matched.

    `match` is the certain match of the policy, which has no parameters; `bindings` match too. Without `match` the hook
    must be matched for each request.
    """

    hook: PolicyHook[P, B, E]
    match: Match | None = None
    bindings: tuple[B, ...] = ()


ALL_OPERATIONS: Final = frozenset(Operation)


class HookIndex(Generic[P, B, E, T]):
    """Index of the hooks that may match a request, for several sets, by kind of request.

    Hooks that rules and namespace selectors exclude cost nothing. Hooks that these alone decide are not matched again.
    Objects, names and parameters are checked per request.
    """

    def __init__(
        self,
        sets: Sequence[tuple[PolicyHook[P, B, E], ...]],
        matcher: Matcher,
        plan: Callable[[tuple[PlannedHook[P, B, E], ...]], T],
        handled: frozenset[Operation] = ALL_OPERATIONS,
    ) -> None:
        """Keep the hooks of each set in `sets`.

        `plan` makes a plan from the hooks of one set that may match, in order. The plugin ignores operations that are
        not `handled`.
        """
        self._handled = handled
        self._sets = sets
        self._matcher = matcher
        self._plan = plan
        self._plans: dict[Any, tuple[T, ...] | None] = {}
        self._by_class: dict[RequestClass, list[list[PolicyHook[P, B, E]]]] = {}
        """For each class of requests, the hooks of each set whose rules may match."""

    def candidates(self, attributes: Attributes, lister: Lister) -> tuple[T, ...] | None:
        """Return each set's plan for a request, or None if no set has a hook that may match."""
        namespace = attributes.namespace_object
        if type(namespace) is dict and attributes.namespace and attributes.resource.resource != "namespaces":
            labels = (namespace.get("metadata") or {}).get("labels") or NO_LABELS  # known, as nearly always
        else:
            labels = steady_labels(attributes)
        kind = (attributes.kind, attributes.resource, attributes.subresource, attributes.operation)
        request = (*kind, bool(attributes.namespace), attributes.workspace)
        try:
            # Labels are not sorted: another order only costs another plan.
            key = (request, None if labels is None else tuple(labels.items()))
            # Most requests have a plan already, so the exceptional cases are left to `except`.
            return self._plans[key]
        except KeyError:
            pass
        except TypeError:  # a label that is not text
            labels, key = None, (request, None)
        self._plans[key] = plans = self._planned_for(attributes, None if labels is None else lister)
        return plans

    def _planned_for(self, attributes: Attributes, lister: Lister | None) -> tuple[T, ...] | None:
        """Make the plans of a kind of requests. Without a lister, labels decide request by request."""
        if len(self._plans) >= MOST_PLANS:
            self._plans.clear()
        request = self._matcher.request_class(attributes)
        matcher = None if lister is None else self._matcher.request(attributes, lister)
        if attributes.operation not in self._handled:
            return None
        if is_excluded_from_policies(request.key.resource, attributes.workspace):
            return None
        if request not in self._by_class:
            static_only = is_excluded_from_api_policies(request.key.resource)
            self._by_class[request] = [
                [
                    hook
                    for hook in hooks
                    if (hook.policy.static or not static_only)
                    and (hook.criteria is None or hook.criteria.may_match(request))
                ]
                for hooks in self._sets
            ]
        # Without a matcher nothing more is known.
        planned = [
            tuple(
                [
                    planned
                    for hook in hooks
                    if (planned := PlannedHook(hook) if matcher is None else _planned(hook, matcher)) is not None
                ]
            )
            for hooks in self._by_class[request]
        ]
        return tuple(map(self._plan, planned)) if any(planned) else None


MOST_PLANS = 4096
"""Number of request kinds whose plan is cached. Namespaces appear and disappear, so the cache needs a limit."""


def _planned(hook: PolicyHook[P, B, E], matcher: RequestMatcher) -> PlannedHook[P, B, E] | None:
    """Return the known match of a hook for all requests of a kind, or None if it matches none."""
    if hook.criteria is None or not hook.criteria.is_steady or hook.policy.param_kind is not None:
        return PlannedHook(hook)
    match = matcher.match(hook.criteria)
    if match is None:
        return None
    # An error or an unknown match depends on the single request.
    if not isinstance(match, Match) or match.unknown is not None:
        return PlannedHook(hook)
    bindings = []
    for bound in hook.bindings:
        by_binding: MatchResult = match
        if bound.criteria is not None:
            if not bound.criteria.is_steady:
                return PlannedHook(hook)
            by_binding = matcher.match(bound.criteria)
        if isinstance(by_binding, MatchError) or (by_binding is not None and by_binding.unknown is not None):
            return PlannedHook(hook)
        if by_binding is not None:
            bindings.append(bound.binding)
    return PlannedHook(hook, match, tuple(bindings)) if bindings else None


_NO_CONSTRAINTS = MatchError("policy contained no match constraints, a required field")


class HookWalker(Struct, Generic[P, B, E], frozen=True):
    """Tools of a plugin for these steps. `version` is the server's version, for cached parameters."""

    matcher: Matcher
    discovery: Discovery
    version: KubernetesVersion = NEWEST


class HookWalk(Struct, Generic[P, B, E], dict=True):
    """Steps from a policy to its bindings and parameters, each reported to the observer, if any.

    `attributes` are those to match.
    """

    walker: HookWalker[P, B, E]
    attributes: Attributes
    lister: Lister
    observer: HookObserver | None = None

    @cached_property
    def _matcher(self) -> RequestMatcher:
        """The matcher of the request, for hooks that were not matched in advance."""
        return self.walker.matcher.request(self.attributes, self.lister)

    def match(self, hook: PolicyHook[P, B, E]) -> MatchResult:
        """Return whether and how the policy matches."""
        match = _NO_CONSTRAINTS if hook.criteria is None else self._matcher.match(hook.criteria)
        if self.observer is not None:
            self.observer.matched(hook, match, self.attributes)
        return match

    def params(self, hook: PolicyHook[P, B, E]) -> APIResource | ParamsError | Missing | None:
        """Return the resource of a policy's parameters, None if it takes none."""
        kind = hook.policy.param_kind
        resource = None if kind is None else param_kind(kind, self.walker.discovery, self.lister)
        if self.observer is not None:
            self.observer.parameterised(hook, resource)
        return resource

    def bound(self, hook: PolicyHook[P, B, E], bound: BoundBinding[B], match: Match) -> MatchResult:
        """Return whether and how a binding of a matching policy matches.

        A binding without criteria matches like the policy.
        """
        by_binding = match if bound.criteria is None else self._matcher.match(bound.criteria)
        if self.observer is not None:
            self.observer.bound(hook, bound.binding, by_binding, self.attributes)
        return by_binding

    def collect(
        self, hook: PolicyHook[P, B, E], bound: BoundBinding[B], resource: APIResource | None
    ) -> Params | ParamsError | Missing:
        """Return the parameters of a binding."""
        ref, namespace = bound.binding.param_ref, self.attributes.namespace
        params = collect_params(resource, ref, namespace, self.lister, self.walker.version)
        if self.observer is not None:
            self.observer.collected(hook, bound.binding, params)
        return params


def observed_hooks(
    hooks: Sequence[PolicyHook[P, B, E]], attributes: Attributes, observer: HookObserver
) -> tuple[PlannedHook[P, B, E], ...]:
    """Return all hooks of a set that evaluate the resource, without early matching."""
    resource = attributes.resource
    nobody = is_excluded_from_policies(resource, attributes.workspace)
    static_only = is_excluded_from_api_policies(resource)
    planned = []
    for hook in hooks:
        if nobody or (static_only and not hook.policy.static):
            observer.excluded(hook, resource.resource, static_only=not nobody)
        else:
            planned.append(PlannedHook(hook))
    return tuple(planned)
