"""A manifest set in any form.

It is a directory of plugin directories, a flat directory, an AdmissionConfiguration, or a file of policies.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from replay.cellib.version import KubernetesVersion
from replay.errors import ManifestError
from replay.json import JSON
from replay.kube.admissionregistration import GROUP, ManifestSet, Origin
from replay.kube.gvk import split_api_version
from replay.manifests.api_object import LoadedApi, defaulted_api_objects, load_api
from replay.manifests.authorization_file import is_about_authorization
from replay.manifests.bundle import Bundle, is_bundle, load_bundle
from replay.manifests.bundle_source import STDIN
from replay.manifests.engine_object import (
    ENGINE_DIRECTORIES,
    EngineDocument,
    engine_documents,
    holds_engine_objects_alone,
    is_engine_object,
    with_engines,
)
from replay.manifests.finding import Finding
from replay.manifests.loader import LoadedDirectory, load_directory
from replay.manifests.manifest_set import manifest_set_from_objects
from replay.manifests.plugin import API_DIRECTORY, CHAIN_ORDER, PluginName
from replay.manifests.read.documents import is_manifest
from replay.manifests.served import NO_GATES, Gates, static_problem
from replay.manifests.server.settings import NO_SERVER, ServerSettings, server_of_directory, server_of_file
from replay.manifests.static_rule import STATIC_SUFFIX

_MOST_NAMES = 3
"""Maximum number of names in a hint."""


class LoadedSet(Struct, frozen=True):
    """The directories of a set by plugin, in chain order. `api` is its `api/`, or None if absent.

    `hints` are assumptions.
    """

    path: str
    directories: Mapping[PluginName, LoadedDirectory]
    api: LoadedApi | None = None
    server: ServerSettings = NO_SERVER
    hints: tuple[str, ...] = ()
    engine: tuple[EngineDocument, ...] | None = None
    """Objects of a policy engine, or None if the set has none."""
    rbac: tuple[JSON, ...] | None = None
    """RBAC objects of a bundle, or None if it has none."""
    others: tuple[JSON, ...] = ()
    """Other objects of a bundle, and the ConfigMaps that policies of an engine read."""

    @property
    def parts(self) -> tuple[LoadedDirectory | LoadedApi, ...]:
        """The directories, and `api/`."""
        own = tuple(self.directories.values())
        return own if self.api is None else (*own, self.api)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All problems in any part, each once."""
        return tuple(dict.fromkeys(finding for part in self.parts for finding in part.findings))


class SetObjects(Struct, frozen=True):
    """The objects of a set after defaulting. If `api` is None, the objects of the cluster's API are used."""

    static: tuple[JSON, ...] = ()
    api: tuple[JSON, ...] | None = None
    hashes: Mapping[str, str] = field(default_factory=dict)
    origins: Mapping[tuple[str, str], Origin] = field(default_factory=dict)
    server: ServerSettings = NO_SERVER
    hints: tuple[str, ...] = ()
    engine: tuple[JSON, ...] | None = None
    """Objects of a policy engine. None means those of the cluster."""
    rbac: tuple[JSON, ...] | None = None
    """RBAC objects of a bundle, or None if it has none."""
    others: tuple[JSON, ...] = ()
    """Other objects of a bundle, which replace those of the cluster."""
    removed: tuple[JSON, ...] = ()
    """Deleted objects of the cluster that are not policies."""

    def manifest_set(self, version: KubernetesVersion, api_objects: Iterable[JSON] = ()) -> ManifestSet:
        """Return the set. `api_objects` of the cluster are used if it has none of its own."""
        cluster = list(api_objects)
        api = defaulted_api_objects(cluster, version, self.server.gates) if self.api is None else self.api
        manifests = manifest_set_from_objects(self.static, api, hashes=self.hashes, origins=self.origins)
        manifests = self.server.completed(manifests, version)
        manifests = replace(manifests, objects=(*manifests.objects, *self.others), removed=self.removed)
        return with_engines(manifests, self._engine(cluster), version)

    def _engine(self, api_objects: Iterable[JSON]) -> tuple[JSON, ...]:
        """Return the objects of policy engines. Those of the cluster are used if the set has none of its own."""
        return tuple(filter(is_engine_object, api_objects)) if self.engine is None else self.engine

    def with_added(self, added: SetObjects, version: KubernetesVersion, api_objects: Iterable[JSON] = ()) -> SetObjects:
        """Return this set with another on top, whose objects replace those with the same identity."""
        cluster = list(api_objects)
        gates = self.server.gates
        api = tuple(defaulted_api_objects(cluster, version, gates)) if self.api is None else self.api
        return SetObjects(
            static=_replaced(self.static, added.static),
            api=_replaced(api, added.api or ()),
            # The hash is that of the directory, to which added objects do not belong.
            hashes={} if added.static else self.hashes,
            origins={**self.origins, **added.origins},
            server=self.server.with_added(added.server),
            hints=(*self.hints, *added.hints),
            engine=_replaced(self._engine(cluster), added.engine or ()),
            rbac=added.rbac if self.rbac is None else _replaced(self.rbac, added.rbac or ()),
            others=_replaced(self.others, added.others),
        )


