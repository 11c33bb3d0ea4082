"""Whether several API servers run the same manifests: by their directories, or by the metric that each exports.

`apiserver_manifest_admission_config_controller_last_config_info{plugin, apiserver_id_hash, hash} 1` is set after every
successful load; it is the only trace of a set that differs between the servers of a cluster.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from replay.errors import ManifestError
from replay.manifests.plugin import CHAIN_ORDER, PluginName
from replay.manifests.read.documents import read_directory

_METRIC = "apiserver_manifest_admission_config_controller_last_config_info"
_SAMPLE = re.compile(rf"^{_METRIC}\{{(?P<labels>.*)\}}\s+(?P<value>\S+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_MAX_METRICS_BYTES = 256 * 1024 * 1024


class ServerHashes(Struct, frozen=True):
    """The hashes of one server (or one set) by plugin; empty where the plugin has no data."""

    name: str
    hashes: Mapping[PluginName, str]


def set_hashes(path: Path, plugin: PluginName | None = None) -> ServerHashes:
    """The hashes of a set without decoding it: of `plugin`, or of each subdirectory that a plugin of its own has.

    Raises ManifestError where nothing can be hashed.
    """
    if not path.is_dir():
        raise ManifestError("not a directory of manifests", path=str(path))
    directories = {each: path / each.directory for each in CHAIN_ORDER if (path / each.directory).is_dir()}
    if plugin is not None:
        directories = {plugin: path}
    elif not directories:
        raise ManifestError("no vap/, map/, vwc/ or mwc/ in it: name the plugin with `--plugin`", path=str(path))
    hashes: dict[PluginName, str] = {}
    for each, directory in directories.items():
        files = read_directory(directory)
        for unreadable in files.unreadable:
            raise ManifestError(unreadable.reason, path=unreadable.path, line=unreadable.line)
        hashes[each] = files.hash
    return ServerHashes(str(path), hashes)


def hash_lines(servers: Sequence[ServerHashes]) -> Iterator[str]:
    """The hash alone where there is one, else each with its set and plugin."""
    if len(servers) == 1 and len(servers[0].hashes) == 1:
        yield from servers[0].hashes.values()
        return
    for server in servers:
        for plugin, hash_ in server.hashes.items():
            yield f"{server.name} {plugin.value} {hash_ or '-'}"


def hashes_from_metrics(path: Path) -> ServerHashes:
    """The hashes that a server exports, from the text of its `/metrics`.

    Raises ManifestError where the file cannot be read or has no such metric.
    """
    hashes: dict[PluginName, str] = {}
    try:
        if path.stat().st_size > _MAX_METRICS_BYTES:
            raise ManifestError("too large for the metrics of a server", path=str(path))
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        raise ManifestError((error.strerror or str(error)).lower(), path=str(path)) from error
    for line in lines:
        sample = _SAMPLE.match(line)
        labels = dict(_LABEL.findall(sample["labels"])) if sample and float(sample["value"]) else {}
        if labels.get("plugin") in list(PluginName):
            hashes[PluginName(labels["plugin"])] = labels.get("hash", "")
    if not hashes:
        raise ManifestError(f"no metric `{_METRIC}` in it", path=str(path))
    return ServerHashes(str(path), hashes)


def drift_lines(servers: Sequence[ServerHashes]) -> Iterator[str]:
    """One line per plugin and hash, for the plugins that differ."""
    for plugin in CHAIN_ORDER:
        by_hash: dict[str, list[str]] = {}
        for server in servers:
            by_hash.setdefault(server.hashes.get(plugin, ""), []).append(server.name)
        if len(by_hash) > 1:
            for hash_, names in sorted(by_hash.items(), key=lambda item: (-len(item[1]), item[0])):
                yield f"{plugin.value}: {hash_ or 'no manifests'}: {', '.join(names)}"
