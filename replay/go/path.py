"""Slash-separated paths as Go's `path` handles them."""

from __future__ import annotations

import posixpath


def clean_path(path: str) -> str:
    """Return the shortest equivalent path, `.` for an empty one (`path.Clean`)."""
    clean = posixpath.normpath(path)
    # POSIX gives exactly two leading slashes a meaning of their own, Go does not.
    return clean[1:] if clean.startswith("//") else clean
