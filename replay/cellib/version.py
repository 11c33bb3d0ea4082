"""Kubernetes versions with a known CEL environment."""

from __future__ import annotations

import re
from typing import NamedTuple

from replay.cel.release import Release
from replay.errors import ReplayError

OLDEST_MINOR = 30
NEWEST_MINOR = 37

_CEL_GO = {
    30: Release.V0_17,
    31: Release.V0_20,
    32: Release.V0_22,
    33: Release.V0_23,
    34: Release.V0_26,
    35: Release.V0_26,
    36: Release.V0_26,
    37: Release.V0_29,
}


class KubernetesVersion(NamedTuple):
    """A Kubernetes minor version, `1.30` to `1.37`."""

    major: int
    minor: int

    @classmethod
    def parse(cls, text: str) -> KubernetesVersion:
        """Parse `1.37`, `v1.37` or `1.37.1`. Raises `ReplayError` for unknown versions."""
        match = re.fullmatch(r"v?1\.(\d{1,4})(?:[.+-].*)?", text)
        if match is None or not OLDEST_MINOR <= int(match[1]) <= NEWEST_MINOR:
            versions = f"1.{OLDEST_MINOR} to 1.{NEWEST_MINOR}"
            raise ReplayError(f"unknown Kubernetes version `{text}`: known are {versions}")
        return cls(1, int(match[1]))

    @property
    def cel_go(self) -> Release:
        """Release of cel-go with which the server is built (its `go.mod`)."""
        return _CEL_GO[self.minor]

    @property
    def previous(self) -> KubernetesVersion:
        """The minor version before. New expressions must be compatible with it, so that the server can be rolled back."""
        return self._replace(minor=self.minor - 1)

    def __str__(self) -> str:
        """Return the version as in `1.37`."""
        return f"{self.major}.{self.minor}"


class Versions(NamedTuple):
    """The versions of the servers of both sets. If they differ, the run rehearses an upgrade."""

    current: KubernetesVersion
    candidate: KubernetesVersion

    @property
    def differ(self) -> bool:
        """Whether the servers have different versions."""
        return self.current != self.candidate

    def __str__(self) -> str:
        """Return `1.36 → 1.37`, or the common version."""
        return f"{self.current} → {self.candidate}" if self.differ else str(self.current)


NEWEST = KubernetesVersion(1, NEWEST_MINOR)
"""The version that decides by default."""
