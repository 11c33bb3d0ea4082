"""The requests of a log, each put to a plugin as its phase had it at the time."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from msgspec.structs import replace

from replay.admission.builtin.plugin import Plugin
from replay.admission.builtin.resource_quota.plugin import ResourceQuota
from replay.admission.builtin.run import PluginResult, ask
from replay.json import JSON
from replay.pipeline.plugin.cases import time_text
from replay.pipeline.plugin.line import result_line
from replay.pipeline.plugin.world import PluginWorld
from replay.pipeline.replay.order import LoggedRequest, in_order


def recorded_results(
    plugin: Plugin, world: PluginWorld, requests: Iterable[LoggedRequest]
) -> Iterator[dict[str, JSON]]:
    """Yield a result line per request with an effect, or with an unknown one."""
    for each in in_order(requests, by_receipt=plugin.is_timed):
        record = each.request.record
        world.mention(each.original.namespace)
        time = datetime.fromtimestamp(record.received / 1_000_000, UTC)
        at = world.time_of(plugin, time)
        # where it is not known whether admission was asked, nothing is charged
        result = _result(plugin if each.is_certain else copy.deepcopy(plugin), each, world, at)
        line = _line(result, each)
        if line:
            yield {"id": record.audit_id, **({"time": time_text(time)} if plugin.is_timed else {}), **line}
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
    """The line, empty where nothing happens."""
    if result.unknown is None and not result.has_effect:
        return {}
    if result.unknown is None and not each.is_certain:
        reason = f"whether admission was asked is not known: {each.request.reached_reason}"
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
