"""Policy engines, each a row of `ENGINES`: all that code outside of an engine's package knows of it.

A row says which objects are the engine's, how decisions name them, behind which webhooks they decide, and how messages name them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import import_module
from typing import Any, Final, NamedTuple

from replay.json import JSON
from replay.kube.gvk import GroupResource


class PolicyEngine(NamedTuple):
    """Policy engine. Functions of its package are `module:function`, because the package is imported only if a set has objects of the engine.

    `name` is its directory in a set, and what `replay plugin` calls it. `group` begins the `apiVersion` of its objects. `policy_names`, `concerns`
    and `denied` are the engine's part of the functions below. `validating` begins the names of its validating webhooks.
    `registration` adds its webhooks to a set, `backend` makes what answers for them,
    `decider` answers `replay plugin`, `check` adds its findings to those of `replay check`, and `promotion` is the change that `replay promote`
    rehearses. `replay snapshot` takes its `resources`, and what `read` names where a set has objects of the engine, each with the reason.
    """

    name: str
    group: re.Pattern[str]
    policy_names: str
    concerns: str
    denied: str
    validating: re.Pattern[str]
    registration: str
    backend: str
    decider: str
    check: str
    promotion: str
    reason: str
    resources: tuple[GroupResource, ...]
    read: Mapping[GroupResource, str]
    configuration: str = ""
    """Name of the ConfigMap that configures the engine."""
    parameters: str = ""
    """Group of objects that native policies take as parameters. The engine makes its kinds."""
    generated: str = ""
    """Replaces the native policies that the engine generates, in a set that may have some."""
    matched: str = ""
    """Yields what the engine's policies match, by which `replay diff --log` pairs them."""
    background: str = ""
    """Makes what reports existing objects, for `replay scan --as background`."""
    migration: str = ""
    """Yields the rules as native policies, for `replay check --migrate`."""
    sources: str = ""
    """Splits a set into one for each of the two languages of its templates, for `replay diff --engines`."""
    providers: str = ""
    """Takes recorded answers of what the engine asks, from `--webhook NAME=FILE`."""

    @property
    def title(self) -> str:
        """The name in messages."""
        return self.name.capitalize()


ENGINES: Final = (
    PolicyEngine(
        "gatekeeper",
        re.compile(r"(templates|constraints|config|syncset|expansion|mutations|externaldata)\.gatekeeper\.sh/"),
        policy_names="replay.gatekeeper.naming:policy_names",
        concerns="replay.gatekeeper.naming:concerns",
        denied="replay.gatekeeper.naming:denied",
        validating=re.compile(r"validation\.gatekeeper\.sh$"),
        registration="replay.gatekeeper.policy_set:with_gatekeeper_webhooks",
        backend="replay.gatekeeper.backend:gatekeeper_of",
        decider="replay.gatekeeper.engine:decide",
        check="replay.gatekeeper.policy_set:with_gatekeeper",
        promotion="replay.gatekeeper.promotion:promotion",
        reason="Gatekeeper's templates, constraints and mutators",
        resources=(
            GroupResource("", "constraints"),  # the category of all kinds that templates make
            *(
                GroupResource(f"{group}.gatekeeper.sh", resource)
                for group, resource in (
                    ("templates", "constrainttemplates"),
                    ("config", "configs"),
                    ("syncset", "syncsets"),
                    ("expansion", "expansiontemplate"),
                    ("mutations", "assign"),
                    ("mutations", "assignimage"),
                    ("mutations", "assignmetadata"),
                    ("mutations", "modifyset"),
                    ("externaldata", "providers"),
                )
            ),
        ),
        read={},
        parameters="constraints.gatekeeper.sh",
        generated="replay.gatekeeper.generated_policy:with_generated_policies",
        sources="replay.gatekeeper.suite:two_sources",
        providers="replay.gatekeeper.provider:provider_answers",
    ),
    PolicyEngine(
        "kyverno",
        re.compile(r"(policies\.)?kyverno\.io/"),
        policy_names="replay.kyverno.naming:policy_names",
        concerns="replay.kyverno.naming:concerns",
        denied="replay.kyverno.naming:denied",
        validating=re.compile(r"(n?vpol\.)?validate\.kyverno\.svc-"),
        registration="replay.kyverno.registration:with_kyverno_webhooks",
        backend="replay.kyverno.backend:kyverno_of",
        decider="replay.kyverno.decide:decide",
        check="replay.kyverno.policy_schema:with_kyverno",
        promotion="replay.kyverno.promotion:promotion",
        reason="Kyverno's policies and exceptions",
        resources=(
            *(
                GroupResource("kyverno.io", resource)
                for resource in ("clusterpolicies", "policies", "policyexceptions", "globalcontextentries")
            ),
            *(
                GroupResource("policies.kyverno.io", f"{prefix}{resource}")
                for prefix in ("", "namespaced")
                for resource in (
                    "validatingpolicies",
                    "mutatingpolicies",
                    "imagevalidatingpolicies",
                    "generatingpolicies",
                )
            ),
            GroupResource("policies.kyverno.io", "policyexceptions"),
        ),
        read={GroupResource("", "configmaps"): "Kyverno's configuration, and what contexts read"},
        configuration="kyverno",
        matched="replay.kyverno.wildcard:matched_resources",
        background="replay.kyverno.background:background_scan",
        migration="replay.kyverno.migrate.rule:migration",
    ),
)


