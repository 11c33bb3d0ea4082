"""The results of all parts put together, in the order of the log: the same bytes for any number of workers and parts."""

from __future__ import annotations

import heapq
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from replay.audit.place import Place
from replay.compare.fidelity import Fidelity
from replay.compare.fidelity import merged as merged_fidelity
from replay.compare.summary import CellKey, OutcomeFinding, Summary
from replay.matching.coarse import CoarseClass
from replay.pipeline.replay.job import PartResult
from replay.pipeline.replay.replayer import Line, Pending
from replay.pipeline.replay.totals import NOTHING, ClassResult, Totals
from replay.pipeline.replay.world import World
from replay.report.outcome_line import Ending, ended_line

_MOST_SHARED = 10_000
"""How many values of findings are remembered: what repeats was among the first."""


def class_results(
    results: Sequence[PartResult], unread: Iterable[tuple[str, str, str, str, int]]
) -> dict[CoarseClass, ClassResult]:
    """What all parts together found about each class of requests; `unread` are those that nobody needed to look at."""
    found: dict[CoarseClass, ClassResult] = {}
    for requests in sorted({requests for result in results for requests in result.classes}):
        pieces = [(*result.classes[requests], result.spool) for result in results if requests in result.classes]
        totals = Totals()
        for piece, _, _ in pieces:
            totals.add(piece)
        found[requests] = ClassResult(totals, _findings([(path, start) for _, start, path in pieces]))
    for *columns, count in unread:
        result = found.setdefault(CoarseClass(*columns), ClassResult(Totals(), NOTHING.findings))
        result.totals.summary.count_unchanged(count)
    return found


def merge(classes: dict[CoarseClass, ClassResult], world: World) -> tuple[Summary, Fidelity]:
    """Add up all classes, and tell root findings from what follows them."""
    summary = Summary()
    ordered = [result for _, result in sorted(classes.items())]
    known: dict[Any, Any] = {}
    for result in ordered:
        summary.add(result.totals.summary)
        for place, _, found, _ in result.findings():
            consequence = world.consequences.get(place)
            summary.add_finding(
                _sharing(found, known), follows=consequence is not None and consequence.follows is not None
            )
    return summary, merged_fidelity(result.totals.fidelity for result in ordered)


def _sharing(found: OutcomeFinding, known: dict[Any, Any]) -> OutcomeFinding:
    """The same finding, made of values that are in memory once: each was read from a file on its own."""
    key, example = found

    def shared(value: Any) -> Any:
        return known.setdefault(value, value) if len(known) < _MOST_SHARED else known.get(value, value)

    return OutcomeFinding(
        CellKey(key.outcome, *map(shared, key[1:])),
        example._replace(
            operation=shared(example.operation),
            messages=tuple(map(shared, example.messages)),
            patch=known.setdefault(orjson.dumps(example.patch), example.patch) if example.patch else (),
        ),
    )


def write_lines(
    results: Sequence[PartResult],
    world: World,
    outcomes: BinaryIO,
    completed: Callable[[Iterable[tuple[Place, bytes]]], Iterable[tuple[Place, bytes]]] | None = None,
) -> None:
    """Write the lines of `--outcomes` in order, a few at a time: those of a large log have no room in memory together.

    `completed` adds to lines, and lines of its own.
    """
    with ExitStack() as stack:
        streams = [_chunks(stack, result.spool, result.lines) for result in results]
        merged = (Line(*line) for line in heapq.merge(*streams, key=lambda line: line[0]))
        ordered: Iterable[tuple[Place, bytes]] = ((line.place, _ended(line, world)) for line in merged)
        ordered = completed(ordered) if completed is not None else ordered
        outcomes.writelines(line + b"\n" for _, line in ordered)


def _ended(line: Line, world: World) -> bytes:
    """How a request ends is known only now."""
    found = world.consequence(line.place)
    if found is None:
        return ended_line(line.line, Ending(line.result, root=line.root))
    follows = found.follows.audit_id if found.follows is not None else ""
    root = line.root and not follows
    return ended_line(line.line, Ending(found.result, follows, found.repetitions, root, found.denials))


def _findings(places: Sequence[tuple[Path, int]]) -> Callable[[], Iterator[Pending]]:
    """The findings of a class, in the order of the log."""

    def read() -> Iterator[Pending]:
        with ExitStack() as stack:
            streams = [_chunks(stack, path, start) for path, start in places]
            yield from heapq.merge(*streams, key=lambda pending: pending.place)

    return read


def _chunks(stack: ExitStack, path: Path, start: int) -> Iterable[Any]:
    """The values of a file from a place on, chunk by chunk until an empty one."""
    file = stack.enter_context(path.open("rb"))
    file.seek(start)
    # The file was written a moment ago by our own workers, in a directory that only this user may read.
    return (value for chunk in iter(lambda: pickle.load(file), []) for value in chunk)  # noqa: S301
