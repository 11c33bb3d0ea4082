"""Changes of a claim's status that a kubelet may not make (`admitPVCStatus`)."""

from __future__ import annotations

import copy
import difflib
import json
from collections.abc import Mapping
from typing import Any, Final

from replay.json import JSON

_OPEN: Final = ("capacity", "conditions", "allocatedResourceStatuses", "allocatedResources")
_METADATA: Final = (
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
)
_REFERENCE: Final[Mapping[str, Any]] = {"apiGroup": None, "kind": "", "name": ""}
_SPEC: Final[Mapping[str, Any]] = {
    "accessModes": None,
    "selector": None,
    "resources": {"limits": None, "requests": None},
    "volumeName": "",
    "storageClassName": None,
    "volumeMode": None,
    "dataSource": None,
    "dataSourceRef": None,
    "volumeAttributesClassName": None,
}
_STATUS: Final[Mapping[str, Any]] = {
    "phase": "",
    "accessModes": None,
    "capacity": None,
    "conditions": None,
    "allocatedResources": None,
    "allocatedResourceStatuses": None,
    "currentVolumeAttributesClassName": None,
    "modifyVolumeStatus": None,
    "healthStatus": None,
}
_NESTED: Final[Mapping[str, Mapping[str, Any]]] = {
    "resources": {"limits": None, "requests": None},
    "dataSource": _REFERENCE,
    "dataSourceRef": {**_REFERENCE, "namespace": None},
    "modifyVolumeStatus": {"targetVolumeAttributesClassName": "", "status": ""},
}


def changes_beyond_status(old: JSON, new: JSON) -> str:
    """Return the forbidden difference as the server prints its own structures, empty if there is none.

    The server's whitespace differs from run to run. Here it is always a single space.
    """
    comparable_old, after = _comparable(old), _comparable(new)
    if comparable_old == after:
        return ""
    one, other = ([f"{line}\n" for line in _printed(each).split("\n")] for each in (old, new))
    return "".join(list(difflib.unified_diff(one, other))[2:])


def _without_updatable_fields(claim: JSON) -> JSON:
    copy_ = copy.deepcopy(claim)
    for field in ("resourceVersion", "managedFields"):
        copy_.setdefault("metadata", {}).pop(field, None)
    for field in _OPEN:
        (copy_.get("status") or {}).pop(field, None)
    return copy_


def _comparable(claim: JSON) -> Any:
    """Return a claim in which null and empty values are equal."""
    return _without_empty(_structure(_without_updatable_fields(claim)))


def _without_empty(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: inner for key, each in value.items() if (inner := _without_empty(each)) not in (None, {}, [])}
    return [_without_empty(each) for each in value] if isinstance(value, list) else value


def _printed(claim: JSON) -> str:
    return json.dumps(_structure(_without_updatable_fields(claim)), indent=1, ensure_ascii=False)


def _structure(claim: JSON) -> Any:
    """Return the structure with Go's names: metadata fields at the top level, without empty ones."""
    metadata = claim.get("metadata") or {}
    metadata_fields = {name: metadata[name] for name in _METADATA if metadata.get(name)}
    return {
        **metadata_fields,
        "Spec": _fields(claim.get("spec") or {}, _SPEC),
        "Status": _fields(claim.get("status") or {}, _STATUS),
    }


def _fields(source: JSON, defaults: Mapping[str, Any]) -> dict[str, Any]:
    fields = {}
    for name, default in defaults.items():
        value = source.get(name)
        if value is None:
            value = default
        if name in _NESTED and isinstance(value, Mapping):
            value = _fields(dict(value), _NESTED[name])
        fields["APIGroup" if name == "apiGroup" else name[0].upper() + name[1:]] = value
    return fields