def load_manifest_set(path: Path, *, version: KubernetesVersion, api_objects: Iterable[JSON] = ()) -> ManifestSet:
    """Return the set at `path`. `api_objects` of the cluster are used if it has no `api/` of its own.

    Raises ManifestError with file, line and the server's reason if any part of it is refused.
    """
    return set_objects(path, version).manifest_set(version, api_objects)


def set_objects(path: Path, version: KubernetesVersion, created: KubernetesVersion | None = None) -> SetObjects:
    """Return the objects of the set at `path`. `created` is as in `load_set`. Raises the errors of `load_manifest_set`."""
    return _objects_of(load_set(path, version, created))


def applied_objects(path: Path, version: KubernetesVersion, gates: Gates = NO_GATES) -> SetObjects:
    """Return the objects of the bundle at `path` as after `kubectl apply`. Raises the errors of `load_manifest_set`."""
    return _objects_of(load_applied(path, version, gates))


def _objects_of(loaded: LoadedSet) -> SetObjects:
    for finding in loaded.findings:
        raise error_from_finding(finding)
    objects = [item for directory in loaded.directories.values() for item in directory.objects]
    own = [*objects, *(loaded.api.objects if loaded.api is not None else ())]
    return SetObjects(
        static=tuple(item.value for item in objects),
        api=None if loaded.api is None else tuple(item.value for item in loaded.api.objects),
        hashes={plugin.value: directory.hash for plugin, directory in loaded.directories.items() if directory.hash},
        origins={
            **{(item.kind, item.name): item.origin for item in own},
            **{each.name: each.origin for each in loaded.engine or ()},
        },
        server=loaded.server,
        hints=loaded.hints,
        engine=None if loaded.engine is None else tuple(each.value for each in loaded.engine),
        rbac=loaded.rbac,
        others=loaded.others,
    )


def identity(obj: JSON) -> tuple[str, str, str, str]:
    """Return the identity of an object: group, kind, namespace and name."""
    metadata = obj["metadata"]
    group = split_api_version(str(obj["apiVersion"]))[0]
    return group, str(obj["kind"]), str(metadata.get("namespace") or ""), str(metadata.get("name"))


def _replaced(objects: Iterable[JSON], added: Iterable[JSON]) -> tuple[JSON, ...]:
    objects_by_name = {identity(obj): obj for obj in (*objects, *added)}
    return tuple(objects_by_name.values())


def load_set(path: Path, version: KubernetesVersion, created: KubernetesVersion | None = None) -> LoadedSet:
    """Load a set. Problems of its manifests are in the result and do not raise.

    `created` is the version of the server that created its API objects, if it differs, because stored objects are not
    validated again. Raises ManifestError if there is no set at `path`, or if its AdmissionConfiguration is refused.
    """
    if path != STDIN and not path.exists():
        raise ManifestError("no such file or directory", path=str(path))
    if is_bundle(path):
        return _bundle_set(path, version, created or version)
    if is_about_authorization(path):
        return LoadedSet(str(path), {})
    if holds_engine_objects_alone(path):
        return LoadedSet(str(path), {}, engine=engine_documents(path))
    return _directory_set(path, version, created or version) if path.is_dir() else _configured_set(path, version)


def _directory_set(path: Path, version: KubernetesVersion, created: KubernetesVersion) -> LoadedSet:
    """Load a directory of directories, or a flat one that a server reads. Raises ManifestError."""
    server = server_of_directory(path, version)
    own = {plugin: path / plugin.directory for plugin in CHAIN_ORDER if (path / plugin.directory).is_dir()}
    api_directory = path / API_DIRECTORY
    api = load_api(api_directory, created, gates=server.gates) if api_directory.is_dir() else None
    for directory in own.values():
        require_static(directory, version, server.gates)
    engine = [
        each
        for name in (*ENGINE_DIRECTORIES, API_DIRECTORY)
        if (path / name).is_dir()
        for each in engine_documents(path / name, is_own=name in ENGINE_DIRECTORIES)
    ]
    read = tuple(each.value for each in engine if not is_engine_object(each.value))
    engine = [each for each in engine if is_engine_object(each.value)]
    if own or api is not None or engine:
        directories = {p: load_directory(at, p, version) for p, at in own.items()}
        return LoadedSet(str(path), directories, api, server, engine=tuple(engine) or None, others=read)
    if server.configuration is not None:
        configured = _configured_set(server.configuration, version, server.gates)
        return replace(configured, path=str(path), server=server)
    ignored = server.file_names
    directories = {plugin: load_directory(path, plugin, version, mixed=True, ignored=ignored) for plugin in CHAIN_ORDER}
    for loaded in directories.values():
        # Only a plugin that finds something asks for static manifests.
        if loaded.objects or loaded.refusals:
            require_static(path, version, server.gates)
    used = {p: d for p, d in directories.items() if d.objects or d.refusals}
    return LoadedSet(str(path), used, None, server, engine=_mixed_in(path))


