"""What a running server makes of a changed set: it reloads the directories that it started with, and no more.

`k8s.io/apiserver/pkg/admission/plugin/policy/manifest/source` (`checkAndReload`) and its like for webhooks: a directory that cannot be
loaded leaves what is in force. Which directories there are stands in the AdmissionConfiguration, which is read at the start alone.
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
    """What becomes of the manifests of one plugin."""

    RELOADED = "reloaded"
    EQUAL = "unchanged"
    KEPT = "not reloaded: what is in force stays, and the server does not start with this"
    GONE = "not reloaded: the directory is gone, and what is in force stays"
    UNREAD = "not read before the server starts again: it started without this directory"


class Reloaded(Struct, frozen=True):
    """One plugin: what becomes of its manifests, and the server's text where it cannot load them."""

    plugin: PluginName
    result: ReloadResult
    error: str = ""

    @property
    def is_accepted(self) -> bool:
        """Whether the server goes on with what it is given."""
        return self.result not in (ReloadResult.KEPT, ReloadResult.GONE)


def reloaded(path: Path, running: Path, version: KubernetesVersion) -> Iterator[Reloaded]:
    """Each plugin of a set, or of the one that a server started with, in the order of the chain.

    Raises ManifestError where no server starts with `running`, and for sets that are no directories of plugins.
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
