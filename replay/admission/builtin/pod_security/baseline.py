"""Checks of the level baseline (`policy/check_*.go`); each returns a violation or None."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from replay.admission.builtin.pod_security.pod import Pod, Violation, containers_named, plural, quoted, setters

CAPABILITIES = frozenset(
    [
        "AUDIT_WRITE",
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "FSETID",
        "KILL",
        "MKNOD",
        "NET_BIND_SERVICE",
        "SETFCAP",
        "SETGID",
        "SETPCAP",
        "SETUID",
        "SYS_CHROOT",
    ]
)
_APPARMOR_ANNOTATION = "container.apparmor.security.beta.kubernetes.io/"
_SECCOMP_POD = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP_CONTAINER = "container.seccomp.security.alpha.kubernetes.io/"
_SELINUX_TYPES = frozenset({"", "container_t", "container_init_t", "container_kvm_t"})
_SYSCTLS = {
    0: """kernel.shm_rmid_forced net.ipv4.ip_local_port_range net.ipv4.tcp_syncookies net.ipv4.ping_group_range
    net.ipv4.ip_unprivileged_port_start""",
    27: "net.ipv4.ip_local_reserved_ports",
    29: "net.ipv4.tcp_keepalive_time net.ipv4.tcp_fin_timeout net.ipv4.tcp_keepalive_intvl net.ipv4.tcp_keepalive_probes",
    32: "net.ipv4.tcp_rmem net.ipv4.tcp_wmem",
    37: "net.ipv4.tcp_slow_start_after_idle net.ipv4.tcp_notsent_lowat",
}
"""Safe sysctls, by the minor that first lists them."""


def app_armor_profile(pod: Pod) -> Violation | None:
    """Require the runtime's or a local AppArmor profile in fields and annotations."""
    types: set[str] = set()

    def is_bad(context: Mapping[str, Any]) -> bool:
        profile = context.get("appArmorProfile")
        if profile is None or profile.get("type") in ("RuntimeDefault", "Localhost"):
            return False
        types.add(profile.get("type") or "")
        return True

    is_pod_bad, containers = is_bad(pod.security_context), pod.bad(is_bad)
    annotations = sorted(
        f"{key}={json.dumps(value, ensure_ascii=False)}"
        for key, value in pod.annotations.items()
        if key.startswith(_APPARMOR_ANNOTATION) and not _is_app_armor_value(value)
    )
    who = [each for each in (setters(pod=is_pod_bad, containers=containers),) if each]
    who += [plural("annotation", len(annotations))] if annotations else []
    if not who:
        return None
    values = [*sorted(types), *annotations]
    detail = f"{' and '.join(who)} must not set AppArmor profile type to {quoted(values)}"
    return Violation(plural("forbidden AppArmor profile", len(values)), detail)


def _is_app_armor_value(value: str) -> bool:
    return value in ("", "runtime/default") or value.startswith("localhost/")


def capabilities(pod: Pod) -> Violation | None:
    """Allow only the runtime's default capabilities to be added."""
    added: set[str] = set()

    def is_bad(context: Mapping[str, Any]) -> bool:
        capabilities_ = {str(each) for each in (context.get("capabilities") or {}).get("add") or ()} - CAPABILITIES
        added.update(capabilities_)
        return bool(capabilities_)

    if not (bad := pod.bad(is_bad)):
        return None
    detail = f"{containers_named(bad)} must not include {quoted(sorted(added))} in securityContext.capabilities.add"
    return Violation("non-default capabilities", detail)


def host_namespaces(pod: Pod) -> Violation | None:
    """Forbid namespaces of the host."""
    fields = [f"{field}=true" for field in ("hostNetwork", "hostPID", "hostIPC") if pod.spec.get(field)]
    return Violation("host namespaces", ", ".join(fields)) if fields else None


def host_path_volumes(pod: Pod) -> Violation | None:
    """Forbid paths of the host as volumes."""
    names = [str(each.get("name") or "") for each in pod.spec.get("volumes") or () if each.get("hostPath") is not None]
    return Violation("hostPath volumes", f"{plural('volume', len(names))} {quoted(names)}") if names else None


def host_ports(pod: Pod) -> Violation | None:
    """Forbid ports of the host. Ports are sorted as text."""
    bad, ports = [], set()
    for container in pod.containers:
        host_ports_ = {str(port["hostPort"]) for port in container.get("ports") or () if port.get("hostPort")}
        ports |= host_ports_
        if host_ports_:
            bad.append(str(container.get("name") or ""))
    if not bad:
        return None
    verb = "uses" if len(bad) == 1 else "use"
    return Violation(
        "hostPort", f"{containers_named(bad)} {verb} {plural('hostPort', len(ports))} {', '.join(sorted(ports))}"
    )


def host_probes_and_lifecycle(pod: Pod) -> Violation | None:
    """Forbid probes and lifecycle hooks that call another host."""
    bad: set[str] = set()
    hosts: set[str] = set()
    for container in pod.containers:
        if hosts_ := set(_hosts(container)):
            hosts |= hosts_
            bad.add(str(container.get("name") or ""))
    if not bad:
        return None
    verb = "uses" if len(bad) == 1 else "use"
    noun = plural("probe or lifecycle host", len(hosts))
    return Violation(
        "probe or lifecycle host", f"{containers_named(sorted(bad))} {verb} {noun} {quoted(sorted(hosts))}"
    )


