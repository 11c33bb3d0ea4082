"""`replay run --save-cases`: a case for each distinct finding, so that a log becomes a regression suite."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from replay.audit.store import Store
from replay.case.exported import UnrepresentableError
from replay.case.write.own import case_text
from replay.compare.outcome import OutcomeKind
from replay.compare.summary import CellKey, Example, Summary
from replay.pipeline.forensic.past import requests_of
from replay.pipeline.options import Options
from replay.pipeline.replay.job import Job
from replay.pipeline.testing.export import Exporter
from replay.pipeline.testing.request import title
from replay.pipeline.whole_file import write_files

_CANDIDATE = 1
_LONGEST = 100


class _Finding(Struct, frozen=True):
    """Key of a distinct finding, and the first request that shows it."""

    outcome: OutcomeKind
    policies: tuple[str, ...]
    resource: str
    example: Example


def save_cases(store: Store, job: Job, summary: Summary, paths: tuple[Path, ...], options: Options) -> list[str]:
    """Write the cases, and say how many there are and which findings no case can hold; `paths` are where the candidate set is.

    `job` has the history of the log. Raises ReplayError where the directory cannot be written.
    """
    directory = options.save_cases
    assert directory is not None
    exporter = Exporter(job, _CANDIDATE, paths, redact=options.redact)
    files: dict[str, str] = {}
    unheld: Counter[str] = Counter()
    for finding in _distinct(summary):
        requests = list(requests_of(store, job, [finding.example.audit_id], is_full=True))
        request = requests[finding.example.item]
        try:
            exported, case = exporter.exported(request, f"{finding.outcome.value}: {title(request)}", minimise=True)
        except UnrepresentableError as error:
            unheld[error.message] += 1
            continue
        files[_name(finding, files)] = case_text(exported, case, directory)
    write_files(directory, files, "the cases")
    lines = [f"{len(files)} cases of distinct findings were saved in {directory}"]
    return lines + [f"{count} distinct findings are no cases: {reason}" for reason, count in unheld.most_common()]


def _distinct(summary: Summary) -> Iterator[_Finding]:
    """Yield findings that differ in outcome, policies, resource or change, in log order."""
    first: dict[tuple[object, ...], tuple[CellKey, Example]] = {}
    for key, cell in summary.cells.items():
        if key.follows:
            continue
        group = (key.outcome, key.policies, key.resource, key.shapes)
        example = cell.examples[0]
        if group not in first or (example.seq, example.item) < (first[group][1].seq, first[group][1].item):
            first[group] = key, example
    for key, example in sorted(first.values(), key=lambda each: (each[1].seq, each[1].item)):
        yield _Finding(key.outcome, key.policies, key.resource, example)


def _name(finding: _Finding, names: dict[str, str]) -> str:
    """Return a file name that describes the finding."""
    policy = finding.policies[0].removesuffix(".static.k8s.io") if finding.policies else ""
    text = "-".join(filter(None, (finding.outcome.value, policy, finding.resource)))
    base = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:_LONGEST]
    numbered = (base if number == 1 else f"{base}-{number}" for number in range(1, len(names) + 2))
    return next(f"{name}.yaml" for name in numbered if f"{name}.yaml" not in names)
