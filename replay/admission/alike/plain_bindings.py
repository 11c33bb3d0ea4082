"""The bindings of one request as projections read them."""

from __future__ import annotations

from typing import Any, NamedTuple

from replay.admission.inputs import missing_parts
from replay.admission.namespace import namespace_object
from replay.admission.place import Place, place_of
from replay.admission.request import admission_request
from replay.json import FieldPath
from replay.kube.attributes import Attributes, Missing, PartialObject


class UnknownPart(NamedTuple):
    """A part of a binding that is not known; of one that is not known at all `part` is empty."""

    name: str
    part: FieldPath
    missing: Missing

    @property
    def place(self) -> Place:
        """The part as a footprint can name it."""
        return place_of(self.name, self.part)


class PlainBindings(dict[str, Any]):
    """A request's bindings for the names of `projection.ROOTS`, each made on first use.

    They serve policies that matched the request as it was sent. Partly known values are unwrapped.
    """

    __slots__ = ("_attributes", "places", "unknown")

    def __init__(self, attributes: Attributes) -> None:
        """Nothing is made yet."""
        super().__init__()
        self._attributes = attributes
        self.unknown: tuple[UnknownPart, ...] = ()
        """What is not known of what was asked for."""
        self.places: frozenset[Place] = frozenset()
        """Where that is."""

    def __missing__(self, name: str) -> Any:
        """A binding."""
        attributes = self._attributes
        if name == "object":
            value = attributes.object
        elif name == "oldObject":
            value = attributes.old_object
        elif name == "request":
            value = admission_request(attributes, attributes.resource, attributes.kind)
        else:
            assert name == "namespaceObject"
            value = namespace_object(attributes)
        if type(value) is Missing:
            self._miss((UnknownPart(name, (), value),))
        elif type(value) is PartialObject:
            self._miss(tuple([UnknownPart(name, part, missing) for part, missing in missing_parts(value)]))
            value = value.value
        self[name] = value
        return value

    def _miss(self, parts: tuple[UnknownPart, ...]) -> None:
        self.unknown += parts
        self.places |= {part.place for part in parts}
