"""The effect of a changed set on a running server. It reloads only the directories with which it started.

`k8s.io/apiserver/pkg/admission/plugin/policy/manifest/source` (`checkAndReload`) and its counterpart for webhooks: if a
directory cannot be loaded, the loaded manifests stay in force. The directories are named in the AdmissionConfiguration,
which is only read at the start.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path

from msgspec import Struct

from replay.cellib.version import KubernetesVersion
from replay.errors import ManifestError
from replay.manifests.loader import load_directory
from replay.manifests.plugin import CHAIN_ORDER, PluginName
from replay.manifests.set_loader import require_static


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
