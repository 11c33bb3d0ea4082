"""One rebuilt request: the attributes of the mutating and the validating phase."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct, field

from replay.audit.event import RequestRecord
from replay.kube.attributes import Attributes, Basis, Missing


class Reached(StrEnum):
    """The point that a request reached, as far as the log shows it."""

    VALIDATION = "validation"
    FAILED_BEFORE = "failed_before"
    UNKNOWN = "unknown"


class ReplayRequest(Struct):
    """A request with its attributes and the basis of each.

    `attributes` are those of the validating phase at the time, including the effects of the mutators then.
    `before_mutation` are those with which a candidate's mutating policies would begin. Its `object` is `Missing` if the
    effects of the mutators cannot be undone. `basis` has the keys `object`, `oldObject` and `namespaceObject`. The
    basis is None for a part that the API defines as null. `reached_reason` says why the request did not reach
    validation, or why that is unknown. A `deletecollection` event gives one `ReplayRequest` per deleted object,
    numbered by `item`. `otherwise` are the attributes of both phases for a CREATE, if the log does not tell whether the
    object existed.
    """

    record: RequestRecord
    attributes: Attributes
    before_mutation: Attributes | Missing
    basis: Mapping[str, Basis | None]
    reached: Reached = Reached.VALIDATION
    reached_reason: str = ""
    item: int = 0
    notes: tuple[str, ...] = field(default=())
    alternative: tuple[Attributes | Missing, Attributes] | None = None

    @property
    def questions(self) -> list[tuple[Attributes | Missing, Attributes]]:
        """The attributes of both phases, for each operation that the request may have."""
        asked = (self.before_mutation, self.attributes)
        return [asked] if self.alternative is None else [asked, self.alternative]
