"""Result of `replay.run`: numbers, and tables for Polars, DuckDB and pandas."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import finalize

import orjson
from msgspec import Struct
from msgspec.structs import replace

from replay.audit.ingest import Progress
from replay.compare.result import RunResult
from replay.compare.summary import decided
from replay.json import JSON
from replay.pipeline.forensic.sql import run_query
from replay.pipeline.options import Options
from replay.pipeline.output import write_report
from replay.pipeline.run import run
from replay.pipeline.scenario import Scenario
from replay.report.render.html import html
from replay.report.run.json import summary_json
from replay.report.run.report import run_document
from replay.storage.scratch import scratch

if TYPE_CHECKING:
    import pyarrow as pa

PAGE_HEIGHT = 640
"""Pixels of a notebook that a report takes; it scrolls."""


class Numbers(Struct, frozen=True):
    """The numbers of a run: requests that admission saw, those decided of those that reached validation, and by outcome.

    `roots` counts, by outcome, the findings that follow no other one; `accepted` are denials that are meant.
    """

    requests: int
    decided: int
    reached: int
    outcomes: Mapping[str, int]
    roots: Mapping[str, int]
    accepted: int


class Result:
    """A run. It keeps its log as long as it lives, in the named store or in a temporary one."""

    def __init__(self, result: RunResult, scenario: Scenario, options: Options, progress: Progress) -> None:
        """Use `replay.run`; `scenario` is about a filled store."""
        self._result, self._scenario, self._options, self._progress = result, scenario, options, progress

    @classmethod
    def from_scenario(cls, scenario: Scenario, options: Options, progress: Progress) -> Result:
        """Run a scenario. Raises ReplayError."""
        with ExitStack() as stack:
            store = scenario.store if scenario.store is not None else stack.enter_context(scratch()) / "store"
            result_of_run = run(replace(scenario, store=store), options, progress)
            result = cls(result_of_run, replace(scenario, logs=(), store=store), options, progress)
            finalize(result, stack.pop_all().close)
        return result

    def __repr__(self) -> str:
        """Return the verdict of the report in one sentence."""
        return f"<replay.Result: {run_document(self._result).verdict}>"

    def _repr_html_(self) -> str:
        """Return the report for a notebook, in a frame that isolates styles and scripts."""
        from html import escape  # noqa: PLC0415 - only notebooks need it

        page = escape(html(run_document(self._result)), quote=True)
        frame = "width:100%;border:1px solid #8884;border-radius:4px"
        return f'<iframe srcdoc="{page}" style="{frame}" height="{PAGE_HEIGHT}" title="replay"></iframe>'

    @cached_property
    def summary(self) -> Numbers:
        """Return the numbers of the headline."""
        summary = self._result.summary
        determined, total = decided(summary, "candidate")
        roots: dict[str, int] = {}
        for key, cell in summary.cells.items():
            if not key.follows:
                roots[key.outcome.value] = roots.get(key.outcome.value, 0) + cell.count
        outcomes = {kind.value: count for kind, count in sorted(summary.outcomes.items()) if count}
        return Numbers(summary.requests, determined, total, outcomes, roots, self._result.accepted.requests)

    def json(self) -> dict[str, JSON]:
        """Return what `replay run --json` prints."""
        document: dict[str, JSON] = orjson.loads(summary_json(self._result))
        return document

    def findings(self) -> pa.Table:
        """What the candidate changes: a row for requests that are alike in outcome, policies, user, namespace and workload.

        `file` and `line` are those of the first policy, `follows` tells what only follows another finding, `audit_id` is the first
        request (`replay explain`).
        """
        from replay.api.tables import findings_table  # noqa: PLC0415 - pyarrow is slow to load

        return findings_table(self._result)

    @cached_property
    def _outcomes(self) -> pa.Table:
        from replay.api.tables import outcomes_table  # noqa: PLC0415 - pyarrow is slow to load

        with scratch() as directory:
            path = Path(directory) / "outcomes.jsonl"
            run(self._scenario, replace(self._options, outcomes=path), self._progress)
            return outcomes_table(path)

    def outcomes(self) -> pa.Table:
        """Return one row per request that reached admission, with both verdicts and denials; runs the replay again."""
        return self._outcomes

    def requests(self) -> pa.Table:
        """Return one row per request of the log: the view `request` of `queries/README.md`. `redact` hides Secrets."""
        query, redact = "select * from request", self._options.redact
        return run_query(self._scenario, query, {}, self._progress, redact=redact).to_arrow()

    def write(self, directory: str | Path) -> None:
        """Write what `replay run --report` writes; raises ReplayError."""
        write_report(self._result, Path(directory))
