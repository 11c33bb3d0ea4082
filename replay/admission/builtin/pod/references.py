"""API objects that a pod refers to (`pkg/api/pod/util.go`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from replay.admission.builtin.plugin import containers_of
from replay.json import JSON

_ALL: Final = ("initContainers", "containers", "ephemeralContainers")
_SECRET_REFS: Final = {
    "cephfs": "secretRef",
    "cinder": "secretRef",
    "flexVolume": "secretRef",
    "rbd": "secretRef",
    "scaleIO": "secretRef",
    "iscsi": "secretRef",
    "storageos": "secretRef",
    "csi": "nodePublishSecretRef",
}
"""Field of a volume's source that names a secret."""


def secret_names(spec: JSON) -> Iterator[str]:
    """Return the secrets that a pod names directly, in no particular order (`VisitPodSecretNames`)."""
    return (name for name in _secret_names(spec) if name)


def config_map_names(spec: JSON) -> Iterator[str]:
    """Return the config maps that a pod names directly (`VisitPodConfigmapNames`)."""
    return (name for name in _config_map_names(spec) if name)


def _secret_names(spec: JSON) -> Iterator[str]:
    yield from (each.get("name") or "" for each in spec.get("imagePullSecrets") or ())
    yield from _named_by_containers(spec, "secretRef", "secretKeyRef")
    for volume in spec.get("volumes") or ():
        for source, field in _SECRET_REFS.items():
            yield ((volume.get(source) or {}).get(field) or {}).get("name") or ""
        yield (volume.get("azureFile") or {}).get("secretName") or ""
        yield (volume.get("secret") or {}).get("secretName") or ""
        yield from _projected(volume, "secret")


def _config_map_names(spec: JSON) -> Iterator[str]:
    yield from _named_by_containers(spec, "configMapRef", "configMapKeyRef")
    for volume in spec.get("volumes") or ():
        yield (volume.get("configMap") or {}).get("name") or ""
        yield from _projected(volume, "configMap")


def _named_by_containers(spec: JSON, all_of: str, key_of: str) -> Iterator[str]:
    for container in containers_of(spec, *_ALL):
        for source in container.get("envFrom") or ():
            yield (source.get(all_of) or {}).get("name") or ""
        for variable in container.get("env") or ():
            yield ((variable.get("valueFrom") or {}).get(key_of) or {}).get("name") or ""


def _projected(volume: JSON, kind: str) -> Iterator[str]:
    for source in (volume.get("projected") or {}).get("sources") or ():
        yield (source.get(kind) or {}).get("name") or ""


_PLAIN: Final = (
    "awsElasticBlockStore",
    "azureDisk",
    "cephfs",
    "cinder",
    "downwardAPI",
    "emptyDir",
    "fc",
    "flexVolume",
    "flocker",
    "gcePersistentDisk",
    "gitRepo",
    "hostPath",
    "image",
    "iscsi",
    "nfs",
    "photonPersistentDisk",
    "portworxVolume",
    "quobyte",
    "rbd",
    "scaleIO",
    "storageos",
    "vsphereVolume",
)
_OBJECT_VOLUMES: Final = {
    "configMap": "configmaps (via configmap volumes)",
    "secret": "secrets (via secret volumes)",
    "csi": "csidrivers (via CSI volumes)",
    "glusterfs": "endpoints (via glusterFS volumes)",
    "persistentVolumeClaim": "persistentvolumeclaims",
    "ephemeral": "persistentvolumeclaims (via ephemeral volumes)",
    "azureFile": "secrets (via azureFile volumes)",
}
_OBJECT_SOURCES: Final = {
    "configMap": "configmaps (via projected volumes)",
    "secret": "secrets (via projected volumes)",
    "serviceAccountToken": "serviceaccounts (via projected volumes)",
    "clusterTrustBundle": "clustertrustbundles",
    "podCertificate": "podcertificates",
}


class UnknownVolumeError(Exception):
    """A volume of a kind that the server does not know."""


def api_object_reference(spec: JSON) -> str:
    """Return the first API object that a pod refers to, empty if none.

    Raise UnknownVolumeError (`HasAPIObjectReference`).
    """
    if spec.get("serviceAccountName"):
        return "serviceaccounts"
    if next(secret_names(spec), ""):
        return "secrets"
    if next(config_map_names(spec), ""):
        return "configmaps"
    if spec.get("resourceClaims"):
        return "resourceclaims"
    return next((reference for volume in spec.get("volumes") or () if (reference := _volume_reference(volume))), "")


def _volume_reference(volume: JSON) -> str:
    if any(volume.get(source) is not None for source in _PLAIN):
        return ""
    for source, text in _OBJECT_VOLUMES.items():
        if volume.get(source) is not None:
            return text
    if volume.get("projected") is None:
        # The two spaces are in the server's text.
        raise UnknownVolumeError(f'unknown volume type for volume  "{volume.get("name") or ""}"')
    return next(
        (
            reference
            for each in volume["projected"].get("sources") or ()
            if (reference := _source_reference(volume, each))
        ),
        "",
    )


def _source_reference(volume: JSON, source: JSON) -> str:
    for kind, text in _OBJECT_SOURCES.items():
        if source.get(kind) is not None:
            return text
    if source.get("downwardAPI") is None:
        raise UnknownVolumeError(f'unknown source for projected volume "{volume.get("name") or ""}"')
    return ""
