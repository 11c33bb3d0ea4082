"""Inputs of mutating policies' expressions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

from msgspec import Struct

from replay.admission.alike import Projection, ProjectionKey, RequestBindings
from replay.admission.conversion import Object, ObjectConverter
from replay.admission.inputs import Inputs
from replay.admission.params import go_param
from replay.admission.request import NAMESPACE_KIND, admission_request, namespace_object
from replay.cellib.library.authorizer import authorizer_bindings
from replay.identity import IdentityMemo
from replay.json import JSON
from replay.kube.attributes import Attributes, Missing, PartialObject
from replay.kube.authorizer import Authorizer
from replay.kube.gvk import GroupVersionKind
from replay.kube.lister import Lister
from replay.matching.matcher import Match


class Shown(Struct, frozen=True):
    """The forms in which CEL sees `object` and `oldObject` in one pass. True is a Go object, None not yet created.

    The server keeps the CEL value of each object until the object is replaced
    (`k8s.io/apiserver/pkg/admission.LazyObject`). Mutations create it from plain JSON. Match conditions request a typed
    Go object, for themselves and for everything after them in the same pass. So a mutation after any policy's match
    conditions works on a Go object, which a JSON patch cannot hold as a value. Upstream calls the switch temporary. It
    is reproduced here.
    """

    typed: bool = False
    object: bool | None = None
    old_object: bool | None = None

    @lru_cache(maxsize=64)  # noqa: B019 - there are eighteen states
    def read(self, *, matching: bool = False) -> Shown:
        """Return the state after expressions have read the objects. `matching` is for match conditions."""
        typed = self.typed or matching
        object_, old_object = self.object, self.old_object
        return Shown(typed, typed if object_ is None else object_, typed if old_object is None else old_object)

    @lru_cache(maxsize=64)  # noqa: B019 - there are eighteen states
    def updated(self) -> Shown:
        """Return the state after a mutation has replaced the object."""
        return Shown(self.typed, None, self.old_object)


AS_IT_CAME = Shown()
"""State before anything has read the objects."""


class _Bindings(NamedTuple):
    """Bindings without `object`, and the kinds of those that may be Go objects.

    Match conditions have their own `request`: its resource is the one that was sent.
    """

    bindings: Mapping[str, Any]
    match_request: Any
    kinds: Mapping[str, GroupVersionKind]


class MutationInputs:
    """Inputs of the expressions for one match and parameter, without the changing `object`; computed at first use."""

    def __init__(  # noqa: PLR0913, PLR0917 - all that expressions read comes from these
        self,
        match: Match,
        attributes: Attributes,
        param: JSON | PartialObject | None,
        converter: ObjectConverter,
        lister: Lister,
        authorizer: Callable[[Lister], Authorizer | Missing],
    ) -> None:
        """Keep the inputs. `attributes` are those before mutation.

        `authorizer` returns the authorizer for a lister's time.
        """
        self.match = match
        self._attributes = attributes
        self._param = param
        self._converter = converter
        self._lister = lister
        self._authorizer = authorizer
        self._earlier: IdentityMemo[Inputs] = IdentityMemo()
        is_as_sent = match.resource == attributes.resource and match.kind == attributes.kind
        self._plain = RequestBindings(attributes) if is_as_sent and param is None else None
        """Bindings for projections, None if a projection would not cover all inputs."""

    @property
    def kinds(self) -> Mapping[str, GroupVersionKind]:
        """The kinds of the bindings that may be Go objects."""
        return self._bindings.kinds

    def with_object(self, value: Object, shown: Shown) -> Inputs:
        """Return all inputs, made once per state of the object."""
        earlier = self._earlier.get((value,), shown)
        if earlier is not None:
            return earlier
        bindings, kind = self._bindings.bindings, self.match.kind
        old = bindings["oldObject"]
        objects = {
            "object": self._converter.cel_value(value, kind) if shown.object else value,
            "oldObject": self._converter.cel_value(old, kind) if shown.old_object else old,
        }
        return self._earlier.put((value,), Inputs({**bindings, **objects}, self._bindings.match_request), shown)

    def projected(self, project: Projection | None, value: Object) -> ProjectionKey | None:
        """Return the projection with an object, or None if the object is unknown or absent."""
        if project is None or self._plain is None or (type(value) is not dict and value is not None):
            return None
        self._plain["object"] = value
        return project(self._plain)

    @cached_property
    def _bindings(self) -> _Bindings:
        match, attributes = self.match, self._attributes
        # `with_object` converts the object instead, once for each of its states.
        objects = self._converter.versioned(attributes.with_object(None), match.kind, self._lister)
        request = admission_request(attributes, match.resource, match.kind)
        kinds = {"object": match.kind, "oldObject": match.kind, "namespaceObject": NAMESPACE_KIND}
        shown = go_param(self._param)
        if shown is not None:
            kinds["params"] = shown.kind
        bindings = {
            "oldObject": objects.old_object,
            "request": request,
            "namespaceObject": namespace_object(attributes),
            "params": self._param if shown is None else shown.value,
            **authorizer_bindings(self._authorizer(self._lister), attributes),
        }
        if match.resource != attributes.resource:
            request = admission_request(attributes, attributes.resource, match.kind)
        return _Bindings(bindings, request, kinds)
