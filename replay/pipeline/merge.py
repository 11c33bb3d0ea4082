"""The results of all parts put together, in the order of the log: the same bytes for any number of workers."""

from __future__ import annotations

import heapq
import pickle
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
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
    """Add up numbers, tell root findings from what follows them, and write the lines of `--outcomes` in order."""
    summary = Summary()
    cascade = Cascade.of(creation for result in results for creation in result.creations)
    streams: list[Iterable[Line]] = []
    for result in results:
        summary.add(result.summary)
        findings, lines = _load(result.spool)
        follows = {}
        for place, about, found in findings:
            label = cascade.follows(place, Operation(found.example.operation), about)
            if label:
                follows[place] = label
            summary.add_finding(found, follows=bool(label))
        if outcomes is not None:
            streams.append(_with_follows(lines, follows))
    if outcomes is not None:
        for _, line in heapq.merge(*streams, key=lambda line: line[0]):
            outcomes.write(line + b"\n")
    return summary, merged_fidelity(result.fidelity for result in results)


def _load(spool: Path) -> tuple[list[Pending], list[Line]]:
    with spool.open("rb") as file:
        # Written a moment ago by our own worker, in a directory that only this user may read.
        return pickle.load(file), pickle.load(file)  # noqa: S301


def _with_follows(lines: Iterable[Line], follows: dict[Place, str]) -> Iterator[Line]:
    """What a line follows is known only now; it is put in before the closing brace."""
    for place, line in lines:
        label = follows.get(place)
        yield place, line[:-1] + b',"follows":' + orjson.dumps(label) + b"}" if label else line
