"""Configuration of `replay plugin`: one plugin's settings, and the cluster."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct, field

from replay.admission.builtin.plugin import Plugin
from replay.admission.builtin.pod.image_policy_webhook import Backend, ImagePolicyWebhook
from replay.admission.builtin.registry import BY_NAME
from replay.errors import ManifestError, ReplayError
from replay.json import JSON


class PluginConfig(Struct, frozen=True):
    """The document of `--config`: the plugin's own configuration, the server's flags, and what the cluster would be."""

    plugin: str
    configuration: JSON | None = None
    flags: Mapping[str, str] = field(default_factory=dict)
    namespaces: Mapping[str, JSON] = field(default_factory=dict)
    objects: tuple[JSON, ...] = ()
    authorizer: str = "deny"
    missing_namespaces: str = ""
    start_namespaces: str = ""
    namespace_state: str = ""
    replenish: str = ""
    backend: JSON | None = None
    clock: JSON | None = None


_FIELDS = {
    "plugin": "plugin",
    "configuration": "configuration",
    "flags": "flags",
    "namespaces": "namespaces",
    "objects": "objects",
    "authorizer": "authorizer",
    "missingNamespaces": "missing_namespaces",
    "startNamespaces": "start_namespaces",
    "namespaceState": "namespace_state",
    "replenish": "replenish",
    "backend": "backend",
    "clock": "clock",
}
_KINDS = {
    "configuration": (dict, "mapping"),
    "flags": (dict, "mapping"),
    "namespaces": (dict, "mapping"),
    "backend": (dict, "mapping"),
    "objects": (list, "list"),
}
_OF_CONFIGURATION = frozenset({"limitSecretReferences"})
"""Plugin fields that no server document sets. They may be beside or in the configuration."""
_IGNORED = frozenset({"name", "recorded"})


def read_config(path: Path, name: str) -> PluginConfig:
    """Return a plugin's configuration; raises ManifestError for other documents."""
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ManifestError(f"cannot be read: {error}", path=str(path)) from error
    except yaml.YAMLError as error:
        mark: Any = getattr(error, "problem_mark", None)
        raise ManifestError("is no YAML", path=str(path), line=mark.line + 1 if mark else 0) from error
    if not isinstance(document, dict):
        raise ManifestError("is no mapping with `plugin`, `configuration`, `objects`, ...", path=str(path))
    if unknown := sorted(set(document) - set(_FIELDS) - _IGNORED - _OF_CONFIGURATION):
        raise ManifestError(f"unknown field `{unknown[0]}`: known are {', '.join(_FIELDS)}", path=str(path))
    if document.get("plugin", name) != name:
        raise ManifestError(f"is of plugin `{document['plugin']}`, not `{name}`", path=str(path))
    _check_kinds(document, str(path))
    for name_of_field in sorted(_OF_CONFIGURATION & set(document)):
        own = {name_of_field: document.pop(name_of_field)}
        document["configuration"] = {**(document.get("configuration") or {}), **own}
    fields = {_FIELDS[key]: value for key, value in document.items() if key in _FIELDS and value is not None}
    return PluginConfig(**{**fields, "plugin": name, "objects": tuple(fields.get("objects", ()))})


def _check_kinds(document: JSON, path: str) -> None:
    for key, (kind, what) in _KINDS.items():
        if document.get(key) is not None and not isinstance(document[key], kind):
            raise ManifestError(f"`{key}` is no {what}", path=path)
    for number, obj in enumerate(document.get("objects") or ()):
        if not isinstance(obj, dict) or not isinstance(obj.get("metadata"), dict):
            raise ManifestError(f"`objects[{number}]` is no object with `metadata`", path=path)


def configured_plugin(config: PluginConfig) -> Plugin:
    """The plugin of a configuration. Raises ReplayError for a name that there is not, ManifestError for a bad document."""
    plugin_class = BY_NAME.get(config.plugin)
    if plugin_class is None:
        raise ReplayError(f"no plugin `{config.plugin}`: there are {', '.join(sorted(BY_NAME))}")
    try:
        plugin = plugin_class.configured(config.configuration, config.flags)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise ManifestError(f"`configuration` is not of {config.plugin}: {error}") from error
    if isinstance(plugin, ImagePolicyWebhook) and config.backend is not None:
        plugin.backend = Backend.of(config.backend)
    return plugin
