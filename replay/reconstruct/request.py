"""One rebuilt request: the attributes of the mutating and the validating phase."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct, field

from replay.audit.event import RequestRecord
from replay.kube.attributes import Attributes, Basis, Missing


class Reached(StrEnum):
    """How far a request got, as far as the log tells."""

    VALIDATION = "validation"
    FAILED_BEFORE = "failed_before"
    UNKNOWN = "unknown"


class ReplayRequest(Struct):
    """A request with its attributes and how each of them was known.

    `attributes` are those of the validating phase as it ran at the time, the effects of the mutators of the time included.
    `before_mutation` are those with which the mutating policies of a candidate would begin; its `object` is `Missing`
    where what the mutators of the time did cannot be undone. `basis` has the keys `object`, `oldObject` and
    `namespaceObject`; a part that is null by the API's own rule has the basis None. `reached_reason` says in words why a
    request is taken not to have reached validation, or why that is unknown. A `deletecollection` event yields one
    `ReplayRequest` per deleted object, numbered by `item`. `otherwise` is what both phases were told if the request was to
    create its object, where the log does not tell whether that existed.
    """

    record: RequestRecord
    attributes: Attributes
    before_mutation: Attributes | Missing
    basis: Mapping[str, Basis | None]
    reached: Reached = Reached.VALIDATION
    reached_reason: str = ""
    item: int = 0
    notes: tuple[str, ...] = field(default=())
    otherwise: tuple[Attributes | Missing, Attributes] | None = None

    @property
    def questions(self) -> list[tuple[Attributes | Missing, Attributes]]:
        """What both phases are told, for each operation that the request may have."""
        asked = (self.before_mutation, self.attributes)
        return [asked] if self.otherwise is None else [asked, self.otherwise]
