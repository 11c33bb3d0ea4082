"""`replay convert`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from replay.cli.options import ClusterSnapshot, MinorVersion
from replay.errors import ReplayError
from replay.pipeline.version import version_of

EPILOG = (
    "Example: replay convert manifests/api --out static/ --cluster cluster.jsonl\n\n"
    "replay convert manifests/ --out static/ --url validate.example.com=https://10.0.0.5:8443/validate\n\n"
    "Exit code: 0 everything is converted, 1 something is left, 2 or more an error."
)
LEFT = 1


def convert(
    path: Annotated[
        Path,
        typer.Argument(
            help="Policies, bindings and webhook configurations of the API: a file, a directory or a snapshot."
        ),
    ],
    out: Annotated[Path, typer.Option(help="Directory for the static manifests. It is created if it does not exist.")],
    url: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=URL", help="Where the server calls a webhook that names a Service. Repeatable."),
    ] = None,
    cluster: ClusterSnapshot = None,
    server_directory: Annotated[
        str, typer.Option(metavar="DIR", help="Where the manifests will be on each API server.")
    ] = "/etc/kubernetes/admission",
    kubernetes_version: MinorVersion = None,
) -> None:
    """Write policies and webhooks of the API as static manifests of the API server.

    Writes one directory for each plugin and the AdmissionConfiguration that names them. An object that static manifests cannot say is
    left, with what to do instead. A parameter that a binding names is written into its policy.
    """
    from replay.pipeline.convert import ConvertOptions, convert_set
    from replay.report.conversion import conversion_lines

    urls = dict(_named(each) for each in url or ())
    version = version_of(kubernetes_version)
    options = ConvertOptions(version=version, urls=urls, cluster=cluster, server_directory=server_directory)
    converted = convert_set(path, out, options)
    paths, configuration = converted.paths, converted.configuration
    lines = conversion_lines(converted.conversion, paths, configuration, server_directory.rstrip("/"))
    sys.stdout.writelines(f"{line}\n" for line in lines)
    raise typer.Exit(LEFT if converted.conversion.left else 0)


def _named(option: str) -> tuple[str, str]:
    name, separator, target = option.partition("=")
    if not separator or not name or not target:
        raise ReplayError(f"`{option}` is not NAME=URL", path="--url")
    return name, target
