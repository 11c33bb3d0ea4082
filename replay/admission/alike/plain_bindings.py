"""The bindings of one request as projections read them."""

from __future__ import annotations

from abc import abstractmethod
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
    """A request's bindings for the names of `projection.ROOTS`, each made on first use. Partly known values are unwrapped."""

    unknown: tuple[UnknownPart, ...] = ()
    """What is not known of what was asked for."""
    places: frozenset[Place] = frozenset()
    """Where that is."""

    def __missing__(self, name: str) -> Any:
        """A binding."""
        value = self._made(name)
        if type(value) is Missing:
            self._miss((UnknownPart(name, (), value),))
        elif type(value) is PartialObject:
            self._miss(tuple([UnknownPart(name, part, missing) for part, missing in missing_parts(value)]))
            value = value.value
        self[name] = value
        return value

    @abstractmethod
    def _made(self, name: str) -> Any:
        """What is bound to a name, as it is known."""

    def _miss(self, parts: tuple[UnknownPart, ...]) -> None:
        self.unknown += parts
        self.places |= {part.place for part in parts}


class RequestBindings(PlainBindings):
    """Those of policies that matched the request as it was sent."""

    def __init__(self, attributes: Attributes) -> None:
        """Nothing is made yet."""
        self._attributes = attributes

    def _made(self, name: str) -> Any:
        attributes = self._attributes
        if name == "object":
            return attributes.object
        if name == "oldObject":
            return attributes.old_object
        if name == "request":
            return admission_request(attributes, attributes.resource, attributes.kind)
        assert name == "namespaceObject"
        return namespace_object(attributes)
