"""`replay mutations`."""

from __future__ import annotations

import sys

from replay.cli.options import AsJson, Cluster, Current, LogFormat, Logs, Redact, Store, Version, Workers, scenario_of

EPILOG = (
    "Example: replay mutations audit.jsonl.zst --current manifests/current --cluster cluster.jsonl\n\n"
    "Exit code: 0 the log was read, 2 or more an error."
)


def mutations(
    logs: Logs = None,
    log_format: LogFormat = None,
    store: Store = None,
    current: Current = None,
    cluster: Cluster = None,
    as_json: AsJson = False,
    redact: Redact = True,
    workers: Workers = 0,
    kubernetes_version: Version = "1.37",
) -> None:
    """Who changed objects between the request and the storage?

    Compares what clients sent with what was stored, and attributes each change to a webhook (its annotation holds the patch),
    a mutating policy of the current set (replayed, for policies leave no trace), a built-in plugin, the server itself, or
    to nobody that is known.
    """
    from rich.console import Console  # noqa: PLC0415 - `--help` must not pay for it

    from replay.cli.progress import progress_on  # noqa: PLC0415
    from replay.pipeline.forensic.mutations import mutations as attribute  # noqa: PLC0415
    from replay.pipeline.options import Options  # noqa: PLC0415
    from replay.report.mutations_report import mutations_document, mutations_json  # noqa: PLC0415
    from replay.report.render.terminal import print_document  # noqa: PLC0415

    scenario = scenario_of(logs, store, current, None, cluster, kubernetes_version, log_format=log_format)
    options = Options(redact=redact, workers=workers)
    with progress_on(Console(stderr=True)) as progress:
        result = attribute(scenario, options, progress)
    if as_json:
        sys.stdout.write(mutations_json(result))
    else:
        print_document(mutations_document(result), Console(highlight=False))
