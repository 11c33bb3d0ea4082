"""Files of the server that a configuration names, and their local places, if known."""

from __future__ import annotations

import stat
from pathlib import Path

from msgspec import Struct, field

from replay.manifests.read.documents import os_reason


class ServerFiles(Struct):
    """The files of a server below `root`, as they would lie there, or by their names alone.

    Without `root` nothing is known of them: `unseen` collects their paths.
    """

    root: Path | None = None
    unseen: list[str] = field(default_factory=list)

    def problem(self, path: str) -> str | None:
        """Return the server's validation error for a file, None if it is regular or unknown."""
        local = self.local(path)
        if local is None:
            self.unseen.append(path)
            return None
        try:
            mode = local.stat().st_mode
        except OSError as error:
            return f"error loading file: stat {path}: {os_reason(error)}"
        return None if stat.S_ISREG(mode) else "must be a regular file"

    def local(self, path: str) -> Path | None:
        """Return the local place of a server's file, None if unknown."""
        if self.root is None:
            return None
        mirror = self.root / path.lstrip("/")
        return mirror if mirror.parent.is_dir() else self.root / Path(path).name
