"""All built-in plugins by name, in the server's order (`pkg/kubeapiserver/options/plugins.go`, `AllOrderedPlugins`)."""

from __future__ import annotations

from typing import Final

from replay.admission.builtin.always import AlwaysAdmit, AlwaysDeny, PodGroupProtection
from replay.admission.builtin.certificate.signer import (
    CertificateApproval,
    CertificateSigning,
    ClusterTrustBundleAttest,
)
from replay.admission.builtin.certificate.subject_restriction import CertificateSubjectRestriction
from replay.admission.builtin.deny_service_external_ips import DenyServiceExternalIPs
from replay.admission.builtin.event_rate_limit import EventRateLimit
from replay.admission.builtin.namespace.exists import NamespaceAutoProvision, NamespaceExists
from replay.admission.builtin.namespace.lifecycle import NamespaceLifecycle
from replay.admission.builtin.node_restriction.plugin import NodeRestriction
from replay.admission.builtin.owner_references_permission_enforcement import OwnerReferencesPermissionEnforcement
from replay.admission.builtin.plugin import Plugin
from replay.admission.builtin.pod.always_pull_images import AlwaysPullImages
from replay.admission.builtin.pod.default_toleration_seconds import DefaultTolerationSeconds
from replay.admission.builtin.pod.extended_resource_toleration import ExtendedResourceToleration
from replay.admission.builtin.pod.image_policy_webhook import ImagePolicyWebhook
from replay.admission.builtin.pod.limit_hard_anti_affinity_topology import LimitPodHardAntiAffinityTopology
from replay.admission.builtin.pod.limit_ranger import LimitRanger
from replay.admission.builtin.pod.node_declared_feature_validator import NodeDeclaredFeatureValidator
from replay.admission.builtin.pod.node_selector import PodNodeSelector
from replay.admission.builtin.pod.priority import Priority
from replay.admission.builtin.pod.resize_validator import PodResizeValidator
from replay.admission.builtin.pod.runtime_class import RuntimeClass
from replay.admission.builtin.pod.service_account import ServiceAccount
from replay.admission.builtin.pod.toleration_restriction import PodTolerationRestriction
from replay.admission.builtin.pod.topology_labels import PodTopologyLabels
from replay.admission.builtin.pod_security.plugin import PodSecurity
from replay.admission.builtin.resource_quota.plugin import ResourceQuota
from replay.admission.builtin.storage.default_class import DefaultIngressClass, DefaultStorageClass
from replay.admission.builtin.storage.object_in_use_protection import StorageObjectInUseProtection
from replay.admission.builtin.storage.persistent_volume_claim_resize import PersistentVolumeClaimResize
from replay.admission.builtin.taint_nodes_by_condition import TaintNodesByCondition

PLUGINS: Final[tuple[type[Plugin], ...]] = (
    AlwaysAdmit,
    NamespaceAutoProvision,
    NamespaceLifecycle,
    NamespaceExists,
    LimitPodHardAntiAffinityTopology,
    LimitRanger,
    ServiceAccount,
    NodeRestriction,
    TaintNodesByCondition,
    AlwaysPullImages,
    ImagePolicyWebhook,
    PodSecurity,
    PodNodeSelector,
    Priority,
    DefaultTolerationSeconds,
    PodTolerationRestriction,
    EventRateLimit,
    ExtendedResourceToleration,
    DefaultStorageClass,
    StorageObjectInUseProtection,
    PodGroupProtection,
    OwnerReferencesPermissionEnforcement,
    PersistentVolumeClaimResize,
    RuntimeClass,
    CertificateApproval,
    CertificateSigning,
    ClusterTrustBundleAttest,
    CertificateSubjectRestriction,
    DefaultIngressClass,
    DenyServiceExternalIPs,
    PodTopologyLabels,
    NodeDeclaredFeatureValidator,
    PodResizeValidator,
    ResourceQuota,
    AlwaysDeny,
)
"""Plugins in the server's order. Policies and webhooks run before the last two."""

BY_NAME: Final = {plugin.name: plugin for plugin in PLUGINS}
