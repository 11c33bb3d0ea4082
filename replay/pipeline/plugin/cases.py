"""Given AdmissionRequests, each put to a plugin."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

import orjson

from replay.admission.builtin.plugin import Plugin
from replay.admission.builtin.run import ask
from replay.errors import ReplayError
from replay.json import JSON
from replay.kube.attributes import Attributes, Operation, UserInfo
from replay.kube.gvk import GroupVersionKind, GroupVersionResource
from replay.pipeline.plugin.line import result_line
from replay.pipeline.plugin.world import PluginWorld


def case_results(
    plugin: Plugin, world: PluginWorld, cases: Iterable[tuple[int, bytes]], path: str
) -> Iterator[dict[str, JSON]]:
    """One result line for each case, in their order; raises ReplayError with file and line for what is no case."""
    for number, line in cases:
        try:
            case = orjson.loads(line)
            attributes = attributes_of(case["request"])
            given = case.get("time")
            time = datetime.fromisoformat(given) if given else None
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
