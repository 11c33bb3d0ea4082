"""Deprecation and removal of API versions (`k8s.io/api`, `zz_generated.prerelease-lifecycle.go` of each group).

The numbers are minor versions of Kubernetes. A version is served until the minor that removes it. The published list is
the "Deprecated API Migration Guide".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from replay.kube.gvk import GroupVersionResource, split_api_version

_REMOVED: Final = (
    (
        "admissionregistration.k8s.io/v1alpha1",
        "mutatingadmissionpolicies mutatingadmissionpolicybindings",
        35,
        38,
        "v1",
    ),
    ("admissionregistration.k8s.io/v1beta1", "mutatingadmissionpolicies mutatingadmissionpolicybindings", 37, 40, "v1"),
    (
        "admissionregistration.k8s.io/v1alpha1",
        "validatingadmissionpolicies validatingadmissionpolicybindings",
        29,
        32,
        "v1",
    ),
    (
        "admissionregistration.k8s.io/v1beta1",
        "validatingadmissionpolicies validatingadmissionpolicybindings",
        31,
        34,
        "v1",
    ),
    (
        "admissionregistration.k8s.io/v1beta1",
        "mutatingwebhookconfigurations validatingwebhookconfigurations",
        16,
        22,
        "v1",
    ),
    ("apps/v1beta1", "controllerrevisions deployments statefulsets", 8, 16, "v1"),
    ("apps/v1beta2", "controllerrevisions daemonsets deployments replicasets statefulsets", 9, 16, "v1"),
    ("authentication.k8s.io/v1alpha1", "selfsubjectreviews", 29, 32, "v1"),
    ("authentication.k8s.io/v1beta1", "selfsubjectreviews", 30, 33, "v1"),
    ("authentication.k8s.io/v1beta1", "tokenreviews", 19, 22, "v1"),
    (
        "authorization.k8s.io/v1beta1",
        "localsubjectaccessreviews selfsubjectaccessreviews selfsubjectrulesreviews subjectaccessreviews",
        19,
        22,
        "v1",
    ),
    ("autoscaling/v2beta1", "horizontalpodautoscalers", 22, 25, "v2"),
    ("autoscaling/v2beta2", "horizontalpodautoscalers", 23, 26, "v2"),
    ("batch/v1beta1", "cronjobs", 21, 25, "v1"),
    ("certificates.k8s.io/v1alpha1", "clustertrustbundles", 34, 37, "v1"),
    ("certificates.k8s.io/v1beta1", "clustertrustbundles podcertificaterequests", 37, 40, "v1"),
    ("certificates.k8s.io/v1beta1", "certificatesigningrequests", 19, 22, "v1"),
    ("coordination.k8s.io/v1alpha2", "leasecandidates", 35, 38, "v1beta1"),
    ("coordination.k8s.io/v1beta1", "leasecandidates", 36, 39, ""),
    ("coordination.k8s.io/v1beta1", "leases", 19, 22, "v1"),
    ("discovery.k8s.io/v1beta1", "endpointslices", 21, 25, "v1"),
    ("events.k8s.io/v1beta1", "events", 22, 25, "v1"),
    ("extensions/v1beta1", "daemonsets deployments replicasets", 8, 16, "apps/v1"),
    ("extensions/v1beta1", "ingresses", 14, 22, "networking.k8s.io/v1"),
    ("extensions/v1beta1", "networkpolicies", 9, 16, "networking.k8s.io/v1"),
    ("flowcontrol.apiserver.k8s.io/v1beta1", "flowschemas prioritylevelconfigurations", 23, 26, "v1"),
    ("flowcontrol.apiserver.k8s.io/v1beta2", "flowschemas prioritylevelconfigurations", 26, 29, "v1"),
    ("flowcontrol.apiserver.k8s.io/v1beta3", "flowschemas prioritylevelconfigurations", 29, 32, "v1"),
    ("networking.k8s.io/v1alpha1", "ipaddresses servicecidrs", 30, 33, "v1"),
    ("networking.k8s.io/v1beta1", "ipaddresses servicecidrs", 34, 37, "v1"),
    ("networking.k8s.io/v1beta1", "ingresses ingressclasses", 19, 22, "v1"),
    ("node.k8s.io/v1beta1", "runtimeclasses", 22, 25, "v1"),
    ("policy/v1beta1", "poddisruptionbudgets", 21, 25, "v1"),
    ("rbac.authorization.k8s.io/v1beta1", "clusterroles clusterrolebindings roles rolebindings", 17, 22, "v1"),
    ("resource.k8s.io/v1alpha3", "deviceclasses resourceclaims resourceclaimtemplates resourceslices", 34, 37, "v1"),
    ("resource.k8s.io/v1alpha3", "devicetaintrules", 36, 39, "v1"),
    ("resource.k8s.io/v1beta1", "deviceclasses resourceclaims resourceclaimtemplates resourceslices", 35, 38, "v1"),
    ("resource.k8s.io/v1beta2", "deviceclasses resourceclaims resourceclaimtemplates resourceslices", 36, 39, "v1"),
    ("resource.k8s.io/v1beta2", "devicetaintrules", 39, 42, "v1"),
    ("scheduling.k8s.io/v1beta1", "priorityclasses", 14, 22, "v1"),
    ("storage.k8s.io/v1alpha1", "csistoragecapacities", 21, 24, "v1"),
    ("storage.k8s.io/v1alpha1", "volumeattachments", 21, 24, "v1"),
    ("storage.k8s.io/v1alpha1", "volumeattributesclasses", 32, 35, "v1"),
    ("storage.k8s.io/v1beta1", "csidrivers storageclasses volumeattachments", 19, 22, "v1"),
    ("storage.k8s.io/v1beta1", "csinodes", 17, 22, "v1"),
    ("storage.k8s.io/v1beta1", "csistoragecapacities", 24, 27, "v1"),
    ("storage.k8s.io/v1beta1", "volumeattributesclasses", 34, 37, "v1"),
    ("storagemigration.k8s.io/v1alpha1", "storageversionmigrations", 33, 36, "v1"),
    ("storagemigration.k8s.io/v1beta1", "storageversionmigrations", 37, 40, "v1"),
)
"""The removed versions: group and version, resources, the minors that deprecate and remove them, and the replacement.
"""


class Lifecycle(NamedTuple):
    """The minors that deprecate and remove a resource of an API version, and the version that replaces it."""

    deprecated: int
    removed: int
    replacement: str


def _lifecycles() -> Iterator[tuple[GroupVersionResource, Lifecycle]]:
    for api_version, resources, deprecated, removed, instead in _REMOVED:
        group, version = split_api_version(api_version)
        replacement = f"{group}/{instead}" if instead and "/" not in instead else instead
        for resource in resources.split():
            yield GroupVersionResource(group, version, resource), Lifecycle(deprecated, removed, replacement)


LIFECYCLES: Final = dict(_lifecycles())
"""The lifecycles of built-in resources whose version is removed at some time."""
