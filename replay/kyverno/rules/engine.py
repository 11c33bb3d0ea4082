"""Evaluation of one policy's rules for one request (`pkg/engine/{engine,validation,mutation}.go`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from replay.json import JSON
from replay.kyverno.rules.autogen import RuleCache
from replay.kyverno.rules.condition import evaluate_conditions
from replay.kyverno.rules.errors import RuleError
from replay.kyverno.rules.exception import PolicyExceptions
from replay.kyverno.rules.go_value import as_map, join_non_empty
from replay.kyverno.rules.handler import ApplicableRule, Handler, mutation_handler, trigger_handler, validation_handler
from replay.kyverno.rules.loader import Cluster, LoaderSource, declare_entries
from replay.kyverno.rules.match import matches_rule
from replay.kyverno.rules.request import Request
from replay.kyverno.rules.response import FAIL, PASS, SKIP, PolicyResponse, RuleResponse, rule_error

Rule = Mapping[str, Any]


class Engine(Struct, frozen=True):
    """Evaluator of policies, with the cluster that they read and the exceptions from them.

    `is_excluded` and `is_filtered` say whether Kyverno's configuration excludes a user or an object. `source_of`
    returns where a rule loads context entries, given the policy's source, the policy's name and the rule's name.
    """

    cluster: Cluster
    exceptions: PolicyExceptions
    is_excluded: Callable[[Request], bool]
    is_filtered: Callable[[Request], bool]
    matches_conditions: Callable[[Mapping[str, Any], Request], bool]
    source_of: Callable[[LoaderSource, str, str], LoaderSource] = lambda source, policy, rule: source  # noqa: ARG005
    rules: RuleCache = field(default_factory=RuleCache)

    def validate(self, policy: Mapping[str, Any], request: Request) -> PolicyResponse:
        """Return the results of the validating rules."""
        return self._evaluate(policy, self.rules.rules_for(policy, request.kind.kind), request, validation_handler)

    def mutate(self, policy: Mapping[str, Any], request: Request) -> PolicyResponse:
        """Return the results of the mutating rules, with the changed object."""
        return self._evaluate(policy, self.rules.rules_for(policy, ""), request, mutation_handler)

    def trigger(self, policy: Mapping[str, Any], request: Request) -> PolicyResponse:
        """Return the rules that a request triggers to create or change other objects later, each with a description."""
        return self._evaluate(policy, self.rules.rules_for(policy, request.kind.kind), request, trigger_handler)

    def _evaluate(
        self,
        policy: Mapping[str, Any],
        rules: Sequence[Rule],
        request: Request,
        handler_of: Callable[[Rule, Request], Handler | None],
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
        if handler_of is mutation_handler:
            response.patched = resource
        return response

    def _is_for(self, policy: Mapping[str, Any], request: Request) -> bool:
        """Return whether a policy applies to the request: by namespace, configured filters and match conditions."""
        namespace = str(policy["metadata"].get("namespace") or "")
        if namespace and any(
            as_map(obj.get("metadata")).get("namespace") != namespace
            for obj in (request.new, request.old)
            if obj is not None
        ):
            return False
        return not self.is_filtered(request) and self.matches_conditions(policy, request)

    def _matches(self, policy: Mapping[str, Any], rule: Rule, request: Request, resource: JSON) -> bool:
        if request.is_admission and self.is_excluded(request):
            return False
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
        handler_of: Callable[[Rule, Request], Handler | None],
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
        handler: Handler,
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
            text = join_non_empty(["preconditions not met", message], "; ")
            return resource, [RuleResponse(name, SKIP, text)]
        exceptions = self.exceptions.matching(policy, name, request)
        return handler(ApplicableRule(policy, rule, request, resource, source, tuple(exceptions)))
