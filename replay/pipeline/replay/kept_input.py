"""Requests as they reach the validating phase, in bytes.

A changed validating policy is decided with these, without the log.

INVARIANT: they depend on no validating policy, and a decoded request is decided exactly as the original.
"""

from __future__ import annotations

import zlib
from collections.abc import Hashable, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any, Final, NamedTuple

import msgspec
import orjson
from msgspec import Raw, Struct

from replay.admission.conversion import Object
from replay.admission.decision import Decision
from replay.admission.effects import ADMITTED, UNCHANGED, Admitted, Patch
from replay.audit.event import RequestRecord
from replay.json import JSON, FieldPath
from replay.kube.attributes import Attributes, Basis, Missing, Operation, PartialObject, UserInfo
from replay.kube.gvk import GroupVersionKind, GroupVersionResource
from replay.kube.redact import SECRETS
from replay.reconstruct.request import Reached, ReplayRequest
from replay.world.decide import MutatedRequest

UNKEEPABLE: Final = (TypeError, ValueError, OverflowError, RecursionError)
"""Errors for values that would not be restored exactly.

Among such values are text that is not UTF-8, and numbers above 64 bits.
"""
ROWS: Final = 512
"""Number of requests in a block."""


class _Hole(NamedTuple):
    path: FieldPath
    missing: Missing


class _Partial(NamedTuple):
    """A partly known object, with nulls in place of unknown parts."""

    value: Any
    holes: tuple[_Hole, ...]
    missing: tuple[Missing, ...]


class _Value(Struct, array_like=True):
    """An object: plain JSON, a `Missing`, or a `_Partial`, as `form` says."""

    form: int
    content: Raw


class _Original(NamedTuple):
    """Attributes of the mutating phase that differ from those of the validating phase."""

    name: str
    object: _Value
    missing: tuple[Missing, ...]


class _Attributes(Struct, array_like=True):
    operation: Operation
    kind: GroupVersionKind
    resource: GroupVersionResource
    subresource: str
    namespace: str
    name: str
    user_info: Raw
    dry_run: bool
    options: _Value
    object: _Value
    old_object: _Value
    namespace_object: _Value
    missing: tuple[Missing, ...]
    workspace: str


class _Admitted(Struct, array_like=True):
    """An `Admitted`. A part is None if its plugin had no effect.

    `validated` is the object in `carried`, if that is no patch.
    """

    parts: Raw
    patch: Raw
    carried: Raw
    validated: _Value | None
    is_same: bool
    is_refused: bool


class _OperationRequest(Struct, array_like=True):
    """A request with one operation. `admitted` is None if no mutating plugin acted in any set."""

    original: Raw
    attributes: _Attributes
    admitted: tuple[_Admitted, ...] | None
    sets: int


class _HowFar(NamedTuple):
    """The rest of a request."""

    basis: Mapping[str, Basis | None]
    reached: Reached
    reached_reason: str
    item: int
    notes: tuple[str, ...]


class _Row(Struct, array_like=True):
    record: Raw
    asked: tuple[_OperationRequest, ...]
    how_far: Raw


_PLAIN, _MISSING, _PARTIAL = range(3)
_encode = msgspec.msgpack.Encoder().encode
_ROW = msgspec.msgpack.Decoder(_Row)
_ROWS = msgspec.msgpack.Decoder(list[bytes])
_CONTENT = msgspec.msgpack.Decoder()
_ABSENT = msgspec.msgpack.Decoder(Missing)
_PARTLY = msgspec.msgpack.Decoder(_Partial)
_USER = msgspec.msgpack.Decoder(UserInfo)
_RECORD = msgspec.msgpack.Decoder(RequestRecord)
_HOW_FAR = msgspec.msgpack.Decoder(_HowFar)
_ORIGINAL = msgspec.msgpack.Decoder(_Original | Missing)
_PARTS = msgspec.msgpack.Decoder(tuple[Decision | None, ...])
_PATCH = msgspec.msgpack.Decoder(tuple[Any, ...])


def kept_row(mutated: MutatedRequest) -> bytes:
    """Return a request as bytes. Raise one of `UNKEEPABLE`."""
    request, record = mutated.request, mutated.request.record
    # The bodies of a Secret stay, because the redactor hides its values by them (`redaction._bodies_of`).
    if record.resource != SECRETS:
        record = record._replace(request_object=None, response_object=None)
    questions = zip(request.questions, mutated.admitted, strict=True)
    asked = tuple(_asked(*question, admitted) for question, admitted in questions)
    how_far = _HowFar(request.basis, request.reached, request.reached_reason, request.item, request.notes)
    return _encode(_Row(_raw(record), asked, _raw(how_far)))


