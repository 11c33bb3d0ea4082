"""Figures of a weekly report: what each policy did, whom the authorizers refused, and what they were before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import NamedTuple, Self

import orjson
from msgspec import Struct, field

from replay.admission.decision import Decision
from replay.audit.answer import VALIDATION_FAILURE
from replay.audit.period import Period
from replay.compare.fidelity import Fidelity
from replay.compare.readiness import NamespaceReadiness
from replay.compare.result import SetFacts
from replay.compare.scan import Scan
from replay.compare.summary import Gap
from replay.compare.tally import Tally
from replay.kube.denial import policy_warning


class EffectSide(StrEnum):
    """The set of an effect."""

    CURRENT = "current"
    CANDIDATE = "candidate"


class EffectAction(StrEnum):
    """Action of a policy or webhook. `failed-open` means that the failure of a webhook was ignored."""

    DENY = "deny"
    WARN = "warn"
    AUDIT = "audit"
    MUTATE = "mutate"
    FAILED_OPEN = "failed-open"
    ANNOTATE = "annotate"
    UNDETERMINED = "undetermined"


class PolicyEffect(NamedTuple):
    """Effect of one policy on one request. `message` is the first if there are several.

    A `Summary` counts differences between two sets. An effect is the action of one policy of one set. A policy that
    only audits has effects, but makes no difference.
    """

    action: EffectAction
    policy: str
    message: str


class EffectKey(NamedTuple):
    """Key of a cell: what its effects have in common.

    `period` is the index of the requested period. `denied` says that the baseline denies the request anyway. `follows`
    marks a consequence: the verdict changes only because an earlier request would end otherwise. `owner` is the value
    of the namespace's owner label, or empty. `workspace` is the path of the request's kcp workspace. It then precedes
    the namespace, and the policy's name has the path of its own.
    """

    period: int
    side: EffectSide
    action: EffectAction
    policy: str
    user: str
    namespace: str
    resource: str
    workload: str
    denied: bool
    owner: str
    workspace: str = ""
    follows: bool = False

    @property
    def is_root(self) -> bool:
        """Whether enforcement would begin here: the baseline admits the request, and it is a direct finding."""
        return not self.denied and not self.follows


class EffectCell(Tally):
    """Number of requests, with the first and last time (microseconds since the epoch), and the first message."""

    count: int
    first: int
    last: int
    audit_id: str
    message: str

    def add(self, other: Self) -> None:
        """Add the counts of another part of the log."""
        self.count += other.count
        self.last = max(self.last, other.last)
        # The audit ID decides between equal times, so that the order of merging does not matter.
        if (other.first, other.audit_id) < (self.first, self.audit_id):
            self.first, self.audit_id, self.message = other.first, other.audit_id, other.message


class Bucket(NamedTuple):
    """Key of a time series. `start` is in microseconds, and `is_root` is as in `EffectKey`."""

    period: int
    side: EffectSide
    action: EffectAction
    policy: str
    is_root: bool
    start: int


class EffectCounts(Tally):
    """Effects counted by cell and over time. Merging is commutative."""

    cells: dict[EffectKey, EffectCell] = field(default_factory=dict)
    timeline: Counter[Bucket] = field(default_factory=Counter)

    def count(self, key: EffectKey, cell: EffectCell, start: int) -> None:
        """Count one request."""
        if key in self.cells:
            self.cells[key].add(cell)
        else:
            self.cells[key] = cell
        self.timeline[Bucket(key.period, key.side, key.action, key.policy, key.is_root, start)] += cell.count


def effects_of(decision: Decision) -> Iterator[PolicyEffect]:
    """Yield the effects of a decision in the server's order, each once for a policy."""
    messages: dict[tuple[EffectAction, str], str] = {}
    for denial in decision.denials:
        messages.setdefault((EffectAction.DENY, denial.policy), denial.message)
    for warning in decision.warnings:
        # apiserver (validating dispatcher) names the policy of a warning in its text alone.
        if said := policy_warning(warning):
            messages.setdefault((EffectAction.WARN, said.policy), said.message)
    if text := decision.audit_annotations.get(VALIDATION_FAILURE):
        for entry in orjson.loads(text):
            messages.setdefault((EffectAction.AUDIT, entry["policy"]), entry["message"])
    for mutated in decision.mutated:
        messages.setdefault((EffectAction.MUTATE, mutated.policy), "")
    for unknown in decision.undetermined:
        messages.setdefault((EffectAction.UNDETERMINED, unknown.policy), unknown.reason)
    for (action, policy), message in messages.items():
        yield PolicyEffect(action, policy, message)


class RefusedRequests(NamedTuple):
    """Key of requests that are alike. `target` is a resource with group and subresource, or a path."""

    user: str
    verb: str
    target: str


class Refusals(Struct):
    """Numbers of refused requests.

    `earlier` is None if there is no earlier period. `unused` are bindings that allowed nothing.
    """

    now: Counter[RefusedRequests] = field(default_factory=Counter)
    earlier: Counter[RefusedRequests] | None = None
    unused: tuple[str, ...] = ()

    @property
    def no_longer(self) -> dict[RefusedRequests, int]:
        """Requests that were refused in the earlier period only."""
        return {each: count for each, count in (self.earlier or {}).items() if each not in self.now}


MAX_OWNERS = 200


class FigureSource(StrEnum):
    """Source of a number: the log itself, or the replay of the baseline."""

    LOG = "log"
    REPLAY = "replay"


