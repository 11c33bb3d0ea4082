"""One request of an audit log, in the form that all stages after ingest use."""

from __future__ import annotations

from typing import NamedTuple

import orjson

from replay.kube.attributes import UserInfo

CREATED = 201
"""The code of a response that created an object."""


class RequestRecord(NamedTuple):
    """A row of the store's `request` table: the last recorded stage of one request, without duplicates.

    `seq` is the total order over all files and API servers, with gaps. Times are microseconds since the epoch, UTC.
    `user` is the user that admission saw, which is the impersonated user if there is one. `caller` is the authenticated
    name. Bodies are the JSON text of the log, or None if the log has none. `annotations` is the JSON text of the map.
    `code` is 0 if no status was recorded. `api_group`, `resource` and so on are those of `objectRef`, and `name` is
    empty if the log has none. `status_*` come from `responseStatus`, `response_*` from the body of the response. They
    are empty without one. `line` counts the lines of `file` that are not blank, from 1. `selected` is false for a
    record that is only needed for the history of an object. `workspace` is the logical cluster of kcp, and empty in
    other logs. `scoped` says whether kcp confined an impersonated user to it.
    """

    seq: int
    audit_id: str
    level: str
    stage: str
    verb: str
    request_uri: str
    user_agent: str
    user: UserInfo
    caller: str
    api_group: str
    api_version: str
    resource: str
    subresource: str
    namespace: str
    name: str
    object_uid: str
    object_resource_version: str
    code: int
    status: str
    status_reason: str
    status_message: str
    received: int
    stage_time: int
    annotations: str | None
    request_object: str | None
    response_object: str | None
    file: str
    line: int
    selected: bool = True
    response_kind: str = ""
    response_uid: str = ""
    response_resource_version: str = ""
    workspace: str = ""
    scoped: bool = False


_TEXT = {str}


def annotations_from_json(annotations_text: str | None) -> dict[str, str]:
    """Return the audit annotations in a JSON text. Values that are not texts or not JSON count as absent."""
    try:
        value = orjson.loads(annotations_text) if annotations_text else None
    except orjson.JSONDecodeError:
        return {}
    if not isinstance(value, dict):
        return {}
    # In nearly all events, all values are texts.
    if set(map(type, value.values())) <= _TEXT:
        return value
    return {key: text for key, text in value.items() if isinstance(text, str)}
