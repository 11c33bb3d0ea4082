"""What pods and volumes refer to, as far as a kubelet must read it.

`k8s.io/kubernetes/pkg/api/v1/pod` (`VisitPodSecretNames`, `VisitPodConfigmapNames`), `pkg/api/v1/persistentvolume`
(`VisitPVSecretNames`), `k8s.io/dynamic-resource-allocation/resourceclaim`. Names may be empty.
"""

from __future__ import annotations

from collections.abc import Iterator

from replay.json import JSON

_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")
_VOLUMES_WITH_SECRET_REF = ("cephfs", "cinder", "flexVolume", "rbd", "scaleIO", "iscsi", "storageos")
_CLAIM_NAMESPACE_IF_NONE = frozenset(["cephfs", "flexVolume", "rbd", "scaleIO", "iscsi"])
_VISIBLE_CSI_SECRETS = ("nodePublishSecretRef", "nodeStageSecretRef", "nodeExpandSecretRef")


def secret_names(spec: JSON) -> Iterator[str]:
    """The secrets of a pod spec."""
    yield from (each.get("name") or "" for each in spec.get("imagePullSecrets") or ())
    yield from _environment_names(spec, "secretRef", "secretKeyRef")
    for volume in spec.get("volumes") or ():
        yield from _volume_secret_names(volume)


def config_map_names(spec: JSON) -> Iterator[str]:
    """The config maps of a pod spec."""
    yield from _environment_names(spec, "configMapRef", "configMapKeyRef")
    for volume in spec.get("volumes") or ():
        yield from _projected_names(volume, "configMap")
        yield (volume.get("configMap") or {}).get("name") or ""


def pod_claims(pod: str, spec: JSON) -> Iterator[str]:
    """The persistent volume claims of a pod; that of an ephemeral volume is named after the pod."""
    for volume in spec.get("volumes") or ():
        if volume.get("persistentVolumeClaim") is not None:
            yield volume["persistentVolumeClaim"].get("claimName") or ""
        elif volume.get("ephemeral") is not None:
            yield f"{pod}-{volume.get('name') or ''}"


def resource_claims(pod: JSON) -> Iterator[str]:
    """The resource claims of a pod: named, made from a template, or for extended resources."""
    status = pod.get("status") or {}
    generated = {
        each.get("name"): each.get("resourceClaimName") or "" for each in status.get("resourceClaimStatuses") or ()
    }
    for claim in pod["spec"].get("resourceClaims") or ():
        if claim.get("resourceClaimName") is not None:
            yield claim["resourceClaimName"]
        elif claim.get("resourceClaimTemplateName") is not None:
            yield generated.get(claim.get("name"), "")
    yield (status.get("extendedResourceClaimStatus") or {}).get("resourceClaimName") or ""


def volume_secrets(spec: JSON, claim_namespace: str) -> Iterator[tuple[str, str]]:
    """`(namespace, name)` of the secrets of a persistent volume that a kubelet may see."""
    azure_file = spec.get("azureFile")
    if azure_file is not None:
        yield azure_file.get("secretNamespace") or claim_namespace, azure_file.get("secretName") or ""
    for source in _VOLUMES_WITH_SECRET_REF:
        ref = (spec.get(source) or {}).get("secretRef")
        if ref is not None:
            default = claim_namespace if source in _CLAIM_NAMESPACE_IF_NONE else ""
            yield ref.get("namespace") or default, ref.get("name") or ""
    for field in _VISIBLE_CSI_SECRETS:
        ref = (spec.get("csi") or {}).get(field)
        if ref is not None:
            yield ref.get("namespace") or "", ref.get("name") or ""


def _environment_names(spec: JSON, source: str, key: str) -> Iterator[str]:
    for kind in _CONTAINERS:
        for container in spec.get(kind) or ():
            yield from ((each.get(source) or {}).get("name") or "" for each in container.get("envFrom") or ())
            for variable in container.get("env") or ():
                yield ((variable.get("valueFrom") or {}).get(key) or {}).get("name") or ""


def _volume_secret_names(volume: JSON) -> Iterator[str]:
    yield (volume.get("azureFile") or {}).get("secretName") or ""
    yield (volume.get("secret") or {}).get("secretName") or ""
    for source in _VOLUMES_WITH_SECRET_REF:
        yield ((volume.get(source) or {}).get("secretRef") or {}).get("name") or ""
    yield ((volume.get("csi") or {}).get("nodePublishSecretRef") or {}).get("name") or ""
    yield from _projected_names(volume, "secret")


def _projected_names(volume: JSON, source: str) -> Iterator[str]:
    for each in (volume.get("projected") or {}).get("sources") or ():
        yield (each.get(source) or {}).get("name") or ""
