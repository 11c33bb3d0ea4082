"""The distribution of this package, and the command that installs one of its extras."""

from __future__ import annotations

import os
import sys
from typing import Final

VERSION = "0.1.0"
"""The one place of the version: the build reads it here."""
NAME: Final = "kube-replay"
"""The name for package indexes; `replay` is another project there."""
IMAGE_VARIABLE: Final = "KUBE_REPLAY_IMAGE"
"""Set in the container image, which has no package manager for its user."""


def install_command(extra: str, prefix: str = sys.prefix) -> str:
    """Return the command that installs an extra in the way in which this installation was made.

    `prefix` is the environment of the running Python.
    """
    requirement = f"'{NAME}[{extra}]'"
    path = prefix.replace("\\", "/")
    if os.environ.get(IMAGE_VARIABLE):
        return f"podman build -f deploy/Containerfile --build-arg EXTRAS={extra} ."
    if "/pipx/venvs/" in path:
        return f"pipx install --force {requirement}"
    if "/uv/tools/" in path:
        return f"uv tool install {requirement}"
    return f"pip install {requirement}"
