"""A bundle: objects of any kinds together, as in a release, a rendered chart or a Git directory.

Everything counts as after `kubectl apply`: policies, bindings, webhook configurations, objects of policy engines, RBAC,
and the objects that decisions look up. Of two objects with one identity, the later counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from replay.cellib.version import NEWEST, KubernetesVersion
from replay.errors import UNFORESEEN, ManifestError
from replay.go.format import quote
from replay.json import JSON
from replay.kube.admissionregistration import GROUP
from replay.kube.discovery import Discovery, builtin_discovery, custom_resources
from replay.kube.gvk import GroupVersionKind, split_api_version
from replay.kube.rbac import RBAC_GROUP, RBAC_KINDS
from replay.kube.schema import CRD, Schemas
from replay.manifests.api_object import LoadedApi, load_api_documents
from replay.manifests.authorization_file import (
    CONFIGURATION_FILE,
    RBAC_DIRECTORY,
    is_about_authorization,
    is_configuration,
)
from replay.manifests.bundle_source import (
    STDIN,
    BundleDocument,
    is_chart,
    is_kustomization,
    is_object,
    items_of,
    read_bundle_files,
)
from replay.manifests.engine_object import (
    API_VERSION,
    ENGINE_DIRECTORIES,
    EngineDocument,
    holds_engine_objects_alone,
    is_engine_object,
)
from replay.manifests.loader import LoadedDirectory, load_documents
from replay.manifests.plugin import API_DIRECTORY, CHAIN_ORDER, PluginName
from replay.manifests.read.documents import DirectoryDocuments, ManifestDocument, Unreadable, is_manifest, read_file
from replay.manifests.read.node import Mapping as NodeMapping
from replay.manifests.read.node import Node
from replay.manifests.read.node import Sequence as NodeSequence
from replay.manifests.served import NO_GATES, Gates
from replay.manifests.server.flags import is_server_file
from replay.manifests.server.settings import OBJECTS_DIRECTORY, check_quantities, is_configuration_file
from replay.manifests.static_rule import STATIC_SUFFIX

_RBAC = frozenset(kind.kind for kind in RBAC_KINDS)
_KIND = re.compile(rb"""^["']?kind["']?\s*:\s*["']?(\w+)""", re.MULTILINE)
_STATIC_NAME = re.compile(rb"""\bname["']?\s*:\s*["']?[\w.-]+""" + re.escape(STATIC_SUFFIX.encode()))
_POLICIES = f"{GROUP}/".encode()
_CONFIGURATIONS = (b"apiserver.config.k8s.io/", b"apiserver.k8s.io/")
_PLACES_OF_A_SET = frozenset(
    {
        *(plugin.directory for plugin in CHAIN_ORDER),
        *ENGINE_DIRECTORIES,
        API_DIRECTORY,
        OBJECTS_DIRECTORY,
        RBAC_DIRECTORY,
        CONFIGURATION_FILE,
    }
)
"""Names of the parts of a set in its own form."""


class Bundle(Struct, frozen=True):
    """Content of a bundle. `directories` are its static manifests, `others` are neither policies nor RBAC."""

    path: str
    directories: Mapping[PluginName, LoadedDirectory]
    api: LoadedApi | None
    engine: tuple[EngineDocument, ...]
    rbac: tuple[JSON, ...]
    others: tuple[JSON, ...]
    through_api: tuple[str, ...] = ()
    """Names of the policies and configurations that are created through the API."""
    hints: tuple[str, ...] = ()

    @property
    def has_policies(self) -> bool:
        """Whether the bundle has policies, webhooks or RBAC."""
        return bool(self.directories or self.api is not None or self.engine or self.rbac)


def is_bundle(path: Path) -> bool:
    """Return whether a path holds a bundle rather than a set in its own form."""
    if path == STDIN:
        return True
    if path.is_dir():
        return _is_bundle_directory(path)
    if is_kustomization(path):
        return True
    if is_server_file(path) or _is_authorization_alone(path) or holds_engine_objects_alone(path):
        return False
    return any(not version.startswith(_CONFIGURATIONS) for version in _versions(path))


def _is_authorization_alone(path: Path) -> bool:
    """Return whether a file has only RBAC objects, or is an AuthorizationConfiguration."""
    if not is_about_authorization(path):
        return False
    kinds = {match[1].decode() for match in _KIND.finditer(_content(path) or b"")}
    return is_configuration(path) or kinds <= _RBAC | {"List"}


def _is_bundle_directory(path: Path) -> bool:
    """Return whether a directory is not a set in its own form.

    It then has folders or other objects, or no name of a static manifest.
    """
    entries = [each for each in path.iterdir() if not each.name.startswith(".")]
    if {each.name for each in entries} & _PLACES_OF_A_SET:
        return False
    if any(is_kustomization(each) or is_chart(each) for each in entries):
        return True
    files = [each for each in entries if is_manifest(each) and not each.is_symlink()]
    if any(map(is_server_file, entries)) or any(map(is_configuration_file, files)) or is_about_authorization(path):
        return False
    contents = [content for each in files if (content := _content(each)) is not None]
    versions = [version for content in contents for version in API_VERSION.findall(content)]
    if any(map(_STATIC_NAME.search, contents)):
        return False
    if any(version.startswith(_POLICIES) for version in versions):
        return True
    has_folders = any(map(_holds_manifests, (each for each in entries if each.is_dir())))
    return not holds_engine_objects_alone(path) and (bool(versions) or has_folders)


def _holds_manifests(directory: Path) -> bool:
    """Return whether any manifest is below a folder. Hidden files and folders do not count."""
    return any(
        _holds_manifests(each) if each.is_dir() and not each.is_symlink() else is_manifest(each)
        for each in directory.iterdir()
        if not each.name.startswith(".")
    )


def _content(path: Path) -> bytes | None:
    try:
        return read_file(path)
    except Unreadable:
        return None


def _versions(path: Path) -> list[bytes]:
    try:
        return API_VERSION.findall(read_file(path))
    except Unreadable as error:
        raise ManifestError(error.reason, path=error.path) from error


def load_bundle(
    path: Path,
    version: KubernetesVersion,
    created: KubernetesVersion,
    gates: Gates = NO_GATES,
    *,
    is_applied: bool = False,
) -> Bundle:
    """Load the bundle at a path. What a server refuses is in the refusals of `api` and `directories`.

    `created` is the server version through whose API the API objects come. `is_applied`: the whole bundle goes through
    the API. Otherwise objects with the name of a static manifest count as static. Raises ManifestError for a document
    that is not an object, and for files that must be rendered first.
    """
    files = read_bundle_files(path)
    discovery = builtin_discovery()
    found = list(_objects_in(files.documents))
    discovery = discovery.with_crds(each.value for each in found if _kind_of(each.value)[:1] == (CRD.group,))
    policies = [each for each in files.documents if any(map(_is_policy, items_of(each.value)))]
    static = [] if is_applied else [each for each in policies if any(map(_is_static, items_of(each.value)))]
    through_api = [each for each in policies if each not in static]
    api = None
    if through_api:
        api = load_api_documents(path, _read(through_api), created, mixed=True, gates=gates, is_applied=True)
    engine = {each.key: each for each in found if is_engine_object(each.value)}
    # The kinds of other versions are not known here, so only the newest server can be said to lack one.
    unserved = [each for each in found if created == NEWEST and _is_unserved(each.value)]
    rest = {
        each.key: each
        for each in found
        if each not in unserved and not _is_policy(each.value) and not is_engine_object(each.value)
    }
    placed = [(each, _with_namespace(each, discovery)) for each in rest.values()]
    hints = [
        f"{each.document.path}:{each.node.position.line}: not applied: no matches for kind {quote(each.value['kind'])} in version "
        f"{quote(each.value['apiVersion'])}"
        for each in unserved
    ]
    if files.other_files:
        names = ", ".join(f"`{Path(each).name}`" for each in files.other_files[:3])
        more = f" and {len(files.other_files) - 3} more" if len(files.other_files) > 3 else ""
        hints.append(f"{path}: left out what holds no objects of Kubernetes: {names}{more}")
    return Bundle(
        str(path),
        _static(path, static, version) if static else {},
        api,
        tuple(
            EngineDocument(_with_namespace(each, discovery), each.document.path, each.node, each.document.number)
            for each in engine.values()
        ),
        tuple(value for each, value in placed if _is_rbac(value)),
        tuple(value for each, value in placed if not _is_rbac(value)),
        tuple(
            str(item["metadata"]["name"])
            for each in through_api
            for item in items_of(each.value)
            if _is_policy(item) and isinstance(item.get("metadata"), dict) and item["metadata"].get("name")
        ),
        tuple(hints),
    )


def rbac_of_bundle(path: Path) -> tuple[JSON, ...]:
    """Return the RBAC objects of the bundle at a path. Raises the errors of `load_bundle`."""
    found = {each.key: each for each in _objects_in(read_bundle_files(path).documents) if _is_rbac(each.value)}
    return tuple(_with_namespace(each, builtin_discovery()) for each in found.values())


class _FoundObject(Struct, frozen=True):
    """One object of a bundle, with its document."""

    value: JSON
    node: Node
    document: ManifestDocument

    @property
    def key(self) -> tuple[str, str, str, str]:
        """Group, kind, namespace and name."""
        metadata = self.value["metadata"]
        return *_kind_of(self.value), str(metadata.get("namespace") or ""), metadata["name"]


def _objects_in(documents: Iterable[BundleDocument]) -> Iterator[_FoundObject]:
    """Yield the objects of all documents. Raises ManifestError for other documents."""
    for document in documents:
        values = items_of(document.value)
        nodes = _nodes(document.node, len(values))
        for value, node in zip(values, nodes, strict=True):
            if problem := _problem(value):
                place = node.position
                raise ManifestError(problem, path=document.source.path, line=place.line, column=place.column)
            if _is_policy(value):  # what is wrong with it is said in the words of the server
                continue
            check_quantities(value, document.source.path)
            yield _FoundObject(value, node, document.source)


def _nodes(node: Node, count: int) -> list[Node]:
    """Return the nodes of a document's objects, as far as known."""
    items = node.get("items") if isinstance(node, NodeMapping) else None
    if isinstance(items, NodeSequence) and len(items.items) == count:
        return list(items.items)
    return [node] * count


def _problem(value: JSON) -> str | None:
    """Return why `kubectl apply` refuses a document, or None if it accepts it."""
    if not isinstance(value, dict):
        return "is not a Kubernetes object: it is not a mapping"
    missing = [each for each in ("apiVersion", "kind") if not isinstance(value.get(each), str) or not value[each]]
    if missing:
        return f"is not a Kubernetes object: {' and '.join(f'`{each}`' for each in missing)} not set"
    if _is_policy(value):
        return None
    metadata = value.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if isinstance(name, str) and name:
        return _form_problem(value)
    if isinstance(metadata, dict) and metadata.get("generateName"):
        return f"{value['kind']} `{metadata['generateName']}`: cannot use generate name with apply"
    return f"{value['kind']} has no `metadata.name`"


def _form_problem(value: JSON) -> str | None:
    """Return why an object does not have the form of its kind, or None. Only the parts that are read count."""
    metadata = value["metadata"]
    named = f"{value['kind']} `{metadata['name']}`"
    for field in ("labels", "annotations"):
        texts = metadata.get(field) or {}
        if not isinstance(texts, dict) or not all(isinstance(each, str) for each in texts.values()):
            return f"{named}: `metadata.{field}` is not a mapping of strings"
    if _kind_of(value) != (CRD.group, CRD.kind):
        return None
    try:
        names = value["spec"]["names"]
        is_formed = all(isinstance(each, str) for each in (value["spec"]["group"], names["plural"], names["kind"]))
        Discovery(custom_resources([value]))
        Schemas([value])
    except UNFORESEEN:
        is_formed = False
    return (
        None
        if is_formed
        else f"{named}: `spec` is not of the form that its kind has: it needs a group, names and versions"
    )


def _kind_of(value: JSON) -> tuple[str, str]:
    return split_api_version(value["apiVersion"])[0], value["kind"]


def _is_unserved(value: JSON) -> bool:
    """Return whether an object of a built-in API group has a version or kind that the server does not serve."""
    group, version = split_api_version(value["apiVersion"])
    if builtin_discovery().of_kind(GroupVersionKind(group, version, value["kind"])) is not None:
        return False
    return any(each.kind.group == group for each in builtin_discovery())


def _is_policy(value: JSON) -> bool:
    return is_object(value) and _kind_of(value)[0] == GROUP


def _is_rbac(value: JSON) -> bool:
    group, kind = _kind_of(value)
    return group == RBAC_GROUP and kind in _RBAC


def _is_static(value: JSON) -> bool:
    metadata = value.get("metadata") if isinstance(value, dict) else None
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return isinstance(name, str) and name.endswith(STATIC_SUFFIX) and _is_policy(value)


def _with_namespace(found: _FoundObject, discovery: Discovery) -> JSON:
    """Return an object with its namespace.

    Without one, it gets `default` if its kind is namespaced.
    """
    value = found.value
    group, version = split_api_version(value["apiVersion"])
    resource = discovery.of_kind(GroupVersionKind(group, version, value["kind"]))
    namespace = value["metadata"].get("namespace")
    if resource is None or resource.namespaced is bool(namespace):
        return value
    # Without another context, kubectl sends objects without a namespace to `default`.
    metadata = {key: each for key, each in value["metadata"].items() if key != "namespace"}
    return {**value, "metadata": {**metadata, "namespace": "default"} if resource.namespaced else metadata}


def _read(documents: Iterable[BundleDocument]) -> DirectoryDocuments:
    return DirectoryDocuments(tuple(each.source for each in documents), "")


def _static(
    path: Path, documents: Iterable[BundleDocument], version: KubernetesVersion
) -> dict[PluginName, LoadedDirectory]:
    directory = _read(documents)
    loaded = {plugin: load_documents(path, directory, plugin, version, mixed=True) for plugin in CHAIN_ORDER}
    return {plugin: each for plugin, each in loaded.items() if each.objects or each.refusals}
