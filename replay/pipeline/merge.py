"""The results of all parts put together, in the order of the log: the same bytes for any number of workers."""

from __future__ import annotations

import heapq
import pickle
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from io import BufferedReader
from typing import BinaryIO

import orjson

from replay.compare.cascade import Cascade, Place
from replay.compare.fidelity import Fidelity
from replay.compare.fidelity import merged as merged_fidelity
from replay.compare.summary import Summary
from replay.kube.attributes import Operation
from replay.pipeline.job import PartResult
from replay.pipeline.replayer import Pending

Line = tuple[Place, bytes]


def merge(results: Sequence[PartResult], outcomes: BinaryIO | None) -> tuple[Summary, Fidelity]:
    """Add up numbers, tell root findings from what follows them, and write the lines of `--outcomes` in order.

    Lines are read a few at a time: those of a large log have no room in memory together.
    """
    summary = Summary()
    cascade = Cascade.of(creation for result in results for creation in result.creations)
    with ExitStack() as stack:
        streams: list[Iterable[Line]] = []
        for result in results:
            summary.add(result.summary)
            file = stack.enter_context(result.spool.open("rb"))
            follows = {}
            for place, about, found in _findings(file):
                label = cascade.follows(place, Operation(found.example.operation), about)
                if label:
                    follows[place] = label
                summary.add_finding(found, follows=bool(label))
            streams.append(_with_follows(_lines(file), follows))
        if outcomes is not None:
            for _, line in heapq.merge(*streams, key=lambda line: line[0]):
                outcomes.write(line + b"\n")
    return summary, merged_fidelity(result.fidelity for result in results)


# The files were written a moment ago by our own workers, in a directory that only this user may read.


def _findings(file: BufferedReader) -> list[Pending]:
    found: list[Pending] = pickle.load(file)  # noqa: S301
    return found


def _lines(file: BufferedReader) -> Iterator[Line]:
    while file.peek(1):
        yield from pickle.load(file)  # noqa: S301


def _with_follows(lines: Iterable[Line], follows: dict[Place, str]) -> Iterator[Line]:
    """What a line follows is known only now; it is put in before the closing brace."""
    for place, line in lines:
        label = follows.get(place)
        yield place, line[:-1] + b',"follows":' + orjson.dumps(label) + b"}" if label else line
