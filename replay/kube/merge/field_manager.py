"""Ownership of fields: the effect of an apply or an update on `metadata.managedFields`.

The rules are those of sigs.k8s.io/structured-merge-diff/v6/merge (`Updater.Apply`, `Update`) as pkg/util/managedfields
of k8s.io/apimachinery uses them. Field sets of another API version than the request's are not converted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from replay.go.format import quote
from replay.json import JSON
from replay.kube.merge.atom import Atom
from replay.kube.merge.field_set import (
    NO_FIELDS,
    FieldSet,
    apart_from,
    compared,
    decoded,
    encoded,
    fields_of,
    path_text,
    with_named,
    without,
)
from replay.kube.merge.merge_key import MergeError
from replay.kube.merge.structured_merge import conforming, merged

APPLY, UPDATE = "Apply", "Update"
MOST_UPDATERS = 10
"""The number of updating managers beyond which the server joins the oldest ones (`DefaultMaxUpdateManagers`)."""
_STRIPPED: FieldSet = frozenset(
    (
        ("f:apiVersion",),
        ("f:kind",),
        ("f:metadata",),
        *(
            ("f:metadata", f"f:{name}")
            for name in (
                "name",
                "namespace",
                "creationTimestamp",
                "selfLink",
                "uid",
                "clusterName",
                "generation",
                "managedFields",
                "resourceVersion",
            )
        ),
    )
)
"""Fields without owner (`NewStripMetaManager`)."""


class FieldManager(NamedTuple):
    """Owner of fields: a name, the operation and subresource, and for an update the API version."""

    name: str
    operation: str
    subresource: str
    api_version: str

    @property
    def text(self) -> str:
        """Return the name in messages (`printManager`)."""
        text = quote(self.name)
        if self.subresource:
            text += f" with subresource {quote(self.subresource)}"
        return f"{text} using {self.api_version}" if self.operation == UPDATE else text


Managers = Mapping[FieldManager, FieldSet]


class ForeignVersionError(Exception):
    """Fields are owned at another API version, and the object is not converted to it."""


class ApplyConflictError(Exception):
    """Another manager owns fields that an apply changes. `str()` is the server's message."""


class Writer(NamedTuple):
    """A writing request: its manager, the fields that its endpoint ignores, and whether it overrides conflicts."""

    manager: FieldManager
    ignored: FieldSet = NO_FIELDS
    force: bool = False


def managers_of(entries: Sequence[JSON], api_version: str) -> Managers:
    """Parse `metadata.managedFields`. Raise `ForeignVersionError`, and `MergeError` for malformed entries."""
    managers = {}
    for entry in entries:
        version, operation = entry.get("apiVersion"), entry.get("operation")
        if operation not in (APPLY, UPDATE):
            raise MergeError("managedFields have an unknown operation")
        if version != api_version:
            raise ForeignVersionError(f"managedFields are in version {version}, and replay does not convert versions")
        manager = FieldManager(entry.get("manager", ""), operation, entry.get("subresource", ""), api_version)
        managers[manager] = decoded(entry.get("fieldsV1") or {})
    return managers


def entries_of(managers: Managers, live: Sequence[JSON], time: str) -> list[dict[str, Any]]:
    """Return managers as `metadata.managedFields`, in the server's order.

    Unchanged entries of `live` keep their time.
    """
    entries = []
    old_entries = {_key(entry): entry for entry in live}
    for manager, fields in managers.items():
        own: dict[str, Any] = {
            "manager": manager.name,
            "operation": manager.operation,
            "apiVersion": manager.api_version,
        }
        old = old_entries.get((manager.name, manager.operation, manager.subresource))
        is_same = old is not None and decoded(old.get("fieldsV1") or {}) == fields
        own |= {
            "time": old.get("time", "") if is_same and old else time,
            "fieldsType": "FieldsV1",
            "fieldsV1": encoded(fields),
        }
        entries.append(own | ({"subresource": manager.subresource} if manager.subresource else {}))
    return sorted(
        entries, key=lambda each: (each["operation"], each["time"], each["manager"], each.get("subresource", ""))
    )


def _key(entry: JSON) -> tuple[str, str, str]:
    return entry.get("manager", ""), entry.get("operation", ""), entry.get("subresource", "")


def updated(atom: Atom, live: JSON, new: JSON, managers: Managers, writer: Writer) -> Managers:
    """Return the managers after an update, which owns what it changes.

    Source: `Updater.Update`, `managedFieldsUpdater.Update`.
    """
    manager, ignored, _ = writer
    comparison = compared(atom, live, new).without(ignored)
    changed = comparison.modified | comparison.added
    owners = {each: fields - changed - comparison.removed for each, fields in managers.items()}
    own = apart_from(changed, ignored) - _STRIPPED
    if own:
        owners[manager] = owners.get(manager, NO_FIELDS) | own
    owners = {each: fields for each, fields in owners.items() if fields}
    if sum(each.operation == UPDATE for each in owners) > MOST_UPDATERS:
        raise MergeError("the object has so many field managers that the server merges some of them")
    return owners


def applied(atom: Atom, live: JSON, configuration: JSON, managers: Managers, writer: Writer) -> tuple[JSON, Managers]:
    """Return the object and its managers after an apply (`Updater.Apply`), before defaults.

    Fields that the manager applied before and now omits are removed, unless another manager owns them. Raise
    `ApplyConflictError` unless the apply is forced, and `MergeError` if the configuration does not fit.
    """
    manager, ignored, force = writer
    conforming(atom, configuration)
    after = merged(atom, live, configuration)
    last = managers.get(manager, NO_FIELDS)
    own = apart_from(fields_of(atom, configuration), ignored)
    others = {each: fields for each, fields in managers.items() if each != manager}
    if last:
        after = _pruned(atom, after, last, own.union(*others.values()))
    comparison = compared(atom, live, after).without(ignored)
    changed = comparison.modified | comparison.added
    conflicts = {each: fields & changed for each, fields in others.items() if fields & changed}
    if conflicts and not force:
        raise ApplyConflictError(_conflict_text(conflicts))
    owners = {each: fields - changed - comparison.removed for each, fields in others.items()}
    owners[manager] = own - _STRIPPED
    return after, {each: fields for each, fields in owners.items() if fields}


def _pruned(atom: Atom, after: JSON, last: FieldSet, owned: FieldSet) -> JSON:
    """Return an object without the fields that its manager last applied and that have no owner now (`Updater.prune`)."""
    last = with_named(atom, last)
    pruned = without(atom, after, last)
    everything = with_named(atom, fields_of(atom, after))
    left = with_named(atom, fields_of(atom, pruned))
    pruned = without(atom, after, everything - (left | with_named(atom, owned)))
    # An item that this manager did not apply last stays, even if it is inside one that it did apply.
    left = with_named(atom, fields_of(atom, pruned))
    return without(atom, after, (everything - left) & last)


def _conflict_text(conflicts: Managers) -> str:
    """Return the message of `NewConflictError`."""
    number = sum(map(len, conflicts.values()))
    if number == 1:
        ((manager, (path,)),) = conflicts.items()
        return f"Apply failed with 1 conflict: conflict with {manager.text}: {path_text(path)}"
    lines = []
    for manager in sorted(conflicts):
        lines += [f"conflicts with {manager.text}:", *(f"- {path_text(path)}" for path in sorted(conflicts[manager]))]
    return f"Apply failed with {number} conflicts: " + "\n".join(lines)
