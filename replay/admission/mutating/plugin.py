"""The MutatingAdmissionPolicy plugin (`k8s.io/apiserver/pkg/admission/plugin/policy/mutating/dispatcher.go`).

Each pass first decides which policies match, on the object at its start. They then run one after the other, each on the
result of the one before. Several manifest sets are decided at once: the same policy on the same object is evaluated
once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from replay.admission.conversion import Object, ObjectConverter
from replay.admission.decision import Denial, Mutated, Undetermined
from replay.admission.effects import Changes, Effects
from replay.admission.hooks import (
    ALL_OPERATIONS,
    BoundBinding,
    HookIndex,
    HookWalk,
    HookWalker,
    PlannedHook,
    PolicyHook,
    observed_hooks,
    policy_hooks,
)
from replay.admission.mutating.inputs import AS_IT_CAME, MutationInputs, Shown
from replay.admission.mutating.mutator import MutateResult, Mutator
from replay.admission.mutating.object_patcher import ObjectPatchers, StatusError
from replay.admission.observer import HookObserver, MutationObserver
from replay.admission.params import ParamsError
from replay.cellib.version import KubernetesVersion
from replay.json import JSON
from replay.kube.admissionregistration import (
    FailurePolicy,
    ManifestSet,
    MutatingAdmissionPolicy,
    MutatingAdmissionPolicyBinding,
)
from replay.kube.attributes import Attributes, Missing, Operation, PartialObject
from replay.kube.authorizer import Authorizer
from replay.kube.discovery import APIResource, Discovery
from replay.kube.gvk import GroupVersionKind
from replay.kube.lister import Lister
from replay.kube.rbac_authorizer import RBACAuthorizer
from replay.matching.matcher import Match, Matcher, MatchError
from replay.matching.rules import EquivalentResourceMapper

PolicyWalker = HookWalker[MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding, Mutator]


Planned = PlannedHook[MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding, Mutator]
Hook = PolicyHook[MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding, Mutator]
Bound = BoundBinding[MutatingAdmissionPolicyBinding]


class Invocation(Struct, frozen=True, dict=True):
    """A policy with a matching binding and parameter. `unknown` says what the match depends on."""

    hook: Hook
    binding: MutatingAdmissionPolicyBinding
    match: Match
    param: JSON | PartialObject | None
    unknown: Missing | None

    @cached_property
    def key(self) -> tuple[str, str, str]:
        """Return the key of an invocation, which is equal in both passes."""
        metadata: dict[str, str] = {}
        if self.param is not None:
            param = self.param.value if isinstance(self.param, PartialObject) else self.param
            metadata = param.get("metadata") or {}
        # `keyFor` fills its fields PolicyUID and BindingUID with names and namespaces, not with UIDs.
        return self.hook.policy.name, self.binding.name, f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"


class PlannedPolicy(NamedTuple):
    """A policy that may match, with its invocations if they are certain. Others are found for each request."""

    hook: Hook
    invocations: tuple[Invocation, ...] | None


def _plan(hooks: Sequence[Planned]) -> tuple[PlannedPolicy, ...]:
    """Return the plan of the policies of a set that may match a kind of requests."""
    return tuple(
        PlannedPolicy(
            planned.hook,
            None
            if planned.match is None
            else tuple(Invocation(planned.hook, each, planned.match, None, None) for each in planned.bindings),
        )
        for planned in hooks
    )


class MutationOutcome(NamedTuple):
    """Result of an invocation on its input object; `unknown` as in the invocation."""

    original: Object
    result: MutateResult
    unknown: Missing | None


class Reinvocation(Struct):
    """Policies that run again in the second pass (`reinvocationcontext.go`)."""

    last_output: Object = None
    invoked: set[Any] = field(default_factory=set)
    again: set[Any] = field(default_factory=set)

    def require(self) -> None:
        """Require another run of the policies that ran: something changed the object after them."""
        self.again |= self.invoked
        self.invoked = set()


class MutatingResult(Struct):
    """Result of one pass. `object` is the resulting object.

    `denials` end the request. `should_reinvoke` asks for a second pass of all mutating plugins.
    """

    object: Object
    denials: tuple[Denial, ...] = ()
    undetermined: tuple[Undetermined, ...] = ()
    mutated: tuple[Mutated, ...] = ()
    should_reinvoke: bool = False


class MutatingAdmission:
    """The mutating policies of several manifest sets."""

    def __init__(
        self,
        sets: Sequence[ManifestSet],
        version: KubernetesVersion,
        discovery: Discovery,
        patchers: ObjectPatchers,
        authorizer: Callable[[Lister], Authorizer | Missing] = RBACAuthorizer,
    ) -> None:
        """`authorizer` returns the authorizer for a lister's time.

        Expressions are compiled when a request first needs them.
        """
        self._version = version
        self._authorizer = authorizer
        self.patchers = patchers
        self.converter = ObjectConverter(discovery)
        self._matcher = Matcher(EquivalentResourceMapper(discovery))
        self.walker: PolicyWalker = HookWalker(self._matcher, discovery)
        self._mutators: dict[Any, Mutator] = {}
        self.hooks = [self._hooks(manifests) for manifests in sets]
        """The policies of each set that can match at all, in order."""
        # The handler of the plugin lists only Create, Update and Connect (`NewPlugin`).
        index = HookIndex(self.hooks, self._matcher, _plan, ALL_OPERATIONS - {Operation.DELETE})
        self.plans: Callable[[Attributes, Lister], tuple[tuple[PlannedPolicy, ...], ...] | None] = index.candidates
        """Returns, for each set, the policies that may match a request, None if there are none."""

    def _hooks(self, manifests: ManifestSet) -> tuple[Hook, ...]:
        policies = manifests.of(MutatingAdmissionPolicy)
        mutators = [self._mutator(policy) for policy in policies]
        return policy_hooks(policies, manifests.of(MutatingAdmissionPolicyBinding), mutators, self._matcher)

    def _mutator(self, policy: MutatingAdmissionPolicy) -> Mutator:
        """Return the mutator of a policy, shared by all policies with the same content."""
        key = (
            policy.failure_policy,
            policy.param_kind is not None,
            policy.match_conditions,
            policy.variables,
            policy.mutations,
        )
        if key not in self._mutators:
            self._mutators[key] = Mutator(policy, self._version)
        return self._mutators[key]

    def inputs(
        self, match: Match, attributes: Attributes, lister: Lister, param: JSON | PartialObject | None
    ) -> MutationInputs:
        """Return the inputs of expressions except `object`."""
        return MutationInputs(match, attributes, param, self.converter, lister, self._authorizer)


class MutatingRequest(Struct, eq=False):
    """Shared state of the sets, policies and passes for one request.

    `attributes` are those before mutation. `changes` are shared with the rest of the request.
    """

    admission: MutatingAdmission
    attributes: Attributes
    lister: Lister
    changes: Changes
    observer: HookObserver | None = None
    """Observer of the policies. With an observer, no cached result is used."""
    _inputs: dict[Any, MutationInputs] = field(default_factory=dict)
    _results: dict[Any, tuple[Object, MutateResult]] = field(default_factory=dict)
    """Results with their input object, which is kept so that no other object can have its identity.

    Inputs keep their parameter.
    """

    def mutate(self, invocation: Invocation, value: Object, shown: Shown = AS_IT_CAME) -> MutateResult:
        """Return a policy's effect on an object. Each evaluation runs once per request."""
        if self.observer is not None:
            return self._observe(self.observer, invocation, value, shown)
        match = invocation.match
        identities = id(invocation.hook.evaluator), id(invocation.param), id(value)
        key = (*identities, match.resource, match.kind, shown)
        if key not in self._results:
            self._results[key] = value, self._mutate(invocation, value, shown)
        return self._results[key][1]

    def match_error(self, invocation: Invocation, value: Object, shown: Shown) -> str | None:
        """Return the match conditions' error of a policy in the second pass that need not run again."""
        evaluator, kind = invocation.hook.evaluator, invocation.match.kind
        versioned = value if kind == self.attributes.kind else self._versioned(kind, value)
        inputs, observer = self._input(invocation), self.observer
        if observer is None:
            return evaluator.match(inputs, versioned, shown).error
        watcher = observer.evaluating(invocation.hook, invocation.binding, invocation.param)
        error = evaluator.match(inputs, versioned, shown, watcher).error
        if error is not None:
            observer.evaluated(MutationOutcome(value, MutateResult(value, errors=(error,)), invocation.unknown))
        return error

    def _observe(self, observer: HookObserver, invocation: Invocation, value: Object, shown: Shown) -> MutateResult:
        """Return a policy's effect on an object, with an observer."""
        watcher = observer.evaluating(invocation.hook, invocation.binding, invocation.param)
        result = self._mutate(invocation, value, shown, watcher)
        observer.evaluated(MutationOutcome(value, result, invocation.unknown))
        return result

    def _input(self, invocation: Invocation) -> MutationInputs:
        match = invocation.match
        key = id(invocation.param), match.resource, match.kind
        if key not in self._inputs:
            self._inputs[key] = self.admission.inputs(match, self.attributes, self.lister, invocation.param)
        return self._inputs[key]

    def _versioned(self, kind: GroupVersionKind, value: Object) -> Object:
        return self.admission.converter.versioned(self.attributes.with_object(value), kind, self.lister).object

    def _mutate(
        self, invocation: Invocation, value: Object, shown: Shown, observer: MutationObserver | None = None
    ) -> MutateResult:
        """Return a policy's effect, computed in the version that the policy matched."""
        kind, request_kind = invocation.match.kind, self.attributes.kind
        converter = self.admission.converter
        versioned = value if kind == request_kind else self._versioned(kind, value)
        patcher = self.admission.patchers.patcher_for(kind, self.lister)
        result = invocation.hook.evaluator.mutate(self._input(invocation), versioned, patcher, shown, observer)
        if result.object is value or kind == request_kind:
            return result
        # Without a change nothing is converted back, because a conversion may change the object too.
        if result.object is versioned:
            return replace(result, object=value)
        back = replace(self.attributes, kind=kind, object=result.object)
        return replace(result, object=converter.versioned(back, request_kind, self.lister).object)


