"""The figures of a period: what admission did, which policies could be enforced, who took part.

Two periods are compared through their figures alone, so that last week's may come from the JSON beside last week's report.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from msgspec import Struct, field

from replay.audit.period import Period
from replay.compare.fidelity import Fidelity
from replay.compare.readiness import NamespaceReadiness
from replay.compare.refusal import Refusals
from replay.compare.result import SetFacts
from replay.compare.scan import Scan
from replay.compare.summary import Gap
from replay.compare.weekly.effect import EffectAction, EffectCell, EffectKey, EffectSide

MAX_OWNERS = 200


class FigureSource(StrEnum):
    """Source of a number: the log itself, or the replay of the baseline."""

    LOG = "log"
    REPLAY = "replay"


class PolicyReadiness(StrEnum):
    """Whether a policy can be enforced, in the order of a report."""

    READY = "ready"
    UNDECIDED = "undecided"
    NOT_ASKED = "not_asked"
    DENIES = "denies"


class DenialGroup(NamedTuple):
    """Denials by policy and place, for what is new or gone between two periods."""

    policy: str
    user: str
    namespace: str


class ActionFigures(Struct, frozen=True):
    """Actions of one policy or webhook; `timeline` maps the start of a step (microseconds) to requests."""

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
    """Somebody to talk to before a policy denies: the workload, its namespace's owner label, and who sends the requests."""

    owner: str
    namespace: str
    workload: str
    users: tuple[str, ...]
    requests: int
    last: int


class Promotion(Struct, frozen=True):
    """What enforcing one policy would have done in the period.

    `today` says in words what it does now. `matches` counts the requests that its match constraints may select, `requests` those
    that it would deny, `denied_anyway` those among them that the current set denies too, `follow` those that are admitted today and
    would not be made as they were, since an earlier request would end otherwise; `undecided` those of which the log does not hold enough. All
    that stands below is about the roots, which need no other to happen: `halves` are those of the first and of the second half of the
    period, `message` and `audit_id` those of the first.
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
        """The requests that are admitted today."""
        return self.requests - self.denied_anyway

    @property
    def roots(self) -> int:
        """Those of them that would be denied though nothing else was."""
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

    `newly_denied` counts new denials by the candidate's policies, `undecided` what they leave open.
    """

    workspace: str
    actions: Mapping[EffectAction, int]
    newly_denied: int = 0
    undecided: int = 0

    def total(self, action: EffectAction) -> int:
        """How often something was done to it."""
        return self.actions.get(action, 0)


class Figures(Struct, frozen=True):
    """One period. `steps` are the requests that reached admission, by start of step."""

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
    """Those of kcp alone."""

    @property
    def requests(self) -> int:
        """The requests that admission saw."""
        return sum(self.steps.values())

    def total(self, action: EffectAction) -> int:
        """How often policies and webhooks did something."""
        return sum(each.requests for each in self.actions if each.action is action)


class FileFidelity(Struct, frozen=True):
    """Match of one log file with the baseline, and the first and last time its decisions were seen."""

    file: str
    fidelity: Fidelity
    first: int = 0
    last: int = 0


class MutationFigures(Struct, frozen=True):
    """Effects of a candidate's mutating policy in the period."""

    policy: str
    requests: int
    workloads: int
    users: int
    last: int


class WeeklyResult(Struct):
    """Everything that a weekly report shows.

    `previous` is None where nothing is known of an earlier period, `compared_with` says where it comes from. `foreign` are
    static policies that the log shows at work and the current set does not have, by requests; `notes` are what a reader must know
    of the log.
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
    """By namespace; empty if not requested."""
    at_rest: Scan | None = None
    """The candidate's decisions about the snapshot's objects; None without a candidate or snapshot."""
