"""ServiceAccount: account, token and secrets of a pod; and the API objects that a pod refers to.

Sources: `plugin/pkg/admission/serviceaccount/admission.go`, `pkg/api/pod/util.go`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from replay.admission.builtin.plugin import CREATE_UPDATE, Plugin, Refusal, Review, known, plain_error
from replay.admission.builtin.storage import annotations_of
from replay.json import JSON
from replay.kube.attributes import Operation
from replay.kube.plugin import (
    MIRROR,
    SERVICE_ACCOUNT,
    VOLUME_PREFIX,
    with_account,
    with_token,
)
from replay.kube.pod import config_map_names, secret_names

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


_ENFORCE: Final = "kubernetes.io/enforce-mountable-secrets"
_SUFFIX: Final = "xxxxx"
"""Replacement of the five random characters in the volume's name."""
_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})


class ServiceAccount(Plugin):
    """The accounts, tokens and secrets of pods.

    A missing account denies at once. The server first retries the lookup for one to two seconds.
    """

    name = "ServiceAccount"
    operations = CREATE_UPDATE
    concerns = (("", ("pods", "pods/ephemeralcontainers")),)
    looks_up = (("", "ServiceAccount"),)

    def __init__(self, *, limits_secret_references: bool = False) -> None:
        """`limits_secret_references` makes every account strict about secrets.

        No flag of the server sets this field of the plugin.
        """
        self._is_strict = limits_secret_references

    @classmethod
    def configured(cls, configuration: JSON | None, flags: Mapping[str, str]) -> ServiceAccount:
        """See `Plugin.configured`. The server reads no document; here it may have the field `limitSecretReferences`."""
        del flags
        return cls(limits_secret_references=bool((configuration or {}).get("limitSecretReferences")))

    def admit(self, review: Review) -> Refusal | None:
        """Set the account, mount its token and add its pull secrets, then check the result like `validate`."""
        if not _is_looked_at(review) or review.attributes.operation is not Operation.CREATE:
            return None
        spec = review.object["spec"]
        if MIRROR in annotations_of(review.object):
            # Mirror pods stay as they are: a kubelet deletes one whose spec is not its own (`Plugin.Admit`).
            return self.validate(review)
        spec.update(with_account(spec))
        account = _account(review, spec["serviceAccountName"])
        if account is None:
            return review.forbidden(_not_found(review, spec["serviceAccountName"]))
        if _mounts_token(account, spec):
            spec.update(with_token(spec, VOLUME_PREFIX + _SUFFIX))
        if not spec.get("imagePullSecrets") and account.get("imagePullSecrets"):
            spec["imagePullSecrets"] = [
                {"name": each["name"]} if each.get("name") else {} for each in account["imagePullSecrets"]
            ]
        return self.validate(review)

    def validate(self, review: Review) -> Refusal | None:
        """Refuse a pod without an account, a mirror pod with one, and secrets that a strict account does not list."""
        operation = review.attributes.operation
        if not _is_looked_at(review):
            return None
        if operation is Operation.UPDATE and review.attributes.subresource == "ephemeralcontainers":
            return _with_account(review, is_strict=self._is_strict, ephemeral=True)
        if operation is not Operation.CREATE:
            return None
        if MIRROR in annotations_of(review.object):
            message = _wrong_of_mirror(review.object["spec"])
            return review.forbidden(message) if message else None
        return _with_account(review, is_strict=self._is_strict, ephemeral=False)


def _is_looked_at(review: Review) -> bool:
    return review.is_resource("", "pods", "", "ephemeralcontainers") and review.object is not None


def _with_account(review: Review, *, is_strict: bool, ephemeral: bool) -> Refusal | None:
    """Return a refusal for a missing account or, if it is strict, for secrets that it does not list."""
    spec = review.object["spec"]
    name = spec.get("serviceAccountName") or ""
    if not name:
        pod = f"{review.attributes.namespace}/{review.own_name}"
        return review.forbidden(f"no service account specified for pod {pod}")
    account = _account(review, name)
    if account is None:
        return review.forbidden(_not_found(review, name))
    if not is_strict and annotations_of(account).get(_ENFORCE) not in _TRUE:
        return None
    if ephemeral:
        message = next(_container_refusals(spec, account, "ephemeralContainers", "ephemeral container"), "")
        # the server hands this on as it is, without the status that the other refusals have
        return plain_error(message) if message else None
    message = next(_wrong_secrets(spec, account), "")
    return review.forbidden(message) if message else None


def _account(review: Review, name: str) -> JSON | None:
    return known(review.cluster.get(SERVICE_ACCOUNT, review.attributes.namespace, name))


def _not_found(review: Review, name: str) -> str:
    account = f"{review.attributes.namespace}/{name}"
    return f'error looking up service account {account}: serviceaccount "{name}" not found'


def _mounts_token(account: JSON, spec: JSON) -> bool:
    """Return whether a token is mounted. The pod's setting overrides the account's."""
    for each in (spec, account):
        if each.get("automountServiceAccountToken") is not None:
            return bool(each["automountServiceAccountToken"])
    return True


def _wrong_of_mirror(spec: JSON) -> str:
    if spec.get("serviceAccountName"):
        return "a mirror pod may not reference service accounts"
    if next(secret_names(spec), ""):
        return "a mirror pod may not reference secrets"
    for volume in spec.get("volumes") or ():
        for source in (volume.get("projected") or {}).get("sources") or ():
            if source.get("serviceAccountToken") is not None:
                return "a mirror pod may not use ServiceAccountToken volume projections"
    return ""


def _wrong_secrets(spec: JSON, account: JSON) -> Iterator[str]:
    mountable = _names(account, "secrets")
    for volume in spec.get("volumes") or ():
        if (source := volume.get("secret")) is not None and (source.get("secretName") or "") not in mountable:
            name = source.get("secretName") or ""
            yield f'volume with secret.secretName="{name}" is not allowed because {_without(account, "secret")}'
    yield from _container_refusals(spec, account, "initContainers", "init container")
    yield from _container_refusals(spec, account, "containers", "container")
    pullable = _names(account, "imagePullSecrets")
    for index, each in enumerate(spec.get("imagePullSecrets") or ()):
        if (each.get("name") or "") not in pullable:
            name, reason = each.get("name") or "", _without(account, "imagePullSecret")
            yield f'imagePullSecrets[{index}].name="{name}" is not allowed because {reason}'


def _container_refusals(spec: JSON, account: JSON, field: str, noun: str) -> Iterator[str]:
    mountable, reason = _names(account, "secrets"), _without(account, "secret")
    for container in spec.get(field) or ():
        subject = f"{noun} {container.get('name') or ''} with"
        for variable in container.get("env") or ():
            source = (variable.get("valueFrom") or {}).get("secretKeyRef")
            if source is not None and (name := source.get("name") or "") not in mountable:
                variable_text = f"envVar {variable.get('name') or ''} referencing"
                yield f'{subject} {variable_text} secret.secretName="{name}" is not allowed because {reason}'
        for each in container.get("envFrom") or ():
            source = each.get("secretRef")
            if source is not None and (name := source.get("name") or "") not in mountable:
                yield f'{subject} envFrom referencing secret.secretName="{name}" is not allowed because {reason}'


def _names(account: JSON, field: str) -> frozenset[str]:
    return frozenset(str(each.get("name") or "") for each in account.get(field) or ())


def _without(account: JSON, noun: str) -> str:
    return f"service account {account['metadata']['name']} does not reference that {noun}"
