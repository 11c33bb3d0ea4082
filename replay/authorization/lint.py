"""Warnings about an AuthorizationConfiguration that the server accepts and an operator would regret."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from replay.authorization.start import Checked
from replay.cel.ast.issues import Issues
from replay.cel.value.values import EvalError
from replay.cellib.authorization import authorization_env
from replay.cellib.version import KubernetesVersion
from replay.manifests.lint import catalogue
from replay.manifests.lint.condition import Condition, first_impossible
from replay.manifests.lint.reachable import Facts
from replay.manifests.lint.reading import SchemaPath, reading_of

_RESOURCE: SchemaPath = ("request", "resourceAttributes")
_NON_RESOURCE: SchemaPath = ("request", "nonResourceAttributes")
_OF_PATH = Facts(presence={_RESOURCE: False, _NON_RESOURCE: True})
_OF_RESOURCE = Facts(presence={_RESOURCE: True, _NON_RESOURCE: False})
_EXAMPLES = {_RESOURCE: "a path such as `/healthz`", _NON_RESOURCE: "a resource such as pods"}


class AuthorizationWarning(Struct, frozen=True):
    """A warning about a field of the configuration, by its name in the catalogue of warnings."""

    name: str
    message: str
    path: str


def lint_configuration(checked: Checked, version: KubernetesVersion) -> Iterator[AuthorizationWarning]:
    """All warnings about the match conditions of webhooks, which all must be true for the webhook to be asked.

    Nothing is said of a file that the server refuses.
    """
    if checked.configuration is None or not checked.is_accepted:
        return
    for index_of_authorizer, authorizer in enumerate(checked.configuration.authorizers):
        if authorizer.webhook is None or not authorizer.webhook.match_conditions:
            continue
        env = authorization_env(version)
        conditions = [Condition(env, expression) for expression in authorizer.webhook.match_conditions]
        path = f"authorizers[{index_of_authorizer}].webhook.matchConditions"
        never = _first_never_true(conditions)
        if never is not None:
            index, name, why = never
            message = f"this match condition is {why}: the webhook is never asked"
            yield AuthorizationWarning(name, message, f"{path}[{index}].expression")
        elif authorizer.webhook.failure_policy == "Deny":
            yield from _lint_unguarded(conditions, path)


def _first_never_true(conditions: Sequence[Condition]) -> tuple[int, str, str] | None:
    """A condition that is false for requests of both kinds, by itself or beside the others."""
    for index, condition in enumerate(conditions):
        if condition.value(_OF_RESOURCE) is False and condition.value(_OF_PATH) is False:
            return index, catalogue.NEVER_TRUE, "false for every request"
    impossible = [first_impossible(conditions, facts) for facts in (_OF_RESOURCE, _OF_PATH)]
    if None in impossible:
        return None
    last = max(index for index in impossible if index is not None)
    return last, catalogue.NEVER_TOGETHER, "false for every request for which the others are true"


def _lint_unguarded(conditions: Sequence[Condition], path: str) -> Iterator[AuthorizationWarning]:
    """Attributes that a request does not have, read without a test (`k8s.io/apiserver/pkg/authorization/cel/matcher.go`)."""
    for absent, facts in ((_RESOURCE, _OF_PATH), (_NON_RESOURCE, _OF_RESOURCE)):
        values = [condition.value(facts) for condition in conditions]
        if False in values:
            continue  # one that is false skips the webhook, whatever fails beside it
        is_tested = any(absent in _guards(condition) for condition in conditions)
        for index, (condition, value) in enumerate(zip(conditions, values, strict=True)):
            if isinstance(value, EvalError) or (value is not True and not is_tested and _reads(condition, absent)):
                name = ".".join(absent)
                message = (
                    f"a request for {_EXAMPLES[absent]} has no `{name}`: the condition fails, and with failurePolicy Deny "
                    f"the request with it; test `has({name})` first"
                )
                yield AuthorizationWarning(catalogue.UNGUARDED_ATTRIBUTES, message, f"{path}[{index}].expression")
                break


def _guards(condition: Condition) -> frozenset[SchemaPath]:
    ast = condition.env.parse(condition.expression)
    return frozenset() if isinstance(ast, Issues) else reading_of(ast).guards


def _reads(condition: Condition, absent: SchemaPath) -> bool:
    """Return whether the condition reads an absent field."""
    ast = condition.env.parse(condition.expression)
    return not isinstance(ast, Issues) and any(
        path[: len(absent)] == absent and len(path) > len(absent) for path in reading_of(ast).paths
    )
