"""`replay mutations`."""

from __future__ import annotations

from replay.cli.options import Baseline, FullReport, Machines, Printed, Redaction, Selection, with_groups

EPILOG = (
    "Example: replay mutations audit.jsonl.zst --current manifests/current --cluster cluster.jsonl\n\n"
    "Exit code: 0 the log was read, 2 or more an error."
)


@with_groups
def mutations(
    *,
    source: Baseline,
    requests: Selection,
    full: FullReport = False,
    printed: Printed,
    redact: Redaction = True,
    machines: Machines,
) -> None:
    """Who changed objects between the request and the storage?

    Compares what clients sent with what was stored. Attributes each change to a webhook (by its annotation), a mutating policy of the
    baseline (by replay), a built-in plugin, the server itself, or an unknown cause.
    """
    from replay.cli.progress import progress_on
    from replay.pipeline.forensic.mutations import mutations as attribute
    from replay.pipeline.options import Options
    from replay.report.mutations_report import mutations_document, mutations_json, mutations_screen

    scenario = source.scenario()
    with machines.fleet() as fleet, progress_on() as progress:
        options = Options(redact=redact, workers=machines.workers, fleet=fleet, focus=requests.focus())
        result = attribute(scenario, options, progress)
    printed.show(result, mutations_json, mutations_document, None if full else mutations_screen, indent=2)
