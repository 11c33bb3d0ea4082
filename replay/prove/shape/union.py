"""Types of which one member is set at a time (`ValidateVolumes`, `validateHandler`, `validateEnvVarValueFrom` and their like)."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from replay.json import JSON
from replay.kube.schema import Schema

_HANDLERS = frozenset({"exec", "httpGet", "tcpSocket", "grpc", "sleep"})
_BESIDE: Mapping[str, frozenset[str]] = {"Volume": frozenset({"name"})}
"""Types in which every field except these is a member."""
_MEMBERS: Mapping[str, frozenset[str]] = {
    "Probe": _HANDLERS,
    "LifecycleHandler": _HANDLERS,
    "EnvVar": frozenset({"value", "valueFrom"}),
    "EnvVarSource": frozenset({"fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef"}),
    "PodDisruptionBudgetSpec": frozenset({"minAvailable", "maxUnavailable"}),
    "IngressBackend": frozenset({"service", "resource"}),
}


def members_of(schema: Schema | None) -> frozenset[str]:
    """Return the fields of a type of which exactly one may be set; none for other types."""
    if schema is None:
        return frozenset()
    name = schema.name.rpartition(".")[2]
    beside = _BESIDE.get(name)
    return _MEMBERS.get(name, frozenset()) if beside is None else frozenset(schema.fields) - beside


def with_members(value: dict[str, JSON], schema: Schema | None, chosen: Collection[str]) -> dict[str, JSON]:
    """A value without the members of its type that were not chosen, where one was."""
    members = members_of(schema)
    members_to_keep = members.intersection(chosen)
    return (
        {name: item for name, item in value.items() if name not in members or name in members_to_keep}
        if members_to_keep
        else value
    )
