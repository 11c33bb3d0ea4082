"""Evaluation of one policy's rules for one request (`pkg/engine/{engine,validation,mutation}.go`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from msgspec import Struct, field

from replay.json import JSON
from replay.kyverno.naming import key_of
from replay.kyverno.rules.autogen import RuleCache
from replay.kyverno.rules.condition import evaluate_conditions
from replay.kyverno.rules.context import ClusterReads, LoaderSource, declare_entries
from replay.kyverno.rules.exception import PolicyException, PolicyExceptions
from replay.kyverno.rules.go_value import as_map
from replay.kyverno.rules.image import images_of
from replay.kyverno.rules.match import matches_rule
from replay.kyverno.rules.mutate import mutate_rule
from replay.kyverno.rules.pod_security import validate_pod_security
from replay.kyverno.rules.request import Request
from replay.kyverno.rules.response import (
    FAIL,
    PASS,
    SKIP,
    PolicyResponse,
    RuleError,
    RuleResponse,
    UndeterminedError,
    rule_error,
)
from replay.kyverno.rules.substitution import substitute
from replay.kyverno.rules.validate import Validator
from replay.kyverno.rules.validate_cel import matches_conditions, validate_cel
from replay.kyverno.wildcard import matches_any

# Handlers that evaluate a matching rule, by the kind of the rule (`pkg/engine/handlers`).

Rule = Mapping[str, Any]


class _ApplicableRule(Struct, frozen=True):
    """Rule to evaluate for an object, with the exceptions that apply to the request."""

    policy: Mapping[str, Any]
    rule: Rule
    request: Request
    resource: JSON
    source: LoaderSource
    exceptions: tuple[PolicyException, ...]

    @property
    def name(self) -> str:
        """Name of the rule."""
        return str(self.rule.get("name") or "")

    def skipped(self, text: str = "rule is skipped due to policy exceptions") -> RuleResponse:
        """Return the result of a rule that an exception skips."""
        return RuleResponse(self.name, SKIP, text + ", ".join(map(key_of, self.exceptions)))


_Handler = Callable[[_ApplicableRule], tuple[JSON, list[RuleResponse]]]


def _validation_handler(rule: Rule, request: Request) -> _Handler | None:
    """Return the handler of a validating rule, or None for other rules."""
    validation = as_map(rule.get("validate"))
    if not validation:
        return _verify_images if _checks_images(rule, request) else None
    if as_map(validation.get("manifests")).get("attestors"):
        return _verify_manifests
    if validation.get("podSecurity"):
        return _pod_security
    return _cel if validation.get("cel") else _validate


def _mutation_handler(rule: Rule, request: Request) -> _Handler | None:
    """Return the handler of a rule that mutates the request's object, or None for other rules."""
    mutation = as_map(rule.get("mutate"))
    if not mutation or (request.is_admission and mutation.get("targets") is not None):
        return None
    return _mutate


def _trigger_handler(rule: Rule, request: Request) -> _Handler | None:
    """Return the handler of a rule that creates or changes other objects later, or None for other rules.

    A DELETE triggers only rules that name the operation, and those whose objects follow the deleted one.
    """
    generation, targets = as_map(rule.get("generate")), as_map(rule.get("mutate")).get("targets")
    if request.operation == "DELETE" and not _names_delete(rule):
        return _removing if generation.get("synchronize") else None
    return _triggered if generation or targets is not None else None


def _names_delete(rule: Rule) -> bool:
    """Return whether a rule's match names the operation DELETE (`pkg/webhooks/utils/match.go`)."""
    match = as_map(rule.get("match"))
    blocks = (match, *(match.get("any") or ()), *(match.get("all") or ()))
    return any("DELETE" in (as_map(each.get("resources")).get("operations") or ()) for each in blocks)


def _removing(handling: _ApplicableRule) -> tuple[JSON, list[RuleResponse]]:
    made = _named(handling, handling.rule["generate"])
    return handling.resource, [RuleResponse(handling.name, PASS, f"removes {made or 'what it made'} afterwards")]


