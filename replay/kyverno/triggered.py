"""Work that Kyverno does after a request: rules and policies that make or change other objects. It decides nothing.

Source: `pkg/webhooks/resource/updaterequest.go`, `pkg/webhooks/resource/{gpol,mpol}/handler.go`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from replay.kyverno.cel.generating import GeneratingPolicy
from replay.kyverno.cel.library.context import Reader
from replay.kyverno.cel.mutating import MutatingPolicy
from replay.kyverno.cel.request import CELRequest
from replay.kyverno.rules.engine import Engine
from replay.kyverno.rules.go_value import as_map
from replay.kyverno.rules.request import Request
from replay.kyverno.rules.response import ERROR, PASS, GoPanicError, UndeterminedError
from replay.kyverno.rules.webhook import RulePolicy


class RuleWork(NamedTuple):
    """Work of a rule, or why it fails or is not known. Then `rule` may be empty."""

    policy: RulePolicy
    rule: str = ""
    work: str = ""
    error: str = ""
    unknown: str = ""


def is_dry_run(request: Mapping[str, Any]) -> bool:
    """Return whether a request was a dry run, after which Kyverno does nothing.

    `replay` shows each request to webhooks as a dry run. What it was, its options say.
    """
    return bool(as_map(request.get("options")).get("dryRun"))


def work_of_rules(
    engine: Engine, policies: Iterable[RulePolicy], known: Callable[[Sequence[RulePolicy]], Request]
) -> Iterator[RuleWork]:
    """Yield the work of each rule that a request triggers.

    `known` returns the request without its unknown parts. It raises UndeterminedError if one of the policies may read them.
    """
    for policy in policies:
        if not policy.triggers:
            continue
        try:
            response = engine.trigger(policy.policy, known([policy]))
        except UndeterminedError as error:
            yield RuleWork(policy, unknown=str(error))
        except GoPanicError as error:
            yield RuleWork(policy, unknown=f"Kyverno's engine panics: {error}")
        else:
            for rule in response.rules:
                if rule.status == PASS:
                    yield RuleWork(policy, rule.name, work=rule.message)
                elif rule.status == ERROR:
                    yield RuleWork(policy, rule.name, error=rule.message)


class PolicyWork(NamedTuple):
    """Work of a CEL policy, or why it is not known."""

    policy: GeneratingPolicy | MutatingPolicy
    work: str = ""
    unknown: str = ""


def work_of_generating(
    policies: Iterable[GeneratingPolicy], request: CELRequest, reader: Reader
) -> Iterator[PolicyWork]:
    """Yield the work of each GeneratingPolicy that a request triggers."""
    for policy in policies:
        made = policy.generate(request, reader)
        if made is not None:
            yield PolicyWork(policy, "" if made.unknown else made.work, made.unknown)


def work_of_mutating(policies: Iterable[MutatingPolicy], request: CELRequest, reader: Reader) -> Iterator[PolicyWork]:
    """Yield the work of each MutatingPolicy that changes existing objects after the request."""
    for policy in policies:
        if not policy.spec.mutates_existing or policy.namespace not in ("", request.namespace):
            continue
        try:
            if policy.is_triggered(request, reader):
                yield PolicyWork(policy, f"changes existing {policy.spec.target_names} afterwards")
        except UndeterminedError as error:
            yield PolicyWork(policy, unknown=str(error))
