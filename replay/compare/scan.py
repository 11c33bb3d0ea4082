"""Decisions about existing objects, as an unchanged update or as a new creation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from msgspec import Struct, field

from replay.admission.decision import Decision, Verdict
from replay.compare.outcome import OutcomeKind, outcome_kind


class ScannedObject(Struct, frozen=True):
    """One object. `owner` is its workload, `user` the assumed writer.

    `is_shown` says that the log shows this user writing the object. `current` is the decision of the baseline.
    """

    group: str
    resource: str
    kind: str
    namespace: str
    name: str
    owner: str
    user: str
    is_shown: bool
    current: Decision
    candidate: Decision

    @property
    def outcome(self) -> OutcomeKind:
        """The effect of the candidate on the object."""
        return outcome_kind(self.current, self.candidate)

    @property
    def workload(self) -> tuple[str, str]:
        """Namespace and owner."""
        return self.namespace, self.owner


class Scan(Struct, frozen=True):
    """The objects of a snapshot, in order. `skipped` counts those that could not be decided, by reason."""

    snapshot: str
    operation: str
    named_user: str
    objects: tuple[ScannedObject, ...]
    skipped: Mapping[str, int] = field(default_factory=dict)
    hints: tuple[str, ...] = ()

    @property
    def breaches(self) -> tuple[ScannedObject, ...]:
        """The objects that the candidate denies."""
        return tuple(each for each in self.objects if each.candidate.denials)

    @property
    def undetermined(self) -> tuple[ScannedObject, ...]:
        """The objects without a certain verdict."""
        unknown = Verdict.UNDETERMINED
        return tuple(each for each in self.objects if not each.candidate.denials and each.candidate.verdict is unknown)

    @property
    def mutated(self) -> tuple[ScannedObject, ...]:
        """The objects that the candidate changes and does not deny."""
        return tuple(each for each in self.objects if each.candidate.patch and not each.candidate.denials)


class OwnerTally(Struct):
    """Counts of an owner: its denied objects, and by policy the number and one message."""

    objects: int = 0
    policies: Counter[str] = field(default_factory=Counter)
    messages: dict[str, str] = field(default_factory=dict)

    def add(self, scanned: ScannedObject) -> None:
        """Count one object, once for each policy that denies it."""
        self.objects += 1
        for denial in scanned.candidate.denials:
            if denial.policy not in self.messages:
                self.messages[denial.policy] = denial.message
        self.policies.update({denial.policy for denial in scanned.candidate.denials})


def by_owner(objects: Iterable[ScannedObject]) -> dict[tuple[str, str], OwnerTally]:
    """Return the tallies by namespace and owner, those with most objects first."""
    tallies: dict[tuple[str, str], OwnerTally] = {}
    for each in objects:
        tallies.setdefault(each.workload, OwnerTally()).add(each)
    return dict(sorted(tallies.items(), key=lambda item: (-item[1].objects, item[0])))
