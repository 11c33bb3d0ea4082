"""`replay convert` as a function: converts API objects to directories of static manifests for a server."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct, field

from replay.cellib.version import NEWEST, KubernetesVersion
from replay.errors import ManifestError, ReplayError, reason_of
from replay.json import JSON
from replay.manifests.api_object import defaulted_api_objects
from replay.manifests.bundle import load_bundle
from replay.manifests.convert import Conversion, FindParam, convert
from replay.manifests.loader import LoadedObject, load_directory
from replay.manifests.plugin import API_DIRECTORY, CHAIN_ORDER, PluginName
from replay.manifests.read.documents import is_manifest
from replay.manifests.read.node import node_from_json
from replay.manifests.served import static_problem
from replay.manifests.set_loader import error_from_finding
from replay.manifests.validation import validate
from replay.pipeline.whole_file import whole_file
from replay.reconstruct.snapshot import read_snapshot

SERVER_DIRECTORY = "/etc/kubernetes/admission"
CONFIGURATION = "admission-configuration.yaml"
_NOTHING = "holds no policy, binding or webhook configuration"
_SNAPSHOT = ".jsonl"
_GROUP = "apiserver.config.k8s.io/v1"


class Converted(Struct, frozen=True):
    """The written files below the directory, in order; `conversion` also lists what could not be converted."""

    conversion: Conversion
    paths: tuple[Path, ...]
    configuration: Path | None


class ConvertOptions(Struct, frozen=True, kw_only=True):
    """The options of a conversion for a server of `version` that reads its manifests below `server_directory`.

    `urls` are the addresses of webhooks with a Service. `cluster` is a snapshot with parameters.
    """

    version: KubernetesVersion = NEWEST
    urls: Mapping[str, str] = field(default_factory=dict)
    cluster: Path | None = None
    server_directory: str = SERVER_DIRECTORY


def convert_set(path: Path, out: Path, options: ConvertOptions) -> Converted:
    """Write the API-based objects at a path as static manifests of a server, below `out`.

    Raise ReplayError for objects that the API would refuse, for a directory that holds manifests already, and for a
    server without static manifests.
    """
    version, server_directory, cluster = options.version, options.server_directory, options.cluster
    if problem := static_problem(version):
        raise ManifestError(problem)
    if not server_directory.startswith("/"):
        raise ReplayError("the server takes an absolute path", path="--server-directory")
    objects, others = _loaded(path, version)
    known = [*others, *(read_snapshot(cluster) if cluster is not None else ())]
    conversion = convert(objects, options.urls, _find_in(known))
    for plugin in CHAIN_ORDER:
        directory = out / plugin.directory
        if directory.is_dir() and any(is_manifest(each) for each in directory.iterdir()):
            raise ReplayError("holds manifests already: name another directory with --out", path=str(directory))
    paths = []
    for file in conversion.files:
        paths.append(out / file.plugin.directory / f"{file.name}.yaml")
        _write(paths[-1], file.objects)
    plugins = [plugin for plugin in CHAIN_ORDER if any(file.plugin is plugin for file in conversion.files)]
    for plugin in plugins:
        for finding in load_directory(out / plugin.directory, plugin, version).findings:
            raise error_from_finding(finding)
    configuration = out / CONFIGURATION if plugins else None
    if configuration is not None:
        _write(configuration, [_configuration(plugins, server_directory.rstrip("/"))])
    return Converted(conversion, tuple(paths), configuration)


def _loaded(path: Path, version: KubernetesVersion) -> tuple[tuple[LoadedObject, ...], tuple[JSON, ...]]:
    """Return the API-based objects of a set, a bundle or a snapshot, and all other objects there.

    Raise ManifestError for objects that the API refuses. Objects of a snapshot were accepted already.
    """
    if _SNAPSHOT in path.name and path.is_file():
        snapshot = read_snapshot(path)
        stored = tuple(_stored(path, snapshot, version))
        if not stored:
            raise ManifestError(_NOTHING, path=str(path))
        return stored, tuple(snapshot)
    at = path / API_DIRECTORY if (path / API_DIRECTORY).is_dir() else path
    if not at.exists():
        raise ManifestError("no such file or directory", path=str(at))
    bundle = load_bundle(at, version, version, is_applied=True)
    if bundle.api is None:
        raise ManifestError(_NOTHING, path=str(at))
    for finding in bundle.api.findings:
        raise error_from_finding(finding)
    return bundle.api.objects, bundle.others


def _stored(path: Path, snapshot: Sequence[JSON], version: KubernetesVersion) -> Iterator[LoadedObject]:
    for value in defaulted_api_objects(snapshot, version):
        _, expressions = validate(value["kind"], value, version)
        name = value["metadata"]["name"]
        yield LoadedObject(value["kind"], name, value, str(path), node_from_json(value), tuple(expressions))


def _find_in(objects: Iterable[JSON]) -> FindParam:
    by_key: dict[tuple[str, str, str, str], JSON] = {}
    for obj in objects:
        metadata = obj.get("metadata") or {}
        names = str(metadata.get("namespace") or ""), str(metadata.get("name"))
        by_key[(str(obj.get("apiVersion")), str(obj.get("kind")), *names)] = obj

    def find(api_version: str, kind: str, namespace: str, name: str) -> JSON:
        return by_key.get((api_version, kind, namespace, name))

    return find


def _configuration(plugins: Sequence[PluginName], server_directory: str) -> JSON:
    """Return the AdmissionConfiguration that names the directories at their paths on the server."""
    return {
        "apiVersion": _GROUP,
        "kind": "AdmissionConfiguration",
        "plugins": [
            {
                "name": plugin.value,
                "configuration": {
                    "apiVersion": _GROUP,
                    "kind": "WebhookAdmissionConfiguration" if plugin.is_webhook else f"{plugin.value}Configuration",
                    "staticManifestsDir": f"{server_directory}/{plugin.directory}",
                },
            }
            for plugin in plugins
        ],
    }


class _Dumper(yaml.SafeDumper):
    """YAML dumper that writes texts of several lines as blocks."""


def _text(dumper: yaml.SafeDumper, text: str) -> Any:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


def _write(path: Path, objects: Sequence[JSON]) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ReplayError(f"cannot be made: {reason_of(error)}", path=str(path.parent)) from error
    text = yaml.dump_all(objects, Dumper=_Dumper, sort_keys=False, width=120, allow_unicode=True)
    with whole_file(path, "the manifest") as file:
        file.write(text.encode())
