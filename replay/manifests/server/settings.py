"""Server settings of a set: flags, the plugins that they turn on, and the plugins' configurations.

They include the manifests of `objects/`, which replace objects of the cluster.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
from msgspec import Struct, field
from msgspec.structs import replace

from replay.cellib.version import KubernetesVersion
from replay.checkout import require_inside
from replay.errors import ManifestError
from replay.json import JSON
from replay.kube.admissionregistration import ManifestSet, PluginSettings
from replay.kube.overlay import objects_by_kind
from replay.kube.quantity import QuantityError, parse_quantity
from replay.kube.schema import CRD
from replay.manifests.authorization_file import is_configuration
from replay.manifests.object_diff import FieldDiff, ObjectDiff, Verb
from replay.manifests.plugin import PluginName, plugins_of
from replay.manifests.read.values import yaml_values
from replay.manifests.served import NO_GATES, SKIPPED_REVIEWS, Gates, is_enabled
from replay.manifests.server.flags import (
    CONFIGURATION_FLAG,
    ServerFlags,
    default_plugins,
    is_server_file,
    read_server_flags,
)

OBJECTS_DIRECTORY = "objects"
_SUFFIXES = frozenset({".yaml", ".yml", ".json"})
_CONFIGURATION_KIND = b"AdmissionConfiguration"
_LEGACY = frozenset({"imagePolicy", "podNodeSelectorPluginConfig"})
"""Fields of two plugins that once had files without a kind. The server still accepts these."""


class ServerSettings(Struct, frozen=True):
    """Flags, the path of the AdmissionConfiguration, and objects.

    `file_names` are the files of a directory that are not manifests.
    """

    flags: ServerFlags | None = None
    configuration: Path | None = None
    objects: tuple[JSON, ...] = ()
    file_names: frozenset[str] = field(default=frozenset())

    def with_added(self, added: ServerSettings) -> ServerSettings:
        """Return these settings with others on top. The other flags or configuration win, and the objects are combined."""
        if added is NO_SERVER:
            return self
        says = added.flags is not None or added.configuration is not None
        return replace(added if says else self, objects=(*self.objects, *added.objects))

    @property
    def gates(self) -> Gates:
        """The feature gates that flags turn on or off."""
        return NO_GATES if self.flags is None else self.flags.gates

    def completed(self, manifests: ManifestSet, version: KubernetesVersion) -> ManifestSet:
        """Return the set with the built-in plugins that are on, without what flags turn off. Raises ManifestError."""
        names = default_plugins(version) if self.flags is None else self.flags.plugins(version)
        off = {kind for plugin in PluginName if plugin.value not in names for kind in plugin.kinds}
        configurations = {} if self.configuration is None else _configurations(self.configuration)
        flags = {} if self.flags is None else self.flags.values
        settings = []
        for each in plugins_of(version):
            if each.name in names and each.name not in list(PluginName) and each.acts(version, self.gates):
                document, path = configurations.get(each.name, (None, ""))
                settings.append(PluginSettings(each.name, document, flags, path))
        says = self.flags is not None or any(each.configuration is not None for each in settings)
        return replace(
            manifests.filtered(lambda each: each.kind not in off),
            builtin=tuple(settings),
            objects=self.objects,
            names_plugins=says,
            skips_reviews=is_enabled(SKIPPED_REVIEWS, version, self.gates),
        )


NO_SERVER = ServerSettings()


def server_of_file(path: Path, version: KubernetesVersion) -> ServerSettings:
    """Return the settings of one file: server flags, or an AdmissionConfiguration. Raises ManifestError."""
    if not is_server_file(path):
        return ServerSettings(configuration=path)
    flags = read_server_flags(path, version)
    return ServerSettings(flags, _configuration_of(flags, path.parent))


def server_of_directory(path: Path, version: KubernetesVersion) -> ServerSettings:
    """Return the settings in the files directly in a directory, and in `objects/`. Raises ManifestError."""
    files = sorted(each for each in path.iterdir() if each.is_file())
    servers = [each for each in files if is_server_file(each)]
    if len(servers) > 1:
        names = " and ".join(f"`{each.name}`" for each in servers[:2])
        raise ManifestError(f"{names} both hold flags of a kube-apiserver: keep one of them", path=str(path))
    flags = read_server_flags(servers[0], version) if servers else None
    configurations = [each for each in files if each not in servers and is_configuration_file(each)]
    configuration = _configuration_of(flags, path) if flags is not None else None
    if configuration is None and configurations:
        configuration = configurations[0]
    objects_directory = path / OBJECTS_DIRECTORY
    objects = tuple(_objects(objects_directory)) if objects_directory.is_dir() else ()
    file_names = frozenset(each.name for each in (*servers, *configurations, *filter(is_configuration, files)))
    return ServerSettings(flags, configuration, objects, file_names)


def is_configuration_file(path: Path) -> bool:
    """Return whether a file is an AdmissionConfiguration, by its kind."""
    if path.suffix.lower() not in _SUFFIXES:
        return False
    try:
        data = path.read_bytes()
    except OSError:
        return False
    if _CONFIGURATION_KIND not in data:
        return False
    try:
        documents = yaml_values(path)
    except ManifestError:
        return False
    return any(isinstance(each, dict) and each.get("kind") == "AdmissionConfiguration" for each in documents)


def _configuration_of(flags: ServerFlags, directory: Path) -> Path | None:
    """Return the file of `--admission-control-config-file`, or None.

    It is searched at its path below the directory, and by its name beside the flags.
    """
    named = flags.values.get(CONFIGURATION_FLAG)
    if not named:
        return None
    for path in (directory / named.lstrip("/"), directory / Path(named).name, Path(named)):
        if path.is_file():
            require_inside(path, flags.path)
            return path
    text = f'failed to read plugin config: unable to read admission control configuration from "{named}" '
    raise ManifestError(f"{text}[open {named}: no such file or directory]", path=flags.path)


def _configurations(path: Path) -> dict[str, tuple[JSON, str]]:
    """Return the configuration document of each plugin in an AdmissionConfiguration, and its file."""
    document = next(iter(yaml_values(path)), None)
    if isinstance(document, dict) and _LEGACY & document.keys():
        return dict.fromkeys(("ImagePolicyWebhook", "PodNodeSelector"), (document, str(path)))
    configurations: dict[str, tuple[JSON, str]] = {}
    for entry in (document or {}).get("plugins") or ():
        if entry.get("name") in configurations:
            continue  # the server takes the first
        if entry.get("configuration") is not None:
            configurations[entry["name"]] = entry["configuration"], str(path)
        elif entry.get("path") and entry["name"] not in list(PluginName):
            own = _plugin_file(path.parent, entry["path"])
            configurations[entry["name"]] = next(iter(yaml_values(own)), None), str(own)
    return configurations


def _plugin_file(directory: Path, named: str) -> Path:
    for path in (directory / named, directory / Path(named).name):
        if path.is_file():
            require_inside(path, directory)
            return path
    text = f'Couldn\'t open admission plugin configuration {named}: &fs.PathError{{Op:"open", Path:"{named}", Err:0x2}}'
    raise ManifestError(text, path=str(directory))


def _objects(directory: Path) -> Iterator[JSON]:
    """Yield the objects of all manifests below a directory, in path order. A list stands for its items."""
    for path in sorted(each for each in directory.rglob("*") if each.suffix.lower() in _SUFFIXES):
        for document in yaml_values(path):
            yield from _items(document, str(path))


def _items(document: JSON, path: str) -> Iterator[JSON]:
    if isinstance(document, dict) and str(document.get("kind")).endswith("List") and "items" in document:
        for item in document["items"] or ():
            yield from _items(item, path)
        return
    metadata = document.get("metadata") if isinstance(document, dict) else None
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if not isinstance(document, dict) or not document.get("apiVersion") or not document.get("kind") or not name:
        raise ManifestError("an object needs `apiVersion`, `kind` and `metadata.name`", path=path)
    check_quantities(document, path)
    yield document


def check_quantities(obj: JSON, path: str) -> None:
    """Raise ManifestError, in the server's words, for quantities that it cannot decode."""
    kind, where = obj["kind"], f"{obj['kind']} `{obj['metadata']['name']}`"
    try:
        for value in _amounts(obj):
            parse_quantity(str(value))
    except QuantityError as error:
        text = f'{kind} in version "v1" cannot be handled as a {kind}: {error}'
        raise ManifestError(f"{where}: {text}", path=path) from error
    except (AttributeError, TypeError) as error:
        raise ManifestError(f"{where}: `spec` is not of the form that its kind has", path=path) from error