def _raw(value: object) -> Raw:
    return Raw(_encode(value))


class KeptRequest:
    """A request of a row. Its parts are decoded at first use, because a few often suffice."""

    def __init__(self, row: bytes) -> None:
        """Raise `msgspec.MsgspecError` if the row is none. So may each first use."""
        self._row = _ROW.decode(row)

    @cached_property
    def mutated(self) -> MutatedRequest:
        """The whole request."""
        (original, attributes), *others = [_question(each) for each in self._row.asked]
        how_far = _HOW_FAR.decode(self._row.how_far)
        request = ReplayRequest(
            _RECORD.decode(self._row.record),
            attributes,
            original,
            how_far.basis,
            how_far.reached,
            how_far.reached_reason,
            how_far.item,
            how_far.notes,
            others[0] if others else None,
        )
        return MutatedRequest(request, [_admitted(each) for each in self._row.asked])

    @property
    def plain(self) -> PlainRequest | None:
        """What the validating phase is shown, in bytes, None if a part or the operation is unknown."""
        (asked, *others), sets = self._row.asked, self._row.asked[0].admitted or ()
        own = asked.attributes
        values = (own.object, own.old_object, own.options, own.namespace_object)
        if others or own.missing or any(each.form != _PLAIN for each in values) or any(each.validated for each in sets):
            return None
        return PlainRequest(
            own.kind,
            (own.operation, own.kind, own.resource, own.subresource, own.namespace, own.workspace),
            own.name,
            bytes(own.namespace_object.content),
            own.user_info,
            (own.dry_run, own.options.content),
            own.object.content,
            own.old_object.content,
            tuple([(bytes(each.carried), each.is_refused) for each in sets]),
        )


class PlainRequest(NamedTuple):
    """What the validating phase is shown of a request.

    `admitted` are, for each set, the change of its mutating phase and whether that refused the request. It is empty if
    no mutating plugin acted.
    """

    kind: GroupVersionKind
    about: tuple[Hashable, ...]
    name: str
    namespace: bytes
    user: Raw
    others: tuple[bool, Raw]
    """The flag of a dry run, and the options."""
    object: Raw
    old_object: Raw
    admitted: tuple[tuple[bytes, bool], ...]


def _asked(original: Attributes | Missing, attributes: Attributes, admitted: Sequence[Admitted]) -> _OperationRequest:
    own = _Attributes(
        operation=attributes.operation,
        kind=attributes.kind,
        resource=attributes.resource,
        subresource=attributes.subresource,
        namespace=attributes.namespace,
        name=attributes.name,
        # The bytes are the key under which `_user` caches the user.
        user_info=Raw(_encode(attributes.user_info)),
        dry_run=attributes.dry_run,
        options=_value(attributes.options),
        object=_value(attributes.object),
        old_object=_value(attributes.old_object),
        namespace_object=_value(attributes.namespace_object),
        missing=attributes.missing,
        workspace=attributes.workspace,
    )
    before = (
        original
        if isinstance(original, Missing)
        else _Original(original.name, _value(original.object), original.missing)
    )
    is_unchanged = all(each is UNCHANGED for each in admitted)
    return _OperationRequest(
        _raw(before), own, None if is_unchanged else tuple(map(_kept_admitted, admitted)), len(admitted)
    )


def _question(asked: _OperationRequest) -> tuple[Attributes | Missing, Attributes]:
    own = asked.attributes
    attributes = Attributes(
        operation=own.operation,
        kind=own.kind,
        resource=own.resource,
        subresource=own.subresource,
        namespace=own.namespace,
        name=own.name,
        user_info=_user(bytes(own.user_info)),
        dry_run=own.dry_run,
        options=_object(own.options),
        object=_object(own.object),
        old_object=_object(own.old_object),
        namespace_object=_object(own.namespace_object),
        missing=own.missing,
        workspace=own.workspace,
    )
    before = _ORIGINAL.decode(asked.original)
    if isinstance(before, Missing):
        return before, attributes
    original = attributes.with_object(_object(before.object))
    original.name, original.missing = before.name, before.missing
    return original, attributes


