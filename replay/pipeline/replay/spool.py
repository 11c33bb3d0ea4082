"""Results of parts in files of the spool: how a worker writes them, and how they are read a few at a time.

Results are kept by class of requests, which is the unit of merging and of kept results.
"""

from __future__ import annotations

import heapq
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from operator import attrgetter
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from msgspec import field

from replay.compare.fidelity import Fidelity
from replay.compare.summary import Summary
from replay.compare.tally import Tally
from replay.matching.coarse import CoarseClass
from replay.pipeline.replay.divergence import Divergence
from replay.pipeline.replay.replayer import ClassOutcomes, PartOutcomes, Pending

_CHUNK = 100
"""Number of findings, or of lines for `--outcomes`, of each part that are in memory together during a merge."""


class Totals(Tally):
    """The results that can be added up."""

    summary: Summary = field(default_factory=Summary)
    fidelity: Fidelity = field(default_factory=Fidelity)


class ClassPiece(NamedTuple):
    """The results of a part for a class: totals, and offsets of the rest in its file.

    At `divergence` is a `Divergence`. From `findings` on are chunks of findings that end with an empty one.
    """

    totals: Totals
    divergence: int
    findings: int


class PartResult(NamedTuple):
    """Result of a worker: the pieces of each class of requests, and their file.

    Chunks of `--outcomes` begin at `lines`. `mutated` are the requests that are kept as they reached the validating phase,
    by the positions of their blocks in the file. They are None for a class that cannot be kept completely. `settled`
    are then the pieces of all other requests.
    """

    classes: dict[CoarseClass, ClassPiece]
    spool: Path
    lines: int
    settled: dict[CoarseClass, ClassPiece] = {}  # noqa: RUF012 - it is never changed
    kept_requests: dict[CoarseClass, list[tuple[int, int]] | None] = {}  # noqa: RUF012
    removed: dict[CoarseClass, ClassPiece] = {}  # noqa: RUF012
    """The results with an earlier candidate, if only the requests of `classes` with another decision are replayed."""


def spooled(outcomes: PartOutcomes, path: Path, earlier: PartOutcomes | None = None) -> PartResult:
    """Write the parts that grow with the log to a file: pieces of classes, kept requests, then lines."""
    with path.open("wb") as file:
        classes, settled = _pieces(outcomes.classes, file), _pieces(outcomes.settled, file)
        removed = _pieces(earlier.classes, file) if earlier is not None else {}
        mutated: dict[CoarseClass, list[tuple[int, int]] | None] = {}
        for requests, kept in outcomes.kept_requests.items():
            blocks = kept.take()
            mutated[requests] = None if blocks is None else [(file.tell(), file.write(block)) for block in blocks]
        lines = file.tell()
        _dump(sorted(outcomes.lines, key=lambda line: line[0]), file)
    return PartResult(classes, path, lines, settled, mutated, removed)


def _pieces(classes: Mapping[CoarseClass, ClassOutcomes], file: BinaryIO) -> dict[CoarseClass, ClassPiece]:
    """Write the divergence of each class, and its findings in order."""
    pieces = {}
    for requests, findings in classes.items():
        findings.findings.sort(key=attrgetter("place"))
        divergence = file.tell()
        pickle.dump(findings.divergence, file, pickle.HIGHEST_PROTOCOL)
        pieces[requests] = ClassPiece(Totals(findings.summary, findings.fidelity), divergence, file.tell())
        _dump(findings.findings, file)
    return pieces


def _dump(values: list[Any], file: BinaryIO) -> None:
    """Write values in chunks; an empty chunk ends them."""
    for start in range(0, len(values), _CHUNK):
        pickle.dump(values[start : start + _CHUNK], file, pickle.HIGHEST_PROTOCOL)
    pickle.dump([], file, pickle.HIGHEST_PROTOCOL)


def read_blocks(places: Iterable[tuple[Path, int, int]]) -> Iterator[bytes]:
    """Yield parts of files, given by offset and length."""
    for path, start, length in places:
        with path.open("rb") as file:
            file.seek(start)
            yield file.read(length)


def read_findings(places: Sequence[tuple[Path, int]]) -> Callable[[], Iterator[Pending]]:
    """Return a function that yields the findings of a class in the order of the log."""

    def read() -> Iterator[Pending]:
        with ExitStack() as stack:
            streams = [read_chunks(stack, path, start) for path, start in places]
            # Each part is in log order already, so that only one chunk of each is in memory.
            yield from heapq.merge(*streams, key=lambda pending: pending.place)

    return read


def read_divergence(places: Sequence[tuple[Path, int]]) -> Divergence:
    """Return a class's divergence."""
    beginning = Divergence()
    with ExitStack() as stack:
        for path, start in places:
            beginning.add(next(_values(stack, path, start)))
    return beginning


def read_chunks(stack: ExitStack, path: Path, start: int) -> Iterable[Any]:
    """Yield the values of a file from an offset, until an empty chunk."""
    chunks = _values(stack, path, start)
    return (value for chunk in iter(lambda: next(chunks), []) for value in chunk)


def _values(stack: ExitStack, path: Path, start: int) -> Iterator[Any]:
    """Yield the values in a file from an offset. Our own workers wrote it in a private directory."""
    file = stack.enter_context(path.open("rb"))
    file.seek(start)
    while True:
        yield pickle.load(file)  # noqa: S301


class ClassResult(NamedTuple):
    """The results for a class: totals, findings in log order, and the places where the candidate diverges.

    Findings and divergence are read again at each call.
    """

    totals: Totals
    findings: Callable[[], Iterator[Pending]]
    divergence: Callable[[], Divergence]


NOTHING = ClassResult(Totals(), lambda: iter(()), Divergence)
"""The result of a class without any outcome, such as a `deletecollection` of no objects."""
