"""Cluster of a plugin that runs alone."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from datetime import datetime

from replay.admission.builtin.cluster import NAMESPACE, PluginCluster
from replay.admission.builtin.plugin import Plugin
from replay.admission.builtin.run import PluginResult
from replay.json import JSON
from replay.kube.attributes import Attributes, Missing, Operation, field_of
from replay.kube.authorizer import AuthorizationAttributes, AuthorizationDecision, Authorizer
from replay.kube.discovery import builtin_discovery
from replay.kube.object_lister import ObjectTracker
from replay.kube.rbac.authorizer import RBACAuthorizer
from replay.pipeline.plugin.config import PluginConfig
from replay.reconstruct.cluster import CRD, key_of

EVENT_TIME = "event time"
"""Clock setting under which requests set the time. Otherwise time stands still, except for plugins about time."""

NEVER_MADE_UP = "no-such"
"""A namespace whose name holds this is never made up for a request that mentions it."""


class _Constant:
    """An authorizer that always says the same."""

    def __init__(self, *, allowed: bool) -> None:
        self._decision = AuthorizationDecision(allowed)

    def authorize(self, attributes: AuthorizationAttributes) -> AuthorizationDecision:
        """The same for everybody."""
        del attributes
        return self._decision


class PluginWorld:
    """The cluster that a configuration describes: the snapshot with its namespaces and objects laid over it."""

    def __init__(self, config: PluginConfig, snapshot: Iterable[JSON]) -> None:
        """Objects are copied where the configuration changes them."""
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
        """Whether what recorded requests delete is given back to quotas."""
        return self._config.replenish == "onDelete"

    def time_of(self, plugin: Plugin, time: datetime | None) -> int:
        """Return a plugin's time in microseconds since 1970, 0 if time stands still."""
        passes = plugin.is_timed or self._config.clock == EVENT_TIME
        return round(time.timestamp() * 1_000_000) if passes and time is not None else 0

    def take_effects(self, result: PluginResult) -> None:
        """Do what a plugin did to the cluster: the namespaces that it makes are there from now on."""
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
        """Make up a namespace that a request mentions, unless the configuration says that such ones are absent."""
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
    """A namespace with labels and annotations merged in; `terminating` puts it into that phase."""
    namespace = copy.deepcopy(namespace)
    for key in ("labels", "annotations"):
        if change.get(key):
            namespace["metadata"][key] = {**(namespace["metadata"].get(key) or {}), **change[key]}
    if change.get("terminating"):
        namespace.setdefault("status", {})["phase"] = "Terminating"
        namespace["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return namespace
