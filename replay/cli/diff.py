"""`replay diff`."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

EPILOG = (
    "Example: replay diff manifests/current manifests/next --format markdown\n\n"
    "Exit code: 0 the sets mean the same, 1 they differ, 2 or more an error."
)
DIFFERENT = 1


class DiffFormat(StrEnum):
    """How differences are printed."""

    TEXT = "text"
    MARKDOWN = "markdown"
    JSON = "json"


def diff(
    current: Annotated[Path, typer.Argument(help="The manifests in force.")],
    candidate: Annotated[Path, typer.Argument(help="The manifests that are planned.")],
    output: Annotated[DiffFormat, typer.Option("--format", help="How to print what differs.")] = DiffFormat.TEXT,
    kubernetes_version: Annotated[
        str, typer.Option("--kubernetes-version", help="The API server's minor version, 1.30 to 1.37.")
    ] = "1.37",
) -> None:
    """What does a change of manifests mean, before any log is read?

    Tells which policies and bindings are added, removed, renamed or changed: expressions, actions, failure policies, and
    whether a match was widened or narrowed. Of authorizers and RBAC likewise what a change widens and narrows.
    """
    from replay.authorization.build import DEFAULT_CONFIGURATION  # noqa: PLC0415 - `--help` must not pay for it
    from replay.authorization.diff import diff_authorization  # noqa: PLC0415
    from replay.authorization.manifest import load_authorization  # noqa: PLC0415
    from replay.cellib.version import KubernetesVersion  # noqa: PLC0415
    from replay.manifests.diff import diff_sets  # noqa: PLC0415
    from replay.manifests.set_loader import load_manifest_set  # noqa: PLC0415
    from replay.report import set_diff  # noqa: PLC0415

    version = KubernetesVersion.parse(kubernetes_version)
    differences = diff_sets(*(load_manifest_set(path, version=version) for path in (current, candidate)))
    before, after = (load_authorization(path, version) for path in (current, candidate))
    differences += tuple(diff_authorization(before, after, DEFAULT_CONFIGURATION))
    if output is DiffFormat.JSON:
        sys.stdout.write(json.dumps(set_diff.diff_json(differences), indent=1, ensure_ascii=False) + "\n")
    else:
        lines = set_diff.diff_markdown if output is DiffFormat.MARKDOWN else set_diff.diff_text
        sys.stdout.writelines(f"{line}\n" for line in lines(differences))
    raise typer.Exit(DIFFERENT if differences else 0)
