"""Policies with their bindings, in the order in which they are asked (`policy/generic.PolicyHook`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from replay.kube.admissionregistration import MatchResources, ParamKind, ParamRef
from replay.kube.attributes import Attributes
from replay.matching.exclusion import is_excluded_from_all_hooks, is_excluded_from_api_policies
from replay.matching.matcher import Criteria, Matcher, RequestClass


class Policy(Protocol):
    """What validating and mutating policies have in common."""

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def static(self) -> bool: ...  # noqa: D102
    @property
    def match_constraints(self) -> MatchResources | None: ...  # noqa: D102
    @property
    def param_kind(self) -> ParamKind | None: ...  # noqa: D102


class Binding(Protocol):
    """What their bindings have in common."""

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


@dataclass(frozen=True, slots=True)
class BoundBinding(Generic[B]):
    """A binding with its compiled criteria; None matches everything that the policy matches."""

    binding: B
    criteria: Criteria | None


@dataclass(frozen=True, slots=True)
class PolicyHook(Generic[P, B, E]):
    """A policy, its criteria, its bindings and what evaluates it."""

    policy: P
    criteria: Criteria | None
    bindings: tuple[BoundBinding[B], ...]
    evaluator: E


def policy_hooks(
    policies: Sequence[P], bindings: Iterable[B], evaluators: Sequence[E], matcher: Matcher
) -> tuple[PolicyHook[P, B, E], ...]:
    """The hooks of a set, in the order of its policies; `evaluators` are aligned with these.

    A binding belongs to the policy of its name from the same source: static ones to static ones. An API-based policy
    without bindings is no hook at all (`policySource.calculatePolicyData`); a static one is, and matching it can fail.
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


class HookIndex(Generic[P, B, E]):
    """Which hooks of several sets a request may concern, remembered for each kind of request.

    What the rules alone exclude costs nothing; selectors and names are left to the matcher.
    """

    def __init__(self, sets: Sequence[tuple[PolicyHook[P, B, E], ...]], matcher: Matcher) -> None:
        """`sets` are the hooks of each set."""
        self._sets = sets
        self._matcher = matcher
        self._known: dict[RequestClass, tuple[tuple[PolicyHook[P, B, E], ...], ...] | None] = {}

    def candidates(self, attributes: Attributes) -> tuple[tuple[PolicyHook[P, B, E], ...], ...] | None:
        """For each set the hooks that may match, in order; None if no set has any."""
        request = self._matcher.request_class(attributes)
        if request not in self._known:
            candidates = tuple(tuple(self._may_match(hooks, request)) for hooks in self._sets)
            self._known[request] = candidates if any(candidates) else None
        return self._known[request]

    def _may_match(self, hooks: Iterable[PolicyHook[P, B, E]], request: RequestClass) -> Iterable[PolicyHook[P, B, E]]:
        """The hooks that are asked about the resource at all and whose rules may match."""
        resource = request.key.resource
        if is_excluded_from_all_hooks(resource):
            return
        static_only = is_excluded_from_api_policies(resource)
        for hook in hooks:
            if static_only and not hook.policy.static:
                continue
            if hook.criteria is None or hook.criteria.may_match(request):
                yield hook
