"""`AdmissionRequest` as JSON (`k8s.io/api/admission/v1`), read into attributes."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from replay.json import JSON
from replay.kube.attributes import Attributes, Missing, Operation, PartialObject, UserInfo
from replay.kube.gvk import GroupVersionKind, GroupVersionResource


class PhaseRequests(Struct, frozen=True):
    """The AdmissionRequests of one request at the mutating and the validating webhook.

    A phase that the request did not reach is None. Objects and options of a logged request may be partly or wholly
    unknown. `synthetic` marks a request that no log has.
    """

    id: str
    mutating: dict[str, JSON] | None
    validating: dict[str, JSON] | None
    synthetic: bool = False

    @property
    def unknown(self) -> Missing | None:
        """The first unknown part of the requests."""
        parts = map(unknown_part, filter(None, (self.mutating, self.validating)))
        return next((part for part in parts if part is not None), None)


def unknown_part(request: Mapping[str, JSON]) -> Missing | None:
    """Return the first unknown part of an AdmissionRequest, or None if it is known as a whole."""
    for part in map(request.get, ("object", "oldObject", "options")):
        if isinstance(part, Missing):
            return part
        if isinstance(part, PartialObject):
            return part.missing[0]
    return None


def attributes_of(request: JSON) -> Attributes:
    """Return the attributes of an `AdmissionRequest` as JSON.

    Raise KeyError, TypeError or ValueError for other values.
    """
    kind, resource = (
        request.get("requestKind") or request["kind"],
        request.get("requestResource") or request["resource"],
    )
    user = request.get("userInfo") or {}
    return Attributes(
        operation=Operation(request["operation"]),
        kind=GroupVersionKind(kind.get("group") or "", kind["version"], kind["kind"]),
        resource=GroupVersionResource(resource.get("group") or "", resource["version"], resource["resource"]),
        subresource=request.get("requestSubResource") or request.get("subResource") or "",
        namespace=request.get("namespace") or "",
        name=request.get("name") or "",
        user_info=UserInfo(
            user.get("username") or "",
            user.get("uid") or "",
            tuple(user.get("groups") or ()),
            {key: tuple(values) for key, values in (user.get("extra") or {}).items()},
        ),
        dry_run=bool(request.get("dryRun")),
        options=request.get("options"),
        object=request.get("object"),
        old_object=request.get("oldObject"),
    )


def as_sent_to_webhook(request: JSON) -> JSON:
    """Return the request without its `request*` fields.

    A webhook that matches an equivalent resource gets the objects in that version, which only the other fields name.
    """
    if request.get("requestKind") in (None, request.get("kind")):
        return request
    return {
        name: value
        for name, value in request.items()
        if name not in ("requestKind", "requestResource", "requestSubResource")
    }
