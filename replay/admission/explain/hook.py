"""Explains the policies of one set in one pass: why each matches or not, and with which parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Any, Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from replay.admission.explain.explanation import BindingExplanation, PolicyExplanation, param_name
from replay.admission.hooks import PolicyHook
from replay.admission.params import Params, ParamsError
from replay.kube.attributes import Attributes, Missing
from replay.kube.discovery import APIResource
from replay.kube.lister import Lister
from replay.matching.matcher import Match, Matcher, MatchError, MatchResult
from replay.matching.reason import mismatch_reason

Hook = PolicyHook[Any, Any, Any]


class EvaluationWatch(Protocol):
    """Observer of one evaluation, and its explanation."""

    def explained(self, result: Any) -> BindingExplanation:
        """Return the explanation of the evaluation with this result."""
        ...


class PolicyWatch(Struct):
    """Observer of one pass. `evaluation` creates the observer of a policy with a binding."""

    kind: str
    matcher: Matcher
    lister: Lister
    evaluation: Callable[[Any, Any], EvaluationWatch]
    _policies: dict[str, PolicyExplanation] = field(default_factory=dict)
    _bindings: dict[tuple[str, str], tuple[BindingExplanation, Params]] = field(default_factory=dict)
    _evaluations: dict[tuple[str, str, str], BindingExplanation] = field(default_factory=dict)
    _open: tuple[Hook, BindingExplanation, EvaluationWatch] | None = None
    _order: list[tuple[Hook, BindingExplanation]] = field(default_factory=list)

    def excluded(self, hook: Hook, resource: str, *, static_only: bool) -> None:
        """See `HookObserver.excluded`."""
        subject = "only static policies are" if static_only else "no hook is"
        self._add(hook, mismatch=f"{subject} asked about {resource}")

    def matched(self, hook: Hook, match: MatchResult, attributes: Attributes) -> None:
        """See `HookObserver.matched`."""
        if match is None:
            constraints = hook.policy.match_constraints
            self._add(hook, mismatch=mismatch_reason(constraints, self.matcher, attributes, self.lister))
        elif isinstance(match, MatchError):
            self._add(hook, error=match.message)
        else:
            self._add(hook, matched_as=_matched_as(match, attributes))

    def parameterised(self, hook: Hook, resource: APIResource | ParamsError | Missing | None) -> None:
        """See `HookObserver.parameterised`."""
        if isinstance(resource, ParamsError | Missing):
            self._add(hook, error=_reason(resource))

    def bound(self, hook: Hook, binding: Any, match: MatchResult, attributes: Attributes) -> None:
        """See `HookObserver.bound`."""
        explained = BindingExplanation(binding.name, tuple(getattr(binding, "validation_actions", ())))
        if match is None:
            mismatch = mismatch_reason(binding.match_resources, self.matcher, attributes, self.lister)
            explained = replace(explained, mismatch=mismatch)
        elif isinstance(match, MatchError):
            explained = replace(explained, outcome=f"failed to configure binding: {match.message}")
        self._bindings[hook.policy.name, binding.name] = explained, ()

    def collected(self, hook: Hook, binding: Any, params: Params | ParamsError | Missing) -> None:
        """See `HookObserver.collected`."""
        key = hook.policy.name, binding.name
        explained, _ = self._bindings[key]
        if isinstance(params, ParamsError | Missing):
            self._bindings[key] = replace(explained, outcome=f"no parameters: {_reason(params)}"), ()
        elif params:
            self._bindings[key] = explained, params
        else:
            allowed = "no parameter object is found, and parameterNotFoundAction is Allow"
            self._bindings[key] = replace(explained, outcome=allowed), ()

    def evaluating(self, hook: Hook, binding: Any, param: Any) -> EvaluationWatch:
        """See `HookObserver.evaluating`."""
        watch = self.evaluation(hook.policy, binding)
        self._open = hook, BindingExplanation(binding.name, param=param_name(param)), watch
        return watch

    def evaluated(self, result: Any) -> None:
        """See `HookObserver.evaluated`."""
        assert self._open is not None
        hook, begun, watch = self._open
        explained = replace(watch.explained(result), binding=begun.binding, param=begun.param)
        self._evaluations[hook.policy.name, begun.binding, begun.param] = explained
        self._order.append((hook, explained))

    def explained(self, hooks: Sequence[Hook], refused: str) -> tuple[PolicyExplanation, ...]:
        """Explain all policies of the set. `refused` says why matching ones did not run, empty if they did."""
        return tuple(
            replace(
                self._policies[hook.policy.name],
                bindings=tuple(each for bound in hook.bindings for each in self._bound(hook, bound.binding, refused)),
            )
            for hook in hooks
        )

    def ran(self) -> tuple[PolicyExplanation, ...]:
        """Return explanations of the evaluated policies, in order."""
        return tuple(
            replace(self._empty(hook), bindings=tuple(explained for _, explained in own))
            for hook, own in groupby(self._order, key=lambda each: each[0])
        )

    def _bound(self, hook: Hook, binding: Any, refused: str) -> Iterator[BindingExplanation]:
        """Yield a binding with each of its parameters, nothing for a policy that does not match."""
        key = hook.policy.name, binding.name
        if key not in self._bindings:
            return
        explained, params = self._bindings[key]
        if not params:
            yield explained
        for param in params:
            name = param_name(param)
            evaluation = self._evaluations.get((*key, name))
            yield evaluation or BindingExplanation(binding.name, outcome=f"not asked: {refused}", param=name)

    def _empty(self, hook: Hook) -> PolicyExplanation:
        return PolicyExplanation(hook.policy.name, self.kind, hook.policy.failure_policy)

    def _add(self, hook: Hook, *, mismatch: str = "", matched_as: str = "", error: str | None = None) -> None:
        empty = self._empty(hook)
        self._policies[empty.policy] = replace(empty, mismatch=mismatch, matched_as=matched_as, error=error)


def _matched_as(match: Match, attributes: Attributes) -> str:
    unknown = f", if `{match.unknown.path}` were known ({match.unknown.reason})" if match.unknown else ""
    if match.resource == attributes.resource:
        return unknown.removeprefix(", ")
    return f"as {'/'.join(filter(None, match.resource))}{unknown}"


def _reason(why: ParamsError | Missing) -> str:
    return why.message if isinstance(why, ParamsError) else why.reason


def not_evaluated(hooks: Sequence[Hook], kind: str, reason: str) -> tuple[PolicyExplanation, ...]:
    """Return explanations of policies that are not even matched."""
    return tuple(
        PolicyExplanation(hook.policy.name, kind, hook.policy.failure_policy, mismatch=reason) for hook in hooks
    )
