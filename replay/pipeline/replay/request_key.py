"""The key of a kept request: what validating policies read of it. Requests with equal keys are decided alike.

Only the parts that the policies read are decoded.

INVARIANT: a key determines the results of both mutating phases in all parts that are read, because a patch only adds,
replaces and removes, and belongs to the key as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType, defstruct

from replay.admission.alike import ROOTS, FootprintNode, footprint_tree
from replay.admission.validating.plugin import CertainPolicies, ValidatingAdmission
from replay.pipeline.replay.kept_input import KeptRequest, PlainRequest
from replay.reconstruct.cluster import Cluster

_encode = msgspec.msgpack.Encoder().encode


class RequestKeys:
    """The keys of kept requests for some validating policies."""

    def __init__(self, admission: ValidatingAdmission | None) -> None:
        """`admission` has the policies, None if they may read objects that a set lays over the cluster."""
        self._admission = admission
        self._policies: dict[Hashable, CertainPolicies | None] = {}
        """The policies that match each kind of requests, None if that depends on the single request."""

    def key(self, kept: KeptRequest, cluster: Cluster) -> Hashable | None:
        """Return the key of a request, None without one. Raise `msgspec.MsgspecError` as its parts do."""
        if self._admission is None or (plain := kept.plain) is None:
            return None
        about = (plain.about, plain.namespace)  # the labels of the namespace decide which policies match
        if about not in self._policies:
            request = kept.mutated.request
            self._policies[about] = self._admission.certain(request.attributes, cluster.at(request.record))
        policies = self._policies[about]
        reader = _reader_of(policies.footprint) if policies is not None else None
        if policies is None or reader is None:
            return None
        try:
            return policies.names, plain.kind, plain.admitted, _encode([read(plain) for read in reader])
        except msgspec.ValidationError:  # an object has an unexpected form
            return None


_Reader = Sequence[Callable[[PlainRequest], object]]
"""Functions that return the read parts of a request. They raise `msgspec.ValidationError` for unexpected forms."""


@lru_cache(maxsize=1024)
def _reader_of(footprint: frozenset[str]) -> _Reader | None:
    """Return the reader of a footprint, None if that has more than parts of a request."""
    roots = footprint_tree(footprint).names
    if not roots.keys() <= ROOTS:
        return None
    return [_part(name, node) for name, node in roots.items()]


def _part(root: str, node: FootprintNode) -> Callable[[PlainRequest], object]:
    """Return the function that reads what is below a binding."""
    if root == "namespaceObject":
        return attrgetter("namespace")
    if root == "request" and (node.is_read or node.any or node.names.keys() != {"userInfo"}):
        return attrgetter("about", "name", "user", "others")
    decoder = msgspec.msgpack.Decoder(_type_of(node.names["userInfo"] if root == "request" else node))
    content = attrgetter({"request": "user", "object": "object", "oldObject": "old_object"}[root])
    return lambda plain: decoder.decode(content(plain))


def _type_of(node: FootprintNode) -> Any:
    """Return a type that has only the read parts of a value. A decoder skips all others."""
    if node.names and not (node.is_read or node.any):
        fields = [
            (f"part{number}", _type_of(each) | UnsetType, UNSET) for number, each in enumerate(node.names.values())
        ]
        names = dict(zip((name for name, *_ in fields), node.names, strict=True))
        return defstruct("Parts", fields, rename=names) | None
    if node.any and not (node.is_read or node.names):
        entry = _type_of(node.any)
        return tuple[entry, ...] | dict[str, entry] | None  # type: ignore[valid-type]
    return Raw
