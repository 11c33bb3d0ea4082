"""`replay check --authorization`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from msgspec.structs import replace

from replay.errors import ReplayError


def check_authorization(
    file: Path, running: Path | None, kubeconfig_root: Path | None, version: str, *, as_json: bool
) -> bool:
    """Print a server's answer to an AuthorizationConfiguration; return whether it continues with it.

    Raises ReplayError for unreadable files, and if no server runs with `running`.
    """
    from replay.authorization.configuration import ConfigurationError  # noqa: PLC0415 - `--help` must not pay for it
    from replay.authorization.lint import lint_configuration  # noqa: PLC0415
    from replay.authorization.server_file import ServerFiles  # noqa: PLC0415
    from replay.authorization.start import check_reload, check_start  # noqa: PLC0415
    from replay.cellib.version import KubernetesVersion  # noqa: PLC0415
    from replay.report.authorization.check import checked_json, checked_text  # noqa: PLC0415

    minor, files = KubernetesVersion.parse(version), ServerFiles(kubeconfig_root)
    data = file.read_bytes()
    try:
        checked = (
            check_start(data, minor, files)
            if running is None
            else check_reload(data, running.read_bytes(), minor, files)
        )
    except ConfigurationError as error:
        raise ReplayError(f"no server runs with it: {str(error).splitlines()[0]}", path=str(running)) from error
    warnings = [f"{each.path}: {each.message} [{each.name}]" for each in lint_configuration(checked, minor)]
    shown = replace(checked, warnings=(*checked.warnings, *warnings))
    if as_json:
        sys.stdout.write(json.dumps(checked_json(shown), indent=1, ensure_ascii=False) + "\n")
    else:
        sys.stdout.writelines(f"{line}\n" for line in checked_text(str(file), shown))
    return checked.is_accepted