def _triggered(handling: _ApplicableRule) -> tuple[JSON, list[RuleResponse]]:
    if handling.exceptions:
        return handling.resource, [handling.skipped()]
    generation = as_map(handling.rule.get("generate"))
    if not generation:
        targets = [_named(handling, each) for each in as_map(handling.rule.get("mutate")).get("targets") or ()]
        return handling.resource, [
            RuleResponse(handling.name, PASS, f"changes existing {', '.join(targets)} afterwards")
        ]
    made = _named(handling, generation) if generation.get("kind") else "objects"
    return handling.resource, [RuleResponse(handling.name, PASS, f"makes {made} afterwards")]


def _named(handling: _ApplicableRule, target: Mapping[str, Any]) -> str:
    """Return kind, namespace and name of a target. Variables that cannot be resolved stay as they are written."""
    fields = [str(target.get(field) or "") for field in ("kind", "namespace", "name")]
    with suppress(RuleError):
        fields = [str(substitute(handling.request.context, each)) for each in fields]
    return " ".join(filter(None, (fields[0], "/".join(filter(None, fields[1:])))))


def _validate(handling: _ApplicableRule) -> tuple[JSON, list[RuleResponse]]:
    if handling.exceptions:
        return handling.resource, [handling.skipped()]
    answer = Validator(handling.request, handling.policy, handling.rule, handling.source).validate()
    return handling.resource, [answer] if answer is not None else []


def _pod_security(handling: _ApplicableRule) -> tuple[JSON, list[RuleResponse]]:
    answer = validate_pod_security(
        handling.request, handling.policy, handling.rule, handling.resource, handling.exceptions
    )
    return handling.resource, [answer] if answer is not None else []


def _cel(handling: _ApplicableRule) -> tuple[JSON, list[RuleResponse]]:
    if handling.exceptions:
        return handling.resource, [handling.skipped()]
    answer = validate_cel(handling.request, handling.rule, handling.resource, handling.source.cluster)
    return handling.resource, [answer] if answer is not None else []


def _mutate(handling: _ApplicableRule) -> tuple[JSON, list[RuleResponse]]:
    if handling.exceptions:
        return handling.resource, [handling.skipped()]
    return mutate_rule(handling.request, handling.rule, handling.resource, handling.source)


def _verify_manifests(handling: _ApplicableRule) -> tuple[JSON, list[RuleResponse]]:
    if handling.exceptions:
        return handling.resource, [handling.skipped()]
    raise UndeterminedError(f"rule {handling.name} verifies the signature of a manifest, which replay does not do")


def _checks_images(rule: Rule, request: Request) -> bool:
    """Return whether a rule checks that images were verified, and the object has such images."""
    entries = rule.get("verifyImages") or ()
    if not any(each.get("verifyDigest", True) or each.get("required", True) for each in entries):
        return False
    return has_matching_images(rule, request)


def has_matching_images(rule: Rule, request: Request) -> bool:
    """Return whether the object has images that a rule of `verifyImages` matches."""
    extractors = rule.get("imageExtractors")
    try:
        if extractors:
            search = request.context.library.query
            found = images_of(request.new, request.image_defaults, lambda q, v: search(q).search(v), extractors)
        else:
            found = {kind: dict(images) for kind, images in request.images().items()}
    except RuleError:
        # An object whose images cannot be read may have matching ones.
        return True
    patterns = [
        str(pattern)
        for each in rule.get("verifyImages") or ()
        for pattern in [*(each.get("imageReferences") or ()), *([each["image"]] if each.get("image") else ())]
    ]
    return any(matches_any(patterns, str(image)) for images in found.values() for image in images.values())


def _verify_images(handling: _ApplicableRule) -> tuple[JSON, list[RuleResponse]]:
    if handling.exceptions:
        return handling.resource, [handling.skipped()]
    raise UndeterminedError(f"rule {handling.name} verifies images, which only the image registry can answer")


