"""The search for requests about which two policies decide differently."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from replay.prove.claim import Level
from replay.prove.context import Context
from replay.prove.request import Request
from replay.prove.search.generator import Generator

_KEPT = 200


@dataclass(slots=True)
class Found:
    """The differences that a search has met so far, one in each direction, and how many requests it tried."""

    stricter: Request | None = None
    looser: Request | None = None
    tried: int = 0
    decided: int = 0
    levels: set[tuple[Level, ...]] = field(default_factory=set)

    @property
    def is_complete(self) -> bool:
        """Whether there is one in each direction."""
        return self.stricter is not None and self.looser is not None

    def take(self, request: Request, current: Level | None, candidate: Level | None) -> None:
        """Look at one decided request."""
        self.tried += 1
        if current is None or candidate is None:
            return
        self.decided += 1
        self.levels.add((current, candidate))
        if candidate > current and self.stricter is None:
            self.stricter = request
        elif candidate < current and self.looser is None:
            self.looser = request


def hunt(context: Context, count: int, seed: str, found: Found | None = None, *, thorough: bool = False) -> Found:
    """Try `count` random requests, and changes of those that neither side refuses; `thorough`: do not stop early."""
    found = found or Found()
    generator = context.generator(seed)
    if not context.targets:
        return found
    for request in _requests(context, generator, count):
        current, candidate = context.judge.levels(request)
        found.take(request, current, candidate)
        if found.is_complete and not thorough:
            break
    return found


def _requests(context: Context, generator: Generator, count: int) -> Iterator[Request]:
    """Random requests; half of them are changes of requests that got past both sides."""
    chooser = generator.chooser
    passed: list[Request] = []
    for request in generator.requests(count // 2):
        yield request
        if context.judge.levels(request)[0] is Level.ADMITTED:
            passed.append(request)
            if len(passed) > _KEPT:
                passed[chooser.randrange(len(passed))] = passed.pop()
    for _ in range(count - count // 2):
        if not passed:
            return
        made = generator.varied(chooser.choice(passed), 1 + chooser.randrange(2))
        if made is not None:
            yield made
            if context.judge.levels(made)[0] is Level.ADMITTED:
                passed[chooser.randrange(len(passed))] = made
