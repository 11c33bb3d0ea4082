"""`replay plugin`: what one plugin or policy engine decides alone, about the requests of a log and about given AdmissionRequests.

A plugin gets each request as its phase saw it. An engine decides with the objects of one policy file and of a snapshot.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Final

import orjson
from msgspec.structs import replace

from replay.admission.builtin.plugin import Plugin
from replay.admission.builtin.resource_quota.plugin import ResourceQuota
from replay.admission.builtin.run import PhaseResult, PluginResult, ask
from replay.admission.webhook.answer import partial_request
from replay.audit.ingest import Progress
from replay.case.plugin import PluginWorld, configured_plugin, read_config
from replay.errors import ManifestError, ReplayError
from replay.json import JSON
from replay.kube.admission_request import PhaseRequests, attributes_of
from replay.kube.engine_policy import ENGINES, function_of
from replay.pipeline.forensic.past import Chosen, past_job
from replay.pipeline.log import store_of
from replay.pipeline.manifests import manifests_of
from replay.pipeline.scenario import Scenario
from replay.reconstruct.snapshot import numbered_lines, read_snapshot
from replay.world.order import LoggedRequest, in_order, logged_request

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
    """Yield the result lines of an engine in the order of the requests. Raise ReplayError for unusable input."""
    decide: EngineDecider = function_of(_DECIDERS[name])
    cluster = [dict(obj) for obj in read_snapshot(scenario.cluster)] if scenario.cluster is not None else []
    recorded = recorded_cases(logged_requests(scenario, progress)) if _has_log(scenario) else ()
    given = (case for path in cases for case in engine_cases(path))
    yield from decide(config, chain(recorded, given), cluster)


def recorded_cases(requests: Iterable[LoggedRequest]) -> Iterator[PhaseRequests]:
    """Yield the requests of a log as cases. Their objects and options may be partly unknown."""
    for each in in_order(requests, by_receipt=False):
        validating = partial_request(each.validated) if each.validated is not None else None
        yield PhaseRequests(each.request.record.audit_id, partial_request(each.original), validating)


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
