"""One file of policies as a set: what one has before there is a directory for each plugin.

No server reads a single file. What has the name of a static manifest is taken for one, and all else for what would be created
through the API.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from replay.cellib.version import KubernetesVersion
from replay.errors import ManifestError
from replay.manifests.api_object import LoadedApi, load_api_documents
from replay.manifests.engine_object import is_engine_document
from replay.manifests.go_type.decode import plain
from replay.manifests.go_type.scheme import GROUP
from replay.manifests.loader import LoadedDirectory, load_documents
from replay.manifests.plugin import CHAIN_ORDER, PluginName
from replay.manifests.read.documents import DirectoryDocuments, ManifestDocument, Unreadable, read_file, split_documents
from replay.manifests.read.yaml_reader import YAMLSyntaxError, read_yaml
from replay.manifests.server.flags import is_server_file
from replay.manifests.static_rule import STATIC_SUFFIX

_API_VERSION = re.compile(
    rb"""^\s*(?:-\s+|\{\s*|.*[,{]\s*)?["']?apiVersion["']?\s*:\s*["']?([\w.-]*/?\w+)""", re.MULTILINE
)
_CONFIGURATION_GROUPS = (b"apiserver.config.k8s.io/", b"apiserver.k8s.io/")


class PolicyFile(Struct, frozen=True):
    """A file of policies, loaded; `api_names` are the objects that were taken for API-based ones by their names."""

    directories: Mapping[PluginName, LoadedDirectory]
    api: LoadedApi | None
    api_names: tuple[str, ...]


def is_policy_file(path: Path) -> bool:
    """Whether a file holds objects of `admissionregistration.k8s.io`; raises ManifestError for one that holds no set at all."""
    if is_server_file(path):
        return False
    versions = [match[1] for match in _API_VERSION.finditer(_bytes(path))]
    if any(version.startswith(f"{GROUP}/".encode()) for version in versions):
        return True
    if versions and not any(version.startswith(_CONFIGURATION_GROUPS) for version in versions):
        api_version = versions[0].decode("utf-8", "replace")
        text = f"holds {api_version} objects, and no policy: a set is a directory, an AdmissionConfiguration, or a file with"
        raise ManifestError(f"{text} policies, bindings and webhook configurations of {GROUP}/v1", path=str(path))
    return False


def load_policy_file(path: Path, version: KubernetesVersion, created: KubernetesVersion) -> PolicyFile:
    """Load a file without raising for what is wrong in its manifests; raises ManifestError where it cannot be read.

    `created` is the minor through whose API its API objects came.
    """
    try:
        split = split_documents(str(path), _bytes(path))
        documents = tuple(each for each in split if not is_engine_document(each))
    except Unreadable as error:
        raise ManifestError(error.reason, path=error.path, line=error.line) from error
    names = {document: tuple(_names(document)) for document in documents}
    static = tuple(each for each in documents if any(name.endswith(STATIC_SUFFIX) for name in names[each]))
    through_api = tuple(each for each in documents if each not in static)
    directories = _static(path, static, version) if static else {}
    api = load_api_documents(path, DirectoryDocuments(through_api, ""), created) if through_api else None
    return PolicyFile(directories, api, tuple(name for each in through_api for name in names[each]))


def _bytes(path: Path) -> bytes:
    try:
        return read_file(path)
    except Unreadable as error:
        raise ManifestError(error.reason, path=error.path) from error


def _static(
    path: Path, documents: Iterable[ManifestDocument], version: KubernetesVersion
) -> dict[PluginName, LoadedDirectory]:
    directory = DirectoryDocuments(tuple(documents), "")
    loaded = {plugin: load_documents(path, directory, plugin, version, mixed=True) for plugin in CHAIN_ORDER}
    return {plugin: each for plugin, each in loaded.items() if each.objects or each.refusals}


def _names(document: ManifestDocument) -> Iterator[str]:
    """The names of the objects of a document, those of a list one by one; none where it cannot be read, which loading tells."""
    try:
        value = plain(read_yaml(document.data).node)
    except YAMLSyntaxError:
        return
    items = value.get("items") if isinstance(value, dict) else None
    for each in items if isinstance(items, list) else [value]:
        metadata = each.get("metadata") if isinstance(each, dict) else None
        name = metadata.get("name") if isinstance(metadata, dict) else None
        if isinstance(name, str):
            yield name