@cache
def function_of(reference: str) -> Any:
    """Return what a field of a row names as `module:function`."""
    module, function = reference.split(":")
    return getattr(import_module(module), function)


def engine_with(function: str) -> PolicyEngine:
    """Return the engine that has a function that not every engine has."""
    return next(engine for engine in ENGINES if getattr(engine, function))


def policy_names(value: JSON, webhook: str = "") -> tuple[str, ...]:
    """Return the names in decisions of an engine's object, for one webhook or for any.

    Empty if it decides nothing itself.
    """
    return tuple(name for engine in ENGINES for name in function_of(engine.policy_names)(value, webhook))


def engine_policies(objects: Iterable[JSON], webhook: str = "") -> tuple[str, ...]:
    """Return the names of all policies, or of those behind one webhook."""
    return tuple(name for value in objects for name in policy_names(value, webhook))


def concerns(value: JSON, webhook: str) -> bool:
    """Return whether the decisions of a webhook may depend on an object of its engine, or on one that any engine may read."""
    owners = [engine for engine in ENGINES if is_of_engine(value, engine)]
    return any(function_of(engine.concerns)(value, webhook) for engine in owners or ENGINES)


def named_by(webhook: str, message: str) -> list[tuple[str, str]]:
    """Return the policies that a webhook's refusal names, each with its message."""
    return [pair for engine in ENGINES for pair in function_of(engine.denied)(webhook, message)]


def is_validating(webhook: str) -> bool:
    """Return whether a webhook of this name is one that an engine registers as a validating webhook."""
    return any(engine.validating.match(webhook) for engine in ENGINES)


def is_of_engine(value: JSON, engine: PolicyEngine) -> bool:
    """Return whether an object is of an API group of an engine."""
    return engine.group.match(str(value.get("apiVersion"))) is not None


def policy_name(value: JSON) -> str:
    """Return the name of an engine's object in decisions: kind and name, with the namespace if it has one."""
    metadata = value.get("metadata") or {}
    namespace = metadata.get("namespace")
    return f"{value.get('kind')}/{f'{namespace}/' if namespace else ''}{metadata.get('name')}"


def group_of(value: JSON) -> str:
    """Return the group of an object's `apiVersion`."""
    group, slash, _ = str(value.get("apiVersion") or "").rpartition("/")
    return group if slash else ""


def name_and_message(parts: list[str]) -> list[tuple[str, str]]:
    """Return what alternates in a list as pairs."""
    return list(zip(parts[::2], parts[1::2], strict=True))
