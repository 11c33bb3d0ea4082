"""A hook of the build: the wheel holds the man pages, made from the help of the commands."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ManualHook(BuildHookInterface):  # type: ignore[misc]  # no types here: the build has hatchling, not developers
    """Adds `share/man/man1`."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the pages beside the build; what is installed for editing has none."""
        if version == "editable":
            return
        sys.path.insert(0, self.root)
        from typer.main import get_command  # noqa: PLC0415 - the build has what its hook names only now

        from replay.cli.app import app  # noqa: PLC0415
        from replay.cli.manual import ManualFormat, pages  # noqa: PLC0415

        directory = Path(tempfile.mkdtemp())
        for name, text in pages(get_command(app), ManualFormat.MAN).items():
            (directory / name).write_text(text, "utf-8")
            build_data["shared_data"][str(directory / name)] = f"share/man/man1/{name}"