class Engine(Struct, frozen=True):
    """Evaluator of policies, with the cluster that they read and the exceptions from them.

    Users and objects that Kyverno's configuration excludes do not get here. `source_of` returns where a rule loads
    context entries, given the policy's source, the policy's name and the rule's name.
    """

    cluster: ClusterReads
    exceptions: PolicyExceptions
    source_of: Callable[[LoaderSource, str, str], LoaderSource] = lambda source, policy, rule: source  # noqa: ARG005
    rules: RuleCache = field(default_factory=RuleCache)

    def validate(self, policy: Mapping[str, Any], request: Request) -> PolicyResponse:
        """Return the results of the validating rules."""
        return self._evaluate(policy, self.rules.rules_for(policy, request.kind.kind), request, _validation_handler)

    def mutate(self, policy: Mapping[str, Any], request: Request) -> PolicyResponse:
        """Return the results of the mutating rules, with the changed object."""
        return self._evaluate(policy, self.rules.rules_for(policy, ""), request, _mutation_handler)

    def trigger(self, policy: Mapping[str, Any], request: Request) -> PolicyResponse:
        """Return the rules that a request triggers to create or change other objects later, each with a description."""
        return self._evaluate(policy, self.rules.rules_for(policy, request.kind.kind), request, _trigger_handler)

    def _evaluate(
        self,
        policy: Mapping[str, Any],
        rules: Sequence[Rule],
        request: Request,
        handler_of: Callable[[Rule, Request], _Handler | None],
    ) -> PolicyResponse:
        response = PolicyResponse(policy, request.resource, request.resource, request.namespace_labels)
        if not self._is_for(policy, request):
            return response
        stops_at_one = as_map(policy.get("spec")).get("applyRules") == "One"
        resource = request.new
        request.context.checkpoint()
        try:
            for rule in rules:
                resource, answers = self._rule(policy, rule, request, resource, handler_of)
                response.rules += answers
                if stops_at_one and any(each.status in (PASS, FAIL) for each in response.rules):
                    break
        finally:
            request.context.restore()
        if handler_of is _mutation_handler:
            response.patched = resource
        return response

    def _is_for(self, policy: Mapping[str, Any], request: Request) -> bool:
        """Return whether a policy applies to the request: by namespace and match conditions."""
        namespace = str(policy["metadata"].get("namespace") or "")
        if namespace and any(
            as_map(obj.get("metadata")).get("namespace") != namespace
            for obj in (request.new, request.old)
            if obj is not None
        ):
            return False
        return matches_conditions(policy, request)

    def _matches(self, policy: Mapping[str, Any], rule: Rule, request: Request, resource: JSON) -> bool:
        namespace = str(policy["metadata"].get("namespace") or "")
        subject = request.subject()
        if matches_rule(rule, resource, subject, namespace):
            return True
        # A DELETE has only an old object.
        return resource is None and matches_rule(rule, request.old, subject, namespace)

    def _rule(
        self,
        policy: Mapping[str, Any],
        rule: Rule,
        request: Request,
        resource: JSON,
        handler_of: Callable[[Rule, Request], _Handler | None],
    ) -> tuple[JSON, list[RuleResponse]]:
        """Return the object after a rule, and the rule's results.

        There are none if it does not match (`invokeRuleHandler`).
        """
        if not self._matches(policy, rule, request, resource):
            return resource, []
        handler = handler_of(rule, request)
        if handler is None:
            return resource, []
        source = LoaderSource(self.cluster, str(policy["metadata"].get("namespace") or ""))
        source = self.source_of(source, str(policy["metadata"]["name"]), str(rule.get("name") or ""))
        patched = resource
        request.context.checkpoint()
        try:
            patched, answers = self._handled(policy, rule, request, resource, handler, source)
            return patched, answers
        finally:
            request.context.restore()
            if patched is not None:
                # From here on its integers are int64, where those of the request are float64.
                request.context.set_object(patched, "request", "object")

    def _handled(
        self,
        policy: Mapping[str, Any],
        rule: Rule,
        request: Request,
        resource: JSON,
        handler: _Handler,
        source: LoaderSource,
    ) -> tuple[JSON, list[RuleResponse]]:
        name = str(rule.get("name") or "")
        try:
            declare_entries(request.context, rule.get("context"), source)
        except RuleError as error:
            return resource, [rule_error(name, "failed to load context", error)]
        try:
            met, message = evaluate_conditions(request.context, rule.get("preconditions"))
        except RuleError as error:
            return resource, [rule_error(name, "failed to evaluate preconditions", error)]
        if not met:
            text = "; ".join(filter(None, ("preconditions not met", message)))
            return resource, [RuleResponse(name, SKIP, text)]
        exceptions = self.exceptions.matching(policy, name, request)
        return handler(_ApplicableRule(policy, rule, request, resource, source, tuple(exceptions)))
