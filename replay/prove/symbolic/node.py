"""JSON values of a symbolic request: objects, parameters and the request. Each part is created on first use."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Final

from msgspec import Struct

from replay.json import FieldPath
from replay.kube.default_rules import FILLED
from replay.kube.schema import Encoding, Schema
from replay.prove.search.admissible import ENUMERATIONS, NOT_NEGATIVE, POSITIVE
from replay.prove.symbolic.term import (
    BOOL,
    INT,
    REAL,
    Term,
    apply,
    at_most,
    boolean,
    conj,
    disj,
    equal,
    implies,
    integer,
    less,
    negated,
    total,
    variable,
)
from replay.prove.symbolic.text_language import TextPredicate, Texts

KINDS: Final = ("null", "bool", "int", "double", "string", "list", "map")
_NUMBER = {kind: number for number, kind in enumerate(KINDS)}
SCALARS: Final = ("null", "bool", "int", "double", "string")
_INT_LIMIT = 2**63

LARGEST: Final = 2**31
"""Limit for the size of any text, list or map of a request."""

_NAMED_LISTS: Final = {("containers",), ("initContainers",), ("ephemeralContainers",), ("volumes",)}
"""Pod lists whose items have unique names (`validateContainers`, `ValidateVolumes`)."""
REQUIRED: Final = frozenset({("Container", "image"), ("EphemeralContainer", "image"), ("PodSpec", "containers")})
"""Fields that validation requires although the type may omit them (`validateContainerCommon`, `ValidatePodSpec`)."""
LABEL_VALUE = TextPredicate("matches", "^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$")
OBJECT_NAME = TextPredicate("matches", "^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
LABEL_NAME = TextPredicate("matches", "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
"""Format of namespace names (apimachinery `pkg/util/validation`), without the length limit."""


class Bounds(Struct):
    """Limits for the items and further keys that a loop over a list or map considers."""

    items: int
    keys: int
    used_items: bool = False
    used_keys: bool = False


class Root:
    """State that all nodes of one request share."""

    def __init__(self, bounds: Bounds, mentioned: dict[str, dict[str, None]]) -> None:
        """`mentioned` are the keys that an earlier run requested, by node. Loops over maps go through them."""
        self.bounds = bounds
        self.texts = Texts()
        self.facts: list[Term] = []
        self.nodes: dict[str, JsonNode] = {}
        self.mentioned = mentioned
        self.hints: list[Term] = []
        """Usual properties of requests. Proofs do not use them, but examples follow them if possible."""
        self.names: dict[object, str] = {}
        self.has_dns_names = False
        """Whether objects have DNS names, as most kinds do."""
        self.measured: dict[Term, None] = {}
        self.depends_on_order = False
        """Whether a result depends on the order of a map's keys."""
        self.numbers: dict[int, None] = {}
        """Whole numbers that expressions name."""
        self.amounts: dict[Term, None] = {}
        self.sought: dict[JsonNode, dict[Term, None]] = {}
        """Texts that expressions look for in each list."""

    def node(
        self, name: str, path: FieldPath, schema: Schema | None, *, is_struct: Term, is_served: bool = False
    ) -> JsonNode:
        """Return the node with a name."""
        if name not in self.nodes:
            self.nodes[name] = JsonNode(self, name, path, schema, is_struct, is_served=is_served)
        return self.nodes[name]

    def unknown(self, name: str) -> JsonNode:
        """Return an unknown value, identified by its origin."""
        return self.node(name, (), None, is_struct=variable(f"struct {name}", BOOL))