def _mixed_in(path: Path) -> tuple[EngineDocument, ...] | None:
    """Return policy engine objects among a file's manifests, or directly in a directory."""
    files = [path] if path.is_file() else sorted(each for each in path.iterdir() if is_manifest(each))
    return tuple(value for file in files for value in engine_documents(file)) or None


def require_static(directory: Path, version: KubernetesVersion, gates: Gates = NO_GATES) -> None:
    """Raise ManifestError if a server of this version, with these feature gates, does not read static manifests."""
    problem = static_problem(version, gates)
    if problem:
        raise ManifestError(problem, path=str(directory))


def load_applied(path: Path, version: KubernetesVersion, gates: Gates = NO_GATES) -> LoadedSet:
    """Return a bundle as `kubectl apply` would apply it, for any form of directory. Raises ManifestError."""
    return _set_from_bundle(load_bundle(path, version, version, gates, is_applied=True))


def _bundle_set(path: Path, version: KubernetesVersion, created: KubernetesVersion) -> LoadedSet:
    """Load a bundle as a set. Raises ManifestError if a server of this version reads no static manifests."""
    bundle = load_bundle(path, version, created)
    if not bundle.has_policies:
        versions = sorted({str(each["apiVersion"]) for each in bundle.others})
        held = f"{versions[0]} objects" if versions else "nothing"
        text = f"holds {held}, and no policy: a set is a directory, an AdmissionConfiguration, or a file with policies, bindings and"
        text += f" webhook configurations of {GROUP}/v1; `--apply` puts other objects on top of the baseline"
        raise ManifestError(text, path=str(path))
    if bundle.directories:
        require_static(path, version)
    names = ", ".join(f"`{name}`" for name in bundle.through_api[:_MOST_NAMES])
    if len(bundle.through_api) > _MOST_NAMES:
        names += f" and {len(bundle.through_api) - _MOST_NAMES} more"
    hint = (
        f"{path}: treated as policies of the API: {names} (the name of a static manifest ends with `{STATIC_SUFFIX}`)"
    )
    loaded = _set_from_bundle(bundle)
    objects = [each for part in loaded.parts for each in part.objects]
    named = {each.value["spec"].get("policyName") for each in objects if each.kind.endswith("PolicyBinding")}
    idle = [each.name for each in objects if each.kind.endswith("AdmissionPolicy") and each.name not in named]
    here = "in this directory" if path.is_dir() else "in this file"
    unbound = [f"{path}: `{name}` has no binding {here}, without which it decides nothing" for name in idle]
    return replace(loaded, hints=(*bundle.hints, *([hint] if names else []), *unbound))


def _set_from_bundle(bundle: Bundle) -> LoadedSet:
    return LoadedSet(
        bundle.path,
        bundle.directories,
        bundle.api,
        hints=bundle.hints,
        engine=bundle.engine or None,
        rbac=bundle.rbac or None,
        others=bundle.others,
    )


def _configured_set(path: Path, version: KubernetesVersion, gates: Gates = NO_GATES) -> LoadedSet:
    from replay.manifests.admission_configuration import load_configuration  # noqa: PLC0415 - few sets have one

    server = server_of_file(path, version)
    if server.configuration is None:
        return LoadedSet(str(path), {}, None, server)
    configuration = load_configuration(server.configuration, version, {**gates, **server.gates})
    if configuration.error is not None and configuration.stage != "manifests":
        raise error_from_finding(configuration.findings[0])
    return LoadedSet(str(path), {directory.plugin: directory for directory in configuration.directories}, None, server)


def error_from_finding(finding: Finding) -> ManifestError:
    """Return a finding as the one line that ends a command."""
    first_line = finding.message.partition("\n")[0]
    message = f"{finding.object}: {first_line}" if finding.object else first_line
    if finding.fix:
        # The name of a scheme in the server's code tells an operator nothing; `check` has the server's own words.
        message = f"{message.partition(' in scheme ')[0]}; {finding.fix}"
    return ManifestError(message, path=finding.path, line=finding.position.line, column=finding.position.column)
