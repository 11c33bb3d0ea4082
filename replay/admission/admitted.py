"""What the mutating phase of one set leaves of a request: with it the validating phase can be decided without the phase before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from msgspec import Struct

from replay.admission.change import Changes, Patch
from replay.admission.conversion import Object
from replay.admission.decision import Decision
from replay.kube import json_patch


class Admitted(Struct, frozen=True):
    """The outcome of one set's mutating phase.

    `parts` are the effects of each plugin that ran, in order, `patch` is what all of them changed. `is_same` tells that they left the very
    object, `is_refused` that one of them refused the request. `carried` leads from the recorded object to the one that is validated; it is this
    object itself where not all of both is known.
    """

    parts: tuple[Decision, ...] = ()
    patch: Patch = ()
    carried: Patch | Object = ()
    is_same: bool = True
    is_refused: bool = False

    def validated(self, recorded: Object, changes: Changes) -> Object:
        """Return the object that the set validates; `changes` receives what it differs in."""
        if not isinstance(self.carried, tuple):
            return self.carried
        if not self.carried:
            return recorded
        value = json_patch.apply(recorded, self.carried)
        changes.note(recorded, value, self.carried)
        return value


UNCHANGED: Final = Admitted()
"""Nothing acted on the request."""


class Made(NamedTuple):
    """The decisions of all sets, and what the mutating phase of each left; `admitted` is None where that is not known."""

    decisions: list[Decision]
    admitted: Sequence[Admitted] | None


def carried(recorded: Object, validated: Object, changes: Changes) -> Patch | Object:
    """Return how a recorded object leads to the one that is validated."""
    if validated is recorded:
        return ()
    return changes(recorded, validated) if type(recorded) is dict and type(validated) is dict else validated
