"""Records of one object as exchanges, with the object's history."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from replay.audit.event import RequestRecord
from replay.kube.discovery import Discovery
from replay.reconstruct.history.history import History
from replay.reconstruct.history.old_object import OldObjects
from replay.reconstruct.record.exchange import Exchange

_NO_HISTORY = OldObjects(History(()))
"""History for creations, which find nothing."""


class ObjectHistory:
    """The records of an object, and what its requests found.

    The history is computed on demand: most objects are only created, and a creation does not need it.
    """

    def __init__(
        self,
        records: Sequence[RequestRecord],
        discovery: Discovery,
        olds: Callable[[Sequence[Exchange]], OldObjects],
    ) -> None:
        """`olds` computes the history from exchanges."""
        self._discovery = discovery
        self._make = olds
        self._olds: OldObjects | None = None
        self.exchanges = [Exchange(record, discovery) for record in records]

    def at(self, index: int) -> tuple[Exchange, OldObjects]:
        """Return a record's exchange, and the history of its object."""
        exchange = self.exchanges[index]
        if exchange.record.verb in ("create", "deletecollection"):
            return exchange, _NO_HISTORY
        return exchange, self.olds

    @property
    def olds(self) -> OldObjects:
        """The history of the object."""
        if self._olds is None:
            self._olds = self._make([each for each in self.exchanges if each.record.verb != "deletecollection"])
        return self._olds

    def check(self) -> None:
        """Check all bodies before they count as objects, and drop the history."""
        self._olds = None
        self.exchanges = [Exchange(each.record, self._discovery, checked=True) for each in self.exchanges]
