"""Checks of the level restricted (`policy/check_*.go`); each returns a violation or None."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from replay.admission.builtin.pod_security.baseline import seccomp_profile
from replay.admission.builtin.pod_security.pod import Pod, Violation, containers_named, plural, quoted, setters

VOLUMES: Final = frozenset(
    [
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "image",
        "persistentVolumeClaim",
        "projected",
        "secret",
    ]
)
RESTRICTED_VOLUMES: Final = (
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "gitRepo",
    "nfs",
    "iscsi",
    "glusterfs",
    "rbd",
    "flexVolume",
    "cinder",
    "cephfs",
    "flocker",
    "fc",
    "azureFile",
    "vsphereVolume",
    "quobyte",
    "azureDisk",
    "photonPersistentDisk",
    "portworxVolume",
    "scaleIO",
    "storageos",
)


def allow_privilege_escalation(pod: Pod) -> Violation | None:
    """Require that every container forbids privilege escalation."""
    bad = pod.bad(lambda context: context.get("allowPrivilegeEscalation") is not False)
    if not bad:
        return None
    detail = f"{containers_named(bad)} must set securityContext.allowPrivilegeEscalation=false"
    return Violation("allowPrivilegeEscalation != false", detail)


def capabilities(pod: Pod) -> Violation | None:
    """Require that every container drops ALL and adds at most NET_BIND_SERVICE."""
    added: set[str] = set()

    def is_adding(context: Mapping[str, Any]) -> bool:
        capabilities_ = {str(each) for each in _capabilities(context, "add")} - {"NET_BIND_SERVICE"}
        added.update(capabilities_)
        return bool(capabilities_)

    keeping = pod.bad(lambda context: "ALL" not in _capabilities(context, "drop"))
    details = []
    if keeping:
        details.append(f'{containers_named(keeping)} must set securityContext.capabilities.drop=["ALL"]')
    if adding := pod.bad(is_adding):
        names = quoted(sorted(added))
        details.append(f"{containers_named(adding)} must not include {names} in securityContext.capabilities.add")
    return Violation("unrestricted capabilities", "; ".join(details)) if details else None


def _capabilities(context: Mapping[str, Any], field: str) -> list[str]:
    return (context.get("capabilities") or {}).get(field) or []


def volumes(pod: Pod) -> Violation | None:
    """Allow only volumes that are neither host storage nor of an old in-tree plugin."""
    bad, types = [], set()
    for volume in pod.spec.get("volumes") or ():
        if all(volume.get(source) is None for source in VOLUMES):
            bad.append(str(volume.get("name") or ""))
            types.add(next((each for each in RESTRICTED_VOLUMES if volume.get(each) is not None), "unknown"))
    if not bad:
        return None
    verb = "uses" if len(bad) == 1 else "use"
    noun = plural("restricted volume type", len(types))
    detail = f"{plural('volume', len(bad))} {quoted(bad)} {verb} {noun} {quoted(sorted(types))}"
    return Violation("restricted volume types", detail)


def run_as_non_root(pod: Pod) -> Violation | None:
    """Require runAsNonRoot on the pod or each container, and no container that sets it to false."""
    of_pod = pod.security_context.get("runAsNonRoot")
    who = setters(pod=of_pod is False, containers=pod.bad(lambda context: context.get("runAsNonRoot") is False))
    if who:
        return Violation("runAsNonRoot != true", f"{who} must not set securityContext.runAsNonRoot=false")
    silent = [] if of_pod else pod.bad(lambda context: context.get("runAsNonRoot") is None)
    if not silent:
        return None
    return Violation(
        "runAsNonRoot != true", f"pod or {containers_named(silent)} must set securityContext.runAsNonRoot=true"
    )


def run_as_user(pod: Pod) -> Violation | None:
    """Forbid user 0."""

    def is_bad(context: Mapping[str, Any]) -> bool:
        return context.get("runAsUser") == 0

    who = setters(pod=is_bad(pod.security_context), containers=pod.bad(is_bad))
    return Violation("runAsUser=0", f"{who} must not set runAsUser=0") if who else None


def required_seccomp_profile(pod: Pod) -> Violation | None:
    """Require the runtime's or a local seccomp profile on the pod or each container."""
    explicit = seccomp_profile(pod)
    if explicit is not None:
        return explicit
    silent = (
        []
        if pod.security_context.get("seccompProfile") is not None
        else pod.bad(lambda context: context.get("seccompProfile") is None)
    )
    if not silent:
        return None
    detail = (
        f"pod or {containers_named(silent)} must set securityContext.seccompProfile.type "
        'to "RuntimeDefault" or "Localhost"'
    )
    return Violation("seccompProfile", detail)


def unless_windows(check: Callable[[Pod], Violation | None]) -> Callable[[Pod], Violation | None]:
    """Return a check that skips Windows pods, which lack the checked feature."""
    return lambda pod: None if pod.is_windows else check(pod)
