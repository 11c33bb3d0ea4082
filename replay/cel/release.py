"""The releases of cel-go that the servers of Kubernetes were built with, as far as they differ.

A rule that changed names the release since which it holds where it stands: `if release >= Release.V0_29`.
"""

from __future__ import annotations

from enum import IntEnum


class Release(IntEnum):
    """A minor release of cel-go; later ones are greater."""

    V0_17 = 17
    V0_20 = 20
    V0_22 = 22
    V0_23 = 23
    V0_26 = 26
    V0_29 = 29


NEWEST_RELEASE = Release.V0_29
"""The release that decides where none is named."""


def with_type_names(text: str, release: Release) -> str:
    """A text with printed types as a release prints them: until 0.17 optional types are called `optional`."""
    return text if release >= Release.V0_20 else text.replace("optional_type(", "optional(")
