"""The bindings of one request as projections read them."""

from __future__ import annotations

from typing import Any

from replay.admission.inputs import missing_parts
from replay.admission.namespace import namespace_object
from replay.admission.place import Place, place_of
from replay.admission.request import admission_request
from replay.kube.attributes import Attributes, Missing, PartialObject


class PlainBindings(dict[str, Any]):
    """What a request binds to the names of `projection.ROOTS`, each made when it is first asked for.

    It is for policies that matched the request as it was sent. What is known in part is there without its wrapping. Asking for what
    is not known at all raises `TypeError`.
    """

    __slots__ = ("_attributes", "unknown")

    def __init__(self, attributes: Attributes) -> None:
        """Nothing is made yet."""
        super().__init__()
        self._attributes = attributes
        self.unknown: frozenset[Place] = frozenset()
        """The places, in what was asked for, of what is not known."""

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
            raise TypeError(f"{name} is not known")
        if type(value) is PartialObject:
            self.unknown |= {place_of(name, part) for part, _ in missing_parts(value)}
            value = value.value
        self[name] = value
        return value
