"""Parts of two sets that must run: without equal parts that do not change."""

from __future__ import annotations

from collections.abc import Collection

from msgspec.structs import replace

from replay.admission.ordered.registry import BUILTIN_PLUGINS, with_shared_plugins, without_shared_plugins
from replay.json import JSON
from replay.kube.admissionregistration import (
    ManifestSet,
    Registration,
    Sets,
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
    ValidatingWebhookConfiguration,
    WebhookClientConfig,
    WebhookConfiguration,
)
from replay.kube.engine_policy import engine_policies, policy_names
from replay.manifests.engine_object import differing_webhooks
from replay.manifests.static_rule import static_twin, without_suffix
from replay.reconstruct.server.builtin import REPRODUCED


def distinct_sets(
    sets: Sets, names: frozenset[str] = frozenset(), *, with_plugins: bool = False, mutates_again: bool = False
) -> Sets:
    """Return the parts of both sets that must run. `names` are webhooks and plugins with a source of answers.

    `with_plugins` keeps plugins that both sets configure alike. Their changes, which the log shows, are only made
    `mutates_again` if that is set.
    """
    own_sets = without_shared_webhooks(sets, names)
    if not with_plugins:
        return without_shared_plugins(own_sets, names)
    return with_shared_plugins(own_sets, frozenset() if mutates_again else REPRODUCED)


def only_named(manifests: ManifestSet, names: frozenset[str]) -> ManifestSet:
    """Return a set without validating parts that are not named. An engine's policy runs through its webhook."""
    mutating = {plugin.name for plugin in BUILTIN_PLUGINS if plugin.mutates}
    configurations = manifests.configurations("validating")
    validating = [webhook.name for each in configurations for webhook in each.webhooks]
    policies = {name: frozenset(engine_policies(manifests.engine_objects, name)) for name in validating}
    unnamed = {each for webhook, behind in policies.items() if webhook not in names for each in behind - names}
    asked = names | {webhook for webhook, behind in policies.items() if behind & names}

    def named(each: Registration) -> Registration | None:
        if isinstance(each, ValidatingAdmissionPolicy):
            return each if each.name in names else None
        if isinstance(each, ValidatingAdmissionPolicyBinding):
            return each if each.policy_name in names else None
        return _configuration(each, asked) if isinstance(each, ValidatingWebhookConfiguration) else each

    return replace(
        manifests,
        registrations=tuple(kept for each in manifests.registrations if (kept := named(each)) is not None),
        builtin=tuple(each for each in manifests.builtin if each.name in names | mutating),
        engine_objects=tuple(each for each in manifests.engine_objects if _asked(each, unnamed)),
    )


def _asked(value: JSON, unnamed: Collection[str]) -> bool:
    """Return whether an object of an engine is named, or only supports others."""
    names = policy_names(value)
    return not names or any(name not in unnamed for name in names)


def _configuration(configuration: WebhookConfiguration, names: frozenset[str]) -> WebhookConfiguration:
    return replace(configuration, webhooks=tuple(each for each in configuration.webhooks if each.name in names))


def without_shared_webhooks(sets: Sets, names: frozenset[str] = frozenset()) -> Sets:
    """Return both sets without equal webhooks, except named ones.

    An equal webhook is assumed to answer both sets alike, and the recorded objects show its effect. A policy engine's
    webhook runs if its objects differ.
    """
    current, candidate = sets
    # A webhook that is down in a set does not answer as in the log.
    names |= differing_webhooks(current, candidate) | current.down | candidate.down
    return _without(current, candidate, names), _without(candidate, current, names)


def shared_webhooks(sets: Sets, names: frozenset[str] = frozenset()) -> tuple[str, ...]:
    """Return the names of the webhooks that `without_shared_webhooks` removes, sorted."""
    left_out: set[str] = set()
    for manifest_set, own_set in zip(sets, without_shared_webhooks(sets, names), strict=True):
        left_out |= _webhook_names(manifest_set) - _webhook_names(own_set)
    return tuple(sorted(left_out))


def _webhook_names(manifests: ManifestSet) -> set[str]:
    return {webhook.name for webhook in manifests.webhooks}


def _without(manifests: ManifestSet, other: ManifestSet, names: frozenset[str]) -> ManifestSet:
    others, own = other.configurations(), {each.key for each in manifests.configurations()}
    moved = [_unmoved(each) for each in others if (each.kind, static_twin(each.name)) in own]
    kept = list[Registration]()
    for each in manifests.registrations:
        if not isinstance(each, WebhookConfiguration) or (each not in others and _unmoved(each) not in moved):
            kept.append(each)
        elif webhooks := tuple(webhook for webhook in each.webhooks if webhook.name in names):
            kept.append(replace(each, webhooks=webhooks))
    return replace(manifests, registrations=tuple(kept))


def _unmoved(configuration: WebhookConfiguration) -> WebhookConfiguration:
    """Return a configuration without the difference between its static and its API form.

    A static one has a URL in place of a Service.
    """
    webhooks = tuple(replace(each, client_config=WebhookClientConfig()) for each in configuration.webhooks)
    return replace(configuration, name=without_suffix(configuration.name), static=False, webhooks=webhooks)
