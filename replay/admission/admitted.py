"""Result of one set's mutating phase.

With it the validating phase can be decided without running the mutating phase again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from replay.admission.conversion import Object
from replay.admission.decision import Decision
from replay.admission.effects import Changes, Patch
from replay.kube import json_patch


class Admitted(Struct, frozen=True):
    """The outcome of one set's mutating phase.

    `parts` are the effects of each plugin that ran, in order. `patch` is the change of all of them. `is_same` says that
    the object is unchanged, `is_refused` that a plugin refused the request. `carried` leads from the recorded object to
    the validated one: a patch, or the validated object itself if one of the two is only partly known.
    """

    parts: tuple[Decision, ...] = ()
    patch: Patch = ()
    carried: Patch | Object = ()
    is_same: bool = True
    is_refused: bool = False

    def validated(self, recorded: Object, changes: Changes) -> Object:
        """Return the object that the set validates. `changes` receives its differences from the recorded object."""
        if not isinstance(self.carried, tuple):
            return self.carried
        if not self.carried:
            return recorded
        value = json_patch.apply(recorded, self.carried)
        changes.note(recorded, value, self.carried)
        return value


UNCHANGED: Final = Admitted()
"""Outcome of a mutating phase in which nothing acted on the request."""


class Made(Struct, frozen=True):
    """The decisions of all sets, and the result of each mutating phase.

    `admitted` is None if the results are unknown.
    """

    decisions: list[Decision]
    admitted: Sequence[Admitted] | None


def carried(recorded: Object, validated: Object, changes: Changes) -> Patch | Object:
    """Return the way from a recorded object to the validated one.

    It is a patch, or the validated object if a part is unknown.
    """
    if validated is recorded:
        return ()
    return changes(recorded, validated) if type(recorded) is dict and type(validated) is dict else validated
