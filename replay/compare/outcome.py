"""The comparison of two decisions about one request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from replay.admission.decision import Decision
from replay.kube.attributes import Basis
from replay.kube.gvk import GroupVersionResource


class OutcomeKind(StrEnum):
    """What a candidate changes for a request; where several apply, the first of this order is the outcome."""

    NEWLY_DENIED = "newly_denied"
    NEWLY_ADMITTED = "newly_admitted"
    UNDETERMINED = "undetermined"
    NEWLY_MUTATED = "newly_mutated"
    MUTATION_CHANGED = "mutation_changed"
    NO_LONGER_MUTATED = "no_longer_mutated"
    NEWLY_WARNED = "newly_warned"
    NEWLY_AUDITED = "newly_audited"
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True)
class Outcome:
    """One request that admission saw, decided by both sets; the line format of `--outcomes` is made of it."""

    audit_id: str
    stage_time: int
    user: str
    operation: str
    resource: GroupVersionResource
    subresource: str
    kind: str
    namespace: str
    name: str
    outcome: OutcomeKind
    basis: Mapping[str, Basis | None]
    current: Decision
    candidate: Decision
    workload: str = ""
    follows: str = ""
