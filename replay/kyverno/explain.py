"""`replay explain` for Kyverno's webhooks: each policy behind a webhook, its result, and where the result comes from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from replay.admission.explain.explanation import BindingExplanation, ExpressionStep, PolicyExplanation
from replay.kube.admissionregistration import FailurePolicy
from replay.kube.json_patch import diff
from replay.kyverno.cel.generating import GeneratingPolicy, Generation
from replay.kyverno.cel.mutating import MutatingPolicy
from replay.kyverno.cel.validating import ValidatingPolicy
from replay.kyverno.naming import rule_name
from replay.kyverno.rules.go_value import as_map
from replay.kyverno.rules.match import why_unmatched
from replay.kyverno.rules.request import Request
from replay.kyverno.rules.response import (
    ERROR,
    FAIL,
    PASS,
    GoPanicError,
    PolicyResponse,
    RuleResponse,
    UndeterminedError,
)
from replay.kyverno.rules.webhook import RulePolicy, RuleWebhook

Policy = ValidatingPolicy | MutatingPolicy | GeneratingPolicy


def explained_rules(rules: RuleWebhook, request: Request, *, mutates: bool) -> Iterator[PolicyExplanation]:
    """Yield an explanation of each rule of one phase, in the order of the policies."""
    request.tells_places = True
    namespace = str(request.request.get("namespace") or "")
    answers: dict[tuple[int, bool], PolicyResponse] = {}
    unknown = ""
    try:
        answers |= {(id(policy), False): each for policy, each in rules.policy_results(request, mutates=mutates)}
        if not mutates:
            answers |= {(id(policy), True): each for policy, each in rules.triggered(request)}
    except (UndeterminedError, GoPanicError) as error:
        unknown = str(error)
    for policy in rules.policies:
        for rule in policy.spec.get("rules") or ():
            triggers = bool(rule.get("generate")) or as_map(rule.get("mutate")).get("targets") is not None
            if (triggers and mutates) or not (triggers or rule.get("mutate" if mutates else "validate")):
                continue
            enforces = policy.is_enforced_in(rule, lambda: rules.namespaces(namespace) if namespace else None)
            answer = answers.get((id(policy), triggers))
            yield _explained_rule(policy, rule, answer, request, unknown, enforces=enforces)


def _explained_rule(
    policy: RulePolicy,
    rule: Mapping[str, Any],
    answer: PolicyResponse | None,
    request: Request,
    unknown: str,
    *,
    enforces: bool,
) -> PolicyExplanation:
    name = str(rule.get("name") or "")
    failure = FailurePolicy.FAIL if policy.fails else FailurePolicy.IGNORE
    title = rule_name(policy.policy, name), f"rule of a {policy.policy.get('kind')}", failure
    if answer is None and unknown:
        return PolicyExplanation(*title, bindings=(BindingExplanation("", outcome=f"undetermined: {unknown}"),))
    if answer is None:
        return PolicyExplanation(*title, mismatch="its policy has no rule for this resource and namespace")
    response = next((each for each in answer.rules if rule_name(policy.policy, each.name) == title[0]), None)
    if response is None:
        return PolicyExplanation(*title, mismatch=why_unmatched(rule, request.resource, request.subject()))
    is_changed = bool(rule.get("mutate")) and answer.patched not in (None, answer.resource)
    patch = tuple(diff(answer.resource, answer.patched)) if is_changed else ()
    outcome = _outcome(response, fails=policy.fails, enforces=enforces or bool(rule.get("mutate")))
    made = "" if response.name == name else f"by the rule {response.name} that Kyverno generates of it"
    binding = BindingExplanation("", outcome=outcome, patch=patch, place=response.place)
    return PolicyExplanation(*title, matched_as=made, bindings=(binding,))


def _outcome(response: RuleResponse, *, fails: bool, enforces: bool) -> str:
    if response.status == FAIL:
        return f"{'denies' if enforces else 'audits'}: {response.message}"
    if response.status == ERROR:
        return f"{'denies' if fails else 'cannot be evaluated, which is ignored'}: {response.message}"
    return response.message if response.status == PASS else f"skipped: {response.message}"


def explained_generation(made: Generation) -> BindingExplanation:
    """Return an explanation of the objects that a GeneratingPolicy would create after a request."""
    return BindingExplanation("", outcome=made.work)


def explained_cel(
    policies: Sequence[Policy], evaluate: Callable[[Policy], BindingExplanation | None], kinds: Mapping[str, str]
) -> Iterator[PolicyExplanation]:
    """Yield an explanation of each CEL policy.

    Variants that Kyverno generates for pod controllers belong to their policy.
    """
    matching: dict[str, list[BindingExplanation]] = {}
    failures: dict[str, FailurePolicy] = {}
    for policy in policies:
        key = f"{policy.namespace}/{policy.name}".lstrip("/")
        failures.setdefault(key, policy.spec.on_failure)
        own = matching.setdefault(key, [])
        try:
            binding = evaluate(policy)
        except UndeterminedError as error:
            binding = BindingExplanation("", outcome=f"undetermined: {error}")
        own += [] if binding is None else [binding]
    for key, bindings in matching.items():
        mismatch = "" if bindings else "its match constraints do not select the request"
        kind = kinds[key]
        yield PolicyExplanation(f"{kind}/{key}", kind, failures[key], mismatch=mismatch, bindings=tuple(bindings))


def explained_result(
    rule: RuleResponse, actions: Sequence[str], steps: Sequence[ExpressionStep] = ()
) -> BindingExplanation:
    """Return an explanation of one CEL policy with its expressions. An error has the same actions as a failure."""
    if rule.status == PASS:
        outcome = "passes" if rule.message == "success" else rule.message
    elif rule.status in (FAIL, ERROR):
        outcome = f"{'denies' if 'Deny' in actions else 'audits'}: {rule.message}"
    else:
        outcome = "skipped: a match condition does not hold" if rule.message == "skip" else f"skipped: {rule.message}"
    return BindingExplanation("", tuple(actions), steps=tuple(steps), outcome=outcome)
