"""Why a policy matches a request or not, with which bindings and parameters: the same for both plugins."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from replay.admission.explain.explanation import BindingExplanation, PolicyExplanation, param_name
from replay.admission.hooks import BoundBinding, PolicyHook
from replay.admission.params import ConfigurationError, collect_params, param_kind
from replay.json import JSON
from replay.kube.admissionregistration import MatchResources
from replay.kube.attributes import Attributes, Missing, PartialObject
from replay.kube.discovery import Discovery
from replay.kube.lister import Lister
from replay.matching.exclusion import is_excluded_from_api_policies, is_excluded_from_policies
from replay.matching.matcher import Match, Matcher, MatchError
from replay.matching.reason import why_not

Hook = PolicyHook[Any, Any, Any]
Evaluate = Callable[[Hook, BoundBinding[Any], Match, JSON | PartialObject | None], BindingExplanation]


@dataclass(frozen=True)
class HookExplainer:
    """The way from the hooks of one request to their bindings and parameters; `evaluate` explains what comes then."""

    discovery: Discovery
    matcher: Matcher
    attributes: Attributes
    lister: Lister
    kind: str
    evaluate: Evaluate

    def of(self, hook: Hook) -> PolicyExplanation:
        """Explain one policy."""
        policy = hook.policy
        explained = PolicyExplanation(policy.name, self.kind, policy.failure_policy)
        excluded = self._excluded(hook)
        if excluded:
            return replace(explained, mismatch=excluded)
        if hook.criteria is None:
            return replace(explained, error="policy contained no match constraints, a required field")
        match = self.matcher.request(self.attributes, self.lister).match(hook.criteria)
        if match is None:
            return replace(explained, mismatch=self._why_not(policy.match_constraints))
        if isinstance(match, MatchError):
            return replace(explained, error=match.message)
        params = param_kind(policy.param_kind, self.discovery, self.lister) if policy.param_kind else None
        if isinstance(params, ConfigurationError | Missing):
            return replace(explained, error=getattr(params, "message", "") or getattr(params, "reason", ""))
        bindings = tuple(each for bound in hook.bindings for each in self._bound(hook, bound, match, params))
        return replace(explained, matched_as=self._matched_as(match), bindings=bindings)

    def _excluded(self, hook: Hook) -> str:
        resource = self.attributes.resource
        if is_excluded_from_policies(resource):
            return f"no hook is asked about {resource.resource}"
        if is_excluded_from_api_policies(resource) and not hook.policy.static:
            return f"only static policies are asked about {resource.resource}"
        return ""

    def _why_not(self, match_resources: MatchResources) -> str:
        return why_not(match_resources, self.matcher, self.attributes, self.lister)

    def _matched_as(self, match: Match) -> str:
        unknown = f", if `{match.unknown.path}` were known ({match.unknown.reason})" if match.unknown else ""
        if match.resource == self.attributes.resource:
            return unknown.removeprefix(", ")
        return f"as {'/'.join(filter(None, match.resource))}{unknown}"

    def _bound(self, hook: Hook, bound: BoundBinding[Any], match: Match, params: Any) -> Iterator[BindingExplanation]:
        binding = bound.binding
        empty = BindingExplanation(binding.name, tuple(getattr(binding, "validation_actions", ())))
        if bound.criteria is not None:
            by_binding = self.matcher.request(self.attributes, self.lister).match(bound.criteria)
            if by_binding is None:
                yield replace(empty, mismatch=self._why_not(binding.match_resources))
                return
            if isinstance(by_binding, MatchError):
                yield replace(empty, outcome=f"failed to configure binding: {by_binding.message}")
                return
        found = collect_params(params, binding.param_ref, self.attributes.namespace, self.lister)
        if isinstance(found, ConfigurationError | Missing):
            reason = getattr(found, "message", "") or getattr(found, "reason", "")
            yield replace(empty, outcome=f"no parameters: {reason}")
            return
        for param in found:
            yield replace(self.evaluate(hook, bound, match, param), param=param_name(param))
        if not found:
            yield replace(empty, outcome="no parameter object is found, and parameterNotFoundAction is Allow")


def not_asked(hook: Hook, kind: str, reason: str) -> PolicyExplanation:
    """A policy that is not even matched."""
    return PolicyExplanation(hook.policy.name, kind, hook.policy.failure_policy, mismatch=reason)
