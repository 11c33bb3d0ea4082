"""Detection of API servers with different manifests or authorization, by their files or by their metrics.

`apiserver_manifest_admission_config_controller_last_config_info{plugin, apiserver_id_hash, hash} 1` is set after every
successful load, and so is `apiserver_authorization_config_controller_last_config_info{apiserver_id_hash, hash} 1`. They
are the only trace of a set that differs between the servers of a cluster. A failed reload does not change them. It is
counted in `..._automatic_reloads_total{status="failure"}`, and the server then runs an older set than the one on its
disk.

A running server reloads only the directories with which it started (`checkAndReload` of
`k8s.io/apiserver/pkg/admission/plugin/policy/manifest/source`, and its counterpart for webhooks): if a directory cannot be
loaded, the loaded manifests stay in force. The directories are named in the AdmissionConfiguration, which is only read at
the start.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct, field

from replay.cellib.version import KubernetesVersion
from replay.errors import ManifestError
from replay.manifests.authorization_file import CONFIGURATION_FILE, is_configuration
from replay.manifests.loader import load_directory
from replay.manifests.plugin import CHAIN_ORDER, PluginName
from replay.manifests.read.documents import read_directory
from replay.manifests.set_loader import require_static

AUTHORIZATION = "AuthorizationConfiguration"
"""Name that stands for a plugin, for the file of `--authorization-config`."""
_CONTROLLERS = "apiserver_(?P<controller>manifest_admission|authorization)_config_controller"
_METRIC = "apiserver_{manifest_admission,authorization}_config_controller_last_config_info"
_SAMPLE = re.compile(rf"^{_CONTROLLERS}_(?P<metric>\w+)\{{(?P<labels>.*)\}}\s+(?P<value>\S+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_MAX_METRICS_BYTES = 256 * 1024 * 1024
_INFO, _RELOADS, _LAST = "last_config_info", "automatic_reloads_total", "automatic_reload_last_timestamp_seconds"


class ServerHashes(Struct, frozen=True):
    """Hashes of one server (or one set) by plugin, or `AUTHORIZATION`. Empty if the plugin has no data.

    `failed` counts the failed reloads, if the last of them came after the last successful one.
    """

    name: str
    hashes: Mapping[str, str]
    failed: Mapping[str, int] = field(default_factory=dict)


def set_hashes(path: Path, plugin: PluginName | None = None) -> ServerHashes:
    """Return the hashes of a set without decoding it: of `plugin`, or of each plugin's subdirectory.

    An AuthorizationConfiguration has a hash too, alone or in a set. Raises ManifestError if nothing can be hashed.
    """
    if not path.is_dir():
        if plugin is None and is_configuration(path):
            return ServerHashes(str(path), {AUTHORIZATION: _hash_of_file(path)})
        raise ManifestError("neither a directory of manifests nor an AuthorizationConfiguration", path=str(path))
    directories = {each: path / each.directory for each in CHAIN_ORDER if (path / each.directory).is_dir()}
    configuration = path / CONFIGURATION_FILE
    hashes: dict[str, str] = {}
    if plugin is not None:
        directories = {plugin: path}
    elif configuration.is_file():
        hashes[AUTHORIZATION] = _hash_of_file(configuration)
    elif not directories:
        text = f"no vap/, map/, vwc/, mwc/ or {CONFIGURATION_FILE} in it: name the plugin with `--plugin`"
        raise ManifestError(text, path=str(path))
    for each, directory in directories.items():
        files = read_directory(directory)
        for unreadable in files.unreadable:
            raise ManifestError(unreadable.reason, path=unreadable.path, line=unreadable.line)
        hashes[each] = files.hash
    return ServerHashes(str(path), hashes)


def _hash_of_file(path: Path) -> str:
    """Return the server's hash of an AuthorizationConfiguration (`authorizationconfig/metrics`, `getHash`)."""
    data = path.read_bytes()
    return f"sha256:{sha256(data).hexdigest()}" if data else ""


def hash_lines(servers: Sequence[ServerHashes]) -> Iterator[str]:
    """Yield the hash alone if there is only one, or else each hash with its set and plugin."""
    if len(servers) == 1 and len(servers[0].hashes) == 1:
        yield from servers[0].hashes.values()
        return
    for server in servers:
        for plugin, hash_ in server.hashes.items():
            yield f"{server.name} {plugin} {hash_ or '-'}"


class _Sample(NamedTuple):
    """One line of the metrics of a controller."""

    plugin: str
    metric: str
    labels: Mapping[str, str]
    value: float


