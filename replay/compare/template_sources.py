"""Decisions of a template's two sources, Rego and CEL, about the same requests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct, field


class SourceAnswers(Struct, frozen=True):
    """One request, and the denial messages of each source; `unknown` says why one cannot be decided."""

    id: str
    request: str
    rego: tuple[str, ...]
    cel: tuple[str, ...]
    unknown: str = ""

    @property
    def differs(self) -> bool:
        """Whether one source denies the request and the other does not."""
        return not self.unknown and bool(self.rego) is not bool(self.cel)

    @property
    def is_reworded(self) -> bool:
        """Whether both deny it, with other messages."""
        return not self.unknown and bool(self.rego and self.cel) and self.rego != self.cel


class SourceComparison(Struct, frozen=True):
    """Requests for both sources, and those with different answers."""

    templates: tuple[str, ...]
    requests: int
    denied: int
    """How many both deny with the same messages."""
    unlike: tuple[SourceAnswers, ...] = field(default_factory=tuple)

    @property
    def differing(self) -> tuple[SourceAnswers, ...]:
        """Return the requests that the sources decide differently."""
        return tuple(each for each in self.unlike if each.differs)

    @property
    def reworded(self) -> tuple[SourceAnswers, ...]:
        """Those that both deny with other messages."""
        return tuple(each for each in self.unlike if each.is_reworded)

    @property
    def undetermined(self) -> tuple[SourceAnswers, ...]:
        """Those that cannot be decided."""
        return tuple(each for each in self.unlike if each.unknown)


def comparison(templates: Sequence[str], answers: Iterable[SourceAnswers]) -> SourceComparison:
    """The comparison of all answers, in their order."""
    requests = denied = 0
    unlike = []
    for each in answers:
        requests += 1
        if each.unknown or each.rego != each.cel:
            unlike.append(each)
        elif each.rego:
            denied += 1
    return SourceComparison(tuple(templates), requests, denied, tuple(unlike))
