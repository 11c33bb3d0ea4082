"""`replay plugin`: one built-in plugin alone, asked about given AdmissionRequests."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson
import yaml

from replay.admission.builtin.cluster import NAMESPACE, PluginCluster
from replay.admission.builtin.image_policy_webhook import Backend, ImagePolicyWebhook
from replay.admission.builtin.plugin import Plugin
from replay.admission.builtin.registry import BY_NAME
from replay.admission.builtin.run import PhaseResult, PluginResult, ask
from replay.errors import ManifestError, ReplayError
from replay.json import JSON
from replay.kube.attributes import Attributes, Operation, UserInfo
from replay.kube.authorizer import AuthorizationAttributes, AuthorizationDecision, Authorizer
from replay.kube.discovery import builtin_discovery
from replay.kube.gvk import GroupVersionKind, GroupVersionResource
from replay.kube.object_lister import ObjectLister
from replay.kube.rbac import RBACAuthorizer
from replay.reconstruct.cluster import CRD, key_of
from replay.reconstruct.snapshot import numbered_lines, read_snapshot

NEVER_MADE_UP = "no-such"
"""A namespace whose name holds this is never made up for a request that mentions it."""


@dataclass(frozen=True)
class PluginConfig:
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
_IGNORED = frozenset({"name", "recorded"})


def read_config(path: Path, name: str) -> PluginConfig:
    """The configuration of a plugin; raises ManifestError for what is no such document."""
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ManifestError(f"cannot be read: {error}", path=str(path)) from error
    except yaml.YAMLError as error:
        mark: Any = getattr(error, "problem_mark", None)
        raise ManifestError("is no YAML", path=str(path), line=mark.line + 1 if mark else 0) from error
    if not isinstance(document, dict):
        raise ManifestError("is no mapping with `plugin`, `configuration`, `objects`, ...", path=str(path))
    if unknown := sorted(set(document) - set(_FIELDS) - _IGNORED):
        raise ManifestError(f"unknown field `{unknown[0]}`: known are {', '.join(_FIELDS)}", path=str(path))
    if document.get("plugin", name) != name:
        raise ManifestError(f"is of plugin `{document['plugin']}`, not `{name}`", path=str(path))
    found = {_FIELDS[key]: value for key, value in document.items() if key in _FIELDS and value is not None}
    return PluginConfig(**{**found, "plugin": name, "objects": tuple(found.get("objects", ()))})


def configured_plugin(config: PluginConfig) -> Plugin:
    """The plugin of a configuration. Raises ReplayError for a name that there is not, ManifestError for a bad document."""
    known = BY_NAME.get(config.plugin)
    if known is None:
        raise ReplayError(f"no plugin `{config.plugin}`: there are {', '.join(sorted(BY_NAME))}")
    plugin = known.configured(config.configuration, config.flags)
    if isinstance(plugin, ImagePolicyWebhook) and config.backend is not None:
        plugin.backend = Backend.of(config.backend)
    return plugin


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
        self.lister = ObjectLister([*objects, *config.objects])
        for name, change in config.namespaces.items():
            self.lister.put(_changed(self.lister.get(NAMESPACE, "", name) or _namespace(name), change or {}))
        crds = [obj for obj in objects if key_of(obj)[:2] == CRD]
        self.cluster = PluginCluster(self.lister, self._authorizer(), builtin_discovery().with_crds(crds))

    def _authorizer(self) -> Authorizer:
        if self._config.authorizer == "rbac":
            return RBACAuthorizer(self.lister)
        return _Constant(allowed=self._config.authorizer == "allow")

    def mention(self, namespace: str) -> None:
        """Make up a namespace that a request mentions, unless the configuration says that such ones are absent."""
        is_absent = self._config.missing_namespaces == "absent" or NEVER_MADE_UP in namespace
        if namespace and not is_absent and self.lister.get(NAMESPACE, "", namespace) is None:
            self.lister.put(_namespace(namespace))


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


def case_results(
    plugin: Plugin, world: PluginWorld, cases: Iterable[tuple[int, bytes]], path: str
) -> Iterator[dict[str, JSON]]:
    """One result line for each case, in their order; raises ReplayError with file and line for what is no case."""
    for number, line in cases:
        try:
            case = orjson.loads(line)
            attributes = attributes_of(case["request"])
        except (orjson.JSONDecodeError, KeyError, TypeError, ValueError) as error:
            raise ReplayError(f"is no case with `id` and `request`: {error}", path=path, line=number) from error
        world.mention(attributes.namespace)
        time = _microseconds(case.get("time"))
        result = ask(plugin, attributes, world.cluster, time=time)
        more = {"synthetic": case["synthetic"]} if "synthetic" in case else {}
        yield {"id": case["id"], **more, **_shown_time(case.get("time")), **result_line(result)}


def _shown_time(time: str | None) -> dict[str, JSON]:
    return {"time": datetime.fromisoformat(time).strftime("%Y-%m-%dT%H:%M:%S.%fZ")} if time else {}


def _microseconds(time: str | None) -> int:
    return int(datetime.fromisoformat(time).timestamp() * 1_000_000) if time else 0


def attributes_of(request: JSON) -> Attributes:
    """The attributes of an `AdmissionRequest` as JSON; raises KeyError, TypeError or ValueError for what is none."""
    kind, resource = (
        request.get("requestKind") or request["kind"],
        request.get("requestResource") or request["resource"],
    )
    user = request.get("userInfo") or {}
    return Attributes(
        operation=Operation(request["operation"]),
        kind=GroupVersionKind(kind.get("group") or "", kind["version"], kind["kind"]),
        resource=GroupVersionResource(resource.get("group") or "", resource["version"], resource["resource"]),
        subresource=request.get("requestSubResource") or request.get("subResource") or "",
        namespace=request.get("namespace") or "",
        name=request.get("name") or "",
        user_info=UserInfo(
            user.get("username") or "",
            user.get("uid") or "",
            tuple(user.get("groups") or ()),
            {key: tuple(values) for key, values in (user.get("extra") or {}).items()},
        ),
        dry_run=bool(request.get("dryRun")),
        options=request.get("options"),
        object=request.get("object"),
        old_object=request.get("oldObject"),
    )


def result_line(result: PluginResult) -> dict[str, JSON]:
    """A result as JSON: `allowed`, `changed`, and each phase that the plugin has."""
    if result.unknown is not None:
        return {"undetermined": [f"{result.unknown.path}: {result.unknown.reason}"]}
    line: dict[str, JSON] = {"allowed": result.allowed, "changed": bool(result.patch)}
    for name, phase in (("admit", result.admit), ("validate", result.validate)):
        if phase is not None:
            line[name] = _phase_line(phase)
    return line


def _phase_line(phase: PhaseResult) -> dict[str, JSON]:
    line: dict[str, JSON] = {}
    if (refusal := phase.refusal) is not None:
        line["denied"] = {"code": refusal.code, "reason": refusal.reason, "message": refusal.message}
        if refusal.is_in_any_order:
            line["denied"]["messagePartsInAnyOrder"] = True
        if refusal.variants:
            line["denied"]["messageVariants"] = list(refusal.variants)
    said = {
        "patch": list(phase.patch),
        "warnings": list(phase.warnings),
        "auditAnnotations": phase.audit_annotations,
        "effects": list(phase.effects),
        "sent": phase.sent,
    }
    return line | {key: value for key, value in said.items() if value}


def plugin_results(name: str, config: Path, cases: Path | None, cluster: Path | None) -> Iterator[dict[str, JSON]]:
    """The result lines of one plugin; raises ReplayError for input that cannot be used."""
    read = read_config(config, name)
    plugin = configured_plugin(read)
    world = PluginWorld(read, read_snapshot(cluster) if cluster is not None else ())
    if cases is not None:
        yield from case_results(plugin, world, numbered_lines(cases), str(cases))
