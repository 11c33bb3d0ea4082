"""Decisions of the two sources of a template, Rego and CEL, about the same requests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct, field


class SourceAnswers(Struct, frozen=True):
    """One request with the denial messages of each source. `unknown` says why one is undecided."""

    id: str
    request: str
    rego: tuple[str, ...]
    cel: tuple[str, ...]
    unknown: str = ""

    @property
    def differs(self) -> bool:
        """Whether exactly one source denies the request."""
        return not self.unknown and bool(self.rego) is not bool(self.cel)

    @property
    def is_reworded(self) -> bool:
        """Whether both sources deny the request with different messages."""
        return not self.unknown and bool(self.rego and self.cel) and self.rego != self.cel


class SourceComparison(Struct, frozen=True):
    """Comparison of both sources. `unlike` are the requests with different answers."""

    templates: tuple[str, ...]
    requests: int
    denied: int
    """Number of requests that both sources deny with the same messages."""
    unlike: tuple[SourceAnswers, ...] = field(default_factory=tuple)

    @property
    def differing(self) -> tuple[SourceAnswers, ...]:
        """The requests that the sources decide differently."""
        return tuple(each for each in self.unlike if each.differs)

    @property
    def reworded(self) -> tuple[SourceAnswers, ...]:
        """The requests that both sources deny with different messages."""
        return tuple(each for each in self.unlike if each.is_reworded)

    @property
    def undetermined(self) -> tuple[SourceAnswers, ...]:
        """The requests that cannot be decided."""
        return tuple(each for each in self.unlike if each.unknown)


def comparison(templates: Sequence[str], answers: Iterable[SourceAnswers]) -> SourceComparison:
    """Return the comparison of all answers, in their order."""
    requests = denied = 0
    unlike = []
    for each in answers:
        requests += 1
        if each.unknown or each.rego != each.cel:
            unlike.append(each)
        elif each.rego:
            denied += 1
    return SourceComparison(tuple(templates), requests, denied, tuple(unlike))
