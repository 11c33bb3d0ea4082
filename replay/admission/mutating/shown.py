"""How CEL is shown `object` and `oldObject` during mutation (`k8s.io/apiserver/pkg/admission.LazyObject`).

The server keeps the CEL value of each object until the object is replaced. Mutations make it of plain JSON; match conditions
ask for a typed Go object, for themselves and for all who come after them in the same pass: so a mutation after any policy's
match conditions works on a Go object, which a JSON patch cannot hold as a value. Upstream calls the switch temporary. Kept.
"""

from __future__ import annotations

from typing import NamedTuple


class Shown(NamedTuple):
    """The state for one version of the objects in one pass; true stands for a Go object, None for not yet made."""

    typed: bool = False
    object: bool | None = None
    old_object: bool | None = None

    def read(self, *, matching: bool = False) -> Shown:
        """The state when expressions read the objects; `matching`: as match conditions."""
        typed = self.typed or matching
        object_, old_object = self.object, self.old_object
        return Shown(typed, typed if object_ is None else object_, typed if old_object is None else old_object)

    def updated(self) -> Shown:
        """The state when a mutation has replaced the object."""
        return self._replace(object=None)


AS_IT_CAME = Shown()
"""Nothing has read the objects."""
