"""ServiceAccount's token of a pod (`plugin/pkg/admission/serviceaccount`): the projected volume and its mounts."""

from __future__ import annotations

from typing import Final

from replay.json import JSON
from replay.kube.gvk import GroupVersionKind

SERVICE_ACCOUNT: Final = GroupVersionKind("", "v1", "ServiceAccount")
DEFAULT_NAME: Final = "default"
MIRROR: Final = "kubernetes.io/config.mirror"
"""The annotation of a mirror pod, which gets nothing."""
VOLUME_PREFIX: Final = "kube-api-access-"
"""How the volume's name begins; five random characters follow."""
MOUNT_PATH: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
CONTAINERS: Final = ("initContainers", "containers")
_TOKEN_SECONDS: Final = 3607


def with_account(spec: JSON) -> dict[str, JSON]:
    """The fields that name the account of a pod that names none; no field where one is named."""
    return (
        {} if spec.get("serviceAccountName") else {"serviceAccountName": DEFAULT_NAME, "serviceAccount": DEFAULT_NAME}
    )


def token_volume_name(spec: JSON) -> str | None:
    """The name of the token volume that a pod has."""
    for volume in (spec or {}).get("volumes") or ():
        name = str(volume.get("name") or "")
        if name.startswith(VOLUME_PREFIX):
            return name
    return None


def has_mount(container: JSON) -> bool:
    """Whether a container has something mounted where the token would be."""
    return any(mount.get("mountPath") == MOUNT_PATH for mount in container.get("volumeMounts") or ())


def mount_token(spec: JSON, name: str) -> None:
    """Add a mount to each container of a pod's spec without one, and, if any was added, a volume unless there is one.

    `name` is that of a volume that is added. The volumes are not looked at where no container lacks a mount.
    """
    lacking = [each for field in CONTAINERS for each in spec.get(field) or () if not has_mount(each)]
    existing = token_volume_name(spec) if lacking else None
    for container in lacking:
        mount = {"name": existing or name, "readOnly": True, "mountPath": MOUNT_PATH}
        container["volumeMounts"] = [*(container.get("volumeMounts") or ()), mount]
    if lacking and existing is None:
        spec["volumes"] = [*(spec.get("volumes") or ()), {"name": name, "projected": token_source()}]


def token_source() -> JSON:
    """`TokenVolumeSource`."""
    field = {"apiVersion": "v1", "fieldPath": "metadata.namespace"}
    return {
        "defaultMode": 0o644,
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": _TOKEN_SECONDS, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": field}]}},
        ],
    }
