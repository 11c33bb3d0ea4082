"""Levels and versions of the standards, the policy of a namespace's labels, and the checks of each level and version.

Sources: `pod-security-admission/api/helpers.go`, `policy/registry.go`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final, NamedTuple

from replay.admission.builtin.pod_security import baseline, restricted
from replay.admission.builtin.pod_security.pod import Pod, Violation
from replay.go.format import parse_int

PREFIX: Final = "pod-security.kubernetes.io/"
PRIVILEGED, BASELINE, RESTRICTED = "privileged", "baseline", "restricted"
LEVELS: Final = (PRIVILEGED, BASELINE, RESTRICTED)
MODES: Final = ("enforce", "audit", "warn")
LATEST: Final = 1 << 30
"""Minor that stands for `latest`, newer than all others."""

_VERSION = re.compile(r"v1\.([0-9]|[1-9][0-9]*)")
_WRONG_LEVEL = f"must be one of {', '.join(LEVELS)}"
_WRONG_VERSION = 'must be "latest" or "v1.x"'


class LevelVersion(NamedTuple):
    """A level as of a minor version of the standards."""

    level: str
    minor: int

    def __str__(self) -> str:
        """Return level and version: `restricted:latest`, `baseline:v1.30`."""
        return f"{self.level}:{'latest' if self.minor == LATEST else f'v1.{self.minor}'}"

    def is_equivalent(self, other: LevelVersion) -> bool:
        """Return whether both have the same effect. The privileged level has no versions."""
        return self == other or self.level == other.level == PRIVILEGED


class LabelError(NamedTuple):
    """A label with an invalid value, with the text of the field error."""

    label: str
    value: str
    message: str

    def __str__(self) -> str:
        """Format as `field.Invalid` does."""
        return f'metadata.labels[{self.label}]: Invalid value: "{self.value}": {self.message}'


class NamespacePolicy(NamedTuple):
    """Levels that a namespace enforces, audits and warns about."""

    enforce: LevelVersion
    audit: LevelVersion
    warn: LevelVersion

    @property
    def is_fully_privileged(self) -> bool:
        """Return whether no pod is ever checked."""
        return all(mode.level == PRIVILEGED for mode in self)

    def is_equivalent(self, other: NamespacePolicy) -> bool:
        """Return whether both have the same effect in all modes."""
        return all(one.is_equivalent(two) for one, two in zip(self, other, strict=True))


def parse_level(text: str) -> tuple[str, str]:
    """Return a level and its error. An invalid level counts as the strictest."""
    return (text, "") if text in LEVELS else (RESTRICTED, _WRONG_LEVEL)


def parse_version(text: str) -> tuple[int, str]:
    """Return a minor version and its error. An invalid version counts as the latest."""
    match = _VERSION.fullmatch(text)
    minor = parse_int(match[1]) if match is not None else None
    if minor is not None:
        return minor, ""
    return LATEST, "" if text == "latest" else _WRONG_VERSION


def policy_of(labels: Mapping[str, str], defaults: NamespacePolicy) -> tuple[NamespacePolicy, tuple[LabelError, ...]]:
    """Return the policy of labels over the defaults, and the invalid labels.

    An invalid level enforces the strictest level, and audits or warns about nothing. Without a `warn` label, enforcing
    a level above the default warning level also warns about that level.
    """
    levels, errors = dict(zip(MODES, defaults, strict=True)), []
    for mode in MODES:
        level, minor = levels[mode]
        if (text := labels.get(PREFIX + mode)) is not None:
            level, message = parse_level(text)
            if message:
                errors.append(LabelError(PREFIX + mode, text, message))
                # Only enforcement fails closed. Invalid audit and warn levels are ignored.
                level = level if mode == "enforce" else PRIVILEGED
        if (text := labels.get(f"{PREFIX}{mode}-version")) is not None:
            minor, message = parse_version(text)
            if message:
                errors.append(LabelError(f"{PREFIX}{mode}-version", text, message))
        levels[mode] = LevelVersion(level, minor)
    enforced = labels.get(PREFIX + "enforce") in LEVELS and LEVELS.index(levels["enforce"].level)
    if PREFIX + "warn" not in labels and enforced is not False and enforced > LEVELS.index(levels["warn"].level):
        has_version = f"{PREFIX}warn-version" in labels
        minor = levels["warn"].minor if has_version else levels["enforce"].minor
        levels["warn"] = LevelVersion(levels["enforce"].level, minor)
    return NamespacePolicy(**levels), tuple(errors)


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
