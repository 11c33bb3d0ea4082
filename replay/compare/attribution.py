"""Attribution of the changes between a request and the stored object, from the log and the baseline.

Webhooks leave annotations with their patches. Mutating policies leave nothing, so they are replayed. Built-in plugins
and the server's own strategies are recognised by their effects. All other changes are reported as unknown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import NamedTuple, Self

from msgspec import Struct, field

from replay.compare.tally import Tally
from replay.json import JSON
from replay.kube.json_patch import tokens

Tokens = tuple[str, ...]


class Actor(StrEnum):
    """Kind of actor that changed an object. If several claim a change, the first in this order counts."""

    WEBHOOK = "webhook"
    POLICY = "policy"
    PLUGIN = "built-in plugin"
    SERVER = "server"
    UNKNOWN = "unknown"


class AttributedPaths(NamedTuple):
    """Paths that an actor is known to have changed. Each is the tokens of a JSON pointer."""

    actor: Actor
    name: str
    paths: frozenset[Tokens]


class ChangedBy(NamedTuple):
    """Key of a group of changes. `shape` is the patch without its values."""

    actor: Actor
    name: str
    resource: str
    shape: tuple[str, ...]


class ChangedRequest(NamedTuple):
    """One request of a group. `patch` is the actor's part of the change."""

    seq: int
    audit_id: str
    operation: str
    namespace: str
    name: str
    user: str
    patch: tuple[JSON, ...]


class ChangeCell(Tally):
    """Number of requests, and the first of them."""

    count: int
    example: ChangedRequest

    def add(self, other: Self) -> None:
        """Add the requests of another part of the log."""
        self.count += other.count
        self.example = min(self.example, other.example, key=lambda request: request.seq)


class Attributions(Tally):
    """The changes of a log.

    `compared` counts requests. `changed` counts those that something other than the server changed. `not_compared`
    counts by reason. `unseen` counts, by policy, the changes that the policy should have made and that the stored
    object lacks.
    """

    compared: int = 0
    changed: int = 0
    groups: dict[ChangedBy, ChangeCell] = field(default_factory=dict)
    not_compared: Counter[str] = field(default_factory=Counter)
    unseen: Counter[str] = field(default_factory=Counter)

    def count(self, key: ChangedBy, request: ChangedRequest) -> None:
        """Count the change of one request by one actor."""
        self.groups.setdefault(key, ChangeCell(0, request)).add(ChangeCell(1, request))


class MutationsResult(Struct, frozen=True):
    """Result of `replay mutations`. `current` is the name of the replayed set, or empty without a set."""

    log: str
    current: str
    attributions: Attributions


def attributed(
    operations: Iterable[JSON], claims: Sequence[AttributedPaths]
) -> dict[tuple[Actor, str], tuple[JSON, ...]]:
    """Return the operations by the actor that made them. Those without a claim belong to `(Actor.UNKNOWN, "")`."""
    order = list(Actor)
    ranked = sorted(claims, key=lambda claim: order.index(claim.actor))
    operations_by_actor: dict[tuple[Actor, str], list[JSON]] = {}
    for operation in _leaves(operations):
        path = tokens(operation["path"])
        claim = next((claim for claim in ranked if _claims(claim.paths, path)), None)
        key = (claim.actor, claim.name) if claim else (Actor.UNKNOWN, "")
        operations_by_actor.setdefault(key, []).append(operation)
    return {key: tuple(value) for key, value in operations_by_actor.items()}


def _claims(paths: frozenset[Tokens], path: Tokens) -> bool:
    """Return whether a claimed path equals this one, leads to it, or lies below it."""
    if any(path[:length] in paths for length in range(1, len(path) + 1)):
        return True
    return any(claimed[: len(path)] == path for claimed in paths)


def _leaves(operations: Iterable[JSON]) -> Iterator[JSON]:
    """Yield the operations. An added map is split into its fields, because several actors may have filled it."""
    for operation in operations:
        value = operation.get("value")
        if operation["op"] == "add" and isinstance(value, dict) and value and not _is_item(operation["path"]):
            fields = ({"op": "add", "path": f"{operation['path']}/{_token(key)}", "value": value[key]} for key in value)
            yield from _leaves(fields)
        else:
            yield operation


def _is_item(path: str) -> bool:
    """Return whether a path leads to a list item, or into one. Such items are added as a whole."""
    return any(part.isdigit() for part in path.split("/"))


def _token(key: str) -> str:
    # `~` comes first, so that the `~` of an escape is not escaped again.
    return key.replace("~", "~0").replace("/", "~1")