def hashes_from_metrics(path: Path) -> ServerHashes:
    """Return the hashes and the failed reloads from the text of a server's `/metrics`.

    Raises ManifestError if the file cannot be read or has no such metric.
    """
    try:
        if path.stat().st_size > _MAX_METRICS_BYTES:
            raise ManifestError("too large for the metrics of a server", path=str(path))
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        raise ManifestError((error.strerror or str(error)).lower(), path=str(path)) from error
    samples = list(_samples(lines))
    hashes = {each.plugin: each.labels.get("hash", "") for each in samples if each.metric == _INFO and each.value}
    failed = dict(_failed(samples))
    if not hashes and not failed:
        raise ManifestError(f"no metric `{_METRIC}` in it", path=str(path))
    return ServerHashes(str(path), hashes, failed)


def _samples(lines: Iterable[str]) -> Iterator[_Sample]:
    """Yield the metrics of the two controllers."""
    for line in lines:
        match = _SAMPLE.match(line)
        if match is None:
            continue
        labels = dict(_LABEL.findall(match["labels"]))
        plugin = AUTHORIZATION if match["controller"] == "authorization" else labels.get("plugin", "")
        try:
            value = float(match["value"])
        except ValueError:
            continue
        if plugin == AUTHORIZATION or plugin in list(PluginName):
            yield _Sample(plugin, match["metric"], labels, value)


def _failed(samples: Iterable[_Sample]) -> Iterator[tuple[str, int]]:
    """Yield the plugins whose last reload failed, with the number of failures.

    Without timestamps, a failure counts as the last reload.
    """
    counts: dict[str, float] = defaultdict(float)
    last: dict[tuple[str, str], float] = {}
    for each in samples:
        status = each.labels.get("status", "")
        if each.metric == _RELOADS and status == "failure":
            counts[each.plugin] += each.value
        elif each.metric == _LAST:
            last[each.plugin, status] = max(each.value, last.get((each.plugin, status), 0.0))
    for plugin, count in counts.items():
        if count and last.get((plugin, "failure"), 0.0) >= last.get((plugin, "success"), 0.0):
            yield plugin, int(count)


def drift_lines(servers: Sequence[ServerHashes]) -> Iterator[str]:
    """Yield one line for each hash of the plugins that differ, then one for each failed reload.

    Authorization is compared among the servers that export a hash of it. Older ones do not.
    """
    for plugin in (*CHAIN_ORDER, AUTHORIZATION):
        by_hash: dict[str, list[str]] = {}
        for server in servers:
            if plugin != AUTHORIZATION or plugin in server.hashes:
                by_hash.setdefault(server.hashes.get(plugin, ""), []).append(server.name)
        if len(by_hash) > 1:
            for hash_, names in sorted(by_hash.items(), key=lambda item: (-len(item[1]), item[0])):
                yield f"{plugin}: {hash_ or 'no manifests'}: {', '.join(names)}"
    for server in servers:
        for plugin, count in server.failed.items():
            reloads = "1 reload has" if count == 1 else f"{count} reloads have"
            yield (
                f"{plugin}: {server.name}: {reloads} failed, and none succeeded after the last: "
                "the server runs an older set than the one on its disk, unless that was put back"
            )


class ReloadResult(StrEnum):
    """Result of reloading the manifests of one plugin."""

    RELOADED = "reloaded"
    EQUAL = "unchanged"
    KEPT = "not reloaded: what is in force stays, and the server does not start with this"
    GONE = "not reloaded: the directory is gone, and what is in force stays"
    UNREAD = "not read before the server starts again: it started without this directory"


class Reloaded(Struct, frozen=True):
    """One plugin: what happens to its manifests, and the server's text if it cannot load them."""

    plugin: PluginName
    result: ReloadResult
    error: str = ""

    @property
    def is_accepted(self) -> bool:
        """Whether the server accepts the changed set."""
        return self.result not in (ReloadResult.KEPT, ReloadResult.GONE)


def reloaded(path: Path, running: Path, version: KubernetesVersion) -> Iterator[Reloaded]:
    """Yield each plugin of both sets, in the order of the chain. `running` is the set with which the server started.

    Raises ManifestError if no server starts with `running`, and for sets without directories of plugins.
    """
    if not any((running / plugin.directory).is_dir() for plugin in CHAIN_ORDER):
        raise ManifestError(
            "no vap/, map/, vwc/ or mwc/ in it: there is nothing that a server reloads", path=str(running)
        )
    require_static(running, version)
    for plugin in CHAIN_ORDER:
        before, after = running / plugin.directory, path / plugin.directory
        if not before.is_dir():
            if after.is_dir():
                yield Reloaded(plugin, ReloadResult.UNREAD)
            continue
        started = load_directory(before, plugin, version)
        if started.error is not None:
            raise ManifestError(f"no server runs with it: {started.error.splitlines()[0]}", path=str(before))
        if not after.is_dir():
            yield Reloaded(plugin, ReloadResult.GONE)
            continue
        loaded = load_directory(after, plugin, version)
        if loaded.error is not None:
            yield Reloaded(plugin, ReloadResult.KEPT, loaded.error)
        else:
            yield Reloaded(plugin, ReloadResult.EQUAL if loaded.hash == started.hash else ReloadResult.RELOADED)