class PolicyPlugin(Struct, eq=False):
    """The plugin for one set and one request. It remembers between the two passes which policies ran.

    `policies` are those of the set that may match.
    """

    policies: tuple[PlannedPolicy, ...]
    request: MutatingRequest
    effects: Effects = field(default_factory=Effects)
    _reinvocation: Reinvocation = field(default_factory=Reinvocation)

    def admit(self, value: Object, *, reinvoke: bool) -> tuple[Object, bool]:
        """Run one pass over the object; return the object, and whether all mutating plugins must run again."""
        result = _Pass(self.request, self._reinvocation, value, reinvoke).run(self.policies)
        effects = self.effects
        effects.denials += result.denials
        effects.mutated += result.mutated
        for each in result.undetermined:
            if each not in effects.undetermined:
                effects.undetermined.append(each)
        return result.object, result.should_reinvoke

    def observe(
        self, hooks: Sequence[Hook], value: Object, observer: HookObserver, *, reinvoke: bool
    ) -> MutatingResult:
        """Run one pass for all hooks of a set, with an observer."""
        self.request.observer = observer
        hooks_asked = observed_hooks(hooks, self.request.attributes, observer)
        return _Pass(self.request, self._reinvocation, value, reinvoke).run(_plan(hooks_asked))


class _Pass(Struct, eq=False, dict=True):
    """One pass of one set's policies."""

    _request: MutatingRequest
    _again: Reinvocation
    _object: Object
    _reinvoke: bool
    _denials: list[Denial] = field(default_factory=list)
    _undetermined: list[Undetermined] = field(default_factory=list)
    _mutated: list[Mutated] = field(default_factory=list)
    _dirty: bool = False
    _should_reinvoke: bool = False
    _shown: dict[GroupVersionKind, Shown] = field(default_factory=dict)

    @cached_property
    def _walk(self) -> HookWalk[MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding, Mutator]:
        """The matching steps of this pass, on the object at its start, for hooks that were not matched in advance."""
        request = self._request
        attributes = request.attributes.with_object(self._object)
        return HookWalk(request.admission.walker, attributes, request.lister, request.observer)

    def run(self, policies: Sequence[PlannedPolicy]) -> MutatingResult:
        """Find the invocations, then run them in order."""
        invocations: list[Invocation] = []
        for hook, certain in policies:
            invocations += self._invocations(hook) if certain is None else certain
        # Without an invocation the server calls no delegate (`policyDispatcher.Dispatch`), so the last output stays as
        # it was.
        if invocations:
            # Another plugin changed the object since the first pass (`IsOutputChangedSinceLastPolicyInvocation`).
            if self._reinvoke and not self._request.changes.is_same(self._again.last_output, self._object):
                self._again.require()
            try:
                for invocation in invocations:
                    if self._reinvoke and invocation.key not in self._again.again:
                        self._match_again(invocation)
                    else:
                        self._invoke(invocation)
            # A status error is returned alone: `dispatchInvocations` drops the errors that it has collected.
            except _RefusedError as refused:
                self._denials = [refused.denial]
            # `dispatchOne` sets Dirty for every applied mutation, so even one without a change asks for a second pass.
            if self._dirty:
                self._again.require()
                self._should_reinvoke = True
            self._again.last_output = self._object
        return MutatingResult(
            self._object,
            tuple(self._denials),
            tuple(self._undetermined),
            tuple(self._mutated),
            should_reinvoke=self._should_reinvoke,
        )

    def _invocations(self, hook: Hook) -> Iterator[Invocation]:
        """Yield the invocations of one policy. `failurePolicy` handles configuration errors."""
        match = self._walk.match(hook)
        if isinstance(match, MatchError):
            self._configuration_error(hook, None, match.message)
        elif match is not None:
            params = self._walk.params(hook)
            if isinstance(params, ParamsError):
                self._configuration_error(hook, None, params.message)
            elif isinstance(params, Missing):
                self._unknown(hook, None, params)
            else:
                for bound in hook.bindings:
                    yield from self._bound(hook, bound, match, params)

    def _bound(self, hook: Hook, bound: Bound, match: Match, params: APIResource | None) -> Iterator[Invocation]:
        """Yield the invocations of one binding, one for each parameter."""
        by_binding = self._walk.bound(hook, bound, match)
        if by_binding is None:
            return
        if isinstance(by_binding, MatchError):
            self._configuration_error(hook, bound.binding, by_binding.message)
            return
        unknown = match.unknown or by_binding.unknown
        invocations = self._walk.collect(hook, bound, params)
        if isinstance(invocations, ParamsError):
            self._configuration_error(hook, bound.binding, invocations.message)
        elif isinstance(invocations, Missing):
            self._unknown(hook, bound.binding, invocations)
        else:
            for param in invocations:
                yield Invocation(hook, bound.binding, match, param, unknown)

    def _match_again(self, invocation: Invocation) -> None:
        """Evaluate the match conditions of a policy that need not run again. The server does too, and errors count."""
        if invocation.hook.evaluator.has_match_conditions:
            shown = self._shown.get(invocation.match.kind, AS_IT_CAME)
            error = self._request.match_error(invocation, self._object, shown)
            self._shown[invocation.match.kind] = shown.read(matching=True)
            self._errors(invocation, (error,) if error else ())

    def _invoke(self, invocation: Invocation) -> None:
        """Run one policy on the object as the policies before left it."""
        obj, policy, kind = self._object, invocation.hook.policy, invocation.match.kind
        shown = self._shown.get(kind, AS_IT_CAME)
        result = self._request.mutate(invocation, obj, shown)
        self._shown[kind] = result.shown
        if not result.matched:
            if result.errors:
                self._errors(invocation, result.errors)
            return
        if invocation.unknown is not None and (result.unknown or result.errors or result.object is not obj):
            result = _depending_on(invocation.unknown)
        if result.errors:
            self._errors(invocation, result.errors)
        if result.status is not None:
            raise _RefusedError(_status_denial(invocation, result.status))
        for missing in result.unknown:
            self._unknown(invocation.hook, invocation.binding, missing, never_refuses=result.never_fails)
        self._object = result.object
        self._dirty = self._dirty or result.dirty
        changes = self._request.changes
        if not changes.is_same(obj, result.object):
            self._again.require()
            self._should_reinvoke = True
            if not result.unknown:
                self._mutated.append(Mutated(policy.name, invocation.binding.name, changes(obj, result.object)))
        # Added after the check above, so that a policy never requires its own second run.
        if policy.reinvocation_policy == "IfNeeded":
            self._again.invoked.add(invocation.key)

    def _errors(self, invocation: Invocation, errors: Sequence[str]) -> None:
        """Record errors of match conditions and mutations.

        They deny with the reason Invalid, but the status code of Forbidden.
        """
        if invocation.hook.policy.failure_policy is FailurePolicy.IGNORE:
            return
        for error in errors:
            if invocation.unknown is None:
                where = (invocation.hook.policy.name, invocation.binding.name, None)
                self._denials.append(Denial(*where, error, "Invalid", 403, is_error=True))
            else:
                self._unknown(invocation.hook, invocation.binding, invocation.unknown)

    def _configuration_error(self, hook: Hook, binding: MutatingAdmissionPolicyBinding | None, message: str) -> None:
        if hook.policy.failure_policy is FailurePolicy.FAIL:
            text = f"failed to configure {'binding' if binding else 'policy'}: {message}"
            name = binding.name if binding else ""
            self._denials.append(Denial(hook.policy.name, name, None, text, "Forbidden", 403, is_error=True))

    def _unknown(
        self,
        hook: Hook,
        binding: MutatingAdmissionPolicyBinding | None,
        missing: Missing,
        *,
        never_refuses: bool = False,
    ) -> None:
        name = binding.name if binding else ""
        reason = f"`{missing.path}` is not known: {missing.reason}"
        entry = Undetermined(hook.policy.name, name, reason, missing.path, missing.fix, never_refuses)
        if entry not in self._undetermined:
            self._undetermined.append(entry)


class _RefusedError(Exception):
    """The server ends the request at once."""

    def __init__(self, denial: Denial) -> None:
        super().__init__(denial.message)
        self.denial = denial


def _status_denial(invocation: Invocation, status: StatusError) -> Denial:
    names = (invocation.hook.policy.name, invocation.binding.name, None)
    return Denial(*names, status.message, status.reason, status.code, is_error=True)


def _depending_on(missing: Missing) -> MutateResult:
    reason = f"whether a mutating policy changes it depends on `{missing.path}`, which is not known: {missing.reason}"
    unknown = Missing("object", reason, missing.fix)
    return MutateResult(unknown, matched=True, dirty=True, unknown=(missing,))
