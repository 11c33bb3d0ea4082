"""Levels, versions, and the policy of a namespace's labels (`pod-security-admission/api/helpers.go`)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

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
