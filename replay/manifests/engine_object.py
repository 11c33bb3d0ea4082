"""Objects of policy engines in a set. The webhooks of their engines decide with them.

They are in the engine's directory, in `api/`, or among the other manifests of a set that is one directory or file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any, Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from replay.cellib.version import KubernetesVersion
from replay.errors import ManifestError
from replay.json import JSON
from replay.kube.admissionregistration import ManifestSet, MatchResources, Origin
from replay.kube.engine_policy import ENGINES, PolicyEngine, concerns, function_of, is_of_engine
from replay.manifests.go_type.decode import plain
from replay.manifests.read.documents import (
    DirectoryDocuments,
    ManifestDocument,
    Unreadable,
    read_directory,
    read_file,
    split_documents,
)
from replay.manifests.read.node import Node
from replay.manifests.read.yaml_reader import YAMLSyntaxError, read_yaml

ENGINE_DIRECTORIES: Final = tuple(engine.name for engine in ENGINES)
_CONFIGURATIONS: Final = tuple(engine.configuration for engine in ENGINES if engine.configuration)
"""Names of the ConfigMaps that configure engines."""
API_VERSION = re.compile(
    rb"""^\s*(?:-\s+|\{\s*|.*[,{]\s*)?["']?apiVersion["']?\s*:\s*["']?([\w.-]*/?\w+)""", re.MULTILINE
)
_CONFIG_MAP = re.compile(rb"""^["']?kind["']?\s*:\s*["']?ConfigMap\b""", re.MULTILINE)
_LIST = re.compile(rb"""^["']?kind["']?\s*:\s*["']?List\b""", re.MULTILINE)
_CONFIGURATION = re.compile(
    rb"""^\s+["']?name["']?\s*:\s*["']?(?:%(names)b)["']?\s*(?:#.*)?$|\{name: (?:%(names)b)\b"""
    % {b"names": "|".join(_CONFIGURATIONS).encode()},
    re.MULTILINE,
)


def is_engine_object(value: JSON) -> bool:
    """Return whether an object belongs to a policy engine or is its configuration."""
    if not isinstance(value, dict):
        return False
    version = str(value.get("apiVersion"))
    if version == "v1":
        metadata = value.get("metadata")
        return (
            value.get("kind") == "ConfigMap" and isinstance(metadata, dict) and metadata.get("name") in _CONFIGURATIONS
        )
    return _is_of_engine(version)


def _is_of_engine(version: str) -> bool:
    return any(engine.group.match(version) for engine in ENGINES)


def is_engine_document(document: ManifestDocument) -> bool:
    """Return whether a document is an object of a policy engine or its configuration, by its first `apiVersion`."""
    found = API_VERSION.search(document.data)
    if found is None:
        return False
    version = found[1].decode("utf-8", "replace")
    if version == "v1" and _LIST.search(document.data):
        return _is_list_of_engine(document)
    if version == "v1":
        return bool(_CONFIG_MAP.search(document.data) and _CONFIGURATION.search(document.data))
    return _is_of_engine(version)


def _is_list_of_engine(document: ManifestDocument) -> bool:
    """Return whether a `List`, as `kubectl get -o yaml` prints it, has only objects of a policy engine."""
    try:
        value = plain(read_yaml(document.data, document.line).node)
    except YAMLSyntaxError:
        return False
    items = value.get("items") if isinstance(value, dict) else None
    return isinstance(items, list) and bool(items) and all(map(is_engine_object, items))


def without_engine_objects(directory: DirectoryDocuments) -> DirectoryDocuments:
    """Return a directory without objects of policy engines."""
    return replace(directory, documents=other_documents(directory.documents))


def other_documents(documents: Iterable[ManifestDocument]) -> tuple[ManifestDocument, ...]:
    """Return the documents without objects of policy engines.

    Documents with only comments are left out too, if their file has such objects.
    """
    documents = tuple(documents)
    own = {id(each) for each in documents if is_engine_document(each)}
    paths = {each.path for each in documents if id(each) in own}
    return tuple(each for each in documents if id(each) not in own and not (each.path in paths and _is_blank(each)))


def _is_blank(document: ManifestDocument) -> bool:
    return all(line.strip()[:1] in (b"", b"#") for line in document.data.splitlines())


class EngineDocument(NamedTuple):
    """An object of a policy engine, with its file and nodes."""

    value: JSON
    path: str
    node: Node
    document: int = 1

    @property
    def name(self) -> tuple[str, str]:
        """Kind and name, which identify an object of a set."""
        return str(self.value.get("kind")), str((self.value.get("metadata") or {}).get("name"))

    @property
    def origin(self) -> Origin:
        """Source of the object."""
        return Origin(self.path, self.node.position.line, self.document)


def engine_documents(path: Path, *, is_own: bool = False) -> tuple[EngineDocument, ...]:
    """Return the objects of policy engines in a file, or anywhere below a directory.

    `is_own` is for the directory of an engine. Every document there must be a Kubernetes object, and ConfigMaps count
    too, because policies read them. Raises ManifestError.
    """
    if path.is_dir():
        files = [
            file for file in sorted(path.rglob("*")) if file.suffix in (".yaml", ".yml", ".json") and file.is_file()
        ]
        return tuple(value for file in files for value in engine_documents(file, is_own=is_own))
    try:
        documents = list(split_documents(str(path), read_file(path)))
    except Unreadable as error:
        raise ManifestError(error.reason, path=error.path, line=error.line) from None
    found: list[EngineDocument] = []
    for document in documents:
        if not is_own and not is_engine_document(document):
            continue
        try:
            node = read_yaml(document.data, document.line).node
        except YAMLSyntaxError as error:
            place = error.position
            raise ManifestError(str(error), path=str(path), line=place.line, column=place.column) from None
        values = _objects(plain(node))
        if not all(map(_is_object, values)):
            text = "an object of Kubernetes needs apiVersion and kind, and its metadata is a mapping"
            raise ManifestError(text, path=str(path), line=node.position.line)
        found += [
            EngineDocument(each, str(path), node, document.number)
            for each in values
            if is_engine_object(each) or (is_own and _is_config_map(each))
        ]
    return tuple(found)


def _objects(value: JSON) -> list[JSON]:
    """Return the objects of a document: the items of a `List`, or the object itself. An empty document has none."""
    if isinstance(value, dict) and value.get("kind") == "List":
        items = value.get("items") or []
        return items if isinstance(items, list) else [items]
    return [] if value is None else [value]


def _is_config_map(value: JSON) -> bool:
    return (value.get("apiVersion"), value.get("kind")) == ("v1", "ConfigMap") and bool(value.get("metadata"))


def _is_object(value: JSON) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("metadata") or {}, dict):
        return False
    return all(isinstance(value.get(name), str) for name in ("apiVersion", "kind"))


def holds_engine_objects_alone(path: Path) -> bool:
    """Return whether a file, or every document directly in a directory, is an object of a policy engine."""
    try:
        documents = (
            read_directory(path).documents if path.is_dir() else tuple(split_documents(str(path), read_file(path)))
        )
    except Unreadable:
        return False
    return bool(documents) and not other_documents(documents)


def differing_webhooks(one: ManifestSet, other: ManifestSet) -> frozenset[str]:
    """Return the webhooks that decide differently with other objects of their engine."""
    ours, theirs = one.engine_objects, other.engine_objects
    differing = [value for value in ours if value not in theirs] + [value for value in theirs if value not in ours]
    if not differing:
        return frozenset()
    names = {webhook.name for webhook in (*one.webhooks, *other.webhooks)}
    return frozenset(name for name in names if any(concerns(value, name) for value in differing))


def with_engines(manifests: ManifestSet, objects: Iterable[JSON], version: KubernetesVersion) -> ManifestSet:
    """Return a set with objects of policy engines, and with what each engine registers and generates from them."""
    own = tuple(objects)
    manifests = replace(manifests, engine_objects=own) if own else manifests
    present = [engine for engine in ENGINES if any(is_of_engine(value, engine) for value in own)]
    for engine in present:
        manifests = function_of(engine.registration)(manifests, version)
    for engine in ENGINES:
        # A cluster may show policies that an engine generated, without the objects that it generated them from.
        if engine.generated and (engine in present or _takes_parameters(manifests, engine)):
            manifests = function_of(engine.generated)(manifests, version)
    return manifests


def _takes_parameters(manifests: ManifestSet, engine: PolicyEngine) -> bool:
    """Return whether a native policy takes objects of an engine as parameters."""
    kinds = (each.param_kind for each in manifests.policies if each.param_kind is not None)
    return any(engine.group.match(kind.api_version) for kind in kinds)


class Reported(Struct, frozen=True):
    """Policy or rule that an existing object violates or that cannot be evaluated. `unknown` is the reason if undetermined."""

    policy: str
    message: str
    is_error: bool = False
    unknown: str = ""


class Migrated(Struct, frozen=True):
    """Rule with its CEL policies, or the reason why there are none. Pod controllers need policies of their own."""

    policy: str
    rule: str
    policies: tuple[dict[str, Any], ...] = ()
    reason: str = ""


class TwoSources(NamedTuple):
    """Objects of a set by the source that decides, the names of the templates that have both, and who decides a request.

    A decider gets the objects, those of a cluster, and yields from a request what `replay plugin` writes.
    """

    rego: tuple[JSON, ...]
    cel: tuple[JSON, ...]
    templates: tuple[str, ...]
    decider: Callable[[Iterable[JSON], Iterable[JSON]], Callable[[Mapping[str, JSON]], dict[str, Any]]]


DENIES_ALREADY: Final = "`{}` denies already: `replay lookup` shows whom"
NEVER_DENIES: Final = "`{}` never denies: it changes or makes objects"
"""Why a policy cannot be promoted, with `{}` for its name."""


class EnginePromotion(Struct, frozen=True):
    """A policy of an engine that does not deny yet: its actions, the patch that makes it deny, and the patched policy.

    `patch` is a merge patch, or the list of a JSON patch; `criteria` select the requests that the policy may match.
    """

    actions: tuple[str, ...]
    patch: JSON
    promoted: JSON
    criteria: MatchResources
    unlogged_reason: str
    """Why an audit log does not show failures of the policy."""


def promoted_object(
    value: JSON, actions: Iterable[str], patch: JSON, criteria: MatchResources, untold: str
) -> EnginePromotion | str:
    """Return the promotion with the patched object, or that the policy denies already if no action is weaker."""
    weak = tuple(dict.fromkeys(actions))
    return EnginePromotion(weak, patch, _patched(value, patch), criteria, untold) if weak else DENIES_ALREADY


def replacement(path: str, value: str, *, has_value: bool = True) -> JSON:
    """Return the operation of a JSON patch that sets a value."""
    return {"op": "replace" if has_value else "add", "path": path, "value": value}


def _patched(value: JSON, patch: JSON) -> JSON:
    changed: Any = deepcopy(value)
    if isinstance(patch, dict):
        changed["spec"].update(patch["spec"])
        return changed
    for operation in patch:
        *parents, last = operation["path"].split("/")[1:]
        place = changed
        for name in parents:
            place = place[int(name)] if isinstance(place, list) else place[name]
        place[last] = operation["value"]
    return changed