def _value(value: Object) -> _Value:
    if isinstance(value, PartialObject):
        holes: list[_Hole] = []
        plain = _without_holes(value.value, (), holes)
        return _Value(_PARTIAL, Raw(_encode(_Partial(plain, tuple(holes), value.missing))))
    if isinstance(value, Missing):
        # A subclass of `Missing` says that the object may be absent. No form stands for that.
        if type(value) is not Missing:
            raise TypeError("what may be absent is not kept")
        return _Value(_MISSING, Raw(_encode(value)))
    return _Value(_PLAIN, Raw(_encode(value)))


def _object(kept: _Value) -> Object:
    if kept.form == _PLAIN:
        return _CONTENT.decode(kept.content)
    if kept.form == _MISSING:
        return _ABSENT.decode(kept.content)
    value, holes, missing = _PARTLY.decode(kept.content)
    for path, hole in holes:
        if not path:
            value = hole
        else:
            _value_at(value, path[:-1])[path[-1]] = hole
    return PartialObject(value, missing)


def _value_at(value: Any, path: FieldPath) -> Any:
    for key in path:
        value = value[key]
    return value


def _without_holes(value: JSON, path: FieldPath, holes: list[_Hole]) -> JSON:
    """Return a value with nulls for its holes, which are noted."""
    if isinstance(value, Missing):
        if type(value) is not Missing:
            raise TypeError("what may be absent is not kept")
        holes.append(_Hole(path, value))
        return None
    if isinstance(value, dict):
        return {key: _without_holes(item, (*path, key), holes) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_holes(item, (*path, index), holes) for index, item in enumerate(value)]
    return value


@lru_cache(maxsize=1024)
def _user(content: bytes) -> UserInfo:
    """Return a user. Cached, because few users make most requests."""
    return _USER.decode(content)


def _kept_admitted(admitted: Admitted) -> _Admitted:
    patch, validated = admitted.carried, None
    if not isinstance(patch, tuple):
        patch, validated = (), _value(admitted.carried)
    orjson.dumps((admitted.patch, patch, *map(_mutated, admitted.parts)))  # raises if a part is unknown
    return _Admitted(
        _raw(tuple(None if part is ADMITTED else part for part in admitted.parts)),
        _raw(admitted.patch),
        _raw(patch),
        validated,
        admitted.is_same,
        admitted.is_refused,
    )


def _mutated(part: Decision) -> tuple[Patch, ...]:
    return tuple(each.patch for each in part.mutated)


def _admitted(asked: _OperationRequest) -> Sequence[Admitted]:
    if asked.admitted is None:
        return [UNCHANGED] * asked.sets
    return [
        Admitted(
            tuple(ADMITTED if part is None else part for part in _PARTS.decode(each.parts)),
            _PATCH.decode(each.patch),
            _PATCH.decode(each.carried) if each.validated is None else _object(each.validated),
            each.is_same,
            each.is_refused,
        )
        for each in asked.admitted
    ]


class KeptBlocks:
    """The rows of one class in a part of the log, as compressed blocks."""

    def __init__(self) -> None:
        """Start without rows."""
        self.blocks: list[bytes] | None = []
        """The kept blocks, None as soon as one request cannot be kept."""
        self._rows: list[bytes] = []

    def add(self, mutated: MutatedRequest | None) -> None:
        """Add a request; None stands for one that cannot be kept."""
        if self.blocks is None:
            return
        try:
            row = kept_row(mutated) if mutated is not None else None
        except UNKEEPABLE:
            row = None
        if row is None:
            self.blocks = None
            self._rows.clear()
            return
        self._rows.append(row)
        if len(self._rows) == ROWS:
            self._close()

    def take(self) -> list[bytes] | None:
        """Return all blocks, None if not all requests can be kept."""
        if self._rows:
            self._close()
        return self.blocks

    def _close(self) -> None:
        assert self.blocks is not None
        self.blocks.append(block_of(self._rows))
        self._rows = []


def block_of(rows: Sequence[bytes]) -> bytes:
    """Return compressed rows."""
    # Speed matters more than size.
    return zlib.compress(_encode(rows), 1)


def rows_of(block: bytes) -> list[bytes]:
    """Return the rows of a block. Raise `msgspec.MsgspecError` or `zlib.error` if it is invalid."""
    return _ROWS.decode(zlib.decompress(block))
