"""What changed between two states of an object."""

from __future__ import annotations

from replay.admission.conversion import Object
from replay.admission.json_patch import diff
from replay.admission.partial_patch import is_same
from replay.identity import IdentityMemo
from replay.json import JSON
from replay.kube.attributes import Missing, PartialObject

Patch = tuple[JSON, ...]
"""The operations of an RFC 6902 patch."""


def changes(before: Object, after: Object) -> Patch:
    """The patch between two states of an object, empty where one of them is not known at all."""
    if before is after or before is None or after is None:
        return ()
    if isinstance(before, Missing) or isinstance(after, Missing):
        return ()
    return diff(_value(before), _value(after))


class Changes:
    """`changes` of one request, each pair of objects compared once: sets, policies and phases ask for the same ones."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        """Nothing is compared yet."""
        self._known: IdentityMemo[Patch] = IdentityMemo()

    def __call__(self, before: Object, after: Object) -> Patch:
        """The patch between two states."""
        if before is after:
            return ()
        known = self._known.get((before, after))
        return self._known.put((before, after), changes(before, after)) if known is None else known

    def note(self, before: Object, after: Object, patch: Patch) -> None:
        """Remember that a patch turns one into the other: it may also touch what it leaves as it was."""
        self._known.put((before, after), patch)

    def is_same(self, before: Object, after: Object) -> bool:
        """Whether two states are equal in all that is known."""
        if isinstance(before, dict) and isinstance(after, dict):
            return not self(before, after)
        return is_same(before, after)


def _value(value: Object) -> JSON:
    return value.value if isinstance(value, PartialObject) else value
