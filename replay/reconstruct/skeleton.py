"""Known parts of an object without a body in the log: kind, name and namespace."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct, field

from replay.audit.event import RequestRecord
from replay.json import JSON
from replay.kube.attributes import Missing, PartialObject
from replay.kube.gvk import GroupVersionKind
from replay.kube.schema import OBJECT_META_FIELDS, Schemas

_METADATA = tuple(name for name in OBJECT_META_FIELDS if name not in ("name", "namespace"))
_NAMED = ("apiVersion", "kind", "metadata")


class Skeletons(Struct):
    """Builds objects of which only the name is known. `schemas_of` a workspace says which fields a kind may have."""

    schemas_of: Callable[[str], Schemas]
    _leaves: dict[tuple[str, GroupVersionKind, str, str], list[Missing]] = field(default_factory=dict)

    def of(self, missing: Missing, root: str, kind: GroupVersionKind, record: RequestRecord) -> PartialObject | Missing:
        """Return the object of a request, called `root`, with `missing` in all fields but its name.

        Returns `missing` itself if the kind has no schema, so that its fields are unknown, or if there is no name.
        """
        name, namespace = record.name, "" if record.resource == "namespaces" else record.namespace
        schema = self.schemas_of(record.workspace).for_kind(kind)
        if schema is None or not name or schema.preserve_unknown_fields:
            return Missing(root, missing.reason, missing.fix)
        key = (record.workspace, kind, root, missing.reason)
        leaves = self._leaves.get(key)
        if leaves is None:
            paths = [f"metadata.{field}" for field in _METADATA] + [
                field for field in schema.fields if field not in _NAMED
            ]
            leaves = self._leaves[key] = [Missing(f"{root}.{path}", missing.reason, missing.fix) for path in paths]
        metadata: dict[str, JSON] = {"name": name}
        if namespace:
            metadata["namespace"] = namespace
        value: dict[str, JSON] = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}
        for leaf in leaves:
            _, first, *rest = leaf.path.split(".", 2)
            (metadata if rest else value)[rest[0] if rest else first] = leaf
        return PartialObject(value, tuple(leaves))
