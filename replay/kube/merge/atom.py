"""The types of structured merge (sigs.k8s.io/structured-merge-diff/v6/schema).

An atom says which of scalar, list and map a value may be, and how the parts of a list or map relate. Atoms are made
from OpenAPI schemas by the rules of kube-openapi (pkg/schemaconv).
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field

from replay.json import JSON
from replay.kube.schema import Schema

ScalarKind = Literal["numeric", "string", "boolean", "untyped"]

_NULL: frozenset[type] = frozenset({type(None)})
_FITTING: dict[ScalarKind | None, frozenset[type]] = {
    None: _NULL,
    "string": _NULL | {str},
    "numeric": _NULL | {int, float},
    "boolean": _NULL | {bool},
    "untyped": _NULL | {str, int, float, bool},
}
_ANYTHING = _FITTING["untyped"] | {list, dict}


class ListAtom(Struct):
    """List type: `associative` by `keys`, or a set without keys; else atomic and replaced as a whole."""

    element: Atom
    associative: bool = False
    keys: tuple[str, ...] = ()


class MapAtom(Struct):
    """A map or struct: declared fields, the type of all others (None forbids others), and defaults."""

    fields: dict[str, Atom] = field(default_factory=dict)
    element: Atom | None = None
    atomic: bool = False
    defaults: dict[str, JSON] = field(default_factory=dict)


class Atom(Struct):
    """Possible types of a value; several if the schema leaves it open."""

    scalar: ScalarKind | None = None
    list: ListAtom | None = None
    map: MapAtom | None = None
    fitting: frozenset[type] = _NULL
    """Python types whose values certainly conform. Null always does."""
    is_single: bool = True
    """A flag that only one kind of value fits, as nearly everywhere."""
    good_patches: set[bytes] = field(default_factory=set)
    """The apply configurations (as JSON) that are known to conform and to touch nothing atomic."""

    def deduce(self, value: JSON) -> Atom:
        """Return the part of the atom that fits the value, or the whole atom if none does."""
        if isinstance(value, (bool, int, float, str)):
            return self if self.scalar is None or self.is_single else Atom(scalar=self.scalar)
        if isinstance(value, list):
            return self if self.list is None or self.is_single else Atom(list=self.list)
        if isinstance(value, dict):
            return self if self.map is None or self.is_single else Atom(map=self.map)
        return self


def _untyped() -> Atom:
    """Return the type of any value, which is replaced as a whole."""
    atom = Atom(scalar="untyped", fitting=_ANYTHING, is_single=False)
    atom.list = ListAtom(atom)
    atom.map = MapAtom(element=atom, atomic=True)
    return atom


def _deduced() -> Atom:
    """Return a type for any value: maps merge, lists are replaced as a whole."""
    atom = Atom(scalar="untyped", list=ListAtom(UNTYPED), fitting=_ANYTHING, is_single=False)
    atom.map = MapAtom(element=atom)
    return atom


UNTYPED = _untyped()
DEDUCED = _deduced()

_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_RAW_EXTENSION = "io.k8s.apimachinery.pkg.runtime.RawExtension"


class Atoms:
    """The atoms of schemas, each made once because types may contain themselves."""

    def __init__(self) -> None:
        """Start without atoms."""
        self._named: dict[tuple[str, bool | None], Atom] = {}
        self._roots: dict[Schema, Atom] = {}

    def atom_for(self, schema: Schema) -> Atom:
        """Return the atom of a kind's schema."""
        atom = self._roots.get(schema)
        if atom is None:
            atom = self._roots[schema] = self._reference(schema, preserve=False)
        return atom

    def _reference(self, schema: Schema, *, preserve: bool) -> Atom:
        """Return the atom of a part.

        Named types are shared, so they do not inherit that unknown fields are preserved.
        """
        if not schema.name:
            return self._filled(Atom(), schema, preserve=preserve)
        atomic = schema.map_type == "atomic" if schema.map_type else None
        key = (schema.name, atomic)
        if key not in self._named:
            self._named[key] = atom = Atom()
            self._filled(atom, schema, preserve=False)
        return self._named[key]

    def _filled(self, atom: Atom, schema: Schema, *, preserve: bool) -> Atom:
        if schema.name == _QUANTITY:
            atom.scalar, atom.fitting = "untyped", _FITTING["untyped"]
            return atom
        if schema.name == _RAW_EXTENSION:
            atom.scalar, atom.list, atom.map = UNTYPED.scalar, UNTYPED.list, UNTYPED.map
            atom.fitting, atom.is_single = _ANYTHING, False
            return atom
        preserve = preserve or schema.preserve_unknown_fields
        if schema.type in {"", "object"}:
            atom.map = self._map(schema, preserve=preserve)
        if schema.type in {"", "array"}:
            atom.list = self._list(schema, preserve=preserve)
        if schema.type not in {"object", "array"}:
            atom.scalar = _scalar(schema)
        atom.is_single = (atom.scalar is None) + (atom.list is None) + (atom.map is None) == 2
        atom.fitting = _FITTING[atom.scalar]
        if atom.map is not None and atom.map.element is DEDUCED and not atom.map.fields:
            atom.fitting |= {dict}  # `managedFields`, which are half of many objects
        return atom

    def _map(self, schema: Schema, *, preserve: bool) -> MapAtom:
        atom = MapAtom(atomic=schema.map_type == "atomic")
        for name, declared in schema.fields.items():
            atom.fields[name] = self._reference(declared, preserve=preserve)
            if declared.default is not None:
                atom.defaults[name] = declared.default
        if schema.values is not None:
            atom.element = self._reference(schema.values, preserve=preserve)
        elif schema.allows_any_field or (preserve and not schema.forbids_other_fields):
            atom.element = DEDUCED
        return atom

    def _list(self, schema: Schema, *, preserve: bool) -> ListAtom:
        element = UNTYPED if schema.items is None else self._reference(schema.items, preserve=preserve)
        if schema.list_type == "map":
            return ListAtom(element, associative=True, keys=schema.map_keys)
        if schema.list_type:
            return ListAtom(element, associative=schema.list_type == "set")
        if schema.patch_strategy in {"merge", "merge,retainKeys"}:
            return ListAtom(element, True, (schema.patch_merge_key,) if schema.patch_merge_key else ())
        return ListAtom(element)


def _scalar(schema: Schema) -> ScalarKind:
    if schema.type in {"integer", "number"}:
        return "numeric"
    if schema.type == "boolean":
        return "boolean"
    return "string" if schema.type == "string" and schema.format in {"", "byte"} else "untyped"
