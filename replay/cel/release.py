"""The cel-go releases that Kubernetes servers were built with, as far as they differ.

Code that reproduces a changed rule names the release since which the rule holds: `if release >= Release.V0_29`.
"""

from __future__ import annotations

from enum import IntEnum


class Release(IntEnum):
    """A minor release of cel-go. Later releases are greater."""

    V0_17 = 17
    V0_20 = 20
    V0_22 = 22
    V0_23 = 23
    V0_26 = 26
    V0_29 = 29


NEWEST_RELEASE = Release.V0_29
"""The release that applies if none is given."""


def with_type_names(text: str, release: Release) -> str:
    """Return a text that names types as a release prints them: up to 0.17, optional types are called `optional`."""
    return text if release >= Release.V0_20 else text.replace("optional_type(", "optional(")
