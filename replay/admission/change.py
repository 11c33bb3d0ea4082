"""Changes between two states of an object."""

from __future__ import annotations

from msgspec import Struct, field

from replay.admission.conversion import Object
from replay.admission.partial_patch import is_same
from replay.json import JSON
from replay.kube.attributes import Missing, PartialObject
from replay.kube.json_patch import diff

Patch = tuple[JSON, ...]
"""Operations of an RFC 6902 patch."""


def changes(old: Object, new: Object) -> Patch:
    """Return the patch between two states of an object, empty if one of them is unknown."""
    if old is new or old is None or new is None:
        return ()
    if isinstance(old, Missing) or isinstance(new, Missing):
        return ()
    return diff(_value(old), _value(new))


class Changes(Struct):
    """Computes `changes` for one request, each pair of objects once: sets, policies and phases need the same pairs."""

    _patches: dict[tuple[int, int], tuple[Object, Object, Patch]] = field(default_factory=dict)
    """Patches by the identities of two states. The states are kept, so that no other object can have the same identity.
    """

    def __call__(self, old: Object, new: Object) -> Patch:
        """Return the patch between two states."""
        if old is new:
            return ()
        key = id(old), id(new)
        if key not in self._patches:
            self._patches[key] = old, new, changes(old, new)
        return self._patches[key][2]

    def note(self, old: Object, new: Object, patch: Patch) -> None:
        """Record a patch between two states. It may also touch unchanged parts."""
        self._patches[id(old), id(new)] = old, new, patch

    def is_same(self, old: Object, new: Object) -> bool:
        """Return whether two states are equal in all known parts."""
        if isinstance(old, dict) and isinstance(new, dict):
            return not self(old, new)
        return is_same(old, new)


def _value(value: Object) -> JSON:
    return value.value if isinstance(value, PartialObject) else value
