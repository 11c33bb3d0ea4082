"""Checks of each level and version (`policy/registry.go`)."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Final, NamedTuple

from replay.admission.builtin.pod_security import baseline, restricted
from replay.admission.builtin.pod_security.pod import Pod, Violation
from replay.admission.builtin.pod_security.policy import BASELINE, PRIVILEGED, RESTRICTED, LevelVersion

Check = Callable[[Pod], Violation | None]


class VersionedCheck(NamedTuple):
    """A check with its revisions by minor. A restricted check may replace a baseline one."""

    id: str
    level: str
    revisions: tuple[tuple[int, Check], ...]
    overrides: str = ""

    def at(self, minor: int) -> Check | None:
        """Return the revision for a minor, None if the check was added later."""
        return next((check for since, check in reversed(self.revisions) if since <= minor), None)


CHECKS: Final[tuple[VersionedCheck, ...]] = (
    VersionedCheck("appArmorProfile", BASELINE, ((0, baseline.app_armor_profile),)),
    VersionedCheck("capabilities_baseline", BASELINE, ((0, baseline.capabilities),)),
    VersionedCheck("hostNamespaces", BASELINE, ((0, baseline.host_namespaces),)),
    VersionedCheck("hostPathVolumes", BASELINE, ((0, baseline.host_path_volumes),)),
    VersionedCheck("hostPorts", BASELINE, ((0, baseline.host_ports),)),
    VersionedCheck("hostProbesAndHostLifecycle", BASELINE, ((34, baseline.host_probes_and_lifecycle),)),
    VersionedCheck("privileged", BASELINE, ((0, baseline.privileged),)),
    VersionedCheck(
        "procMount",
        BASELINE,
        ((0, baseline.proc_mount), (35, baseline.unless_user_namespace(baseline.proc_mount))),
    ),
    VersionedCheck("seLinuxOptions", BASELINE, ((0, baseline.SELINUX_1_0), (31, baseline.SELINUX_1_31))),
    VersionedCheck(
        "seccompProfile_baseline", BASELINE, ((0, baseline.seccomp_annotations), (19, baseline.seccomp_profile))
    ),
    VersionedCheck("sysctls", BASELINE, baseline.SYSCTLS_BY_MINOR),
    VersionedCheck("windowsHostProcess", BASELINE, ((0, baseline.windows_host_process),)),
    VersionedCheck(
        "allowPrivilegeEscalation",
        RESTRICTED,
        (
            (8, restricted.allow_privilege_escalation),
            (25, restricted.unless_windows(restricted.allow_privilege_escalation)),
        ),
    ),
    VersionedCheck(
        "capabilities_restricted",
        RESTRICTED,
        ((22, restricted.capabilities), (25, restricted.unless_windows(restricted.capabilities))),
        "capabilities_baseline",
    ),
    VersionedCheck("procMount_restricted", RESTRICTED, ((35, baseline.proc_mount),), "procMount"),
    VersionedCheck("restrictedVolumes", RESTRICTED, ((0, restricted.volumes),), "hostPathVolumes"),
    VersionedCheck(
        "runAsNonRoot",
        RESTRICTED,
        ((0, restricted.run_as_non_root), (35, baseline.unless_user_namespace(restricted.run_as_non_root))),
    ),
    VersionedCheck(
        "runAsUser",
        RESTRICTED,
        ((23, restricted.run_as_user), (35, baseline.unless_user_namespace(restricted.run_as_user))),
    ),
    VersionedCheck(
        "seccompProfile_restricted",
        RESTRICTED,
        (
            (19, restricted.required_seccomp_profile),
            (25, restricted.unless_windows(restricted.required_seccomp_profile)),
        ),
        "seccompProfile_baseline",
    ),
)
"""Baseline before restricted, each sorted by ID as bytes: the order of the messages."""


@lru_cache(maxsize=256)
def checks_of(level: str, minor: int) -> tuple[Check, ...]:
    """Return the checks of a level, without replaced ones."""
    if level == PRIVILEGED:
        return ()
    levels = (BASELINE,) if level == BASELINE else (BASELINE, RESTRICTED)
    there = {each.id: each for each in CHECKS if each.level in levels and each.at(minor) is not None}
    # An override counts only in versions that have it, so older versions still run the baseline check.
    overridden = {each.overrides for each in there.values()}
    return tuple(
        version_ for each in there.values() if each.id not in overridden and (version_ := each.at(minor)) is not None
    )


def violations(level: LevelVersion, newest: int, pod: Pod) -> list[Violation]:
    """Return all violations of a level. A version above the server's `newest` minor counts as that minor."""
    checks = checks_of(level.level, min(level.minor, newest))
    return [violation for check in checks if (violation := check(pod)) is not None]


def detail(violations_: list[Violation]) -> str:
    """Return all violations in detail."""
    return ", ".join(f"{each.reason} ({each.detail})" if each.detail else each.reason for each in violations_)
