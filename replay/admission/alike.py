"""Bytes of the input parts that expressions read. Inputs with equal bytes give the same result, error and cost.

A footprint becomes a function that takes the values at its paths from the input. msgpack distinguishes values that
Python considers equal (`1`, `1.0` and `True`). An unknown part is included with its reason, because an undetermined
result shows the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from functools import lru_cache
from typing import Any, Final, Generic, NamedTuple, TypeVar

import msgspec
from msgspec import Struct, field

from replay.admission.inputs import ANY, Place, place_of, read_places, segments
from replay.admission.request import admission_request, namespace_object
from replay.json import FieldPath
from replay.kube.attributes import Attributes, Missing, PartialObject


class UnknownPart(NamedTuple):
    """An unknown part of a binding. `part` is empty if the whole binding is unknown."""

    name: str
    part: FieldPath
    missing: Missing

    @property
    def place(self) -> Place:
        """The part in the form in which a footprint names it."""
        return place_of(self.name, self.part)


class PlainBindings(dict[str, Any]):
    """Bindings of a request for the names in `ROOTS`, each computed at first use. Partly known values are unwrapped.

    `__missing__` computes a binding. It keeps what `known` returns for it.
    """

    unknown: tuple[UnknownPart, ...] = ()
    """Unknown parts of the bindings that were computed."""
    places: frozenset[Place] = frozenset()
    """Places of these parts."""

    def known(self, name: str, value: Missing | PartialObject) -> Any:
        """Return a value without its wrapper, and note its unknown parts."""
        missing_parts = (((), value),) if isinstance(value, Missing) else value.parts
        parts = tuple([UnknownPart(name, part, missing) for part, missing in missing_parts])
        self.unknown += parts
        self.places |= {part.place for part in parts}
        return value if isinstance(value, Missing) else value.value


class RequestBindings(PlainBindings):
    """Bindings of policies that matched the request in the version in which it was sent."""

    def __init__(self, attributes: Attributes) -> None:
        """Start with the objects, which nearly every policy reads."""
        self._attributes = attributes
        if type(attributes.object) is dict:
            self["object"] = attributes.object
        if type(attributes.old_object) is dict or attributes.old_object is None:
            self["oldObject"] = attributes.old_object

    def __missing__(self, name: str) -> Any:
        """Compute and keep a binding."""
        attributes = self._attributes
        if name == "request":
            value = admission_request(attributes, attributes.resource, attributes.kind)
        elif name == "namespaceObject":
            value = namespace_object(attributes)
        else:
            value = attributes.object if name == "object" else attributes.old_object
        self[name] = value = self.known(name, value) if isinstance(value, (Missing, PartialObject)) else value
        return value


ROOTS = frozenset({"object", "oldObject", "request", "namespaceObject"})
"""Bindings that are plain JSON."""
DEEPEST = 16
"""Most names in a path of a projection. Python compiles at most 20 nested loops."""
LONGEST = 1024
"""Most bytes of a projection that is worth caching."""

_ABSENT = msgspec.msgpack.Ext(1, b"")
"""Marker for an absent value. JSON never encodes to it, nor to the next two."""
_OTHER = msgspec.msgpack.Ext(2, b"")
"""Marker for a value of another form than the path expects."""
_ENTRIES = msgspec.msgpack.Ext(3, b"")
"""Marker for the entries of a map whose path reads any entry."""
_encode = msgspec.msgpack.Encoder().encode

ProjectionKey = bytes | tuple[bytes, tuple[UnknownPart, ...]]
"""Values at the paths of a footprint, with the unknown ones and their reasons."""
Projection = Callable[[PlainBindings], ProjectionKey | None]
"""Function that projects bindings. It returns None for values that are not JSON or too long."""


class FootprintNode(Struct):
    """Part of a footprint at one place.

    It says whether everything below is read, and holds the parts that lead on, by name or any.
    """

    is_read: bool = False
    names: dict[str, FootprintNode] = field(default_factory=dict)
    any: FootprintNode | None = None

    def at(self, name: str | None) -> FootprintNode:
        """Return the node of a part. It is created if absent."""
        if name is ANY:
            self.any = self.any or FootprintNode()
            return self.any
        return self.names.setdefault(name, FootprintNode())

    @property
    def is_test(self) -> bool:
        """Return whether only presence is read."""
        return not (self.is_read or self.names or self.any)


@lru_cache(maxsize=16384)
def projection(footprint: frozenset[str]) -> Projection | None:
    """Return the projection function of a footprint, None if it reads bindings outside `ROOTS` or is too deep."""
    tree = footprint_tree(footprint)
    if not tree.names.keys() <= ROOTS or any(len(segments(path)) > DEEPEST for path in footprint):
        return None

    def with_unknown(content: bytes, bindings: PlainBindings) -> ProjectionKey:
        places = read_places(footprint, bindings.places)
        return (content, tuple([each for each in bindings.unknown if each.place in places])) if places else content

    return _compiled(tree, with_unknown)


def footprint_tree(footprint: Iterable[str]) -> FootprintNode:
    """Return the parts of a footprint, below a node for all bindings."""
    root = FootprintNode()
    for path in sorted(footprint):
        node = root
        # A path that ends with `?` is only tested for presence.
        for segment in segments(path.removesuffix("?")):
            node = node.at(segment)
        node.is_read = node.is_read or not path.endswith("?")
    return root


_PROJECTED = """
def projected(v):
    try:
{statements}
        content = encode([{roots}])
    except not_encoded:
        return None
    if len(content) > longest:
        return None
    return with_unknown(content, v) if v.places else content
