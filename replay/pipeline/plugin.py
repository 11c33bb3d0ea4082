"""`replay plugin`: what one plugin or policy engine decides alone, about the requests of a log and about given AdmissionRequests.

A plugin gets each request as its phase saw it. An engine decides with the objects of one policy file and of a snapshot.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any, Final

import orjson
import yaml
from msgspec import Struct, field
from msgspec.structs import replace

from replay.admission.builtin.cluster import NAMESPACE, PluginCluster
from replay.admission.builtin.plugin import Plugin
from replay.admission.builtin.pod.image_policy_webhook import Backend, ImagePolicyWebhook
from replay.admission.builtin.registry import BY_NAME
from replay.admission.builtin.resource_quota.plugin import ResourceQuota
from replay.admission.builtin.run import PhaseResult, PluginResult, ask
from replay.admission.webhook.answer import admission_request
from replay.audit.ingest import Progress
from replay.errors import ManifestError, ReplayError, reason_of
from replay.json import JSON
from replay.kube.admission_request import PhaseRequests, attributes_of
from replay.kube.attributes import Attributes, Missing, Operation, field_of
from replay.kube.authorizer import AuthorizationAttributes, AuthorizationDecision, Authorizer
from replay.kube.discovery import builtin_discovery
from replay.kube.engine_policy import ENGINES, function_of
from replay.kube.object_lister import ObjectTracker
from replay.kube.rbac.authorizer import RBACAuthorizer
from replay.pipeline.forensic.past import Chosen, past_job
from replay.pipeline.log import store_of
from replay.pipeline.manifests import manifests_of
from replay.pipeline.replay.order import LoggedRequest, in_order, logged_request
from replay.pipeline.scenario import Scenario
from replay.reconstruct.cluster import CRD, key_of
from replay.reconstruct.snapshot import numbered_lines, read_snapshot

_DECIDERS: Final[Mapping[str, str]] = {engine.name: engine.decider for engine in ENGINES}
"""Module and function of each engine, by its name."""


EngineDecider = Callable[[Path, Iterator[PhaseRequests], Sequence[dict[str, JSON]]], Iterator[dict[str, JSON]]]
"""Decides cases with the objects of a policy file and of a cluster; yields result lines.

