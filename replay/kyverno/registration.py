"""Webhooks that Kyverno registers for a set's policies, and native policies that it generates.

The rules of registration are those of `pkg/controllers/webhook`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import orjson
from msgspec.structs import replace

from replay.cellib.version import KubernetesVersion
from replay.json import JSON
from replay.kube.admissionregistration import (
    FailurePolicy,
    ManifestSet,
    MatchCondition,
    MatchPolicy,
    MutatingWebhookConfiguration,
    Rule,
    ServiceReference,
    ValidatingWebhookConfiguration,
    Webhook,
    WebhookClientConfig,
    WebhookConfiguration,
)
from replay.kube.discovery import Discovery, builtin_discovery
from replay.kyverno.cel.autogen import generated_specs
from replay.kyverno.cel.spec import is_cel_object, native_policy
from replay.kyverno.configuration import Configuration, configuration_of
from replay.kyverno.naming import is_webhook_of_kyverno, key_of
from replay.kyverno.policy_schema import is_known_kind, schema_refusal, without_nulls
from replay.kyverno.rules.autogen import compute_rules
from replay.kyverno.rules.go_value import as_map
from replay.kyverno.wildcard import parse_kind_selector, selected_resources
from replay.manifests.api_object import defaulted_api_objects
from replay.manifests.manifest_set import label_selector, manifest_set_from_objects, match_resources

VALIDATING, MUTATING = "kyverno-resource-validating-webhook-cfg", "kyverno-resource-mutating-webhook-cfg"
_ALL: Final = ("CREATE", "UPDATE", "DELETE", "CONNECT")
_TYPES: Final = (
    ("ValidatingPolicy", "vpol.validate.kyverno.svc", "/vpol", False),
    ("NamespacedValidatingPolicy", "nvpol.validate.kyverno.svc", "/nvpol", False),
    ("GeneratingPolicy", "gpol.validate.kyverno.svc", "/gpol", False),
    ("NamespacedGeneratingPolicy", "ngpol.validate.kyverno.svc", "/ngpol", False),
    ("ImageValidatingPolicy", "ivpol.validate.kyverno.svc", "/ivpol/validate", False),
    ("NamespacedImageValidatingPolicy", "ivpol.validate.kyverno.svc", "/nivpol/validate", False),
    ("MutatingPolicy", "mpol.validate.kyverno.svc", "/mpol", True),
    ("NamespacedMutatingPolicy", "nmpol.validate.kyverno.svc", "/nmpol", True),
    ("ImageValidatingPolicy", "ivpol.mutate.kyverno.svc", "/ivpol/mutate", True),
    ("NamespacedImageValidatingPolicy", "ivpol.mutate.kyverno.svc", "/nivpol/mutate", True),
)
"""Kinds of `policies.kyverno.io` with name and path of their webhook, and whether the webhook mutates."""

Policy = Mapping[str, Any]


def with_kyverno_webhooks(manifests: ManifestSet, version: KubernetesVersion) -> ManifestSet:
    """Return the set with the native policies that Kyverno generates.

    Kyverno's webhooks are added unless the set already has them.
    """
    objects = [each for each in manifests.engine_objects if _is_well_formed(each)]
    manifests = _with_native_policies(manifests, objects, version)
    if any(is_webhook_of_kyverno(webhook.name) for webhook in manifests.webhooks):
        return manifests
    registration = _Registration(objects)
    validating, mutating = (
        tuple(sorted(registration.webhooks(mutates=each), key=lambda each: each.name)) for each in (False, True)
    )
    added = (
        ValidatingWebhookConfiguration(VALIDATING, static=False, webhooks=validating),
        MutatingWebhookConfiguration(MUTATING, static=False, webhooks=mutating),
    )
    return manifests.with_registrations(each for each in added if each.webhooks)


def _is_well_formed(value: JSON) -> bool:
    """Return whether an object violates no schema of Kyverno. A refused object registers no webhook."""
    return not is_known_kind(value) or schema_refusal(without_nulls(value)) is None


def _with_native_policies(manifests: ManifestSet, objects: Sequence[JSON], version: KubernetesVersion) -> ManifestSet:
    exceptions = [each for each in objects if is_cel_object(each, "PolicyException")]
    policies = [each for each in objects if is_cel_object(each, "ValidatingPolicy", "MutatingPolicy")]
    generated = [each for policy in policies for each in native_policy(policy, exceptions) or ()]
    if not generated:
        return manifests
    names = {each["metadata"]["name"] for each in generated}
    made = manifest_set_from_objects((), defaulted_api_objects(generated, version))
    kept = manifests.filtered(
        lambda each: isinstance(each, WebhookConfiguration) or each.static or each.name not in names
    )
    return kept.with_registrations(made.registrations)


class _Registration:
    """Registration of webhooks for a set's objects."""

    def __init__(self, objects: Sequence[JSON]) -> None:
        self._objects = objects
        self._configuration: Configuration = configuration_of(objects)
        self._discovery: Discovery = builtin_discovery()

    def webhooks(self, *, mutates: bool) -> Iterator[Webhook]:
        """Yield all webhooks of one phase."""
        yield from self._rule_webhooks(mutates=mutates)
        for kind, name, path, is_mutating in _TYPES:
            if is_mutating is mutates:
                own = [each for each in self._objects if is_cel_object(each, kind) and self._decides_requests(each)]
                yield from self._cel_webhooks(own, name, path)

    def _rule_webhooks(self, *, mutates: bool) -> Iterator[Webhook]:
        """Yield the webhooks of ClusterPolicies and Policies.

        There is one per failure policy, and one per policy with match conditions.
        """
        rules: dict[tuple[str, str], list[Rule]] = {}
        conditions: dict[tuple[str, str], tuple[MatchCondition, ...]] = {}
        for policy in self._objects:
            spec = as_map(policy.get("spec"))
            is_of_rules = str(policy.get("apiVersion")).startswith("kyverno.io/")
            if (
                not is_of_rules
                or policy.get("kind") not in ("ClusterPolicy", "Policy")
                or spec.get("admission") is False
            ):
                continue
            own = list(self._rules(policy, mutates=mutates))
            if not own:
                continue
            webhook = as_map(spec.get("webhookConfiguration"))
            failure = (webhook.get("failurePolicy") or spec.get("failurePolicy") or "Fail").lower()
            place = (failure, key_of(policy) if webhook.get("matchConditions") else "")
            rules.setdefault(place, []).extend(own)
            conditions[place] = tuple(
                MatchCondition(str(each.get("name")), str(each.get("expression")))
                for each in webhook.get("matchConditions") or ()
            ) or tuple(MatchCondition(*each) for each in self._configuration.match_conditions)
        base = "mutate" if mutates else "validate"
        for (failure, key), own in rules.items():
            name, path = f"{base}.kyverno.svc-{failure}", f"/{base}/{failure}"
            if key:
                name, path = f"{name}-finegrained-{key.replace('/', '-')}", f"{path}/finegrained/{key}"
            yield self._webhook(
                name,
                path,
                own,
                failure_policy=FailurePolicy(failure.capitalize()),
                match_conditions=conditions[failure, key],
                namespace_selector=label_selector(self._configuration.namespace_selector),
                object_selector=label_selector(self._configuration.object_selector),
            )

    def _webhook(self, name: str, path: str, rules: Iterable[Rule], **fields: Any) -> Webhook:
        service = ServiceReference("kyverno", "kyverno-svc", path)
        return Webhook(
            name=name,
            client_config=WebhookClientConfig(service=service),
            rules=tuple(dict.fromkeys(rules)),
            side_effects="NoneOnDryRun",
            **fields,
        )

    def _rules(self, policy: Policy, *, mutates: bool) -> Iterator[Rule]:
        """Yield the webhook rules for one policy (`mergeWebhook`)."""
        for rule in compute_rules(policy, ""):
            mutation, images = as_map(rule.get("mutate")), rule.get("verifyImages")
            if mutates:
                is_asked = bool(images) or (bool(mutation) and mutation.get("targets") is None)
            else:
                is_asked = bool(
                    rule.get("validate") or rule.get("generate") or images or mutation.get("targets") is not None
                )
            if is_asked:
                for kind, operations in _operations(rule, ("CREATE", "UPDATE") if mutates else _ALL).items():
                    if operations:
                        yield from self._selected(kind, tuple(each for each in _ALL if each in operations))

    def _selected(self, kind: str, operations: tuple[str, ...]) -> Iterator[Rule]:
        """Yield the webhook rules for a kind. A kind that is not built in gives a rule for any resource of its group."""
        group, version, name, subresource = parse_kind_selector(kind)
        found = () if name == "*" else sorted(selected_resources(self._discovery, [kind]))
        if not found:
            resource = f"*/{subresource}" if subresource else "*"
            # Kyverno adds this subresource to Pods (`mergeWebhook`).
            resources = (resource, "pods/ephemeralcontainers") if resource == "*" and name == "*" else (resource,)
            yield Rule(operations, (group,), (version,), resources)
        for own_group, own_version, resource, own_subresource in found:
            resources = (f"{resource}/{own_subresource}" if own_subresource else resource,)
            if (own_group, own_version, resource, own_subresource) == ("", "v1", "pods", ""):
                resources = (resource, "pods/ephemeralcontainers")
            yield Rule(operations, (own_group,), (own_version,), resources)

    def _decides_requests(self, policy: Policy) -> bool:
        """Return whether Kyverno itself decides by a policy, and not a native policy generated from it."""
        admission = as_map(as_map(as_map(policy.get("spec")).get("evaluation")).get("admission"))
        exceptions = [each for each in self._objects if is_cel_object(each, "PolicyException")]
        return admission.get("enabled") is not False and native_policy(policy, exceptions) is None

    def _cel_webhooks(self, policies: Sequence[Policy], name: str, path: str) -> Iterator[Webhook]:
        """Yield the webhooks of one kind of `policies.kyverno.io` (`buildWebhookRules`).

        Policies with the same selectors share a webhook. The webhook has no match conditions, because Kyverno evaluates
        them too.
        """
        groups: dict[str, list[Policy]] = {}
        for policy in sorted(policies, key=key_of):
            constraints = as_map(as_map(policy.get("spec")).get("matchConstraints"))
            webhook = as_map(as_map(policy.get("spec")).get("webhookConfiguration"))
            if constraints.get("matchPolicy") == "Exact" or webhook.get("timeoutSeconds") is not None:
                exact = MatchPolicy.EXACT if constraints.get("matchPolicy") == "Exact" else MatchPolicy.EQUIVALENT
                failure = _failure(policy)
                yield self._webhook(
                    f"{name}-{failure}-finegrained-{key_of(policy).replace('/', '-')}",
                    f"{path}/{policy['metadata']['name']}",
                    _rules_of_cel(policy),
                    failure_policy=FailurePolicy(failure.capitalize()),
                    match_policy=exact,
                    namespace_selector=label_selector(self._selectors(policy)[0]),
                    object_selector=label_selector(self._selectors(policy)[1]),
                )
            else:
                groups.setdefault(_digest(self._selectors(policy)), []).append(policy)
        for digest, own in sorted(groups.items()):
            suffix = f"-{digest[:8]}" if len(groups) > 1 else ""
            namespaces, objects = self._selectors(own[0])
            names = sorted(str(each["metadata"]["name"]) for each in own)
            for failure in ("fail", "ignore"):
                rules = [rule for each in own if _failure(each) == failure for rule in _rules_of_cel(each)]
                if rules:
                    yield self._webhook(
                        f"{name}-{failure}{suffix}",
                        "/".join((path, *names)),
                        rules,
                        failure_policy=FailurePolicy(failure.capitalize()),
                        namespace_selector=label_selector(namespaces),
                        object_selector=label_selector(objects),
                    )

    def _selectors(self, policy: Policy) -> tuple[JSON, JSON]:
        """Return the namespace and object selectors. A namespaced policy selects only its own namespace."""
        constraints = as_map(as_map(policy.get("spec")).get("matchConstraints"))
        namespaces, objects = constraints.get("namespaceSelector"), constraints.get("objectSelector")
        if own := policy["metadata"].get("namespace"):
            only = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": [own]}
            namespaces = {"matchExpressions": [only]}
        configured = self._configuration
        return _merged(namespaces, configured.namespace_selector), _merged(objects, configured.object_selector)


