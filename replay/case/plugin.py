"""A built-in plugin alone, for `replay plugin`: its configuration, and the cluster in which it is asked."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path

from msgspec import Struct, field

from replay.admission.builtin.plugin import NAMESPACE, Plugin, PluginCluster
from replay.admission.builtin.pod.image import Backend, ImagePolicyWebhook
from replay.admission.builtin.registry import BY_NAME
from replay.admission.builtin.run import PluginResult
from replay.errors import ManifestError, ReplayError
from replay.json import JSON
from replay.kube.attributes import Attributes, Missing, Operation, field_of
from replay.kube.authorizer import AuthorizationAttributes, AuthorizationDecision, Authorizer
from replay.kube.discovery import builtin_discovery
from replay.kube.lister import ObjectTracker
from replay.kube.rbac_authorizer import RBACAuthorizer
from replay.manifests.read.values import yaml_values
from replay.reconstruct.cluster import CRD, key_of


class PluginConfig(Struct, frozen=True):
    """The document of `--config`: the plugin's own configuration, the server's flags, and the cluster."""

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
"""The plugin fields that no document of the server sets. They may be beside or in the configuration."""
_IGNORED = frozenset({"name", "recorded"})


def read_config(path: Path, name: str) -> PluginConfig:
    """Return a plugin's configuration. Raise ManifestError for other documents."""
    document = next(iter(yaml_values(path)), None)
    if not isinstance(document, dict):
        raise ManifestError("is not a mapping with `plugin`, `configuration`, `objects`, ...", path=str(path))
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
            raise ManifestError(f"`{key}` is not a {what}", path=path)
    for number, obj in enumerate(document.get("objects") or ()):
        if not isinstance(obj, dict) or not isinstance(obj.get("metadata"), dict):
            raise ManifestError(f"`objects[{number}]` is not an object with `metadata`", path=path)


def configured_plugin(config: PluginConfig) -> Plugin:
    """Return the plugin of a configuration.

    Raise ReplayError for an unknown name, ManifestError for an invalid document.
    """
    plugin_class = BY_NAME.get(config.plugin)
    if plugin_class is None:
        raise ReplayError(f"no plugin `{config.plugin}`: there are {', '.join(sorted(BY_NAME))}")
    try:
        plugin = plugin_class.configured(config.configuration, config.flags)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise ManifestError(f"`configuration` is not of {config.plugin}: {error}") from error
    if isinstance(plugin, ImagePolicyWebhook) and config.backend is not None:
        plugin.backend = Backend.from_document(config.backend)
    return plugin


EVENT_TIME = "event time"
"""Clock setting under which requests set the time. Otherwise time stands still, except for plugins about time."""

NEVER_MADE_UP = "no-such"
"""Part of a namespace's name that marks it as absent: it is never created for a request that mentions it."""


class _Constant:
    """An authorizer that always returns the same decision."""

    def __init__(self, *, allowed: bool) -> None:
        self._decision = AuthorizationDecision(allowed)

    def authorize(self, attributes: AuthorizationAttributes) -> AuthorizationDecision:
        """Return the fixed decision."""
        del attributes
        return self._decision


class PluginWorld:
    """The cluster of a configuration: the snapshot with the configuration's namespaces and objects on top."""

    def __init__(self, config: PluginConfig, snapshot: Iterable[JSON]) -> None:
        """Objects are copied if the configuration changes them."""
        self._config = config
        objects = [obj for obj in snapshot if not (config.start_namespaces == "none" and _is_namespace(obj))]
        self.lister = ObjectTracker([*objects, *config.objects])
        for name, change in config.namespaces.items():
            self.lister.put(_changed(self.lister.get(NAMESPACE, "", name) or _namespace(name), change or {}))
        crds = [obj for obj in objects if key_of(obj)[:2] == CRD]
        self.cluster = PluginCluster(self.lister, self._authorizer(), builtin_discovery().with_crds(crds))

    def _authorizer(self) -> Authorizer:
        if self._config.authorizer == "rbac":
            return RBACAuthorizer(self.lister)
        return _Constant(allowed=self._config.authorizer == "allow")

    @property
    def replenishes(self) -> bool:
        """Return whether deletions of recorded requests release quota usage."""
        return self._config.replenish == "onDelete"

    def time_of(self, plugin: Plugin, time: datetime | None) -> int:
        """Return a plugin's time in microseconds since 1970, 0 if time stands still."""
        passes = plugin.is_timed or self._config.clock == EVENT_TIME
        return round(time.timestamp() * 1_000_000) if passes and time is not None else 0

    def take_effects(self, result: PluginResult) -> None:
        """Apply a plugin's effects to the cluster: the namespaces that it creates exist from now on."""
        for effect in result.admit.effects if result.admit is not None else ():
            if (effect.get("verb"), effect.get("resource")) == ("create", "namespaces"):
                self.lister.put(_namespace(effect["object"]["metadata"]["name"]))

    def follow(self, attributes: Attributes) -> None:
        """Apply a request to the namespaces, if the configuration says so.

        The plugin runs alone, so requests that a policy or the storage refused are applied too.
        """
        is_namespace = (attributes.resource.group, attributes.resource.resource) == ("", "namespaces")
        if self._config.namespace_state != "follow" or not is_namespace or attributes.dry_run:
            return
        name = attributes.name or _own_name(attributes)
        namespace = self.lister.get(NAMESPACE, "", name)
        if attributes.operation is Operation.CREATE:
            self.lister.put(_changed(namespace or _namespace(name), self._config.namespaces.get(name) or {}))
        elif attributes.operation is Operation.DELETE and namespace is not None:
            self.lister.put(_changed(namespace, {"terminating": True}))
        elif attributes.subresource == "finalize":
            self.lister.remove(NAMESPACE, "", name)

    def mention(self, namespace: str) -> None:
        """Create a namespace that a request mentions, unless the configuration makes such namespaces absent."""
        is_absent = self._config.missing_namespaces == "absent" or NEVER_MADE_UP in namespace
        if namespace and not is_absent and self.lister.get(NAMESPACE, "", namespace) is None:
            self.lister.put(_namespace(namespace))


def _own_name(attributes: Attributes) -> str:
    """Return the name in the object, empty if unknown."""
    obj = attributes.object
    name = None if obj is None or isinstance(obj, Missing) else field_of(obj, "metadata", "name")
    return name if isinstance(name, str) else ""


def _is_namespace(obj: JSON) -> bool:
    return key_of(obj)[:2] == (NAMESPACE.group, NAMESPACE.kind)


def _namespace(name: str) -> JSON:
    metadata = {"name": name, "labels": {"kubernetes.io/metadata.name": name}}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata, "status": {"phase": "Active"}}


def _changed(namespace: JSON, change: JSON) -> JSON:
    """Return a namespace with merged labels and annotations; `terminating` sets that phase."""
    namespace = copy.deepcopy(namespace)
    for key in ("labels", "annotations"):
        if change.get(key):
            namespace["metadata"][key] = {**(namespace["metadata"].get(key) or {}), **change[key]}
    if change.get("terminating"):
        namespace.setdefault("status", {})["phase"] = "Terminating"
        namespace["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return namespace