A line is {id, PHASE: {allowed, ...}} or {id, undetermined: [reason]}. A first line {load: [...]} names refused objects.
Requests that are allowed and unchanged may have no line. Raises ManifestError for an unreadable policy file.
"""


def _engine_results(
    name: str, config: Path, cases: Sequence[Path], scenario: Scenario, progress: Progress
) -> Iterator[dict[str, JSON]]:
    """Yield the result lines of an engine in the order of the requests, those with unknown parts at the end.

    Raise ReplayError for unusable input.
    """
    decide: EngineDecider = function_of(_DECIDERS[name])
    cluster = [dict(obj) for obj in read_snapshot(scenario.cluster)] if scenario.cluster is not None else []
    unknown: list[dict[str, JSON]] = []
    recorded = recorded_cases(logged_requests(scenario, progress), unknown) if _has_log(scenario) else ()
    given = (case for path in cases for case in engine_cases(path))
    yield from decide(config, chain(recorded, given), cluster)
    yield from unknown


def recorded_cases(requests: Iterable[LoggedRequest], unknown: list[dict[str, JSON]]) -> Iterator[PhaseRequests]:
    """Yield the requests of a log as cases. Requests with an unknown part become result lines in `unknown`."""
    for each in in_order(requests, by_receipt=False):
        audit_id = each.request.record.audit_id
        mutating = admission_request(each.original)
        validating = admission_request(each.validated) if each.validated is not None else None
        if isinstance(mutating, Missing) or isinstance(validating, Missing):
            gaps = [gap for gap in (mutating, validating) if isinstance(gap, Missing)]
            unknown.append({"id": audit_id, "undetermined": [f"{gaps[0].path}: {gaps[0].reason}"]})
            continue
        yield PhaseRequests(audit_id, mutating, validating)


def _has_log(scenario: Scenario) -> bool:
    return bool(scenario.logs) or scenario.store is not None


def engine_cases(path: Path) -> Iterator[PhaseRequests]:
    """Yield the cases of a file. Raise ReplayError with file and line for an invalid case.

    A line is {id, mutating, validating} or {id, request}. In the second form both phases have the same request.
    """
    for number, line in numbered_lines(path):
        try:
            case = orjson.loads(line)
            both = case.get("request")
            mutating, validating = case.get("mutating", both), case.get("validating", both)
            if not any(isinstance(each, dict) for each in (mutating, validating)):
                raise ReplayError(
                    "is not a case with `id` and `request`, `mutating` or `validating`", path=str(path), line=number
                )
            yield PhaseRequests(str(case["id"]), mutating, validating, bool(case.get("synthetic")))
        except (orjson.JSONDecodeError, AttributeError, KeyError, TypeError) as error:
            raise ReplayError(f"is not a case: {error}", path=str(path), line=number) from error


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
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ManifestError(f"cannot be read: {reason_of(error)}", path=str(path)) from error
    except yaml.YAMLError as error:
        mark: Any = getattr(error, "problem_mark", None)
        raise ManifestError("is no YAML", path=str(path), line=mark.line + 1 if mark else 0) from error
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


def result_line(result: PluginResult) -> dict[str, JSON]:
    """Return a result as JSON: `allowed`, `changed`, and each phase of the plugin."""
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
        "sent": phase.review_spec,
    }
    return line | {key: value for key, value in said.items() if value}


def case_results(
    plugin: Plugin, world: PluginWorld, cases: Iterable[tuple[int, bytes]], path: str
) -> Iterator[dict[str, JSON]]:
    """Yield one result line per case, in order. Raise ReplayError with file and line for an invalid case."""
    for number, line in cases:
        try:
            case = orjson.loads(line)
            attributes = attributes_of(case["request"])
            instant = case.get("time")
            time = datetime.fromisoformat(instant) if instant else None
        except (orjson.JSONDecodeError, AttributeError, KeyError, TypeError, ValueError) as error:
            raise ReplayError(f"is not a case with `id` and `request`: {error}", path=path, line=number) from error
        world.mention(attributes.namespace)
        result = ask(plugin, attributes, world.cluster, time=world.time_of(plugin, time))
        world.take_effects(result)
        if result.allowed:
            world.follow(attributes)
        more: dict[str, JSON] = {"synthetic": case["synthetic"]} if "synthetic" in case else {}
        shown = {"time": _time_text(time)} if time is not None else {}
        yield {"id": case["id"], **more, **shown, **result_line(result)}


def _time_text(time: datetime) -> str:
    """Return a time as in result lines, with microseconds."""
    return time.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def recorded_results(
    plugin: Plugin, world: PluginWorld, requests: Iterable[LoggedRequest]
) -> Iterator[dict[str, JSON]]:
    """Yield a result line per request with an effect, or with an unknown one."""
    for each in in_order(requests, by_receipt=plugin.is_timed):
        record = each.request.record
        world.mention(each.original.namespace)
        time = datetime.fromtimestamp(record.received / 1_000_000, UTC)
        at = world.time_of(plugin, time)
        # A copy of the plugin decides uncertain requests, so that they are not charged.
        result = _result(plugin if each.is_certain else copy.deepcopy(plugin), each, world, at)
        line = _line(result, each)
        if line:
            yield {"id": record.audit_id, **({"time": _time_text(time)} if plugin.is_timed else {}), **line}
        if each.is_certain:
            world.take_effects(result)
            if result.allowed:
                world.follow(each.request.attributes)
            _replenish(plugin, world, each, result, at)


def _result(plugin: Plugin, each: LoggedRequest, world: PluginWorld, time: int) -> PluginResult:
    """Return the plugin's result. The validating phase sees the object after webhooks, with the plugin's change."""
    if plugin.is_last and each.validated is None:
        return PluginResult()
    if each.validated is None:
        return ask(plugin, each.original, world.cluster, time=time)
    result = ask(plugin, each.original, world.cluster, after=each.validated, time=time)
    if plugin.admit is None or plugin.validate is None or not result.patch:
        return result
    again = ask(plugin, each.validated, world.cluster, time=time)
    return again if again.unknown is not None else replace(result, validate=again.validate)


def _line(result: PluginResult, each: LoggedRequest) -> dict[str, JSON]:
    """Return the result line, empty if nothing happens."""
    if result.unknown is None and not result.has_effect:
        return {}
    if result.unknown is None and not each.is_certain:
        reason = f"whether the request reached admission is not known: {each.request.reached_reason}"
        return {"undetermined": [reason]}
    line = result_line(result)
    if each.validated is None and "validate" in line:
        admit = {"admit": line.pop("admit")} if "admit" in line else {}
        line = {**line, "validateInput": "before", **admit, "validate": line.pop("validate")}
    return line


def _replenish(plugin: Plugin, world: PluginWorld, each: LoggedRequest, result: PluginResult, time: int) -> None:
    """Release a request's quota usage, if the configuration says so."""
    if isinstance(plugin, ResourceQuota) and world.replenishes and each.validated is not None:
        plugin.follow(each.request.attributes, world.cluster, time, refused=not result.allowed)


_WRITES = Chosen("verb not in ('list', 'watch', 'deletecollection')")


def plugin_results(
    name: str, config: Path, cases: Sequence[Path], scenario: Scenario, progress: Progress
) -> Iterator[dict[str, JSON]]:
    """Yield the result lines of a plugin or policy engine, recorded requests first.

    Raise ReplayError for unusable input.
    """
    if not cases and not _has_log(scenario):
        raise ReplayError("no requests: give a log, or requests with --cases")
    if name in _DECIDERS:
        yield from _engine_results(name, config, cases, scenario, progress)
        return
    plugin_config = read_config(config, name)
    try:
        plugin = configured_plugin(plugin_config)
    except ManifestError as error:
        raise ManifestError(error.message, path=str(config)) from error
    world = PluginWorld(plugin_config, read_snapshot(scenario.cluster) if scenario.cluster is not None else ())
    if _has_log(scenario):
        yield from recorded_results(plugin, world, logged_requests(scenario, progress))
    for path in cases:
        # The buckets were filled at the times of the log, which are not those of the cases.
        asked_next = configured_plugin(plugin_config) if plugin.is_timed else plugin
        yield from case_results(asked_next, world, numbered_lines(path), str(path))


def logged_requests(scenario: Scenario, progress: Progress) -> Iterator[LoggedRequest]:
    """Yield the requests of a log that admission saw."""
    with store_of(scenario, progress) as store:
        job = past_job(store, manifests_of(scenario))
        reconstructor = replace(job.reconstructor, mutation=True)
        for number in range(store.parts):
            for records in store.part(number).objects(_WRITES):
                for request in reconstructor.requests(records):
                    if (logged := logged_request(request)) is not None:
                        yield logged
