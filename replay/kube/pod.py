"""What a pod names: its containers, secrets and config maps (`k8s.io/kubernetes/pkg/api/pod/util.go`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

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


def containers_of(spec: JSON, *kinds: str) -> Sequence[JSON]:
    """Return the containers in the named fields of a pod spec, in order."""
    return [container for kind in kinds for container in (spec.get(kind) or ())]


def generation_of(pod: JSON) -> int:
    """Return the generation, which changes with the spec."""
    return int((pod.get("metadata") or {}).get("generation") or 0)


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
