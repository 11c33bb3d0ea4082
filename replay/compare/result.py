"""Results of questions: the values that the pipeline hands to the reports."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct, field

from replay.audit.period import Period
from replay.cellib.version import NEWEST, Versions
from replay.compare.accepted import AcceptedFacts
from replay.compare.authorization import AuthorizationSummary
from replay.compare.fidelity import Fidelity
from replay.compare.outage import Outage
from replay.compare.summary import Summary
from replay.json import JSON
from replay.kube.admissionregistration import Origin
from replay.kube.gvk import GroupVersionResource
from replay.kube.lifecycle import LIFECYCLES
from replay.world.result import Cause, Consequence

if TYPE_CHECKING:
    from replay.compare.audit_policy import AuditPolicy
    from replay.compare.coverage import Coverage, LogGrowth
    from replay.compare.in_force import EngineAgreement, Findings, UnknownPolicy
    from replay.prove.sets import PolicyProof


# Counts of predicted outcomes, for a report.

_NOT_FAILING = (Cause.SUCCEEDS, Cause.UNKNOWN)


class WorldFacts(Struct):
    """Counts of requests that end otherwise than in the log.

    `roots` end so independently, `consequences` because of another request. `failing` are the consequences that
    certainly fail. `not_sent` are requests of controllers that would have no reason, and no other number includes them.
    `ends` counts roots and consequences by cause. `retried` counts owners for which a controller repeats a refused
    creation, and `refused` the refusals in all, as far as the pauses of the controller tell. `refused_in_log` counts
    those that the log has too.
    """

    roots: int = 0
    consequences: int = 0
    failing: int = 0
    not_sent: int = 0
    unknown: int = 0
    retried: int = 0
    refused: int = 0
    refused_in_log: int = 0
    ends: Counter[str] = field(default_factory=Counter)

    @staticmethod
    def from_consequences(
        consequences: Collection[Consequence], retries: Sequence[int] = (), still: Collection[int] = ()
    ) -> WorldFacts:
        """Count the consequences of a run.

        `retries` has the number of refusals of each owner that exists only in the candidate's world, `still` that of
        each owner that the log already shows as refused.
        """
        facts = WorldFacts(
            retried=len(retries) + len(still), refused=sum(retries) + sum(still), refused_in_log=sum(still)
        )
        # Most consequences are the same few objects.
        by_id = {id(each): each for each in consequences}
        for key, count in Counter(map(id, consequences)).items():
            each = by_id[key]
            facts.retried += count * bool(each.repetitions)
            facts.refused += count * each.repetitions
            if not each.differs:
                continue
            if each.result.cause == Cause.NOT_SENT:
                facts.not_sent += count
                continue
            facts.roots += count * each.root
            facts.consequences += count * (not each.root)
            facts.failing += count * (not each.root and each.result.cause not in _NOT_FAILING)
            facts.unknown += count * (each.result.cause == Cause.UNKNOWN)
            facts.ends[str(each.result.cause)] += count
        return facts


# Users of API versions that the upgrade or a later upgrade removes.

_RELEASE = re.compile(r"1\.(\d{1,4})")


class Service(StrEnum):
    """Change of an API version in an upgrade, the worst first."""

    REMOVED = "removed"
    """The server of the baseline serves it, and that of the candidate does not."""
    GONE = "gone"
    """Neither serves it."""
    DEPRECATED = "deprecated"
    """Both serve it."""


class ApiVersionUse(Struct, frozen=True):
    """The requests of a user for one resource in a deprecated or removed version.

    `removed` is the minor version that no longer serves it, or 0 if none is announced. `agent` is the newest client.
    `last` is in microseconds.
    """

    resource: GroupVersionResource
    service: Service
    removed: int
    replacement: str
    user: str
    agent: str
    requests: int
    succeeded: int
    last: int


def service_of(resource: GroupVersionResource, release: str, versions: Versions) -> tuple[Service, int, str]:
    """Return what happens to a version in an upgrade, the minor version that removes it, and its replacement.

    `release` is the removal that the log states (`k8s.io/removed-release`), or empty.
    """
    lifecycle = LIFECYCLES.get(resource)
    announced = _RELEASE.fullmatch(release)
    removed = lifecycle.removed if lifecycle is not None else int(announced[1]) if announced else 0
    replacement = lifecycle.replacement if lifecycle is not None else ""
    if not removed or removed > versions.candidate.minor:
        return Service.DEPRECATED, removed, replacement
    return (Service.GONE if removed <= versions.current.minor else Service.REMOVED), removed, replacement


class LogFacts(Struct):
    """Facts about the log. Times are microseconds since the epoch. `octets` is the size of the files on disk.

    `requests` counts all requests of the log, `admission` those that reached admission. `rejects` counts lines by
    reason.
    """

    names: tuple[str, ...] = ()
    files: int = 0
    octets: int = 0
    events: int = 0
    requests: int = 0
    admission: int = 0
    first: int = 0
    last: int = 0
    duplicates: int = 0
    rejects: Counter[str] = field(default_factory=Counter)
    reject_examples: tuple[str, ...] = ()


class SetFacts(Struct, frozen=True):
    """A manifest set as a report shows it. `counts` are the numbers of objects by kind.

    `origins` are the files of policies and webhooks, by their name in decisions.
    """

    name: str
    counts: tuple[tuple[str, int], ...] = ()
    hashes: tuple[tuple[str, str], ...] = ()
    origins: Mapping[str, Origin] = field(default_factory=dict)


class RunResult(Struct):
    """Result of `replay run`. `changes` are the differences between the two sets.

    `shared_webhooks` are equal in both sets and were not called. They are assumed to answer as recorded.
    """

    log: LogFacts
    current: SetFacts
    candidate: SetFacts
    summary: Summary
    fidelity: Fidelity
    world: WorldFacts = field(default_factory=WorldFacts)
    changes: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    shared_webhooks: tuple[str, ...] = ()
    authorization: AuthorizationSummary | None = None
    proofs: tuple[PolicyProof, ...] = ()
    """Proofs about each changed policy, if requested."""
    accepted: AcceptedFacts = field(default_factory=AcceptedFacts)
    versions: Versions = Versions(NEWEST, NEWEST)
    """Server versions of both sets."""
    api_versions: tuple[ApiVersionUse, ...] = ()
    """Users of deprecated or removed API versions, if the run rehearses an upgrade."""

    mismatch_cause: str = ""
    """Why the baseline does not match the log, in a sentence, if it does not and the cause is known."""
    has_snapshot: bool = True
    moved: frozenset[str] = frozenset()
    """Policies that moved unchanged from the API to static manifests, by their name in the candidate."""
    outage: Outage | None = None
    """The webhooks that are down in the candidate."""

    @property
    def subject(self) -> str:
        """The names of both sets, with their server versions if they differ."""
        if not self.versions.differ:
            return f"{self.current.name} → {self.candidate.name}"
        before, after = self.versions
        return f"{self.current.name} on Kubernetes {before} → {self.candidate.name} on {after}"

    def origin(self, policy: str) -> Origin | None:
        """Return the source of a policy in the candidate or else in the baseline. None for a policy of the cluster."""
        return self.candidate.origins.get(policy) or self.current.origins.get(policy)


class CoverageResult(Struct, frozen=True):
    """Result of `replay coverage`. Without `sets` it covers every possible policy.

    `policy` and `growth` are about the whole log.
    """

    log: LogFacts
    sets: tuple[SetFacts, ...]
    coverage: Coverage
    policy: AuditPolicy
    growth: LogGrowth
    focus: str = ""
    """The selection, if not all requests are covered."""


class VerifyResult(Struct):
    """Result of `replay verify`.

    `unknown_policies` are policies that the log shows and the set lacks. `opinions` are the counts of the second
    engine, or None if it was not used.
    """

    log: LogFacts
    current: SetFacts
    fidelity: Fidelity
    decided: int
    total: int
    findings: Findings
    unknown_policies: dict[str, UnknownPolicy]
    notes: tuple[str, ...] = ()
    opinions: EngineAgreement | None = None
    authorization: AuthorizationSummary | None = None


# A policy that audits or warns, and what happens if its bindings deny.

BINDING = "validatingadmissionpolicybinding"
"""Resource name of bindings in kubectl."""


class RecordedFailures(NamedTuple):
    """Audited failures in the log: requests, those among them that failed anyway, and their first and last time."""

    requests: int = 0
    failed: int = 0
    users: int = 0
    namespaces: int = 0
    first: int = 0
    last: int = 0


class PromotedBinding(NamedTuple):
    """An object that keeps a policy from denying: a binding, or the policy of an engine itself.

    `actions` is what the policy does instead. `patch` makes it deny, and is a merge patch or the list of a JSON patch.
    """

    name: str
    static: bool
    actions: tuple[str, ...]
    patch: JSON
    origin: Origin | None = None
    resource: str = BINDING
    namespace: str = ""


class PromotedPolicy(Struct, frozen=True):
    """A policy of the baseline, with a run in which only its bindings differ, because they deny.

    `selected` counts the requests that its match constraints may select, rather too many than too few. `rules` are the
    names of what denies in decisions. `untold` says why the log has no failures of the policy, and is empty if it has
    them.
    """

    name: str
    rules: frozenset[str]
    bindings: tuple[PromotedBinding, ...]
    period: Period
    selected: int
    recorded: RecordedFailures
    run: RunResult
    unlogged_reason: str = ""

    @property
    def is_native(self) -> bool:
        """Whether it is a ValidatingAdmissionPolicy with bindings, and not a policy of an engine."""
        return self.bindings[0].resource == BINDING
