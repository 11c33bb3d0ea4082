"""All built-in plugins by name, in the server's order (`pkg/kubeapiserver/options/plugins.go`, `AllOrderedPlugins`)."""

from __future__ import annotations

from typing import Final

from replay.admission.builtin.certificate import (
    CertificateApproval,
    CertificateSigning,
    CertificateSubjectRestriction,
    ClusterTrustBundleAttest,
)
from replay.admission.builtin.event_rate_limit import EventRateLimit
from replay.admission.builtin.namespace import NamespaceAutoProvision, NamespaceExists, NamespaceLifecycle
from replay.admission.builtin.node_restriction.plugin import NodeRestriction
from replay.admission.builtin.owner_references_permission_enforcement import OwnerReferencesPermissionEnforcement
from replay.admission.builtin.plugin import Plugin
from replay.admission.builtin.pod.image import AlwaysPullImages, ImagePolicyWebhook
from replay.admission.builtin.pod.pod_class import Priority, RuntimeClass
from replay.admission.builtin.pod.resources import LimitRanger, PodResizeValidator
from replay.admission.builtin.pod.scheduling import (
    LimitPodHardAntiAffinityTopology,
    NodeDeclaredFeatureValidator,
    PodNodeSelector,
    PodTopologyLabels,
)
from replay.admission.builtin.pod.service_account import ServiceAccount
from replay.admission.builtin.pod.toleration import (
    DefaultTolerationSeconds,
    ExtendedResourceToleration,
    PodTolerationRestriction,
)
from replay.admission.builtin.pod_security.plugin import PodSecurity
from replay.admission.builtin.resource_quota.plugin import ResourceQuota
from replay.admission.builtin.single_rule import (
    AlwaysAdmit,
    AlwaysDeny,
    DenyServiceExternalIPs,
    PodGroupProtection,
    TaintNodesByCondition,
)
from replay.admission.builtin.storage import (
    DefaultIngressClass,
    DefaultStorageClass,
    PersistentVolumeClaimResize,
    StorageObjectInUseProtection,
)

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
