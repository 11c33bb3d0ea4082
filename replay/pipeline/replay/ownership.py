"""Who made which object for whom, as creations by controllers tell: the order in which a difference spreads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct, field

DEEPEST = 6
"""How deep owners are followed: a CronJob's pods are at depth two."""


class Ownership(Struct, frozen=True):
    """The objects that controllers made.

    `keys` are by the uid of an owner what it owns, `owners` by key and own uid of an object the uids of its owners, `depths` by key
    how many owners stand above an object, `DEEPEST` at most: objects at one depth need nothing of each other.
    """

    keys: Mapping[str, frozenset[str]] = field(default_factory=dict)
    owners: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)
    depths: Mapping[str, int] = field(default_factory=dict)

    @staticmethod
    def of(rows: Iterable[tuple[str, str, str]]) -> Ownership:
        """From rows of key, own uid and uid of an owner (`owned.sql`)."""
        keys: dict[str, set[str]] = {}
        owners: dict[str, dict[str, tuple[str, ...]]] = {}
        for key, uid, owner in rows:
            keys.setdefault(owner, set()).add(key)
            of_key = owners.setdefault(key, {})
            of_key[uid] = (*of_key.get(uid, ()), owner)  # what was refused has no uid
        return Ownership({uid: frozenset(owned) for uid, owned in keys.items()}, owners, _depths(owners))

    def owned_by(self, uids: Iterable[str]) -> set[str]:
        """The keys of what some owners own."""
        return {key for uid in uids for key in self.keys.get(uid, ())}


def _depths(owners: Mapping[str, Mapping[str, tuple[str, ...]]]) -> Mapping[str, int]:
    key_of = {uid: key for key, of_key in owners.items() for uid in of_key if uid}
    above = {
        key: {key_of.get(owner, "") for references in of_key.values() for owner in references}
        for key, of_key in owners.items()
    }
    depths = dict.fromkeys(owners, 1)
    for _ in range(DEEPEST - 1):
        deeper = {key: 1 + max(depths.get(each, 0) for each in references) for key, references in above.items()}
        if deeper == depths:
            break
        depths = deeper
    return depths
