"""`replay plugin`."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from replay.cli.options import ClusterName, ClusterSnapshot, LogFormat, Store

EPILOG = (
    "Example: replay plugin PodSecurity --config restricted.yaml --cases requests.jsonl --cluster cluster.jsonl --out results.jsonl\n\n"
    "Exit code: 0 every request was answered, 2 or more an error."
)


def plugin(
    name: Annotated[
        str,
        typer.Argument(
            help="Plugin, by its name in --enable-admission-plugins, or a policy engine: kyverno, gatekeeper.",
            metavar="NAME",
        ),
    ],
    logs: Annotated[
        list[str] | None,
        typer.Argument(
            help="Audit logs. Their requests are decided before those of --cases.",
            metavar="LOG",
        ),
    ] = None,
    *,
    log_format: LogFormat = None,
    store: Store = None,
    cluster_name: ClusterName = None,
    config: Annotated[
        Path, typer.Option(help="YAML file with the configuration, flags, namespaces and objects of the cluster.")
    ],
    cases: Annotated[
        list[Path] | None,
        typer.Option(
            help="AdmissionRequests, one {id, request} or {id, mutating, validating} object per line. Repeatable."
        ),
    ] = None,
    cluster: ClusterSnapshot = None,
    out: Annotated[Path | None, typer.Option(help="Write the results to this file, one JSON object per line.")] = None,
) -> None:
    """What does one built-in admission plugin or policy engine decide about these requests?

    The plugin runs alone: no other plugin, policy or webhook runs before or after it. Each line of the result shows what each phase did:
    refusal, patch, warnings, audit annotations, and writes to the cluster. With --out, the requests after which Kyverno makes or changes
    other objects are counted on the terminal.
    """
    from collections import Counter

    import orjson

    from replay.cli.progress import progress_on
    from replay.pipeline.plugin import plugin_results
    from replay.pipeline.scenario import Scenario
    from replay.pipeline.whole_file import whole_file
    from replay.storage.location import one_cluster

    with ExitStack() as files:
        target = files.enter_context(whole_file(out, "the results")) if out is not None else sys.stdout.buffer
        scenario = Scenario(
            tuple(logs or ()), store=one_cluster(store, cluster_name), cluster=cluster, log_format=log_format or ""
        )
        progress = files.enter_context(progress_on())
        triggered: Counter[str] = Counter()
        unknown: Counter[str] = Counter()
        for line in plugin_results(name, config, cases or (), scenario, progress):
            target.write(orjson.dumps(line) + b"\n")
            made = line.get("generate", ())
            unknown.update({each["policy"] for each in made if "undetermined" in each})
            known = (each for each in made if "undetermined" not in each)
            triggered.update({"/".join(filter(None, map(each.get, ("policy", "rule")))) for each in known})
    if out is not None:
        for policy, requests in sorted(triggered.items()):
            typer.echo(f"{policy}: {requests:,} requests make or change other objects afterwards")
        for policy, requests in sorted(unknown.items()):
            typer.echo(f"{policy}: {requests:,} requests are undetermined, see `generate` of their lines")
