"""What every worker needs to replay a part of the log, and the replaying of one part in a worker."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from replay.admission.chain import Chain
from replay.admission.decision import Decision
from replay.audit.event import RequestRecord
from replay.audit.part import StorePart
from replay.audit.selection import unselected
from replay.cellib.version import KubernetesVersion
from replay.compare.cascade import Creation, relevant
from replay.compare.fidelity import Fidelity
from replay.compare.summary import Summary
from replay.compare.workload import Owners
from replay.kube.admissionregistration import ManifestSet
from replay.kube.attributes import JSON
from replay.kube.lister import Lister
from replay.kube.schema import Schemas
from replay.matching.coarse import Predicate
from replay.pipeline.replayer import Replayer
from replay.reconstruct.before import Mutators
from replay.reconstruct.clock import RevisionClock
from replay.reconstruct.cluster import Cluster
from replay.reconstruct.reconstructor import Reconstructor
from replay.reconstruct.request import ReplayRequest
from replay.reconstruct.trust import Trust


class PartResult(NamedTuple):
    """What a worker hands back: numbers to add up, and a file with what must be put into order."""

    summary: Summary
    fidelity: Fidelity
    creations: list[Creation]
    spool: Path


@dataclass(frozen=True)
class Job:
    """The same for every part: the sets, what is known of the cluster, and where results go.

    `lookups` are the writes to the kinds that decisions look up, `revisions` the samples of the revision clock.
    """

    sets: tuple[ManifestSet, ManifestSet]
    version: KubernetesVersion
    snapshot: tuple[JSON, ...]
    lookups: tuple[RequestRecord, ...]
    revisions: tuple[tuple[int, int, int], ...]
    trust: Trust
    owners: Owners
    predicate: Predicate
    spool: Path
    with_lines: bool = False
    redact: bool = True

    @cached_property
    def cluster(self) -> Cluster:
        """The cluster over the time of the log."""
        return Cluster(self.snapshot, self.lookups, RevisionClock(self.revisions))

    @cached_property
    def chain(self) -> Chain:
        """The compiled sets; webhooks that both sets call are left out."""
        return Chain(
            without_shared_webhooks(self.sets), self.version, self.cluster.discovery, Schemas(self.cluster.crds)
        )

    @cached_property
    def reconstructor(self) -> Reconstructor:
        """What rebuilds requests, as far as these sets need them."""
        sets = without_shared_webhooks(self.sets)
        mutates = any(each.mutating_policies or each.mutating_webhooks for each in sets)
        mutators = Mutators.POLICIES if self.sets[0].mutating_policies else Mutators.WEBHOOKS
        return Reconstructor(self.cluster, self.trust, mutators, mutation=mutates)

    @cached_property
    def replayer(self) -> Replayer:
        """The stages joined; made once in each process."""
        chain = self.chain

        def decide(request: ReplayRequest, lister: Lister) -> list[Decision]:
            return chain.decide(request.before_mutation, request.attributes, lister)

        return Replayer(
            self.cluster,
            self.reconstructor,
            decide,
            self.owners,
            frozenset(policy.name for policy in self.sets[0].validating_policies),
            frozenset(policy.name for each in self.sets for policy in each.mutating_policies),
            with_lines=self.with_lines,
            redact=self.redact,
        )

    def run(self, part: StorePart) -> PartResult:
        """Replay one part; its outcomes go to a file of the spool, so that they need not fit in memory together."""
        outcomes = self.replayer.replay(part.objects(self.predicate))
        unread = unselected(part, self.predicate, only_failed=not self.with_lines)
        self.replayer.pass_over(unread, outcomes)
        outcomes.findings.sort(key=lambda pending: pending.place)
        outcomes.lines.sort(key=lambda line: line[0])
        spool = self.spool / f"part-{part.number:05}"
        with spool.open("wb") as file:
            pickle.dump(outcomes.findings, file, pickle.HIGHEST_PROTOCOL)
            pickle.dump(outcomes.lines, file, pickle.HIGHEST_PROTOCOL)
        return PartResult(outcomes.summary, outcomes.fidelity, relevant(outcomes.creations), spool)


def without_shared_webhooks(sets: tuple[ManifestSet, ManifestSet]) -> tuple[ManifestSet, ManifestSet]:
    """Both sets without the webhook configurations that they share.

    A webhook that both sets call answers both alike as far as anyone can tell without asking it, and what it did at the time
    stands in the recorded objects.
    """
    current, candidate = sets
    return _without(current, candidate), _without(candidate, current)


def _without(manifests: ManifestSet, other: ManifestSet) -> ManifestSet:
    return replace(
        manifests,
        validating_webhooks=tuple(w for w in manifests.validating_webhooks if w not in other.validating_webhooks),
        mutating_webhooks=tuple(w for w in manifests.mutating_webhooks if w not in other.mutating_webhooks),
    )
