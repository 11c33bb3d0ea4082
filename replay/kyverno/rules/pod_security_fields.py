"""Pod Security Standards checks with the violating fields (kyverno/pod-security-admission `policy/check_*.go`).

They differ from the built-in plugin only in versions. The first version of a check also applies to older versions.
Restricted checks do not replace baseline checks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from replay.admission.builtin.pod_security import baseline
from replay.admission.builtin.pod_security.pod import Pod
from replay.admission.builtin.pod_security.policy import BASELINE, RESTRICTED
from replay.admission.builtin.pod_security.standard import CHECKS
from replay.json import JSON

REQUIRED: Any = object()
FORBIDDEN: Any = ""
_KINDS = ("initContainers", "containers", "ephemeralContainers")


class FieldError(NamedTuple):
    """Violating field with its value, or REQUIRED if the field is not set."""

    field: str
    bad: Any

    def __str__(self) -> str:
        """Return the error as Kyverno prints it."""
        if self.bad is REQUIRED:
            return f"{self.field}: Required value"
        if self.bad == "":
            return f"{self.field}: Forbidden"
        return f"{self.field} is forbidden, forbidden values found: {_shown(self.bad)}"


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"[{' '.join(value)}]" if isinstance(value, list) else str(value)


class CheckResult(NamedTuple):
    """Violation of a check."""

    id: str
    reason: str
    errors: tuple[FieldError, ...]


Errors = Callable[[Pod], Iterator[FieldError]]


def _containers(pod: Pod) -> Iterator[tuple[str, JSON, Mapping[str, Any]]]:
    for kind in _KINDS:
        for index, container in enumerate(pod.spec.get(kind) or ()):
            yield f"spec.{kind}[{index}]", container, container.get("securityContext") or {}


def _contexts(pod: Pod) -> Iterator[tuple[str, Mapping[str, Any]]]:
    yield "spec.securityContext", pod.security_context
    for path, _, context in _containers(pod):
        yield f"{path}.securityContext", context


def _escalation(pod: Pod) -> Iterator[FieldError]:
    for path, container, context in _containers(pod):
        value = context.get("allowPrivilegeEscalation")
        if value is not False:
            unset = REQUIRED if container.get("securityContext") is None else "nil"
            yield FieldError(f"{path}.securityContext.allowPrivilegeEscalation", unset if value is None else True)


def _app_armor(pod: Pod) -> Iterator[FieldError]:
    for path, context in _contexts(pod):
        profile = context.get("appArmorProfile")
        if profile is not None and profile.get("type") not in ("RuntimeDefault", "Localhost"):
            yield FieldError(f"{path}.appArmorProfile.type", profile.get("type") or "")
    prefix = "container.apparmor.security.beta.kubernetes.io/"
    for key, value in sorted(pod.annotations.items()):
        if key.startswith(prefix) and value not in ("", "runtime/default") and not value.startswith("localhost/"):
            yield FieldError(f"metadata.annotations[{key}]", value)


def _added(allowed: frozenset[str]) -> Errors:
    def errors(pod: Pod) -> Iterator[FieldError]:
        for path, _, context in _containers(pod):
            bad = {str(each) for each in (context.get("capabilities") or {}).get("add") or ()} - allowed
            if bad:
                yield FieldError(f"{path}.securityContext.capabilities.add", sorted(bad))

    return errors


def _capabilities(pod: Pod) -> Iterator[FieldError]:
    for path, _, context in _containers(pod):
        dropped = [str(each) for each in (context.get("capabilities") or {}).get("drop") or ()]
        if "ALL" not in dropped:
            yield FieldError(f"{path}.securityContext.capabilities.drop", sorted(set(dropped)) or REQUIRED)
    yield from _added(frozenset({"NET_BIND_SERVICE"}))(pod)


def _host_namespaces(pod: Pod) -> Iterator[FieldError]:
    for field in ("hostNetwork", "hostPID", "hostIPC"):
        if pod.spec.get(field):
            yield FieldError(f"spec.{field}", True)


def _host_path(pod: Pod) -> Iterator[FieldError]:
    for index, volume in enumerate(pod.spec.get("volumes") or ()):
        if volume.get("hostPath") is not None:
            yield FieldError(f"spec.volumes[{index}].hostPath", volume["hostPath"].get("path") or "")


def _host_ports(pod: Pod) -> Iterator[FieldError]:
    for path, container, _ in _containers(pod):
        for index, port in enumerate(container.get("ports") or ()):
            if port.get("hostPort"):
                yield FieldError(f"{path}.ports[{index}].hostPort", port["hostPort"])


def _hidden(_: Pod) -> Iterator[FieldError]:
    """Yield nothing, because Kyverno's fork reports no fields for the hosts of probes and hooks."""
    yield from ()


def _privileged(pod: Pod) -> Iterator[FieldError]:
    for path, _, context in _containers(pod):
        if context.get("privileged"):
            yield FieldError(f"{path}.securityContext.privileged", True)


def _proc_mount(pod: Pod) -> Iterator[FieldError]:
    for path, _, context in _containers(pod):
        if context.get("procMount") not in (None, "Default"):
            yield FieldError(f"{path}.securityContext.procMount", context["procMount"])


