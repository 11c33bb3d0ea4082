"""Answers of Kyverno's webhooks for ClusterPolicies and Policies (`pkg/webhooks/resource`, `pkg/policycache`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from functools import cached_property
from typing import Any

from msgspec import Struct

from replay.go.yaml_text import yaml_text
from replay.identity import IdentityMap
from replay.json import JSON
from replay.kube.discovery import Discovery
from replay.kube.json_patch import diff
from replay.kyverno.rules.autogen import compute_rules
from replay.kyverno.rules.engine import Engine
from replay.kyverno.rules.go_value import as_map, with_floats
from replay.kyverno.rules.match import SelectorError, matches_plain_selector, matches_selector, texts_of
from replay.kyverno.rules.request import Request
from replay.kyverno.rules.response import ERROR, FAIL, PASS, SKIP, PolicyResponse, RuleResponse, UndeterminedError
from replay.kyverno.wildcard import kinds_of, matches_any, matches_wildcard, selected_resources

Policy = Mapping[str, Any]
Namespaces = Callable[[str], JSON]


class RuleAnswer(Struct, frozen=True):
    """Answer of a webhook with the message of a denial or the patch. `responses` are the results of the policies.

    `unknown` are the policies without a result, each with the reason. They cannot undo a denial, but add to its message.
    """

    allowed: bool
    message: str = ""
    patch: tuple[dict[str, JSON], ...] = ()
    warnings: tuple[str, ...] = ()
    responses: tuple[PolicyResponse, ...] = ()
    unknown: tuple[tuple[RulePolicy, str], ...] = ()


class RulePolicy:
    """Policy in Kyverno's cache: what it matches, and whether it denies."""

    def __init__(self, policy: JSON, discovery: Discovery) -> None:
        """`policy` is the whole object."""
        self.policy: Policy = with_floats(policy)
        self.spec = as_map(self.policy.get("spec"))
        self.namespace = str(self.policy["metadata"].get("namespace") or "")
        self.name = str(self.policy["metadata"]["name"])
        self._discovery = discovery
        self._with_rules: dict[tuple[int, ...], Policy] = {}

    @cached_property
    def _resources(self) -> dict[str, frozenset[tuple[str, str, str, str]]]:
        """Resources that the rules match, by kind of rule."""
        found: dict[str, frozenset[tuple[str, str, str, str]]] = {}
        for rule in compute_rules(self.policy, ""):
            selected = selected_resources(self._discovery, kinds_of(rule.get("match")))
            if ("", "v1", "pods", "") in selected:
                selected |= {("", "v1", "pods", "ephemeralcontainers")}
            for kind in ("mutate", "validate", "generate", "verifyImages"):
                if rule.get(kind):
                    found[kind] = found.get(kind, frozenset()) | selected
        return found

    @cached_property
    def is_enforcing(self) -> bool:
        """Whether a rule of the policy can deny."""
        rules = [as_map(rule.get("validate")) for rule in self.spec.get("rules") or ()]
        actions = [self.spec.get("validationFailureAction"), *(rule.get("failureAction") for rule in rules)]
        overrides = [*(self.spec.get("validationFailureActionOverrides") or ())]
        overrides += [each for rule in rules for each in rule.get("failureActionOverrides") or ()]
        return any(map(enforces, [*actions, *(each.get("action") for each in overrides)]))

    @property
    def triggers(self) -> bool:
        """Whether a rule of the policy makes or changes other objects after a request."""
        rules = self.spec.get("rules") or ()
        return any(rule.get("generate") or as_map(rule.get("mutate")).get("targets") is not None for rule in rules)

    @property
    def emits_warning(self) -> bool:
        """Whether it warns about audited violations."""
        return self.spec.get("emitWarning") is True

    @property
    def fails(self) -> bool:
        """Whether an error in its rules denies."""
        webhook = as_map(self.spec.get("webhookConfiguration"))
        return (webhook.get("failurePolicy") or self.spec.get("failurePolicy") or "Fail") == "Fail"

    @property
    def is_admitted(self) -> bool:
        """Whether it takes part in admission."""
        return self.spec.get("admission") is not False

    def is_for(self, kind: str, resource: tuple[str, str, str, str]) -> bool:
        """Return whether a rule of some kind matches a resource."""
        return resource in self._resources.get(kind, frozenset())

    def with_action(self, namespace: Callable[[], JSON], *, enforce: bool) -> Policy | None:
        """Return the policy with only the rules that enforce, or audit, in a namespace. Return None if there are none."""
        rules = self.spec.get("rules") or ()
        kept = tuple(
            index
            for index, rule in enumerate(rules)
            if rule.get("validate") and self.is_enforced_in(rule, namespace) is enforce
        )
        if not kept:
            return None
        if kept not in self._with_rules:
            spec = {**self.spec, "rules": [rules[index] for index in kept]}
            self._with_rules[kept] = {**self.policy, "spec": spec}
        return self._with_rules[kept]

    def is_enforced_in(self, rule: Mapping[str, Any], namespace: Callable[[], JSON]) -> bool:
        """Return whether a rule denies in a namespace instead of only auditing."""
        validation = as_map(rule.get("validate"))
        overrides = validation.get("failureActionOverrides") or self.spec.get("validationFailureActionOverrides") or ()
        for override in overrides:
            namespaces, selector = override.get("namespaces") or (), override.get("namespaceSelector")
            if not namespaces and selector is None:
                return enforces(override.get("action"))
            own = namespace()
            if own is None:
                continue
            if matches_any(namespaces, str(own["metadata"]["name"])):
                return enforces(override.get("action"))
            # The policy cache knows no wildcards here. The action of a response does (`_overriding`).
            if selector is not None and _selects(matches_plain_selector, selector, texts_of(own, "labels")):
                return enforces(override.get("action"))
        return enforces(validation.get("failureAction") or self.spec.get("validationFailureAction"))


