"""API-based policies, bindings and webhook configurations: what the cluster holds, not what a server reads at its start.

They passed the REST API once, so they are decoded as it decodes what it stored: unknown fields are dropped, defaults set.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from replay.cellib.version import KubernetesVersion
from replay.errors import ManifestError
from replay.json import JSON
from replay.manifests.defaulting import set_defaults
from replay.manifests.go_type.decode import decode
from replay.manifests.go_type.scheme import GROUP, LOADER_SCHEME
from replay.manifests.plugin import Plugin
from replay.manifests.read.document_reader import UndecodableError, read_object
from replay.manifests.read.documents import read_directory
from replay.manifests.read.node import Mapping, Node, node_from_json

_KINDS = frozenset(kind for plugin in Plugin for kind in plugin.kinds)
_API_VERSION = f"{GROUP}/v1"


def defaulted_api_objects(objects: Iterable[JSON]) -> Iterator[JSON]:
    """Those of the objects that decide about requests, as the server holds them; others are left out.

    Raises ManifestError for one that no server could have stored.
    """
    for obj in objects:
        if isinstance(obj, dict) and obj.get("apiVersion") == _API_VERSION and obj.get("kind") in _KINDS:
            yield _defaulted(obj["kind"], node_from_json(obj), "")


def api_objects_from_directory(path: Path, version: KubernetesVersion) -> Iterator[JSON]:
    """The objects of a set's `api/`: manifests as one would apply them.

    Raises ManifestError for a document that cannot be read, or that is of no such kind.
    """
    del version  # what the REST API accepted once stays in force, whatever its expressions need
    directory = read_directory(path)
    for unreadable in directory.unreadable:
        raise ManifestError(unreadable.reason, path=unreadable.path, line=unreadable.line)
    for document in directory.documents:
        try:
            decoded = read_object(document.data, document.line, LOADER_SCHEME)
        except UndecodableError as error:
            position = error.problems[0].position
            raise ManifestError(str(error), path=document.path, line=position.line, column=position.column) from error
        yield from _objects(decoded.node, decoded.registered.kind, document.path)


def _objects(node: Node, kind: str, path: str) -> Iterator[JSON]:
    if kind.removesuffix("List") not in _KINDS and kind != "List":
        raise ManifestError(f"kind `{kind}` decides about no requests", path=path, line=node.position.line)
    if not kind.endswith("List"):
        yield _defaulted(kind, node, path)
        return
    assert isinstance(node, Mapping)
    items = node.get("items")
    for item in getattr(items, "items", ()):
        item_kind = item.get("kind") if isinstance(item, Mapping) and kind == "List" else None
        yield from _objects(item, kind.removesuffix("List") or str(getattr(item_kind, "value", "")), path)


def _defaulted(kind: str, node: Node, path: str) -> JSON:
    decoded = decode(node, f"v1.{kind}")
    for problem in decoded.type_errors:
        raise ManifestError(problem.message, path=path, line=problem.position.line, column=problem.position.column)
    value = {**decoded.value, "kind": kind, "apiVersion": _API_VERSION}
    set_defaults(kind, value)
    if not value["metadata"].get("name"):
        raise ManifestError(f"{kind}: metadata.name: Required value", path=path, line=node.position.line)
    return value