def _operations(rule: Mapping[str, Any], default: Sequence[str]) -> dict[str, set[str]]:
    """Return the operations for each kind that a rule names (`collectResourceDescriptions`)."""
    match = as_map(rule.get("match"))
    found: dict[str, set[str]] = {}
    for each in (match, *(match.get("all") or ()), *(match.get("any") or ())):
        resources = as_map(each.get("resources"))
        for kind in resources.get("kinds") or ():
            found.setdefault(str(kind), set()).update(resources.get("operations") or default)
    for each in as_map(rule.get("exclude")).get("any") or ():
        resources = as_map(each.get("resources"))
        # An exclusion by user, name or label holds for a part of the requests, so the webhook still needs the kind.
        if any(each.get(key) for key in ("roles", "clusterRoles", "subjects")):
            continue
        narrower = ("name", "names", "namespaces", "annotations")
        if any(resources.get(key) for key in narrower) or any(
            resources.get(key) is not None for key in ("selector", "namespaceSelector")
        ):
            continue
        for kind in resources.get("kinds") or tuple(found):
            if kind in found:
                found[kind] -= set(resources.get("operations") or _ALL)
    return found


def _rules_of_cel(policy: Policy) -> Iterator[Rule]:
    """Yield the webhook rules of a policy and of its generated variants."""
    spec, kind = as_map(policy.get("spec")), str(policy.get("kind"))
    controllers = as_map(as_map(spec.get("autogen")).get("podControllers")).get("controllers")
    is_generating = kind.endswith("GeneratingPolicy")
    specs = [spec]
    if not is_generating:
        specs += [each.spec for each in generated_specs(spec, controllers, mutates=kind.endswith("MutatingPolicy"))]
    for each in specs:
        matched = match_resources(each.get("matchConstraints"))
        for rule in matched.resource_rules if matched is not None else ():
            yield replace(rule, operations=_ALL) if is_generating else rule


def _failure(policy: Policy) -> str:
    return str(as_map(policy.get("spec")).get("failurePolicy") or "Fail").lower()


def _merged(one: JSON, other: JSON) -> JSON:
    """Return a selector of everything that both selectors select (`mergeLabelSelectors`)."""
    if one is None or other is None:
        return other if one is None else one
    labels = {**(one.get("matchLabels") or {}), **(other.get("matchLabels") or {})}
    expressions = [*(one.get("matchExpressions") or ()), *(other.get("matchExpressions") or ())]
    return {name: value for name, value in (("matchLabels", labels), ("matchExpressions", expressions)) if value}


def _digest(selectors: Sequence[JSON]) -> str:
    return hashlib.sha256(orjson.dumps(selectors, option=orjson.OPT_SORT_KEYS)).hexdigest()