def enforces(action: JSON) -> bool:
    """Return whether a failure action denies."""
    return str(action or "").lower() == "enforce"


def _selects(
    matches: Callable[[Mapping[str, Any], Mapping[str, str]], bool],
    selector: Mapping[str, Any],
    labels: Mapping[str, str],
) -> bool:
    """Return whether a selector selects labels. An invalid one selects nothing."""
    try:
        return matches(selector, labels)
    except SelectorError:
        return False


class RuleWebhook:
    """Webhooks of a set of policies."""

    def __init__(self, policies: Iterable[JSON], discovery: Discovery, engine: Engine, namespaces: Namespaces) -> None:
        """`namespaces` returns a Namespace, or None if it does not exist."""
        loaded = (RulePolicy(policy, discovery) for policy in policies)
        self.policies = sorted(
            (each for each in loaded if each.is_admitted), key=lambda each: (each.namespace, each.name)
        )
        self.engine = engine
        self.namespaces = namespaces
        self._selecting: IdentityMap[Policy, bool] = IdentityMap()

    def for_policies(self, engine: Engine, namespaces: Namespaces, policies: Sequence[RulePolicy]) -> RuleWebhook:
        """Return the webhook with another cluster and only these policies."""
        made = copy(self)
        made.policies, made.engine, made.namespaces = list(policies), engine, namespaces
        return made

    def is_for(
        self, request: Request, kinds: Sequence[str] = ("mutate", "validate", "verifyImages")
    ) -> tuple[RulePolicy, ...]:
        """Return the policies with rules of some kinds for the resource and namespace of a request."""
        return tuple(dict.fromkeys(each for kind in kinds for each in self._candidates(kind, request)))

    def _candidates(self, kind: str, request: Request) -> list[RulePolicy]:
        """Return the policies with rules of a kind: those of the cluster, and of the request's namespace if it exists."""
        fields = as_map(request.request.get("resource"))
        place = tuple(str(fields.get(key) or "") for key in ("group", "version", "resource"))
        resource = (place[0], place[1], place[2], request.subresource)
        name = str(request.request.get("namespace") or "")
        return [
            each
            for each in self.policies
            if each.is_for(kind, resource)
            and (not each.namespace or (each.namespace == name and self.namespaces(name) is not None))
        ]

    def _namespace(self, request: Request) -> Callable[[], JSON]:
        """Return the lookup of the request's namespace. It waits until a policy asks, as the log may not have it."""
        name = str(request.request.get("namespace") or "")
        return lambda: self.namespaces(name) if name else None

    def _labels(self, policies: Sequence[Policy], request: Request) -> Mapping[str, str] | str:
        """Return the namespace's labels if a policy needs them, or the error for a missing namespace."""
        name = str(request.request.get("namespace") or "")
        if request.kind.kind == "Namespace" or not name or not any(map(self._selects, policies)):
            return {}
        namespace = self.namespaces(name)
        return texts_of(namespace, "labels") if namespace is not None else f'namespace "{name}" not found'

    def _selects(self, policy: Policy) -> bool:
        found = self._selecting.get(policy)
        if found is None:
            found = self._selecting[policy] = _selects_namespaces(policy)
        return found

    def validate(self, request: Request) -> RuleAnswer:
        """Return the validating webhook's answer. Raises GoPanicError, and UndeterminedError if it is wholly unknown."""
        namespace = self._namespace(request)
        candidates = self._candidates("validate", request)
        enforcing = [
            (each, policy)
            for each in candidates
            if each.is_enforcing and (policy := each.with_action(namespace, enforce=True)) is not None
        ]
        warning = [each.policy for each in candidates if each.emits_warning and not each.is_enforcing]
        warning += [
            policy
            for each in candidates
            if each.emits_warning
            and each.is_enforcing
            and (policy := each.with_action(namespace, enforce=False)) is not None
        ]
        images = [each for each in self._candidates("verifyImages", request) if _checks_images(each)]
        enforcing += [(each, each.policy) for each in images]
        if not enforcing and not warning:
            return RuleAnswer(allowed=True)
        labels = self._labels([*(policy for _, policy in enforcing), *warning], request)
        if isinstance(labels, str):
            return RuleAnswer(allowed=False, message=f"failed to create policy context: {labels}")
        request.namespace_labels = labels
        responses: list[PolicyResponse] = []
        unknown: list[tuple[RulePolicy, str]] = []
        for each, policy in enforcing:
            try:
                responses.append(self.engine.validate(policy, request))
            except UndeterminedError as error:
                unknown.append((each, str(error)))
        warned = [self.engine.validate(policy, request) for policy in warning]
        # One policy with `failurePolicy: Fail` makes the errors of all of them deny.
        fails = any(each.fails for each, _ in enforcing)
        if any(self._blocks(response, fails=fails, kind=request.kind.kind) for response in responses):
            message = blocked_message(responses)
            return RuleAnswer(allowed=False, message=message, responses=tuple(responses), unknown=tuple(unknown))
        responses += warned
        warnings = tuple(_warnings(responses))
        return RuleAnswer(allowed=True, warnings=warnings, responses=tuple(responses), unknown=tuple(unknown))

    def _blocks(self, response: PolicyResponse, *, fails: bool, kind: str) -> bool:
        """Return whether the results deny.

        They do if an enforced rule fails, or if a rule cannot be evaluated and `failurePolicy` is Fail.
        """
        if response.is_error and fails:
            return True
        failed = [rule.name for rule in response.rules if rule.status == FAIL]
        if not failed:
            return False
        rules = self.engine.rules.rules_for(response.policy, str((response.resource or {}).get("kind") or kind))
        return any(enforces(_action(response, rules, name)) for name in failed)

    def audit(self, request: Request) -> list[PolicyResponse]:
        """Return the results of rules that audit, which Kyverno evaluates after an allowed request."""
        namespace = self._namespace(request)
        policies = [
            policy
            for each in self._candidates("validate", request)
            if (policy := each.with_action(namespace, enforce=False)) is not None
        ]
        labels = self._labels(policies, request)
        if isinstance(labels, str):
            return []
        request.namespace_labels = labels
        return [self.engine.validate(policy, request) for policy in policies]

    def mutate(self, request: Request) -> RuleAnswer:
        """Return the mutating webhook's answer. Raises UndeterminedError and GoPanicError."""
        if request.operation not in ("CREATE", "UPDATE"):
            return RuleAnswer(allowed=True)
        patch: list[dict[str, JSON]] = []
        responses: list[PolicyResponse] = []
        fails = False
        for each in self._candidates("mutate", request):
            if not any(rule.get("mutate") and rule["mutate"].get("targets") is None for rule in each.spec["rules"]):
                continue
            # Errors also deny if only an earlier policy has `failurePolicy: Fail`.
            fails = fails or each.fails
            labels = self._labels([each.policy], request)
            if isinstance(labels, str):
                return RuleAnswer(allowed=False, message=f"mutation policy {each.name} error: {labels}")
            request.namespace_labels = labels
            response = self.engine.mutate(each.policy, request)
            if response.is_successful:
                if response.patched is not None:
                    patch += diff(response.resource, response.patched)
            elif self._blocks(response, fails=fails, kind=request.kind.kind):
                return RuleAnswer(allowed=False, message=_mutation_error(response), responses=(*responses, response))
            # The next policy sees the object as this policy left it.
            request.new = response.patched
            request.context.set_object({} if response.patched is None else response.patched, "request", "object")
            responses.append(response)
        self._refuse_image_verification(request)
        warnings = _warnings(responses, self.policies)
        return RuleAnswer(allowed=True, patch=tuple(patch), warnings=tuple(warnings), responses=tuple(responses))

    def policy_results(self, request: Request, *, mutates: bool) -> Iterator[tuple[RulePolicy, PolicyResponse]]:
        """Yield the results of all policies with rules for a request, including those that audit.

        Raises UndeterminedError and GoPanicError.
        """
        if mutates:
            for response in self.mutate(request).responses:
                yield next(each for each in self.policies if each.policy is response.policy), response
            return
        candidates = self._candidates("validate", request)
        labels = self._labels([each.policy for each in candidates], request)
        request.namespace_labels = {} if isinstance(labels, str) else labels
        for each in candidates:
            yield each, self.engine.validate(each.policy, request)

    def triggered(self, request: Request) -> Iterator[tuple[RulePolicy, PolicyResponse]]:
        """Yield the results of all policies with rules that create or change other objects after the request."""
        for each in self.is_for(request, ("generate", "mutate")):
            if each.triggers:
                yield each, self.engine.trigger(each.policy, request)

    def _refuse_image_verification(self, request: Request) -> None:
        """Raise UndeterminedError if images would be verified."""
        from replay.kyverno.rules.engine import has_matching_images  # noqa: PLC0415

        for each in self._candidates("verifyImages", request):
            for rule in each.spec["rules"]:
                if rule.get("verifyImages") and has_matching_images(rule, request):
                    raise UndeterminedError(
                        f"policy {each.name} verifies images, which only the image registry can answer"
                    )


