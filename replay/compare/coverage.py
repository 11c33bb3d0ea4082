"""Coverage of a log: the requests that can be decided, and what is missing for the others."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from msgspec import Struct, field

from replay.admission.decision import Decision, Verdict
from replay.compare.audit_policy import METADATA, NONE, REQUEST_RESPONSE, AuditPolicy
from replay.compare.tally import Tally
from replay.kube.attributes import Attributes, Missing, PartialObject
from replay.kube.gvk import GroupResource

_NAMED = re.compile(r"`[^`]*`")
_COUNTED = re.compile(r" \(and \d+ more\)$")
_SEVERAL = re.compile(r"…(?:, …)+")
_NUMBER = re.compile(r"\d{2,}")
_UNREAD = (".metadata.managedFields", ".metadata.resourceVersion")
REQUEST = "Request"


class RequestKind(NamedTuple):
    """Kind of requests: what they are about and how they are recorded.

    `resource` is as in `pods`, `pods/status`, `deployments.apps`.
    """

    resource: str
    verb: str
    level: str


class Obstacle(NamedTuple):
    """An unknown value: the input that has it, the reason (without names), and what would record it."""

    path: str
    reason: str
    fix: str


class Cost(Tally):
    """Cost of an obstacle: the undetermined verdicts, those without another obstacle, and where it occurs."""

    verdicts: int = 0
    sole: int = 0
    where: Counter[str] = field(default_factory=Counter)
    policies: set[str] = field(default_factory=set)


class Coverage(Tally):
    """Counts of one part of a log, or of the whole log. `not_reached` requests did not reach validation."""

    decided: Counter[RequestKind] = field(default_factory=Counter)
    undetermined: Counter[RequestKind] = field(default_factory=Counter)
    not_reached: int = 0
    costs: dict[Obstacle, Cost] = field(default_factory=dict)

    def count(self, kind: RequestKind, decision: Decision) -> None:
        """Count a decision."""
        obstacles = [(each.policy, obstacle(each.path, each.reason, each.fix)) for each in decision.undetermined]
        self._count(kind, obstacles, undetermined=decision.verdict is Verdict.UNDETERMINED)

    def count_attributes(self, kind: RequestKind, attributes: Attributes) -> None:
        """Count a request as if a policy read all its parts."""
        obstacles = [("", obstacle(each.path, each.reason, each.fix)) for each in missing_of(attributes)]
        self._count(kind, obstacles, undetermined=bool(obstacles))

    def _count(self, kind: RequestKind, gaps: Sequence[tuple[str, Obstacle]], *, undetermined: bool) -> None:
        if not undetermined:
            self.decided[kind] += 1
            return
        self.undetermined[kind] += 1
        obstacles = {each for _, each in gaps}
        for each in obstacles:
            cost = self.costs.setdefault(each, Cost())
            cost.verdicts += 1
            cost.sole += len(obstacles) == 1
            cost.where[f"{kind.verb} {kind.resource} at {kind.level}"] += 1
        for policy, each in gaps:
            self.costs[each].policies.add(policy)

    def ordered_costs(self) -> list[tuple[Obstacle, Cost]]:
        """Return the obstacles, sorted by the number of verdicts that they cost."""
        return sorted(self.costs.items(), key=lambda item: (-item[1].verdicts, -item[1].sole, item[0]))


def obstacle(path: str, reason: str, fix: str) -> Obstacle:
    """Return an obstacle without names, numbers and the path below the input, which differ between requests."""
    _, separator, rest = _COUNTED.sub("", reason).partition("is not known: ")
    said = rest if separator else _COUNTED.sub("", reason)
    root = re.split(r"[.\[]", path, maxsplit=1)[0]
    return Obstacle(root, _SEVERAL.sub("…", _NUMBER.sub("N", _NAMED.sub("…", said))), fix)


def missing_of(attributes: Attributes) -> list[Missing]:
    """Return the unknown parts of a request, except fields that hardly any policy reads.

    These are managedFields and resourceVersion.
    """
    missing = list(attributes.missing)
    for value in (attributes.object, attributes.old_object, attributes.namespace_object, attributes.options):
        if isinstance(value, Missing):
            missing.append(value)
        elif isinstance(value, PartialObject):
            missing += [each for each in value.missing if not each.path.endswith(_UNREAD)]
    return missing


class SizeRow(NamedTuple):
    """A row of `queries/log_sizes.sql`."""

    api_group: str
    resource: str
    subresource: str
    verb: str
    level: str
    admission: bool
    events: int
    plain: int
    request_bodies: int
    request_octets: int
    response_bodies: int
    response_octets: int


class LogGrowth(Struct, frozen=True):
    """Size of the log in bytes, now and under a proposed policy. `guessed` is the part whose bodies this log lacks."""

    now: int
    proposed: int
    guessed: int


def growth(rows: Iterable[SizeRow], policy: AuditPolicy, sizes: dict[GroupResource, int]) -> LogGrowth:
    """Return the size of the log under a policy, from the bodies that it has.

    The size of an unrecorded body is a mean: of the bodies of the resource and verb, else of the resource, else of its
    objects in the snapshot (`sizes`, in bytes), else of all bodies of the log.
    """
    rows = list(rows)
    means = _MeanSizes(rows, sizes)
    now = proposed = guessed = 0
    for row in rows:
        now += row.plain + row.request_octets + row.response_octets
        level = policy.level(row.verb, row.api_group, row.resource, row.subresource)
        if level == NONE:
            continue
        proposed += row.plain
        if level == METADATA:
            continue
        bodies = [(row.request_octets, row.level == METADATA, "request")]
        if level == REQUEST_RESPONSE:
            bodies.append((row.response_octets, row.level in (METADATA, REQUEST), "response"))
        for octets, absent, side in bodies:
            estimate = round(means.body_size(row, side) * row.events) if absent else 0
            guessed += estimate
            proposed += octets + estimate
    return LogGrowth(now, proposed, guessed)


class _MeanSizes:
    """Mean sizes of bodies, from the most to the least similar requests."""

    def __init__(self, rows: Iterable[SizeRow], sizes: dict[GroupResource, int]) -> None:
        self._sizes = sizes
        self._sums: dict[tuple[str, ...], list[int]] = defaultdict(lambda: [0, 0])
        for row in rows:
            for side, octets, bodies in (
                ("request", row.request_octets, row.request_bodies),
                ("response", row.response_octets, row.response_bodies),
            ):
                for key in (*self._keys(row, side), ("", side)):
                    self._sums[key][0] += octets
                    self._sums[key][1] += bodies

    @staticmethod
    def _keys(row: SizeRow, side: str) -> list[tuple[str, ...]]:
        place = (row.api_group, row.resource, row.subresource)
        return [(*place, row.verb, side), (*place, side)]

    def body_size(self, row: SizeRow, side: str) -> float:
        # The request body of a deletion is DeleteOptions, so the size of objects says nothing about it.
        if side == "request" and row.verb in ("delete", "deletecollection"):
            return _OPTIONS_OCTETS
        for key in self._keys(row, side):
            octets, bodies = self._sums[key]
            if bodies:
                return octets / bodies
        sizes = self._sizes.get(GroupResource(row.api_group, row.resource))
        if sizes:
            return sizes
        octets, bodies = self._sums["", side]
        return octets / bodies if bodies else _UNKNOWN_OCTETS


_OPTIONS_OCTETS = 120
"""Approximate size of DeleteOptions, in bytes."""
_UNKNOWN_OCTETS = 2500
"""Approximate size of an object if nothing is known, in bytes."""
