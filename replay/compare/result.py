"""The result of a run: the value that the pipeline hands to the reports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct, field

from replay.cellib.version import NEWEST, Versions
from replay.compare.accepted import AcceptedFacts
from replay.compare.api_version_use import ApiVersionUse
from replay.compare.authorization import AuthorizationSummary
from replay.compare.fidelity import Fidelity
from replay.compare.outage import Outage
from replay.compare.summary import Summary
from replay.compare.world_facts import WorldFacts
from replay.kube.admissionregistration import Origin

if TYPE_CHECKING:  # what other commands find out: `replay run` does not load it
    from replay.compare.audit_policy import AuditPolicy
    from replay.compare.coverage import Coverage, LogGrowth
    from replay.compare.in_force import EngineAgreement, Findings, UnknownPolicy
    from replay.prove.sets import PolicyProof


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