def _checks_images(policy: RulePolicy) -> bool:
    return any(
        each.get("verifyDigest", True) or each.get("required", True)
        for rule in policy.spec["rules"]
        for each in rule.get("verifyImages") or ()
    )


def _selects_namespaces(policy: Policy) -> bool:
    """Return whether a rule reads the labels of a namespace. Overrides of the whole policy do not count."""
    for rule in policy["spec"].get("rules") or ():
        for block in (as_map(rule.get("match")), as_map(rule.get("exclude"))):
            for each in (block, *(block.get("any") or ()), *(block.get("all") or ())):
                if as_map(each.get("resources")).get("namespaceSelector") is not None:
                    return True
        overrides = as_map(rule.get("validate")).get("failureActionOverrides") or ()
        if any(each.get("namespaceSelector") is not None for each in overrides):
            return True
    return False


def _action(response: PolicyResponse, rules: Sequence[Mapping[str, Any]], name: str) -> JSON:
    spec = as_map(response.policy.get("spec"))
    rule = next((each for each in rules if each.get("name") == name), None)
    validation = as_map(rule.get("validate")) if rule is not None else {}
    return (
        _overriding(response, validation.get("failureActionOverrides"))
        or validation.get("failureAction")
        or _overriding(response, spec.get("validationFailureActionOverrides"))
        or spec.get("validationFailureAction")
    )