def _amounts(obj: JSON) -> Iterator[JSON]:
    """Yield the quantities of a ResourceQuota or LimitRange. Other objects have none."""
    kind, spec = (obj["apiVersion"], obj["kind"]), obj.get("spec") or {}
    lists: list[JSON] = []
    if kind == ("v1", "ResourceQuota"):
        lists = [spec.get("hard")]
    elif kind == ("v1", "LimitRange"):
        lists = [item.get(name) for item in spec.get("limits") or () for name in _AMOUNTS]
    for values in lists:
        yield from (values or {}).values()


_AMOUNTS = ("default", "defaultRequest", "max", "min", "maxLimitRequestRatio")


# Differences of the server settings: plugins, configurations, flags, and objects that replace those of the cluster.

PLUGIN_KIND = "AdmissionPlugin"
_NOT_READ = (
    "enable-admission-plugins",
    "disable-admission-plugins",
    "admission-control",
    "admission-control-config-file",
)


def diff_server(current: ManifestSet, candidate: ManifestSet) -> Iterator[ObjectDiff]:
    """Yield plugins in the server's order, then flags, then objects by kind and name."""
    current_plugins = {each.name: each for each in current.builtin}
    candidate_plugins = {each.name: each for each in candidate.builtin}
    for name in dict.fromkeys((*current_plugins, *candidate_plugins)):
        if name not in candidate_plugins:
            yield ObjectDiff(PLUGIN_KIND, name, Verb.REMOVED)
        elif name not in current_plugins:
            fields = tuple(diff_json("configuration", None, candidate_plugins[name].configuration))
            yield ObjectDiff(PLUGIN_KIND, name, Verb.ADDED, fields)
        elif changes := tuple(
            diff_json("configuration", current_plugins[name].configuration, candidate_plugins[name].configuration)
        ):
            yield ObjectDiff(PLUGIN_KIND, name, Verb.CHANGED, changes)
    if flags := tuple(_diff_flags(current.builtin, candidate.builtin)):
        yield ObjectDiff("kube-apiserver", "flags", Verb.CHANGED, flags)
    if current.objects != candidate.objects or candidate.removed:
        yield from _diff_objects(current, candidate)


