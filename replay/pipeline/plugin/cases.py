"""Given AdmissionRequests, each put to a plugin."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

import orjson

from replay.admission.builtin.plugin import Plugin
from replay.admission.builtin.run import ask
from replay.errors import ReplayError
from replay.json import JSON
from replay.kube.admission_request import attributes_of
from replay.pipeline.plugin.line import result_line
from replay.pipeline.plugin.world import PluginWorld


def case_results(
    plugin: Plugin, world: PluginWorld, cases: Iterable[tuple[int, bytes]], path: str
) -> Iterator[dict[str, JSON]]:
    """Yield one result line per case, in order; raises ReplayError with file and line for an invalid case."""
    for number, line in cases:
        try:
            case = orjson.loads(line)
            attributes = attributes_of(case["request"])
            instant = case.get("time")
            time = datetime.fromisoformat(instant) if instant else None
        except (orjson.JSONDecodeError, AttributeError, KeyError, TypeError, ValueError) as error:
            raise ReplayError(f"is no case with `id` and `request`: {error}", path=path, line=number) from error
        world.mention(attributes.namespace)
        result = ask(plugin, attributes, world.cluster, time=world.time_of(plugin, time))
        world.take_effects(result)
        if result.allowed:
            world.follow(attributes)
        more: dict[str, JSON] = {"synthetic": case["synthetic"]} if "synthetic" in case else {}
        shown = {"time": time_text(time)} if time is not None else {}
        yield {"id": case["id"], **more, **shown, **result_line(result)}


def time_text(time: datetime) -> str:
    """A time as result lines say it, in microseconds."""
    return time.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