"""


def _compiled(tree: FootprintNode, with_unknown: Callable[[bytes, PlainBindings], ProjectionKey]) -> Projection:
    """Return the function for a tree, as compiled Python. Field names appear in it only as literals."""
    roots, statements = [f"v{index}" for index in range(len(tree.names))], list[str]()
    for root, (name, node) in zip(roots, tree.names.items(), strict=True):
        statements.append(f"{' ' * 8}{root} = v[{name!r}]")
        _project(root, node, " " * 8, statements)
    function = _PROJECTED.replace("{statements}", "\n".join(statements)).replace("{roots}", ", ".join(roots))
    # Without builtins, the generated code reaches only these names.
    names: dict[str, Any] = {"absent": _ABSENT, "other": _OTHER, "entries": _ENTRIES, "__builtins__": {}}
    names |= {each.__name__: each for each in (type, dict, list, len)}
    names |= {"encode": _encode, "longest": LONGEST, "with_unknown": with_unknown}
    names["not_encoded"] = (TypeError, ValueError, OverflowError, RecursionError)
    exec(compile(function, "<projection>", "exec"), names)  # noqa: S102 - made here, of a footprint
    projected: Projection = names["projected"]
    return projected


def _project(own: str, node: FootprintNode, indent: str, statements: list[str]) -> None:
    """Add the statements that replace the value of the local variable `own` by its parts that are read."""
    if node.is_test:
        statements.append(f"{indent}{own} = {own} is None")
    if node.is_test or node.is_read:
        return
    inner = f"{indent}    "
    if node.any is not None and not node.any.is_test:
        statements += [f"{indent}if type({own}) is dict or type({own}) is list:", f"{inner}{own}_parts = []"]
        # Python 3.11 makes a call of a comprehension, so this is a loop.
        statements.append(f"{inner}for {own}_part in {own}.values() if type({own}) is dict else {own}:")
        _project(f"{own}_part", node.any, f"{inner}    ", statements)
        statements += [f"{inner}    {own}_parts.append({own}_part)", f"{inner}{own}_map = False"]
        statements.append(f"{inner}if type({own}) is dict:")
        fields = _fields(own, node, f"{inner}    ", statements)
        statements.append(f"{inner}    {own}_map = [{', '.join(['entries', f'[*{own}]', *fields])}]")
        statements.append(f"{inner}{own} = [{own}_map, {own}_parts]")
    else:
        statements.append(f"{indent}if type({own}) is dict:")
        fields = _fields(own, node, inner, statements)
        parts = fields if node.any is None else ["entries", f"[*{own}]", *fields]
        statements.append(f"{inner}{own} = [{', '.join(parts)}]")
        if node.any is not None:
            statements += [f"{indent}elif type({own}) is list:", f"{inner}{own} = len({own})"]
    statements += [f"{indent}elif {own} is not absent:", f"{inner}{own} = [other, {own}]"]


def _fields(own: str, node: FootprintNode, indent: str, statements: list[str]) -> list[str]:
    """Return expressions for the fields that are read of a map, and add the statements that they need."""
    fields = []
    for index, (name, child) in enumerate(node.names.items()):
        value, place = f"{own}.get({name!r}, absent)", f"{own}_{index}"
        if child.is_test:  # null and empty values are their own key
            fields.append(f"{name!r} in {own} if {own}.get({name!r}, 1) else [{own}[{name!r}]]")
        elif child.is_read:
            fields.append(value)
        else:
            statements.append(f"{indent}{place} = {value}")
            _project(place, child, indent, statements)
            fields.append(place)
    return fields


V = TypeVar("V")


class AlikeResults(dict[Any, V], Generic[V]):
    """Results by projection and other dependencies. Once full, the whole cache is cleared."""

    def __init__(self, most: int) -> None:
        """Start empty; `most` results are kept."""
        super().__init__()
        self._most = most

    def remember(self, key: Any, result: V) -> V:
        """Keep a result and return it."""
        if len(self) >= self._most:
            # Clearing all needs no record of use, unlike dropping single entries.
            self.clear()
        self[key] = result
        return result


Projected = Callable[[Projection], Hashable | None]
"""Returns the projection of one input, None if it has none."""
MOST_OUTCOMES: Final = 4096


class AlikeOutcomes(Generic[V]):
    """Outcomes of one policy, by what they depend on.

    INVARIANT: an outcome for which no message was evaluated does not depend on what messages read.
    """

    def __init__(self, footprint_without_messages: frozenset[str], footprint: frozenset[str]) -> None:
        """Footprints of all expressions, without and with messages."""
        self._without_messages = projection(footprint_without_messages)
        self._all = projection(footprint)
        self._by_messages: AlikeResults[bool] = AlikeResults(MOST_OUTCOMES)
        self._outcomes: AlikeResults[Any] = AlikeResults(MOST_OUTCOMES)

    def find(self, projected: Projected) -> V | None:
        """Return the outcome of an equal input, None if there is none."""
        key = self._key(projected)
        return None if key is None else self._outcomes.get(key)

    # A short key is remembered as well: the next input with it needs the whole key, because its outcome depends on
    # messages.
    def remember(self, projected: Projected, outcome: V, *, has_read_messages: bool) -> None:
        """Keep an outcome."""
        if has_read_messages and (short := self._short_key(projected)) is not None:
            self._by_messages.remember(short, result=True)
        key = self._key(projected)
        if key is not None:
            self._outcomes.remember(key, outcome)

    def _short_key(self, projected: Projected) -> Hashable | None:
        return None if self._without_messages is None else projected(self._without_messages)

    def _key(self, projected: Projected) -> Hashable | None:
        """Return the key of an outcome's inputs, None if they cannot be projected."""
        short = self._short_key(projected)
        if short is None or short not in self._by_messages:
            return None if short is None else (short, False)
        whole = None if self._all is None else projected(self._all)
        return None if whole is None else (whole, True)