def _diff_flags(current: tuple[PluginSettings, ...], candidate: tuple[PluginSettings, ...]) -> Iterator[FieldDiff]:
    """Yield the flags that only one of two servers has, or that differ. Flags that name plugins are compared by plugin."""
    current_flags, candidate_flags = (dict(each[0].flags) if each else {} for each in (current, candidate))
    for name in sorted({*current_flags, *candidate_flags} - set(_NOT_READ)):
        if "toleration-seconds" in name:
            yield from diff_json(f"--{name}", current_flags.get(name), candidate_flags.get(name))


def _diff_objects(current: ManifestSet, candidate: ManifestSet) -> Iterator[ObjectDiff]:
    # What the candidate removes are objects of the cluster, which the baseline still has.
    current_objects = objects_by_kind((*candidate.removed, *current.objects))
    candidate_objects = objects_by_kind(candidate.objects)
    for kind in sorted({*current_objects, *candidate_objects}):
        old, new = current_objects.get(kind, {}), candidate_objects.get(kind, {})
        for name in sorted({*old, *new}):
            shown = "/".join(filter(None, name))
            if name not in new:
                yield ObjectDiff(kind[1], shown, Verb.REMOVED)
                continue
            if name not in old and kind == (CRD.group, CRD.kind):  # its schemas would hide all else
                yield ObjectDiff(kind[1], shown, Verb.ADDED)
                continue
            fields = tuple(diff_json("", _without_name(old.get(name)), _without_name(new[name])))
            if name not in old:
                yield ObjectDiff(kind[1], shown, Verb.ADDED, fields)
            elif fields:
                yield ObjectDiff(kind[1], shown, Verb.CHANGED, fields)


def _without_name(obj: JSON) -> JSON:
    """Return an object without the fields that its name and kind already tell."""
    if obj is None:
        return None
    metadata = {key: value for key, value in (obj.get("metadata") or {}).items() if key not in ("name", "namespace")}
    labels = {
        key: value for key, value in (metadata.get("labels") or {}).items() if key != "kubernetes.io/metadata.name"
    }
    fields = {key: value for key, value in obj.items() if key not in ("apiVersion", "kind", "metadata", "status")}
    return {**fields, "metadata": {**metadata, "labels": labels}}


def diff_json(path: str, current: Any, candidate: Any) -> Iterator[FieldDiff]:
    """Yield the differences of two JSON values: maps key by key, and everything else as a whole."""
    if current == candidate:
        return
    if (isinstance(current, dict) or current is None) and isinstance(candidate, dict) and candidate:
        for key in dict.fromkeys((*(current or {}), *candidate)):
            shown = key if "." not in key and "/" not in key else f"[{key}]"
            inner = f"{path}{'' if shown.startswith('[') or not path else '.'}{shown}"
            yield from diff_json(inner, (current or {}).get(key), candidate.get(key))
        return
    verb = Verb.ADDED if current in (None, {}) else Verb.REMOVED if candidate in (None, {}) else Verb.CHANGED
    old, new = _text(current), _text(candidate)
    if old != new:
        yield FieldDiff(path, verb, old, new)


def _text(value: Any) -> str:
    if value is None or value == {}:
        return ""
    return value if isinstance(value, str) else orjson.dumps(value).decode()
