"""Positions: of a request in the log, of an object in a store."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import md5
from typing import NamedTuple

from msgspec import Struct

from replay.kube.gvk import ObjectRef
from replay.kube.rbac import RBAC_RESOURCES

LOOKUPS = (
    "limitranges",
    "namespaces",
    "nodes",
    "serviceaccounts",
    "customresourcedefinitions.apiextensions.k8s.io",
    "priorityclasses.scheduling.k8s.io",
    *map(str, RBAC_RESOURCES),
)
"""Resources that decisions may always look up, as `resource.group`. Parameters of policies come in addition."""
LOOKED_UP = ("configmaps", *LOOKUPS)
"""Resources with parts of their own: `LOOKUPS`, and the usual kind of parameters."""
_LOOKED_UP = frozenset(LOOKED_UP)
_PARTS_FOR_EACH_OF_LOOKUPS = 16
TICKS = 1024
"""Number of positions in a microsecond."""
BETWEEN = "\x1f"
"""Separator of the parts of a key."""
_AUDIT_ID = "audit id "
"""Prefix of a request's id in the key of an object that never got a name. Names have no spaces."""


class LogPosition(Struct, frozen=True, order=True, array_like=True):
    """The position of a request, and of the object in a `deletecollection`."""

    seq: int
    item: int

    @property
    def microseconds(self) -> int:
        """Time of the answer."""
        return self.seq // TICKS


class ObjectPlace(NamedTuple):
    """The part of a store that has an object, and the hash that distinguishes the object from others there."""

    part: int
    identity: int


def lookup_parts(parts: int) -> int:
    """Return the number of parts for `LOOKED_UP`.

    They are the last parts. They take little time, and so fill the time that is left at the end.
    """
    return -(-parts // _PARTS_FOR_EACH_OF_LOOKUPS)


def stored_key(about: ObjectRef, audit_id: str = "") -> str:
    """Return the key of an object for queries and `object_place`.

    An object without a name has the id of the request that creates it, or an empty key without an id. INVARIANT: equal
    to what `ingest_request.sql` makes `identity` of.
    """
    if not about.name:
        if not audit_id:
            return ""
        about = about._replace(name=f"{_AUDIT_ID}{audit_id}")
    return BETWEEN.join(about if about.workspace else about[:4])


def is_named(key: str) -> bool:
    """Return whether an object ever got a name."""
    return not key.split(BETWEEN)[3].startswith(_AUDIT_ID)


def object_place(key: Sequence[str], parts: int) -> ObjectPlace:
    """Return where a store with `parts` parts has an object: by group, resource, namespace, name and the kcp workspace, if any.

    INVARIANT: equal to `ingest_request.sql`, except for deletions of collections, which are in the part of looked-up
    kinds. The namespace of a namespace is empty.
    """
    group, resource = key[:2]
    digest = md5("\0".join(key).encode(), usedforsecurity=False).digest()
    identity = int.from_bytes(digest[8:], "little")
    lookups = lookup_parts(parts)
    if f"{resource}.{group}".removesuffix(".") in _LOOKED_UP:
        return ObjectPlace(parts - lookups + identity % lookups, identity)
    return ObjectPlace(identity % max(parts - lookups, 1), identity)  # of a single part there is none to spare