class PolicyReadiness(StrEnum):
    """Readiness of a policy to be enforced, in the order of a report."""

    READY = "ready"
    UNDECIDED = "undecided"
    NOT_ASKED = "not_asked"
    DENIES = "denies"


class DenialGroup(NamedTuple):
    """Key of denials by policy and place, for what is new or gone between two periods."""

    policy: str
    user: str
    namespace: str


class ActionFigures(Struct, frozen=True):
    """Actions of one policy or webhook. `timeline` maps the start of a step (microseconds) to requests."""

    policy: str
    action: EffectAction
    source: FigureSource
    requests: int
    users: int
    namespaces: int
    first: int
    last: int
    timeline: Mapping[int, int] = field(default_factory=dict)


class Owner(Struct, frozen=True):
    """Whom to contact before a policy denies: the workload, its owner label, and the users who send the requests."""

    owner: str
    namespace: str
    workload: str
    users: tuple[str, ...]
    requests: int
    last: int


class Promotion(Struct, frozen=True):
    """The effect that enforcement of one policy would have had in the period.

    `today` describes what the policy does now. `matches` counts the requests that its match constraints may select, and
    `requests` those that it would deny. Of these, the baseline denies `denied_anyway` too. It admits `follow`, which
    are consequences of other requests. `undecided` counts requests about which the log has too little. All other fields
    are about direct findings. `halves` counts those of the first and of the second half of the period. `message` and
    `audit_id` are of the first one.
    """

    policy: str
    side: EffectSide
    today: str
    matches: int
    requests: int = 0
    denied_anyway: int = 0
    undecided: int = 0
    users: int = 0
    namespaces: int = 0
    workloads: int = 0
    last: int = 0
    halves: tuple[int, int] = (0, 0)
    message: str = ""
    audit_id: str = ""
    owners: tuple[Owner, ...] = ()
    follow: int = 0

    @property
    def newly_denied(self) -> int:
        """Number of denied requests that the baseline admits."""
        return self.requests - self.denied_anyway

    @property
    def roots(self) -> int:
        """Number of newly denied requests that are direct findings."""
        return self.newly_denied - self.follow

    @property
    def readiness(self) -> PolicyReadiness:
        """Return READY only if every matching request was decided and none would be newly denied."""
        if self.newly_denied:
            return PolicyReadiness.DENIES
        if self.undecided:
            return PolicyReadiness.UNDECIDED
        return PolicyReadiness.READY if self.matches else PolicyReadiness.NOT_ASKED


class WorkspaceFigures(Struct, frozen=True):
    """Effects on the requests of one kcp workspace, from the log.

    `newly_denied` counts new denials by the candidate's policies, `undecided` the requests that they leave undecided.
    """

    workspace: str
    actions: Mapping[EffectAction, int]
    newly_denied: int = 0
    undecided: int = 0

    def total(self, action: EffectAction) -> int:
        """Return how often an action happened to the requests of the workspace."""
        return self.actions.get(action, 0)


class Figures(Struct, frozen=True):
    """Figures of one period. `steps` are the requests that reached admission, by start of step.

    Periods are compared by their figures only. Those of last week can come from the JSON file of last week's report.
    """

    period: Period
    step: int
    steps: Mapping[int, int]
    actions: tuple[ActionFigures, ...]
    promotions: tuple[Promotion, ...]
    denials: frozenset[DenialGroup]
    users: frozenset[str]
    namespaces: frozenset[str]
    undecided: int = 0
    workspaces: tuple[WorkspaceFigures, ...] = ()
    """Figures by workspace, in kcp only."""

    @property
    def requests(self) -> int:
        """Number of requests that reached admission."""
        return sum(self.steps.values())

    def total(self, action: EffectAction) -> int:
        """Return how often policies and webhooks took an action."""
        return sum(each.requests for each in self.actions if each.action is action)


class FileFidelity(Struct, frozen=True):
    """Match of one log file with the baseline, with the first and last time of its decisions."""

    file: str
    fidelity: Fidelity
    first: int = 0
    last: int = 0


class MutationFigures(Struct, frozen=True):
    """Effects of a mutating policy of the candidate in the period."""

    policy: str
    requests: int
    workloads: int
    users: int
    last: int


class WeeklyResult(Struct):
    """The contents of a weekly report.

    `previous` is None without an earlier period, and `compared_with` names its source. `foreign` counts requests of
    static policies that the log shows and the baseline lacks. `notes` are what a reader must know about the log.
    """

    log: str
    figures: Figures
    previous: Figures | None = None
    compared_with: str = ""
    current: SetFacts | None = None
    candidate: SetFacts | None = None
    cells: dict[EffectKey, EffectCell] = field(default_factory=dict)
    mutations: tuple[MutationFigures, ...] = ()
    fidelity: Fidelity = field(default_factory=Fidelity)
    evidence: tuple[FileFidelity, ...] = ()
    foreign: Counter[str] = field(default_factory=Counter)
    gaps: Counter[Gap] = field(default_factory=Counter)
    not_reached: Counter[str] = field(default_factory=Counter)
    rejects: Counter[str] = field(default_factory=Counter)
    notes: tuple[str, ...] = ()
    refusals: Refusals = field(default_factory=Refusals)
    readiness: dict[str, NamespaceReadiness] = field(default_factory=dict)
    """Readiness by namespace. Empty if not requested."""
    at_rest: Scan | None = None
    """The candidate's decisions about the objects of the snapshot. None without a candidate or a snapshot."""
