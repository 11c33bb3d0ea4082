"""Start of the differences between the candidate's predictions and the log, per part and in total."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

from msgspec import field

from replay.audit.place import stored_key
from replay.compare.tally import Tally
from replay.kube.gvk import ObjectRef
from replay.world.result import IsolatedEnd


class Divergence(Tally):
    """The requests from which the candidate diverges from the log.

    `objects` are the sequence numbers of differing requests by object key. `numbers` map each such request to its end
    taken alone, if that is certain and leaves finalizers alone. None must be evaluated.
    """

    objects: dict[str, tuple[int, ...]] = field(default_factory=dict)
    numbers: dict[int, IsolatedEnd | None] = field(default_factory=dict)

    @staticmethod
    def combined(parts: Iterable[Divergence]) -> Divergence:
        """Merge the parts' divergences.

        Equal values are shared, and so is a number that stands in both dictionaries.
        """
        beginning = Divergence()
        shared: dict[IsolatedEnd | None, IsolatedEnd | None] = {}
        for each in parts:
            # CPython makes a new object for each large number. With this map, both dictionaries hold the same one.
            own = {seq: seq for seq in each.numbers}
            each.objects = {key: tuple([own.get(seq, seq) for seq in seqs]) for key, seqs in each.objects.items()}
            each.numbers = {seq: shared.setdefault(alone, alone) for seq, alone in each.numbers.items()}
            beginning.add(each)
        return beginning

    def add_finding(self, seq: int, about: ObjectRef, audit_id: str, alone: IsolatedEnd | None = None) -> None:
        """Add one differing request."""
        self.numbers[seq] = alone
        key = stored_key(about, audit_id)
        self.objects[key] = (*self.objects.get(key, ()), seq)

    def add_objects(self, keys: Iterable[str]) -> None:
        """Take over objects of requests that only one set's authorizers allow."""
        for key in keys:
            self.objects.setdefault(key, ())

    def add(self, other: Self) -> None:
        """Add the divergence of another part of the log."""
        for key, numbers in other.objects.items():
            self.objects[key] = (*self.objects.get(key, ()), *numbers)
        self.numbers |= other.numbers

    def without(self, other: Divergence) -> Divergence:
        """Return the divergence without the requests of another one."""
        objects = {
            key: tuple(seq for seq in numbers if seq not in other.numbers) if key in other.objects else numbers
            for key, numbers in self.objects.items()
        }
        numbers = {seq: alone for seq, alone in self.numbers.items() if seq not in other.numbers}
        return Divergence({key: seqs for key, seqs in objects.items() if seqs}, numbers)

    def isolated_ends(self, numbers: Iterable[int]) -> dict[int, IsolatedEnd | None]:
        """Return how those of some requests that differ end by themselves."""
        return {seq: self.numbers[seq] for seq in numbers if seq in self.numbers}