def _overriding(response: PolicyResponse, overrides: JSON) -> JSON:
    """Return the action of the first override that applies to the object."""
    namespace = str(as_map(as_map(response.patched).get("metadata")).get("namespace") or "")
    for override in overrides or ():
        selector = override.get("namespaceSelector")
        is_selected = selector is None or _selects(matches_selector, selector, response.namespace_labels)
        names = override.get("namespaces")
        if names is None and is_selected:
            return override.get("action")
        if is_selected and any(matches_wildcard(name, namespace) for name in names or ()):
            return override.get("action")
    return None


def blocked_message(responses: Sequence[PolicyResponse]) -> str:
    """Return the message of a denial, with each policy's failed or broken rules."""
    failures = {
        response.policy_name: reasons
        for response in responses
        if (reasons := {rule.name: rule.message for rule in response.rules if rule.status not in (PASS, SKIP)})
    }
    if not failures:
        return ""
    obj = as_map(responses[0].resource)
    metadata = as_map(obj.get("metadata"))
    name = f"{obj.get('kind') or ''}/{metadata.get('namespace') or ''}/{metadata.get('name') or ''}"
    return f"\n\nresource {name} was blocked due to the following policies \n\n{yaml_text(failures)}"


def _mutation_error(response: PolicyResponse) -> str:
    rules = " ".join(f"{rule.name}: {rule.message}" for rule in response.rules if rule.status in (FAIL, ERROR))
    name = response.policy_name
    return f"mutation policy {name} error: failed to apply policy {name} rules [{rules}]"


def _warnings(responses: Sequence[PolicyResponse], policies: Sequence[RulePolicy] = ()) -> list[str]:
    """Return a warning for each rule that failed or could not be evaluated.

    A mutating policy of `policies` that emits warnings also warns for each rule that it applied.
    """
    emitting = {(each.namespace, each.name) for each in policies if each.emits_warning}
    return [
        f"policy {response.policy_name}.{rule.name}: {rule.message}"
        for response in responses
        for rule in response.rules
        if rule.status in (FAIL, ERROR)
        or (
            rule.status != SKIP
            and (str(response.policy["metadata"].get("namespace") or ""), response.policy_name) in emitting
        )
    ]


def shown_rules(response: PolicyResponse) -> list[tuple[str, RuleResponse]]:
    """Return the results of a policy's rules, with the policy's name."""
    return [(response.policy_name, rule) for rule in response.rules]
