"""The way of one request from a policy to its bindings and their parameters (`policy/generic.policyDispatcher`)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Generic

from msgspec import Struct

from replay.admission.hooks import B, BoundBinding, E, P, PlannedHook, PolicyHook
from replay.admission.observer import HookObserver
from replay.admission.params import Params, ParamsError, collect_params, param_kind
from replay.cellib.version import NEWEST, KubernetesVersion
from replay.kube.attributes import Attributes, Missing
from replay.kube.discovery import APIResource, Discovery
from replay.kube.lister import Lister
from replay.matching.exclusion import is_excluded_from_api_policies, is_excluded_from_policies
from replay.matching.matcher import Match, Matcher, MatchError, MatchResult, RequestMatcher

_NO_CONSTRAINTS = MatchError("policy contained no match constraints, a required field")


class HookWalker(Struct, Generic[P, B, E], frozen=True):
    """Tools of a plugin for these steps; `version` is the server's version, for cached parameters."""

    matcher: Matcher
    discovery: Discovery
    version: KubernetesVersion = NEWEST


class HookWalk(Generic[P, B, E]):
    """Steps from a policy to its bindings and parameters, each reported to the observer, if any."""

    __slots__ = ("__dict__", "_walker", "attributes", "lister", "observer")

    def __init__(
        self, walker: HookWalker[P, B, E], attributes: Attributes, lister: Lister, observer: HookObserver | None = None
    ) -> None:
        """`attributes` are matched as they are."""
        self._walker = walker
        self.attributes = attributes
        self.lister = lister
        self.observer = observer

    @cached_property
    def _matcher(self) -> RequestMatcher:
        """The matcher of the request, for the hooks that were not matched beforehand."""
        return self._walker.matcher.request(self.attributes, self.lister)

    def match(self, hook: PolicyHook[P, B, E]) -> MatchResult:
        """Whether the policy matches."""
        match = _NO_CONSTRAINTS if hook.criteria is None else self._matcher.match(hook.criteria)
        if self.observer is not None:
            self.observer.matched(hook, match, self.attributes)
        return match

    def params(self, hook: PolicyHook[P, B, E]) -> APIResource | ParamsError | Missing | None:
        """The resource of the parameters of a policy, None if it takes none."""
        kind = hook.policy.param_kind
        resource = None if kind is None else param_kind(kind, self._walker.discovery, self.lister)
        if self.observer is not None:
            self.observer.parameterised(hook, resource)
        return resource

    def bound(self, hook: PolicyHook[P, B, E], bound: BoundBinding[B], match: Match) -> MatchResult:
        """Whether a binding of a policy that matches does so too; one without criteria matches as the policy does."""
        by_binding = match if bound.criteria is None else self._matcher.match(bound.criteria)
        if self.observer is not None:
            self.observer.bound(hook, bound.binding, by_binding, self.attributes)
        return by_binding

    def collect(
        self, hook: PolicyHook[P, B, E], bound: BoundBinding[B], resource: APIResource | None
    ) -> Params | ParamsError | Missing:
        """The parameters of a binding."""
        ref, namespace = bound.binding.param_ref, self.attributes.namespace
        params = collect_params(resource, ref, namespace, self.lister, self._walker.version)
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
