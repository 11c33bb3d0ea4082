"""Warnings about entries of an AdmissionConfiguration file that have no effect."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from replay.manifests.admission_configuration import DEFAULT_PLUGINS, LoadedConfiguration
from replay.manifests.finding import Finding, Severity
from replay.manifests.lint import catalogue
from replay.manifests.lint.warning import SilenceableWarning, silenced_names
from replay.manifests.read.documents import Unreadable, read_file
from replay.manifests.read.node import Position

_OTHER_PLUGINS = frozenset(
    [
        "AlwaysAdmit",
        "AlwaysDeny",
        "AlwaysPullImages",
        "DenyServiceExternalIPs",
        "EventRateLimit",
        "ExtendedResourceToleration",
        "ImagePolicyWebhook",
        "LimitPodHardAntiAffinityTopology",
        "NamespaceAutoProvision",
        "NamespaceExists",
        "NodeRestriction",
        "OwnerReferencesPermissionEnforcement",
        "PodNodeSelector",
        "PodTolerationRestriction",
    ]
)
"""Plugins that are off by default."""
_NEXT_DOCUMENT = re.compile(rb"^(?:---|\.\.\.)(?=[\s]|\Z)", re.MULTILINE)


def lint_configuration(configuration: LoadedConfiguration) -> Iterator[SilenceableWarning]:
    """Yield all warnings about the file."""
    try:
        data = read_file(Path(configuration.path))
    except Unreadable:
        return
    silenced = silenced_names(data.decode(errors="replace"))
    for name, message, position in _messages(configuration, data):
        finding = Finding(Severity.WARNING, name, message, configuration.path, position)
        yield SilenceableWarning(finding, silenced)


def _messages(configuration: LoadedConfiguration, data: bytes) -> Iterator[tuple[str, str, Position]]:
    names: set[str] = set()
    for entry in configuration.entries:
        if entry.name not in DEFAULT_PLUGINS and entry.name not in _OTHER_PLUGINS:
            yield catalogue.UNKNOWN_PLUGIN, f"no plugin `{entry.name}` is known; the entry does nothing", entry.position
        if entry.name in names:
            yield catalogue.PLUGIN_TWICE, f"`{entry.name}` is configured above; this entry does nothing", entry.position
        names.add(entry.name)
    for marker in list(_NEXT_DOCUMENT.finditer(data)):
        if (
            data[: marker.start()].strip()
            and data[marker.end() :].strip()
            and not _only_comments(data[: marker.start()])
        ):
            line = data[: marker.start()].count(b"\n") + 1
            yield catalogue.IGNORED_DOCUMENT, "a further document is not read", Position(line, 1)
            return


def _only_comments(data: bytes) -> bool:
    return all(not line.strip() or line.lstrip().startswith(b"#") for line in data.splitlines())