class JsonNode:
    """JSON value. `path` leads to it from a binding, and is empty for computed values."""

    __slots__ = (
        "_is_ranged",
        "_is_told_apart",
        "_items",
        "_kind",
        "_parts",
        "_root",
        "_size",
        "allowed",
        "fresh",
        "is_served",
        "is_struct",
        "name",
        "path",
        "schema",
    )

    def __init__(  # noqa: PLR0913 - what it depends on
        self, root: Root, name: str, path: FieldPath, schema: Schema | None, is_struct: Term, *, is_served: bool
    ) -> None:
        """`is_struct` says that it belongs to a built-in kind, `is_served` that its schema's rules on empty values hold."""
        self._root = root
        self.name = name
        self.path = path
        self.schema = schema
        self.is_struct = is_struct
        self.is_served = is_served
        self.allowed = _allowed(schema)
        self._kind = variable(f"kind {name}", INT)
        self._size = variable(f"size {name}", INT)
        self._parts: dict[str, tuple[Term, JsonNode]] = {}
        self._items: dict[int, JsonNode] = {}
        self.fresh: list[tuple[Term, Term, JsonNode]] = []
        self._is_ranged = False
        self._is_told_apart = False
        root.facts.append(disj(*(equal(self._kind, integer(_NUMBER[kind])) for kind in self.allowed)))
        root.facts += [at_most(integer(0), self._size), at_most(self._size, integer(LARGEST))]
        if is_served and schema is not None and schema.name.endswith("resource.Quantity"):
            root.amounts[self.text] = None
            root.facts.append(implies(self.is_kind("string"), apply("is quantity", (self.text,), BOOL)))

    def __hash__(self) -> int:
        """Return the hash of the name, which is unique in a root."""
        return hash(self.name)

    def __eq__(self, other: object) -> bool:
        """Return whether both are the same node."""
        return self is other

    def __repr__(self) -> str:
        """Return the name."""
        return f"Node({self.name})"

    def is_kind(self, kind: str) -> Term:
        """Return the formula that it has a kind."""
        if kind not in self.allowed:
            return boolean(False)
        return boolean(True) if len(self.allowed) == 1 else equal(self._kind, integer(_NUMBER[kind]))

    @property
    def kind_term(self) -> Term:
        """Number of its kind."""
        return self._kind

    @property
    def truth(self) -> Term:
        """Value as a bool."""
        return variable(f"bool {self.name}", BOOL)

    @property
    def integer(self) -> Term:
        """Value as an int."""
        number = variable(f"int {self.name}", INT)
        if not self._is_ranged:
            self._is_ranged = True
            limit = _INT_LIMIT if self.schema is None or self.schema.format != "int32" else 2**31
            self._root.facts += [at_most(integer(-limit), number), at_most(number, integer(limit - 1))]
        return number

    @property
    def double(self) -> Term:
        """Value as a double."""
        return variable(f"double {self.name}", REAL)

    @property
    def text(self) -> Term:
        """Value as a text number."""
        return variable(f"text {self.name}", INT)

    @property
    def size(self) -> Term:
        """Number of items or entries."""
        return self._size

    @property
    def parts(self) -> dict[str, tuple[Term, JsonNode]]:
        """Requested fields: whether each is present, and its value."""
        return self._parts

    @property
    def items(self) -> dict[int, JsonNode]:
        """Requested items by index."""
        return self._items

    def part(self, key: str) -> tuple[Term, JsonNode]:
        """Return whether a field or entry is present, and its value."""
        part = self._parts.get(key)
        if part is None:
            part = self._parts[key] = self._make_part(key)
            # Noted for the next run, whose loops over this map then include the key.
            self._root.mentioned.setdefault(self.name, {})[key] = None
        return part

    def _make_part(self, key: str) -> tuple[Term, JsonNode]:
        name = f"{self.name}.{key}"
        below = None if self.schema is None else self.schema.field(key)
        child = self._root.node(name, (*self.path, key), below, is_struct=self.is_struct, is_served=self.is_served)
        # The server drops what its Go type does not have.
        if self.schema is not None and below is None and self.schema.fields and self.is_served:
            return boolean(False), child
        if self.path in {("object", "metadata"), ("oldObject", "metadata")} and key == "name":
            texts = self._root.texts
            is_name = disj(texts.holds(OBJECT_NAME, child.text), texts.same(child.text, texts.literal("")))
            # Where other names are valid too, a DNS name only makes examples usual.
            axioms = self._root.facts if self._root.has_dns_names else self._root.hints
            axioms.append(implies(child.is_kind("string"), is_name))
        if self.path[-2:] == ("metadata", "labels") and self.path[0] in {"object", "oldObject", "namespaceObject"}:
            self._root.facts.append(implies(child.is_kind("string"), self._root.texts.holds(LABEL_VALUE, child.text)))
        present = variable(f"has {name}", BOOL)
        if below is not None and self.schema is not None and self.is_served:
            present = self._presence(key, below, child, present)
        return present, child

    def _presence(self, key: str, below: Schema, child: JsonNode, present: Term) -> Term:
        """Return what the Go type says about a field: always present, or not empty if it is omitted when empty."""
        assert self.schema is not None
        if key in NOT_NEGATIVE or key in POSITIVE:
            least = 1 if key in POSITIVE else 0
            self._root.facts.append(implies(child.is_kind("int"), at_most(integer(least), child.integer)))
        values = ENUMERATIONS.get((self.schema.name.rpartition(".")[2], key))
        if values is not None:
            texts = self._root.texts
            self._root.hints.append(disj(*(texts.same(child.text, texts.literal(each)) for each in sorted(values))))
        if (self.schema.name.rpartition(".")[2], key) in REQUIRED:
            self._root.facts.append(child.is_not_empty())
            return boolean(True)
        if key in self.schema.fields and below.encoding in {Encoding.ALWAYS, Encoding.NULL}:
            return boolean(True)
        # Defaulting fills it before a policy sees the object.
        if key in FILLED.get(self.schema.name, {}) or any(key == name for name, _ in self.schema.written_defaults):
            self._root.facts.append(negated(child.is_kind("null")))
            return boolean(True)
        if key in self.schema.fields and below.encoding is Encoding.OMIT_EMPTY:
            self._root.facts.append(implies(present, child.is_not_empty()))
        return present

    def is_not_empty(self) -> Term:
        """Return the formula that it is neither null, false or zero, nor an empty text, list or map."""
        root = self._root
        return conj(
            negated(self.is_kind("null")),
            implies(self.is_kind("bool"), self.truth),
            implies(self.is_kind("int"), negated(equal(self.integer, integer(0)))),
            implies(self.is_kind("string"), negated(root.texts.same(self.text, root.texts.literal("")))),
            implies(disj(self.is_kind("list"), self.is_kind("map")), less(integer(0), self._size)),
        )

    def item(self, index: int) -> JsonNode:
        """Return an item of a list. The size tells whether it is present."""
        if index not in self._items:
            below = None if self.schema is None else self.schema.items
            self._items[index] = self._root.node(
                f"{self.name}[{index}]", (*self.path, index), below, is_struct=self.is_struct, is_served=self.is_served
            )
        return self._items[index]

    def bounded_items(self) -> Iterator[tuple[Term, JsonNode]]:
        """Yield the items of a list that is not longer than the bound."""
        bounds = self._root.bounds
        bounds.used_items = True
        self._root.facts.append(implies(self.is_kind("list"), at_most(self._size, integer(bounds.items))))
        entries = [(less(integer(index), self._size), self.item(index)) for index in range(bounds.items)]
        if self.is_served and self.path[-1:] in _NAMED_LISTS and not self._is_told_apart:
            self._is_told_apart = True
            names = [(there, item.part("name")[1]) for there, item in entries]
            for (_, one), (there, other) in combinations(names, 2):
                same = self._root.texts.same(one.text, other.text)
                self._root.facts.append(implies(there, negated(same)))
            for there, name in names:
                self._root.facts.append(implies(there, self._root.texts.holds(LABEL_NAME, name.text)))
        yield from entries

    def bounded_entries(self) -> list[tuple[Term, Term, JsonNode]]:
        """Return the entries of a map: the named keys and as many others as the bound allows.

        An entry is guard, key, value.
        """
        root, texts = self._root, self._root.texts
        for key in root.mentioned.get(self.name, {}):
            self.part(key)
        named = [(present, texts.literal(key), child) for key, (present, child) in self._parts.items()]
        if not self.fresh:
            root.bounds.used_keys = True
            below = None if self.schema is None else self.schema.values
            for index in range(root.bounds.keys):
                name = f"{self.name}[key {index}]"
                child = root.node(
                    name, (*self.path, f"*{index}"), below, is_struct=self.is_struct, is_served=self.is_served
                )
                present, word = variable(f"has {name}", BOOL), variable(f"text of {name}", INT)
                for _, other, _ in (*named, *self.fresh):
                    root.facts.append(implies(present, negated(texts.same(word, other))))
                self.fresh.append((present, word, child))
            there = total(present for present, _, _ in (*named, *self.fresh))
            root.facts.append(implies(self.is_kind("map"), equal(self._size, there)))
        return [*named, *self.fresh]


def _allowed(schema: Schema | None) -> tuple[str, ...]:  # noqa: PLR0911, C901 - one case a kind
    """Return the kinds of value that a schema allows, including null where a Go type writes it."""
    if schema is None:
        return KINDS
    null = ("null",) if schema.encoding is Encoding.NULL or schema.nullable else ()
    if schema.fields:
        return (*null, "map")
    if schema.int_or_string:
        return (*null, "int", "string")
    if schema.name.endswith("resource.Quantity"):
        return (*null, "string")
    # Go writes the zero time as null.
    if schema.name.endswith(("meta.v1.Time", "meta.v1.MicroTime")):
        return ("null", "string")
    match schema.type:
        case "string":
            # Bytes are a slice, and Go writes a nil slice or map as null.
            return ("null", "string") if schema.format == "byte" else (*null, "string")
        case "integer":
            return (*null, "int")
        case "boolean":
            return (*null, "bool")
        case "array":
            return ("null", "list")
        case "object" if schema.values is not None:
            return ("null", "map")
    return KINDS
