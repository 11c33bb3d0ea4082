"""`request` of CEL, which is an AdmissionRequest.

Source: `k8s.io/apiserver/pkg/admission/plugin/cel.CreateAdmissionRequest`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from replay.json import JSON
from replay.kube.attributes import Attributes, Missing, PartialObject, UserInfo
from replay.kube.gvk import GroupVersionKind, GroupVersionResource


def admission_request(
    attributes: Attributes, resource: GroupVersionResource, kind: GroupVersionKind
) -> JSON | PartialObject:
    """Return the request with the matched `resource` and `kind`.

    `requestResource` and `requestKind` are those that were sent. As in the Go struct, empty strings, lists and maps are
    absent. `uid`, `object` and `oldObject` exist, empty, although the declared type lacks these fields. `options` is
    null if the operation has none.
    """
    request: dict[str, Any] = {
        "uid": "",
        "kind": _fields(kind),
        "resource": _fields(resource),
        "requestKind": _fields(attributes.kind),
        "requestResource": _fields(attributes.resource),
        "operation": str(attributes.operation),
        "userInfo": user_info(attributes.user_info),
        "object": None,
        "oldObject": None,
        "dryRun": attributes.dry_run,
        "options": attributes.options,
    }
    if attributes.subresource:
        request["subResource"] = request["requestSubResource"] = attributes.subresource
    if attributes.name:
        request["name"] = attributes.name
    if attributes.namespace:
        request["namespace"] = attributes.namespace
    unknown = [attributes.options] if isinstance(attributes.options, Missing) else []
    for missing in attributes.missing:
        *above, name = missing.path.split(".")[1:]
        (request[above[0]] if above else request)[name] = missing
        unknown.append(missing)
    return PartialObject(request, tuple(unknown)) if unknown else request


@lru_cache(maxsize=1024, typed=True)
def _fields(value: GroupVersionKind | GroupVersionResource) -> dict[str, str]:
    """Return the fields as JSON that must not be changed."""
    return value._asdict()


def user_info(user: UserInfo) -> dict[str, Any]:
    """Return `authentication/v1.UserInfo` without empty fields."""
    info: dict[str, Any] = {}
    if user.username:
        info["username"] = user.username
    if user.uid:
        info["uid"] = user.uid
    if user.groups:
        info["groups"] = list(user.groups)
    if user.extra:
        info["extra"] = {key: list(values) for key, values in user.extra.items()}
    return info
