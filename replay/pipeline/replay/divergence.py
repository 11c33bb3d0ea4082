"""Start of the differences between the candidate's predictions and the log, per part and in total."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct, field

from replay.audit.place import stored_key
from replay.kube.object_ref import ObjectRef
from replay.world.result import IsolatedEnd


class Divergence(Struct):
    """Where the candidate's world begins to differ from the log's.

    `objects` are by key the numbers of the requests that differ, `numbers` of all such requests how each ends taken alone, where that is
    certain and finalizers are left as they are; None where it is to be worked out.
    """

    objects: dict[str, tuple[int, ...]] = field(default_factory=dict)
    numbers: dict[int, IsolatedEnd | None] = field(default_factory=dict)

    @staticmethod
    def of(parts: Iterable[Divergence]) -> Divergence:
        """Merge the parts' divergences. Equal values are shared."""
        beginning = Divergence()
        shared: dict[IsolatedEnd | None, IsolatedEnd | None] = {}
        for each in parts:
            each.numbers = {seq: shared.setdefault(alone, alone) for seq, alone in each.numbers.items()}
            beginning.add(each)
        return beginning

    def find(self, seq: int, about: ObjectRef, audit_id: str, alone: IsolatedEnd | None = None) -> None:
        """Take over one request."""
        self.numbers[seq] = alone
        key = stored_key(about, audit_id)
        self.objects[key] = (*self.objects.get(key, ()), seq)

    def concern(self, keys: Iterable[str]) -> None:
        """Take over objects of requests that only one set's authorizers allow."""
        for key in keys:
            self.objects.setdefault(key, ())

    def add(self, other: Divergence) -> None:
        """Take over those of another part of the log."""
        for key, numbers in other.objects.items():
            self.objects[key] = (*self.objects.get(key, ()), *numbers)
        self.numbers |= other.numbers

    def alone(self, numbers: Iterable[int]) -> dict[int, IsolatedEnd | None]:
        """How those of some requests end alone that differ."""
        return {seq: self.numbers[seq] for seq in numbers if seq in self.numbers}
