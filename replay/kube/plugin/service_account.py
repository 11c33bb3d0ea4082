"""ServiceAccount's token of a pod (`plugin/pkg/admission/serviceaccount`): the projected volume and its mounts."""

from __future__ import annotations

from typing import Final

from replay.json import JSON
from replay.kube.gvk import GroupVersionKind

SERVICE_ACCOUNT: Final = GroupVersionKind("", "v1", "ServiceAccount")
DEFAULT_NAME: Final = "default"
MIRROR: Final = "kubernetes.io/config.mirror"
"""The annotation of a mirror pod. The plugin adds nothing to such pods."""
VOLUME_PREFIX: Final = "kube-api-access-"
"""The prefix of the volume's name, before five random characters."""
MOUNT_PATH: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
CONTAINERS: Final = ("initContainers", "containers")
_TOKEN_SECONDS: Final = 3607


def with_account(spec: JSON) -> dict[str, JSON]:
    """Return the fields that name the account of a pod without one, empty if it has one."""
    return (
        {} if spec.get("serviceAccountName") else {"serviceAccountName": DEFAULT_NAME, "serviceAccount": DEFAULT_NAME}
    )


def token_volume_name(spec: JSON) -> str | None:
    """Return the name of a pod's token volume, or None."""
    for volume in (spec or {}).get("volumes") or ():
        name = str(volume.get("name") or "")
        if name.startswith(VOLUME_PREFIX):
            return name
    return None


def has_mount(container: JSON) -> bool:
    """Return whether a container has a mount at the token's path."""
    return MOUNT_PATH in [mount.get("mountPath") for mount in container.get("volumeMounts") or ()]


def mount_token(spec: JSON, name: str) -> None:
    """Mount the token in each container of a pod's spec without a mount there. Add a volume if none exists.

    `name` is that of an added volume. Volumes are not looked at if no container lacks a mount.
    """
    lacking = [each for field in CONTAINERS for each in spec.get(field) or () if not has_mount(each)]
    existing = token_volume_name(spec) if lacking else None
    for container in lacking:
        mount = {"name": existing or name, "readOnly": True, "mountPath": MOUNT_PATH}
        container["volumeMounts"] = [*(container.get("volumeMounts") or ()), mount]
    if lacking and existing is None:
        spec["volumes"] = [*(spec.get("volumes") or ()), {"name": name, "projected": token_source()}]


def token_source() -> JSON:
    """Return the projected volume (`TokenVolumeSource`)."""
    field = {"apiVersion": "v1", "fieldPath": "metadata.namespace"}
    return {
        "defaultMode": 0o644,
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": _TOKEN_SECONDS, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": field}]}},
        ],
    }
