"""The results of all parts put together, in the order of the log: the same bytes for any number of workers and parts."""

from __future__ import annotations

import heapq
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import orjson

from replay.audit.place import LogPosition
from replay.compare.fidelity import Fidelity
from replay.compare.fidelity import merged as merged_fidelity
from replay.compare.outcome import OutcomeKind
from replay.compare.summary import CellKey, Example, OutcomeFinding, Summary
from replay.matching.coarse import CoarseClass
from replay.pipeline.replay.divergence import Divergence
from replay.pipeline.replay.job import PartResult
from replay.pipeline.replay.replayer import Line, Pending
from replay.pipeline.replay.totals import NOTHING, ClassResult, Totals
from replay.pipeline.replay.world import World
from replay.report.outcome_line import Ending, ended_line
from replay.world.result import Cause

_MOST_SHARED = 10_000
"""How many values of findings are remembered: what repeats was among the first."""


def _always(_key: CellKey) -> bool:
    return True


def _never(_key: CellKey) -> bool:
    return False


class FindingFilter(NamedTuple):
    """Which findings a run concerns, and which of them are accepted."""

    concerns: Callable[[CellKey], bool] = _always
    accepts: Callable[[CellKey], bool] = _never


def class_results(
    results: Sequence[PartResult], unread: Iterable[tuple[str, str, str, str, int]]
) -> dict[CoarseClass, ClassResult]:
    """Return the combined results of each class; `unread` are requests that need no replay."""
    results_of_class: dict[CoarseClass, ClassResult] = {}
    for requests in sorted({requests for result in results for requests in result.classes}):
        pieces = [(result.spool, result.classes[requests]) for result in results if requests in result.classes]
        totals = Totals()
        for _, piece in pieces:
            totals.add(piece.totals)
        results_of_class[requests] = ClassResult(
            totals,
            _findings([(path, piece.findings) for path, piece in pieces]),
            partial(_divergence, [(path, piece.begins) for path, piece in pieces]),
        )
    for *columns, count in unread:
        result = results_of_class.setdefault(CoarseClass(*columns), NOTHING._replace(totals=Totals()))
        result.totals.summary.count_unchanged(count)
    return results_of_class


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
        for place, finding in result.findings():
            if not finding_filter.concerns(finding.key):
                summary.outcomes[finding.key.outcome] -= 1
                summary.outcomes[OutcomeKind.UNCHANGED] += 1
                continue
            if finding_filter.accepts(finding.key):
                summary.outcomes[finding.key.outcome] -= 1
                continue
            end = world.consequence(place)
            spared = end is not None and end.result.cause == Cause.SUCCEEDS
            placed = (
                finding
                if world.causing_request(place) is None
                else finding._replace(key=finding.key._replace(follows=True))
            )
            value = _sharing(placed, shared_values) if summary.remembers(placed) else placed
            summary.add_finding(value, spared=spared)
    return summary, merged_fidelity(result.totals.fidelity for result in ordered)


def _sharing(finding: OutcomeFinding, shared_values: dict[Any, Any]) -> OutcomeFinding:
    """Return the finding with shared values, because each was read from a file."""
    key, example = finding.key, finding.example
    shared = shared_values.setdefault if len(shared_values) < _MOST_SHARED else shared_values.get
    values, patch = key[1:], example.patch
    return OutcomeFinding(
        CellKey(key.outcome, *map(shared, values, values)),
        Example(
            *example[:4],
            shared(example.operation, example.operation),
            example.name,
            tuple(map(shared, example.messages, example.messages)),
            shared(orjson.dumps(patch), patch) if patch else (),
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
        streams = [_chunks(stack, result.spool, result.lines) for result in results]
        streams.append(sorted(world.lines))
        merged = (Line(*line) for line in heapq.merge(*streams, key=lambda line: line[0]))
        ordered: Iterable[tuple[LogPosition, bytes]] = ((line.place, _ended(line, world)) for line in merged)
        ordered = completed(ordered) if completed is not None else ordered
        outcomes.writelines(line + b"\n" for _, line in ordered)


def _ended(line: Line, world: World) -> bytes:
    """How a request ends is known only now."""
    consequence, causing_request = world.consequence(line.place), world.causing_request(line.place)
    root = line.root and causing_request is None
    if consequence is None:
        return ended_line(line.line, Ending(line.result, root=root))
    follows = causing_request.audit_id if causing_request is not None else ""
    return ended_line(
        line.line, Ending(consequence.result, follows, consequence.repetitions, root, consequence.denials)
    )


def _findings(places: Sequence[tuple[Path, int]]) -> Callable[[], Iterator[Pending]]:
    """The findings of a class, in the order of the log."""

    def read() -> Iterator[Pending]:
        with ExitStack() as stack:
            streams = [_chunks(stack, path, start) for path, start in places]
            yield from heapq.merge(*streams, key=lambda pending: pending.place)

    return read


def _divergence(places: Sequence[tuple[Path, int]]) -> Divergence:
    """Return a class's divergence."""
    beginning = Divergence()
    with ExitStack() as stack:
        for path, start in places:
            beginning.add(next(_values(stack, path, start)))
    return beginning


def _chunks(stack: ExitStack, path: Path, start: int) -> Iterable[Any]:
    """The values of a file from a place on, chunk by chunk until an empty one."""
    chunks = _values(stack, path, start)
    return (value for chunk in iter(lambda: next(chunks), []) for value in chunk)


def _values(stack: ExitStack, path: Path, start: int) -> Iterator[Any]:
    """Yield the values in a file from an offset. Our own workers wrote it in a private directory."""
    file = stack.enter_context(path.open("rb"))
    file.seek(start)
    while True:
        yield pickle.load(file)  # noqa: S301
