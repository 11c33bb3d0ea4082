"""Kinds of cluster objects that the policies of a set read: by API calls, global context entries and CEL calls."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import orjson

from replay.json import JSON
from replay.kube.attributes import Missing
from replay.kube.discovery import Discovery, builtin_discovery
from replay.kube.gvk import GroupVersionKind
from replay.kube.lister import Lister
from replay.kyverno.rules.go_value import as_map

Kind = tuple[str, str]
"""Group and kind."""

_VARIABLE: Final = re.compile(r"\{\{.*?\}\}", re.DOTALL)
_CALL: Final = re.compile(r"""resource\s*\.\s*(?:Get|List)\(\s*(['"])([^'"]+)\1\s*,\s*(['"])([^'"]+)\3""")
_SOME: Final = "\0"


def looked_up(objects: Iterable[Mapping[str, Any]]) -> frozenset[Kind]:
    """Return the kinds that policies and global entries name. A kind given by a variable is not found."""
    found: set[tuple[str, str]] = set()
    for obj in objects:
        found.update(_resources(obj))
        text = orjson.dumps(obj.get("spec")).decode().replace('\\"', '"').replace("\\n", "\n")
        for match in _CALL.finditer(text):
            found.add((match[2].rpartition("/")[0], match[4].partition("/")[0]))
    discovery: Discovery = builtin_discovery()
    return frozenset(
        (each.kind.group, each.kind.kind)
        for each in discovery
        if (each.resource.group, each.resource.resource) in found
    )


def _resources(value: JSON) -> Iterator[tuple[str, str]]:
    """Yield the group and resource of each API call and of each GlobalContextEntry."""
    if isinstance(value, dict):
        path = value.get("urlPath")
        if isinstance(path, str) and (place := _place(path)) is not None:
            yield place
        selected = as_map(value.get("kubernetesResource"))
        if selected:
            yield str(selected.get("group") or ""), str(selected.get("resource") or "")
        for each in value.values():
            yield from _resources(each)
    elif isinstance(value, list):
        for each in value:
            yield from _resources(each)


def _place(path: str) -> tuple[str, str] | None:
    """Return the group and resource of an API path, or None if a variable may change them."""
    parts = [part for part in _VARIABLE.sub(_SOME, path).partition("?")[0].split("/") if part]
    if parts[:1] == ["api"]:
        group, rest = "", parts[2:]
    elif parts[:1] == ["apis"] and len(parts) > 1:
        group, rest = parts[1], parts[3:]
    else:
        return None
    rest = rest[2:] if rest[:1] == ["namespaces"] and len(rest) > 2 else rest
    return (group, rest[0]) if rest and _SOME not in group + rest[0] else None


class LookedUpLister:
    """Lister that knows only the kinds that were read from the log because a policy names them."""

    def __init__(self, origin: Lister, kinds: frozenset[Kind]) -> None:
        """Limit `origin` to `kinds`. Objects of any other kind were not read from the log, so they are unknown."""
        self.origin = origin
        self._kinds = kinds

    def get(self, kind: GroupVersionKind, namespace: str, name: str) -> JSON | Missing | None:
        """See `Lister.get`."""
        return self._unread(kind) or self.origin.get(kind, namespace, name)

    def list(self, kind: GroupVersionKind, namespace: str | None) -> Sequence[JSON] | Missing:
        """See `Lister.list`."""
        return self._unread(kind) or self.origin.list(kind, namespace)

    def _unread(self, kind: GroupVersionKind) -> Missing | None:
        if (kind.group, kind.kind) in self._kinds:
            return None
        return Missing(kind.kind, f"no policy names the kind {kind.kind} literally, so replay did not read its objects")