def _hosts(container: Mapping[str, Any]) -> Iterator[str]:
    lifecycle = container.get("lifecycle") or {}
    handlers = [container.get(field) for field in ("livenessProbe", "readinessProbe", "startupProbe")]
    for handler in (*handlers, lifecycle.get("postStart"), lifecycle.get("preStop")):
        for action in ("httpGet", "tcpSocket"):
            if host := ((handler or {}).get(action) or {}).get("host"):
                yield str(host)


def privileged(pod: Pod) -> Violation | None:
    """Forbid privileged containers."""
    bad = pod.bad(lambda context: bool(context.get("privileged")))
    return (
        Violation("privileged", f"{containers_named(bad)} must not set securityContext.privileged=true")
        if bad
        else None
    )


def proc_mount(pod: Pod) -> Violation | None:
    """Require the runtime's default mount of `/proc`."""
    types: set[str] = set()

    def is_bad(context: Mapping[str, Any]) -> bool:
        proc_mount_ = context.get("procMount")
        if proc_mount_ in (None, "Default"):
            return False
        types.add(str(proc_mount_))
        return True

    if not (bad := pod.bad(is_bad)):
        return None
    detail = f"{containers_named(bad)} must not set securityContext.procMount to {quoted(sorted(types))}"
    return Violation("procMount", detail)


def seccomp_annotations(pod: Pod) -> Violation | None:
    """Require an allowed seccomp profile in annotations, which named it before the field existed."""
    keys = {_SECCOMP_POD, *(f"{_SECCOMP_CONTAINER}{each.get('name') or ''}" for each in pod.containers)}
    annotations = sorted(
        f"{key}={json.dumps(value, ensure_ascii=False)}"
        for key in keys
        if (value := pod.annotations.get(key)) is not None and not _is_seccomp_value(value)
    )
    return (
        Violation("seccompProfile", f"forbidden {plural('annotation', len(annotations))} {', '.join(annotations)}")
        if annotations
        else None
    )


def _is_seccomp_value(value: str) -> bool:
    return value in ("runtime/default", "docker/default") or value.startswith("localhost/")


def seccomp_profile(pod: Pod) -> Violation | None:
    """Forbid an unconfined seccomp profile. A pod without any profile is allowed."""
    types: set[str] = set()

    def is_bad(context: Mapping[str, Any]) -> bool:
        profile = context.get("seccompProfile")
        if profile is None or profile.get("type") in ("RuntimeDefault", "Localhost"):
            return False
        types.add(str(profile.get("type") or ""))
        return True

    who = setters(pod=is_bad(pod.security_context), containers=pod.bad(is_bad))
    if not who:
        return None
    return Violation(
        "seccompProfile", f"{who} must not set securityContext.seccompProfile.type to {quoted(sorted(types))}"
    )


def selinux_options(types: frozenset[str], pod: Pod) -> Violation | None:
    """Allow only some SELinux types, and neither user nor role."""
    wrong: dict[str, set[str]] = {"type": set(), "user": set(), "role": set()}

    def is_bad(context: Mapping[str, Any]) -> bool:
        options = context.get("seLinuxOptions")
        if options is None:
            return False
        options_set = {
            "type": {options.get("type") or ""} - types,
            "user": {options.get("user") or ""} - {""},
            "role": {options.get("role") or ""} - {""},
        }
        for key, values in options_set.items():
            wrong[key] |= values
        return any(options_set.values())

    who = setters(pod=is_bad(pod.security_context), containers=pod.bad(is_bad))
    if not who:
        return None
    said = [f"{plural('type', len(wrong['type']))} {quoted(sorted(wrong['type']))}"] if wrong["type"] else []
    said += [f"{key} may not be set" for key in ("user", "role") if wrong[key]]
    return Violation("seLinuxOptions", f"{who} set forbidden securityContext.seLinuxOptions: {'; '.join(said)}")


def sysctls(minor: int, pod: Pod) -> Violation | None:
    """Allow only sysctls that affect nothing outside of the pod."""
    safe = {name for since, names in _SYSCTLS.items() if since <= minor for name in names.split()}
    forbidden = [str(each["name"]) for each in pod.security_context.get("sysctls") or () if each["name"] not in safe]
    return Violation("forbidden sysctls", ", ".join(forbidden)) if forbidden else None


def windows_host_process(pod: Pod) -> Violation | None:
    """Forbid processes of the host."""

    def is_bad(context: Mapping[str, Any]) -> bool:
        return bool((context.get("windowsOptions") or {}).get("hostProcess"))

    who = setters(pod=is_bad(pod.security_context), containers=pod.bad(is_bad))
    if not who:
        return None
    return Violation("hostProcess", f"{who} must not set securityContext.windowsOptions.hostProcess=true")


def unless_user_namespace(check: Callable[[Pod], Violation | None]) -> Callable[[Pod], Violation | None]:
    """Relax a check for pods with a user namespace."""
    return lambda pod: None if pod.has_user_namespace else check(pod)


SELINUX_1_0 = partial(selinux_options, _SELINUX_TYPES)
SELINUX_1_31 = partial(selinux_options, _SELINUX_TYPES | {"container_engine_t"})
SYSCTLS_BY_MINOR = tuple((minor, partial(sysctls, minor)) for minor in _SYSCTLS)
