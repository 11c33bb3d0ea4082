"""The admission plugins of the server: the four that read static manifests, and the names of all plugins."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from replay.cellib.version import KubernetesVersion
from replay.manifests.go_type.schema import Registered
from replay.manifests.served import Gates, is_enabled


class PluginName(StrEnum):
    """A plugin by its name in an AdmissionConfiguration."""

    VALIDATING_ADMISSION_POLICY = "ValidatingAdmissionPolicy"
    MUTATING_ADMISSION_POLICY = "MutatingAdmissionPolicy"
    VALIDATING_ADMISSION_WEBHOOK = "ValidatingAdmissionWebhook"
    MUTATING_ADMISSION_WEBHOOK = "MutatingAdmissionWebhook"

    @property
    def kinds(self) -> tuple[str, ...]:
        """The accepted kinds, in their order."""
        if self.is_webhook:
            return (f"{self.value.removesuffix('AdmissionWebhook')}WebhookConfiguration",)
        return (self.value, f"{self.value}Binding")

    @property
    def is_webhook(self) -> bool:
        """Whether the plugin calls webhooks. The other two evaluate policies."""
        return self.value.endswith("Webhook")

    @property
    def directory(self) -> str:
        """Name of the plugin's subdirectory in a set."""
        letter = "v" if self.value.startswith("Validating") else "m"
        return f"{letter}wc" if self.is_webhook else f"{letter}ap"

    def accepts(self, registered: Registered) -> bool:
        """Return whether the plugin accepts objects (or a typed list) of that kind. It must be of `v1`."""
        return registered.package == "v1" and registered.kind.removesuffix("List") in self.kinds


CHAIN_ORDER = (
    PluginName.MUTATING_ADMISSION_POLICY,
    PluginName.MUTATING_ADMISSION_WEBHOOK,
    PluginName.VALIDATING_ADMISSION_POLICY,
    PluginName.VALIDATING_ADMISSION_WEBHOOK,
)
"""Plugins in the server's order."""
API_DIRECTORY = "api"
"""Directory of API-based objects in a set, beside the plugins' directories."""


class ServerPlugin(NamedTuple):
    """A plugin that is compiled into the server. `minors` are the first and the last version that has it."""

    name: str
    is_on: bool = False
    """Whether the plugin is on by default."""
    minors: tuple[int, int] = (0, 99)
    gate: str = ""
    """Feature gate that the plugin needs."""

    def acts(self, version: KubernetesVersion, gates: Gates) -> bool:
        """Return whether the plugin has an effect in a server of a version, with the gates that flags set."""
        return not self.gate or is_enabled(self.gate, version, gates)


ALL_PLUGINS = (
    ServerPlugin("AlwaysAdmit"),
    ServerPlugin("NamespaceAutoProvision"),
    ServerPlugin("NamespaceLifecycle", is_on=True),
    ServerPlugin("NamespaceExists"),
    ServerPlugin("LimitPodHardAntiAffinityTopology"),
    ServerPlugin("LimitRanger", is_on=True),
    ServerPlugin("ServiceAccount", is_on=True),
    ServerPlugin("NodeRestriction"),
    ServerPlugin("TaintNodesByCondition", is_on=True),
    ServerPlugin("AlwaysPullImages"),
    ServerPlugin("ImagePolicyWebhook"),
    ServerPlugin("PodSecurity", is_on=True),
    ServerPlugin("PodNodeSelector"),
    ServerPlugin("Priority", is_on=True),
    ServerPlugin("DefaultTolerationSeconds", is_on=True),
    ServerPlugin("PodTolerationRestriction"),
    ServerPlugin("EventRateLimit"),
    ServerPlugin("ExtendedResourceToleration"),
    ServerPlugin("PersistentVolumeLabel", minors=(0, 30)),
    ServerPlugin("DefaultStorageClass", is_on=True),
    ServerPlugin("StorageObjectInUseProtection", is_on=True),
    ServerPlugin("PodGroupProtection", is_on=True, minors=(36, 99), gate="GenericWorkload"),
    ServerPlugin("OwnerReferencesPermissionEnforcement"),
    ServerPlugin("PersistentVolumeClaimResize", is_on=True),
    ServerPlugin("RuntimeClass", is_on=True),
    ServerPlugin("CertificateApproval", is_on=True),
    ServerPlugin("CertificateSigning", is_on=True),
    ServerPlugin("ClusterTrustBundleAttest", is_on=True, gate="ClusterTrustBundle"),
    ServerPlugin("CertificateSubjectRestriction", is_on=True),
    ServerPlugin("DefaultIngressClass", is_on=True),
    ServerPlugin("DenyServiceExternalIPs"),
    ServerPlugin("PodTopologyLabels", is_on=True, minors=(33, 99), gate="PodTopologyLabelsAdmission"),
    ServerPlugin("PodGroupWorkloadExists", is_on=True, minors=(36, 36), gate="GenericWorkload"),
    ServerPlugin("NodeDeclaredFeatureValidator", is_on=True, minors=(35, 99), gate="NodeDeclaredFeatures"),
    ServerPlugin("JobValidation", is_on=True, minors=(36, 36), gate="WorkloadWithJob"),
    ServerPlugin("PodResizeValidator", is_on=True, minors=(36, 99)),
    ServerPlugin(PluginName.MUTATING_ADMISSION_POLICY, is_on=True, minors=(32, 99)),
    ServerPlugin(PluginName.MUTATING_ADMISSION_WEBHOOK, is_on=True),
    ServerPlugin(PluginName.VALIDATING_ADMISSION_POLICY, is_on=True),
    ServerPlugin(PluginName.VALIDATING_ADMISSION_WEBHOOK, is_on=True),
    ServerPlugin("ResourceQuota", is_on=True),
    ServerPlugin("AlwaysDeny"),
)
"""All plugins in the order in which the server calls them (`pkg/kubeapiserver/options/plugins.go`, `AllOrderedPlugins`)."""


def plugins_of(version: KubernetesVersion) -> tuple[ServerPlugin, ...]:
    """Return the plugins that a server of a version has."""
    return tuple(each for each in ALL_PLUGINS if each.minors[0] <= version.minor <= each.minors[1])
