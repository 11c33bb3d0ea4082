"""Combines the results of all parts in the order of the log: the same bytes for any number of workers and parts."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import orjson
from msgspec.structs import astuple, replace

from replay.audit.place import LogPosition
from replay.compare.fidelity import Fidelity
from replay.compare.fidelity import merged as merged_fidelity
from replay.compare.outcome import OutcomeKind
from replay.compare.summary import MAX_GROUPS, CellKey, OutcomeFinding, Summary
from replay.matching.coarse import CoarseClass
from replay.pipeline.replay.divergence import Divergence
from replay.pipeline.replay.kept_result import KeptClass
from replay.pipeline.replay.replayer import Line, Pending
from replay.pipeline.replay.spool import (
    NOTHING,
    ClassPiece,
    ClassResult,
    PartResult,
    Totals,
    read_blocks,
    read_chunks,
    read_divergence,
    read_findings,
)
from replay.pipeline.replay.world import World
from replay.report.outcome_line import Ending, ended_line
from replay.world.result import Cause

_MOST_SHARED = 10_000
"""Number of cached values of findings. Repeated values usually appear early."""


def _always(_key: CellKey) -> bool:
    return True


def _never(_key: CellKey) -> bool:
    return False


class FindingFilter(NamedTuple):
    """Filter of findings: those that a run concerns, and those that are accepted."""

    concerns: Callable[[CellKey], bool] = _always
    accepts: Callable[[CellKey], bool] = _never


Unread = Iterable[tuple[str, str, str, str, int]]
"""Number of requests of each class that need no replay."""


def class_results(results: Sequence[PartResult], unread: Unread) -> dict[CoarseClass, ClassResult]:
    """Return the combined results of each class."""
    pieces = ((each.spool, pieces) for each in results for pieces in (each.classes, each.settled))
    return _combined(pieces, unread)


def kept_classes(
    results: Sequence[PartResult], unread: Unread, classes: Iterable[CoarseClass]
) -> dict[CoarseClass, KeptClass]:
    """Return the requests of each class that reached the validating phase.

    Classes that cannot be kept completely are left out.
    """
    settled = _combined(((each.spool, each.settled) for each in results), unread)
    places: dict[CoarseClass, list[tuple[Path, int, int]]] = {}
    incomplete = set()
    for result in results:
        for requests, blocks in result.kept_requests.items():
            if blocks is None:
                incomplete.add(requests)
            places.setdefault(requests, []).extend((result.spool, *block) for block in blocks or ())
    return {
        requests: KeptClass(settled.get(requests, NOTHING), read_blocks(places.get(requests, ())))
        for requests in classes
        if requests not in incomplete
    }


def _combined(
    results: Iterable[tuple[Path, Mapping[CoarseClass, ClassPiece]]], unread: Unread
) -> dict[CoarseClass, ClassResult]:
    """Return the results of each class from its pieces in files."""
    pieces: dict[CoarseClass, list[tuple[Path, ClassPiece]]] = {}
    for path, of_classes in results:
        for requests, piece in of_classes.items():
            pieces.setdefault(requests, []).append((path, piece))
    results_of_class: dict[CoarseClass, ClassResult] = {}
    for requests, of_class in sorted(pieces.items()):
        totals = Totals()
        for _, piece in of_class:
            totals.add(piece.totals)
        results_of_class[requests] = ClassResult(
            totals,
            read_findings([(path, piece.findings) for path, piece in of_class]),
            partial(read_divergence, [(path, piece.divergence) for path, piece in of_class]),
        )
    for *columns, count in unread:
        result = results_of_class.setdefault(CoarseClass(*columns), NOTHING._replace(totals=Totals()))
        result.totals.summary.count_unchanged(count)
    return results_of_class


def removed_results(results: Sequence[PartResult]) -> dict[CoarseClass, ClassResult]:
    """Return the results of requests with an earlier candidate."""
    return _combined(((each.spool, each.removed) for each in results), ())


def joined(one: ClassResult, other: ClassResult) -> ClassResult:
    """Return the combined result of two results of one class."""
    totals = Totals()
    totals.add(one.totals)
    totals.add(other.totals)

    def findings() -> Iterator[Pending]:
        return heapq.merge(one.findings(), other.findings(), key=lambda pending: pending.place)

    def divergence() -> Divergence:
        beginning = Divergence()
        beginning.add(one.divergence())
        beginning.add(other.divergence())
        return beginning

    return ClassResult(totals, findings, divergence)


def corrected(earlier: ClassResult, removed: ClassResult, added: ClassResult) -> ClassResult | None:
    """Return the corrected result of a class: that of an earlier candidate, without `removed` and with `added`.

    Both are results of the same requests, with the earlier and the later candidate. The baseline is the same. None if
    it is uncertain what some numbers would be without the requests.
    """
    old, gone, new = (each.totals.summary for each in (earlier, removed, added))
    examples, others = old.changes.groups, gone.changes.groups
    is_example_gone = any(examples.get(group) == example for group, example in others.items())
    # A removed request may be an example, or may have kept other groups out of a full table.
    if is_example_gone or len(others) >= MAX_GROUPS or any(each.call_failures for each in (old, gone, new)):
        return None
    # The baseline is the same, and so is its match with the log.
    totals = Totals(fidelity=earlier.totals.fidelity)
    totals.summary.add(old)
    totals.summary.discount(gone)
    totals.summary.add(new)
    places = {pending.place for pending in removed.findings()}

    def findings() -> Iterator[Pending]:
        kept = (pending for pending in earlier.findings() if pending.place not in places)
        return heapq.merge(kept, added.findings(), key=lambda pending: pending.place)

    def divergence() -> Divergence:
        beginning = earlier.divergence().without(removed.divergence())
        beginning.add(added.divergence())
        return beginning

    return ClassResult(totals, findings, divergence)


def merge(
    classes: dict[CoarseClass, ClassResult],
    world: World,
    finding_filter: FindingFilter = FindingFilter(),  # noqa: B008 - a value
) -> tuple[Summary, Fidelity]:
    """Add up all classes, and separate direct findings from consequences.

    Requests outside the selection count as unchanged. Accepted ones count only in `requests`.
    """
    summary = Summary()
    ordered = [result for _, result in sorted(classes.items())]
    shared_values: dict[Any, Any] = {}
    for result in ordered:
        summary.add(result.totals.summary)
        for pending in result.findings():
            finding = pending.finding
            if not finding_filter.concerns(finding.key):
                summary.outcomes[finding.key.outcome] -= 1
                summary.outcomes[OutcomeKind.UNCHANGED] += 1
                continue
            if finding_filter.accepts(finding.key):
                summary.outcomes[finding.key.outcome] -= 1
                continue
            end = world.consequence(pending.place)
            spared = end is not None and end.result.cause == Cause.SUCCEEDS
            placed = (
                finding
                if world.causing_request(pending.place) is None
                else replace(finding, key=replace(finding.key, follows=True))
            )
            value = _sharing(placed, shared_values) if summary.remembers(placed) else placed
            summary.add_finding(value, spared=spared)
    return summary, merged_fidelity(result.totals.fidelity for result in ordered)


def _sharing(finding: OutcomeFinding, shared_values: dict[Any, Any]) -> OutcomeFinding:
    """Return the finding with shared values, because each was read from a file."""
    key, example = finding.key, finding.example
    # A full cache is still read, but no longer filled.
    shared: Any = shared_values.setdefault if len(shared_values) < _MOST_SHARED else shared_values.get
    values, patch = astuple(key), example.patch
    return OutcomeFinding(
        CellKey(*map(shared, values, values)),
        replace(
            example,
            operation=shared(example.operation, example.operation),
            messages=tuple(map(shared, example.messages, example.messages)),
            # A patch cannot be hashed, so its text is the key.
            patch=shared(orjson.dumps(patch), patch) if patch else (),
        ),
        finding.chains,
        finding.also_mutated,
    )


def write_lines(
    results: Sequence[PartResult],
    world: World,
    outcomes: BinaryIO,
    completed: Callable[[Iterable[tuple[LogPosition, bytes]]], Iterable[tuple[LogPosition, bytes]]] | None = None,
) -> None:
    """Write the lines of `--outcomes` in order, a few at a time, because they may not fit into memory.

    `completed` extends lines and adds others.
    """
    with ExitStack() as stack:
        streams = [read_chunks(stack, result.spool, result.lines) for result in results]
        streams.append(sorted(world.lines))
        merged = (Line(*line) for line in heapq.merge(*streams, key=lambda line: line[0]))
        ordered: Iterable[tuple[LogPosition, bytes]] = ((line.place, _ended(line, world)) for line in merged)
        ordered = completed(ordered) if completed is not None else ordered
        outcomes.writelines(line + b"\n" for _, line in ordered)


def _ended(line: Line, world: World) -> bytes:
    """Return a line with the end of its request, which is known only after the walks."""
    consequence, causing_request = world.consequence(line.place), world.causing_request(line.place)
    root = causing_request is None and (line.root or (consequence is not None and consequence.root))
    told = world.shown_ends.get(line.place)
    if consequence is None or (told is not None and told.cause == Cause.UNKNOWN):
        return ended_line(line.line, Ending(told or line.result, root=root))
    follows = causing_request.audit_id if causing_request is not None else ""
    return ended_line(
        line.line, Ending(told or consequence.result, follows, consequence.repetitions, root, consequence.denials)
    )