def _volumes(pod: Pod) -> Iterator[FieldError]:
    from replay.admission.builtin.pod_security.restricted import RESTRICTED_VOLUMES, VOLUMES  # noqa: PLC0415

    for index, volume in enumerate(pod.spec.get("volumes") or ()):
        if all(volume.get(source) is None for source in VOLUMES):
            source = next((each for each in RESTRICTED_VOLUMES if volume.get(each) is not None), "unknown")
            yield FieldError(f"spec.volumes[{index}].{source}", FORBIDDEN)


def _non_root(pod: Pod) -> Iterator[FieldError]:
    for path, context in _contexts(pod):
        if context.get("runAsNonRoot") is False:
            yield FieldError(f"{path}.runAsNonRoot", False)
    if not pod.security_context.get("runAsNonRoot"):
        for path, _, context in _containers(pod):
            if context.get("runAsNonRoot") is None:
                yield FieldError(f"{path}.securityContext.runAsNonRoot", REQUIRED)


def _user(pod: Pod) -> Iterator[FieldError]:
    for path, context in _contexts(pod):
        if context.get("runAsUser") == 0:
            yield FieldError(f"{path}.runAsUser", 0)


def _seccomp(pod: Pod) -> Iterator[FieldError]:
    for path, context in _contexts(pod):
        profile = context.get("seccompProfile")
        if profile is not None and profile.get("type") not in ("RuntimeDefault", "Localhost"):
            yield FieldError(f"{path}.seccompProfile.type", profile.get("type") or "")


def _required_seccomp(pod: Pod) -> Iterator[FieldError]:
    explicit = list(_seccomp(pod))
    yield from explicit
    if not explicit and pod.security_context.get("seccompProfile") is None:
        for path, _, context in _containers(pod):
            if context.get("seccompProfile") is None:
                yield FieldError(f"{path}.securityContext.seccompProfile.type", REQUIRED)


def _selinux(minor: int) -> Errors:
    types = {"", "container_t", "container_init_t", "container_kvm_t"} | (
        {"container_engine_t"} if minor >= 31 else set()
    )

    def errors(pod: Pod) -> Iterator[FieldError]:
        for path, context in _contexts(pod):
            options = context.get("seLinuxOptions") or {}
            for key, allowed in (("type", types), ("user", {""}), ("role", {""})):
                if (options.get(key) or "") not in allowed:
                    yield FieldError(f"{path}.seLinuxOptions.{key}", options[key])

    return errors


def _sysctls(minor: int) -> Errors:
    def errors(pod: Pod) -> Iterator[FieldError]:
        for index, each in enumerate(pod.security_context.get("sysctls") or ()):
            alone = Pod({}, {"securityContext": {"sysctls": [each]}})
            if baseline.sysctls(min(minor, 36), alone) is not None:
                yield FieldError(f"spec.securityContext.sysctls[{index}].name", each["name"])

    return errors


def _host_process(pod: Pod) -> Iterator[FieldError]:
    for path, context in _contexts(pod):
        if (context.get("windowsOptions") or {}).get("hostProcess"):
            yield FieldError(f"{path}.windowsOptions.hostProcess", True)


def _checks(minor: int) -> Sequence[tuple[str, str, Errors]]:
    """Return the checks in the order of the Go module's files, each with its level."""
    allowed = frozenset(baseline.CAPABILITIES)
    return (
        ("allowPrivilegeEscalation", RESTRICTED, _escalation),
        ("appArmorProfile", BASELINE, _app_armor),
        ("capabilities_baseline", BASELINE, _added(allowed)),
        ("capabilities_restricted", RESTRICTED, _capabilities),
        ("hostNamespaces", BASELINE, _host_namespaces),
        ("hostPathVolumes", BASELINE, _host_path),
        ("hostPorts", BASELINE, _host_ports),
        ("hostProbesAndHostLifecycle", BASELINE, _hidden),
        ("privileged", BASELINE, _privileged),
        ("procMount", BASELINE, _proc_mount),
        ("restrictedVolumes", RESTRICTED, _volumes),
        ("runAsNonRoot", RESTRICTED, _non_root),
        ("runAsUser", RESTRICTED, _user),
        ("seLinuxOptions", BASELINE, _selinux(minor)),
        ("seccompProfile_baseline", BASELINE, _seccomp),
        ("seccompProfile_restricted", RESTRICTED, _required_seccomp),
        ("sysctls", BASELINE, _sysctls(minor)),
        ("windowsHostProcess", BASELINE, _host_process),
    )


_REASONS = {check.id: check for check in CHECKS}
_NOT_ON_WINDOWS = frozenset({"allowPrivilegeEscalation", "capabilities_restricted", "seccompProfile_restricted"})


def check_results(level: str, minor: int, pod: Pod) -> list[CheckResult]:
    """Return the violations of a level, with their fields."""
    results = []
    for id_, check_level, errors in _checks(minor):
        if level == BASELINE and check_level != BASELINE:
            continue
        if id_ in _NOT_ON_WINDOWS and minor >= 25 and pod.is_windows:
            continue
        found = tuple(errors(pod))
        # This check has a violation without fields, see `_hidden`.
        if found or (errors is _hidden and baseline.host_probes_and_lifecycle(pod) is not None):
            results.append(CheckResult(id_, _reason(id_, pod), found))
    return results


def _reason(id_: str, pod: Pod) -> str:
    for _, check in _REASONS[id_].revisions:
        violation = check(pod)
        if violation is not None:
            return violation.reason
    return id_
