"""The records of one object as exchanges, with the history that they tell of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from replay.audit.event import RequestRecord
from replay.kube.discovery import Discovery
from replay.reconstruct.history.history import History
from replay.reconstruct.history.old_object import OldObjects
from replay.reconstruct.record.exchange import Exchange

_NO_HISTORY = OldObjects(History(()))
"""History of a creation."""


class ObjectHistory:
    """The records of an object, and what its requests found.

    Most objects are only seen to be created, which no history has a say in: it is made when the first request needs it.
    """

    def __init__(
        self,
        records: Sequence[RequestRecord],
        discovery: Discovery,
        olds: Callable[[Sequence[Exchange]], OldObjects],
    ) -> None:
        """`olds` makes the history of exchanges."""
        self._discovery = discovery
        self._make = olds
        self._olds: OldObjects | None = None
        self.exchanges = [Exchange(record, discovery) for record in records]

    def at(self, index: int) -> tuple[Exchange, OldObjects]:
        """A record, and the history of its object."""
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
        """Look at all bodies before they are taken for objects."""
        self._olds = None
        self.exchanges = [Exchange(each.record, self._discovery, checked=True) for each in self.exchanges]
