"""Webhooks that Gatekeeper's released manifests register (`manifest_staging/charts/gatekeeper`)."""

from __future__ import annotations

from msgspec.structs import replace

from replay.cellib.version import KubernetesVersion
from replay.kube.admissionregistration import (
    FailurePolicy,
    LabelSelector,
    LabelSelectorRequirement,
    ManifestSet,
    MatchPolicy,
    Rule,
    ServiceReference,
    Webhook,
    WebhookClientConfig,
    WebhookConfiguration,
)
from replay.kube.engine_policy import MUTATION, VALIDATION

_IGNORE = LabelSelectorRequirement("admission.gatekeeper.sh/ignore", "DoesNotExist")
_OWN_NAMESPACE = LabelSelectorRequirement("kubernetes.io/metadata.name", "NotIn", ("gatekeeper-system",))
_SUBRESOURCES = (
    "pods/ephemeralcontainers",
    "pods/exec",
    "pods/log",
    "pods/eviction",
    "pods/portforward",
    "pods/proxy",
    "pods/attach",
    "pods/binding",
    "pods/resize",
    "deployments/scale",
    "replicasets/scale",
    "statefulsets/scale",
    "replicationcontrollers/scale",
    "services/proxy",
    "nodes/proxy",
    "services/status",
)


def with_gatekeeper_webhooks(manifests: ManifestSet, _version: KubernetesVersion) -> ManifestSet:
    """Return the set with Gatekeeper's default webhooks, unless it has them or has no Gatekeeper objects."""
    names = {webhook.name for webhook in manifests.webhooks}
    validating, mutating = manifests.validating_webhooks, manifests.mutating_webhooks
    groups = {str(value.get("apiVersion")).partition("/")[0] for value in manifests.engine_objects}
    if VALIDATION not in names and "constraints.gatekeeper.sh" in groups:
        default = _default(VALIDATION, "/v1/admit", ("*", *_SUBRESOURCES), 3)
        validating = (
            *validating,
            WebhookConfiguration("gatekeeper-validating-webhook-configuration", static=False, webhooks=(default,)),
        )
    if MUTATION not in names and "mutations.gatekeeper.sh" in groups:
        default = _default(MUTATION, "/v1/mutate", ("*",), 1)
        mutating = (
            *mutating,
            WebhookConfiguration("gatekeeper-mutating-webhook-configuration", static=False, webhooks=(default,)),
        )
    return replace(manifests, validating_webhooks=validating, mutating_webhooks=mutating)


def _default(name: str, path: str, resources: tuple[str, ...], timeout: int) -> Webhook:
    """Return a webhook as Gatekeeper's released manifests register it."""
    rule = Rule(operations=("CREATE", "UPDATE"), api_groups=("*",), api_versions=("*",), resources=resources)
    return Webhook(
        name=name,
        client_config=WebhookClientConfig(
            service=ServiceReference("gatekeeper-system", "gatekeeper-webhook-service", path)
        ),
        rules=(rule,),
        failure_policy=FailurePolicy.IGNORE,
        match_policy=MatchPolicy.EXACT,
        namespace_selector=LabelSelector({}, (_IGNORE, _OWN_NAMESPACE)),
        timeout_seconds=timeout,
    )
