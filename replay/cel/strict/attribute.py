"""Variables with a path of selections, resolved as one unit, including optional and presence-testing selections."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from replay.cel.release import Release
from replay.cel.strict.frame import Frame, Operand
from replay.cel.value.equality import find, is_list, is_map
from replay.cel.value.number import lossless_int
from replay.cel.value.partial import PartialValue, stopping
from replay.cel.value.text import display, go_type_name, type_name
from replay.cel.value.values import (
    OPTIONAL_NONE,
    EvalError,
    MessageValue,
    ObjectValue,
    OpaqueValue,
    OptionalValue,
    TypedList,
    TypeValue,
    Uint,
    Unknown,
    Value,
)
from replay.go.format import general_text

# A single selection: a field, key or index of a value (cel-go `refQualify`).

Present = tuple[Value, bool]
"""A value and whether it exists. An `EvalError` as the value means that the test itself failed."""


class _ElementError(EvalError):
    """An error in place of a list element: the path continues and is charged before the error takes effect."""


def _select(value: Value, key: Value) -> Value:
    """Return `value.key` or `value[key]`."""
    part, present = _lookup(value, key, testing=False)
    return part if present or isinstance(part, EvalError) else missing(value, key)


def missing(value: Value, key: Value) -> EvalError:
    """Return the error for a key or index that does not exist."""
    if is_list(value.value if type(value) is PartialValue else value):
        return EvalError(f"index out of bounds: {display(key)}")
    return EvalError(f"no such key: {display(key)}")


def _lookup(value: Value, key: Value, *, testing: bool) -> Present:  # noqa: PLR0911 - one return a kind
    """Return `(part, present)`. The part is an `EvalError` if the key does not fit (cel-go `refQualify`)."""
    kind = type(value)
    if kind is PartialValue:
        part = value.parts.get(key) if isinstance(key, str | int) else None
        return (part, True) if isinstance(part, Unknown) else _lookup(value.value, key, testing=testing)
    if kind is dict or is_map(value):
        is_present, part = find(value, key)
        if isinstance(part, EvalError):
            return part, False
        return part, is_present
    if is_list(value):
        return _index(value, key)
    if isinstance(value, Unknown):
        return value, True
    if isinstance(value, EvalError):
        return EvalError(value.message), False
    if isinstance(value, ObjectValue):
        return value.part(key, testing=testing)
    if isinstance(value, MessageValue):
        return value.field(key), False
    return None, False


def _index(value: Value, key: Value) -> Present:
    kind = type(key)
    index: int | None
    if kind is int:
        index = key
    elif kind is float:
        index = lossless_int(key)
    elif kind is Uint:
        index = int(key) if key < 2**63 else None
    else:
        return EvalError(f"unsupported index type '{type_name(key)}' in list"), False
    if index is None:
        text = general_text(key) if kind is float else display(key)
        return EvalError(f"unsupported index value {text} in list"), False
    if not 0 <= index < len(value):
        return None, False
    if type(value) is TypedList and kind is not int:
        return _ElementError(f"unsupported index type: {go_type_name(key)}"), True
    return value[index], True


def _through_go(value: Value) -> Value:
    """Return the value as it comes back from Go: only optionals, types and values of libraries change.

    Optionals lose all their layers and types become their names. A Go value that a library wraps means nothing to CEL:
    it becomes an `EvalError`, which is returned rather than raised, because it stays inside an optional.
    """
    while isinstance(value, OptionalValue):
        value = value.value if value.has_value else None
    if isinstance(value, TypeValue):
        return value.name
    if isinstance(value, OpaqueValue) and value.native_go_type:
        return EvalError(f"unsupported conversion to ref.Val: ({value.native_go_type}){value}")
    return value


class Qualifier(Protocol):
    """One selection of a path."""

    @property
    def id(self) -> int:
        """The id of the node."""

    @property
    def optional(self) -> bool:
        """Whether the selection is marked with `?`."""

    def qualify(self, frame: Frame, value: Value) -> Value:
        """Return the selected part."""

    def qualify_if_present(self, frame: Frame, value: Value, *, presence_only: bool) -> Present:
        """Return the selected part and whether it is present."""


class Attribute(Protocol):
    """A variable or expression with a path."""

    @property
    def id(self) -> int:
        """The id of the last selection, or of the variable."""

    def add_qualifier(self, qualifier: Qualifier) -> None:
        """Extend the path. It is called only while planning."""

    def resolve(self, frame: Frame) -> Value:
        """Return the value at the end of the path."""


class KeyQualifier:
    """Selection by a constant name or index."""

    __slots__ = ("id", "key", "optional")

    def __init__(self, node_id: int, key: Value, *, optional: bool = False) -> None:
        """`key` is a string, number or bool."""
        self.id = node_id
        self.key = key
        self.optional = optional

    def qualify(self, frame: Frame, value: Value) -> Value:  # noqa: ARG002 - one signature for all qualifiers
        """Return the selected part."""
        return _select(value, self.key)

    def qualify_if_present(self, frame: Frame, value: Value, *, presence_only: bool) -> Present:  # noqa: ARG002
        """Return the selected part and whether it is present."""
        return _lookup(value, self.key, testing=True)


class FieldQualifier(KeyQualifier):
    """Selection of a field of a message that the expression built (cel-go `fieldQualifier`). An unset field is null."""

    __slots__ = ()

    def qualify(self, frame: Frame, value: Value) -> Value:
        """Return the field, null if it is not set."""
        if not isinstance(value, ObjectValue):
            return super().qualify(frame, value)
        return value.field(self.key)

    def qualify_if_present(self, frame: Frame, value: Value, *, presence_only: bool) -> Present:
        """Return the field and whether it is set."""
        if not isinstance(value, ObjectValue):
            return super().qualify_if_present(frame, value, presence_only=presence_only)
        return value.field(self.key), self.key in value.fields


class TestOnlyQualifier:
    """The last selection of `has(...)`, which tests whether the part is present."""

    __test__ = False
    __slots__ = ("_inner", "id", "optional")

    def __init__(self, inner: KeyQualifier) -> None:
        """`inner` is the selection to test."""
        self._inner = inner
        self.id = inner.id
        self.optional = inner.optional

    @property
    def key(self) -> Value:
        """The name that is tested."""
        return self._inner.key

    def qualify(self, frame: Frame, value: Value) -> Value:
        """Return whether the part is present."""
        part, present = self._inner.qualify_if_present(frame, value, presence_only=True)
        # Something of the part is missing, not the part itself.
        if type(part) is PartialValue:
            return True
        return part if isinstance(part, EvalError | Unknown) else present

    def qualify_if_present(self, frame: Frame, value: Value, *, presence_only: bool) -> Present:  # noqa: ARG002
        """Return the part and whether it is present."""
        return self._inner.qualify_if_present(frame, value, presence_only=True)


class ComputedQualifier:
    """Selection by a key that is itself the value of an attribute."""

    __slots__ = ("attribute", "id", "optional")

    def __init__(self, node_id: int, attribute: Attribute, *, optional: bool = False) -> None:
        """`attribute` is resolved anew in each evaluation."""
        self.id = node_id
        self.attribute = attribute
        self.optional = optional

    def qualify(self, frame: Frame, value: Value) -> Value:
        """Return the selected part."""
        key = self._key(frame)
        return key if isinstance(key, EvalError | Unknown) else _select(value, key)

    def qualify_if_present(self, frame: Frame, value: Value, *, presence_only: bool) -> Present:  # noqa: ARG002
        """Return the selected part and whether it is present."""
        key = self._key(frame)
        if isinstance(key, EvalError | Unknown):
            return key, isinstance(key, Unknown)
        return _lookup(value, key, testing=True)

    def _key(self, frame: Frame) -> Value:
        key = stopping(self.attribute.resolve(frame))
        if isinstance(key, str | int | float | EvalError | Unknown):
            return key
        return EvalError(f"invalid qualifier type: {_go_native(key)}")


def _go_native(key: Value) -> str:
    """Return the Go type of an invalid key. Decoded JSON is not yet a CEL value at this point."""
    return {"*types.baseList": "[]interface {}", "*types.baseMap": "map[string]interface {}"}.get(
        go_type_name(key), "<nil>" if key is None else go_type_name(key)
    )


def apply_qualifiers(frame: Frame, value: Value, qualifiers: Sequence[Qualifier]) -> Value:
    """Follow a path. After an optional selection all further ones are optional too, and so is the result."""
    optional = False
    if isinstance(value, OptionalValue) and (qualifiers or frame.release < Release.V0_29):
        if not value.has_value:
            return value
        optional = True
        value = value.value if frame.release >= Release.V0_29 else _through_go(value.value)
    for qualifier in qualifiers:
        optional = optional or qualifier.optional
        if not optional:
            value = qualifier.qualify(frame, value)
            # cel-go takes the error of a wrong index for the element: the path goes on, and is charged, before anyone sees it.
            if isinstance(value, EvalError) and type(value) is not _ElementError:
                return value
            continue
        value, present = qualifier.qualify_if_present(frame, value, presence_only=False)
        if isinstance(value, EvalError):
            return value
        if not present:
            return OPTIONAL_NONE
    if type(value) is PartialValue:
        return OptionalValue(value) if optional else value
    return OptionalValue(value) if optional and not isinstance(value, Unknown) else value


class AbsoluteAttribute:
    """A variable by its possible names, most specific first, with a path."""

    __slots__ = ("_from_root", "id", "names", "qualifiers")

    def __init__(self, node_id: int, names: Sequence[str]) -> None:
        """A name with a leading dot is looked up in the input, past the variables of all comprehensions."""
        self.id = node_id
        """The id of the last selection, or of the variable."""
        self._from_root = any(name.startswith(".") for name in names)
        self.names = tuple(name.removeprefix(".") for name in names)
        self.qualifiers: list[Qualifier] = []

    def add_qualifier(self, qualifier: Qualifier) -> None:
        """Extend the path."""
        self.qualifiers.append(qualifier)
        self.id = qualifier.id

    def resolve(self, frame: Frame) -> Value:
        """Return the value, or the error that no name is bound."""
        is_bound, value = self.resolve_if_bound(frame)
        return value if is_bound else EvalError(f"no such attribute(s): {', '.join(self.names)}")

    def resolve_if_bound(self, frame: Frame) -> tuple[bool, Value]:
        """Return `(found, value)`."""
        start = frame.root() if self._from_root else frame
        for name in self.names:
            is_bound, value = start.resolve(name)
            if is_bound:
                if isinstance(value, EvalError):
                    return True, value
                return True, apply_qualifiers(frame, value, self.qualifiers)
        return False, None


class MaybeAttribute:
    """A path in an unchecked expression: a dotted variable name or selections, longest name first."""

    __slots__ = ("_attributes", "_has_type")

    def __init__(self, node_id: int, names: Sequence[str], has_type: Callable[[str], bool]) -> None:
        """Start with the names of the first identifier. `has_type` tells whether a name is that of a type."""
        self._has_type = has_type
        self._attributes = [AbsoluteAttribute(node_id, names)]

    @property
    def id(self) -> int:
        """The id of the longest name."""
        return self._attributes[0].id

    def add_qualifier(self, qualifier: Qualifier) -> None:
        """Extend the path of every reading, and add the reading as a longer name."""
        # `a.b.c` may be a variable called `a.b` with the field `c`. Longer names are tried first.
        longer: tuple[str, ...] = ()
        key = getattr(qualifier, "key", None)
        for attribute in self._attributes:
            if isinstance(key, str) and not attribute.qualifiers:
                longer = tuple(f"{name}.{key}" for name in attribute.names)
            attribute.add_qualifier(qualifier)
        if longer:
            self._attributes.insert(0, AbsoluteAttribute(qualifier.id, longer))

    def resolve(self, frame: Frame) -> Value:
        """Return the value of the first reading that is bound."""
        for attribute in self._attributes:
            is_bound, value = attribute.resolve_if_bound(frame)
            if is_bound:
                return value
            if not attribute.qualifiers:
                for name in filter(self._has_type, attribute.names):
                    return TypeValue(name)
        return self._attributes[0].resolve(frame)


class RelativeAttribute:
    """An expression with a path."""

    __slots__ = ("_id", "_operand", "qualifiers")

    def __init__(self, node_id: int, operand: Operand) -> None:
        """`operand` is evaluated in each resolution."""
        self._id = node_id
        self._operand = operand
        self.qualifiers: list[Qualifier] = []

    @property
    def id(self) -> int:
        """The id of the last selection, or of the expression."""
        return self.qualifiers[-1].id if self.qualifiers else self._id

    def add_qualifier(self, qualifier: Qualifier) -> None:
        """Extend the path."""
        self.qualifiers.append(qualifier)

    def resolve(self, frame: Frame) -> Value:
        """Return the value at the end of the path."""
        value = self._operand.exec(frame)
        if isinstance(value, EvalError | Unknown) and type(value) is not PartialValue:
            return value
        return apply_qualifiers(frame, value, self.qualifiers)


class ConditionalAttribute:
    """`condition ? truthy : falsy` with a path, which belongs to both branches."""

    __slots__ = ("_id", "condition", "falsy", "truthy")

    def __init__(self, node_id: int, condition: Operand, truthy: Attribute, falsy: Attribute) -> None:
        """Each branch is an attribute with a path of its own."""
        self._id = node_id
        self.condition = condition
        self.truthy = truthy
        self.falsy = falsy

    @property
    def id(self) -> int:
        """The id of a selection after the conditional, or that of the conditional."""
        return self.truthy.id if self.truthy.id == self.falsy.id else self._id

    def add_qualifier(self, qualifier: Qualifier) -> None:
        """Extend the path of both branches."""
        self.truthy.add_qualifier(qualifier)
        self.falsy.add_qualifier(qualifier)

    def resolve(self, frame: Frame) -> Value:
        """Return the value of the chosen branch. An error or unknown in the condition is the result."""
        condition = self.condition.exec(frame)
        if condition is True:
            return self.truthy.resolve(frame)
        if condition is False:
            return self.falsy.resolve(frame)
        if isinstance(condition, EvalError | Unknown):
            return stopping(condition)
        return EvalError("no such overload")
