"""The server that wrote the log, and who decides about its requests: one chain, the chain of that time, or those of workspaces.

Its kind is chosen once, by `server_of`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import NamedTuple

from msgspec.structs import replace

from replay.admission.chain import Chain, Decider
from replay.admission.decision import Decision
from replay.admission.ordered.registry import ALL_ORDERED_PLUGINS, looked_up_resources, policy_names
from replay.admission.reads import AUTHORIZER
from replay.audit.event import RequestRecord
from replay.audit.store import Store
from replay.authorization.chains import Chains, policy_authorizer, view_of_set
from replay.cellib.version import KubernetesVersion
from replay.compare.presence import Name, TimedChain, best_shown, without
from replay.errors import ReplayError
from replay.kcp.binding import NO_WORKSPACE, DecidedIn
from replay.kcp.shard.chain import ShardChain
from replay.kcp.shard.cluster import ShardCluster
from replay.kcp.shard.planned import Workspaces
from replay.kube.admissionregistration import ManifestSet, Sets
from replay.kube.attributes import Missing
from replay.kube.authorizer import Authorizer
from replay.kube.discovery import Discovery
from replay.kube.lister import Lister
from replay.kube.rbac_authorizer import RBACAuthorizer
from replay.kube.schema import Schemas
from replay.pipeline.replay.distinct_set import distinct_sets, only_named
from replay.pipeline.replay.job_inputs import JobInputs
from replay.pipeline.shard import SHARD_LOOKUPS, in_force
from replay.reconstruct.cluster import Cluster
from replay.reconstruct.history.clock import RevisionClock
from replay.reconstruct.history.collection_deletion import CollectionDeletions
from replay.reconstruct.reconstructor import widened, widened_samples
from replay.reconstruct.request import ReplayRequest
from replay.reconstruct.server.default_class import kinds_without_default
from replay.world.decide import decide
from replay.world.ledger import with_entry


class RequestChain(NamedTuple):
    """The chain that decides one request, its lookups, and its sets."""

    chain: Chain
    lister: Lister
    sets: Sets


class Server:
    """Server with the same policies for all requests of the log. `reads_rbac` says that policies ask RBAC objects."""

    reads_rbac = True

    def __init__(self, job: JobInputs) -> None:
        """Compile nothing yet."""
        self._job = job

    @cached_property
    def cluster(self) -> Cluster:
        """The cluster over the time of the log."""
        job = self._job
        without_default = kinds_without_default(job.classes, {each.name for each in job.sets[0].builtin})
        return Cluster(job.snapshot, job.lookups, *self._history, without_default)

    @property
    def _history(
        self,
    ) -> tuple[RevisionClock, Callable[[RequestRecord], RequestRecord] | None, CollectionDeletions]:
        """The clock of revisions, what widens the times of a record, and the deletions of collections."""
        job = self._job
        clock = RevisionClock(widened_samples(job.revisions, job.clock_error))
        timed = partial(widened, error=job.clock_error) if job.clock_error else None
        return clock, timed, CollectionDeletions(job.deletions, job.clock_error)

    def looked_up(self, store: Store) -> set[str]:
        """Return the resources that plugins read from the cluster, as `resource.group`, before its history is known."""
        del store
        return _looked_up(self._job.distinct_sets, Cluster(self._job.snapshot).discovery)

    @cached_property
    def schemas(self) -> Schemas:
        """The known fields of each kind."""
        return Schemas(self.cluster.crds)

    @cached_property
    def chain(self) -> Chain | ShardChain:
        """The compiled sets, without webhooks that both sets call and that have no source of answers."""
        return self.chain_of(self._job.distinct_sets)

    @property
    def decider(self) -> Decider:
        """Who decides requests of the log."""
        return self.chain

    @cached_property
    def candidate_chain(self) -> Decider:
        """The candidate's policies with an empty baseline."""
        return self.chain_of(_without_baseline(self._job.distinct_sets))

    def workspaces_of(self, record: RequestRecord) -> DecidedIn:
        """Return the kcp workspaces of a request, none outside kcp."""
        del record
        return NO_WORKSPACE

    def decisions(self, request: ReplayRequest, lister: Lister) -> list[Decision]:
        """Return both sets' decisions about a request of the log, with the objects that were in force at its time."""
        job = self._job
        place, backends = (request.record.seq, request.item), job.webhooks.backends(request)
        known = job.decided.get(place) if not backends else None
        decisions = decide(self.chain, request, lister, backends) if known is None else list(known)
        entry = job.entries.get(place)
        return decisions if entry is None else with_entry(decisions, entry)

    def mutations(self, request: ReplayRequest, lister: Lister) -> list[Decision]:
        """Return the mutating decisions of both sets about a request that did not pass the mutating phase."""
        if request.alternative is not None:
            return self.decisions(request, lister)
        backends = self._job.webhooks.backends(request)
        return self._last_chain(lister).mutated(request.before_mutation, request.attributes, lister, backends)

    def _last_chain(self, lister: Lister) -> Chain:
        """Return the chain at the end of a lister's time."""
        del lister
        assert isinstance(self.chain, Chain)
        return self.chain

    def chain_at(self, request: ReplayRequest, lister: Lister) -> RequestChain:
        """Return the chain that decides a request. Raise ReplayError if it is not known."""
        del request
        return RequestChain(self._last_chain(lister), lister, self._job.sets)

    def chain_of(self, sets: Sequence[ManifestSet]) -> Chain:
        """Return the chain of compiled sets."""
        job = self._job
        own = view_of_set if job.authorizers is not None and self._asks_authorizers(sets) else None
        return Chain(
            sets,
            job.version,
            self.cluster.discovery,
            self.schemas,
            authorizer=self.authorizer,
            view_of_set=own,
            versions=self._versions_of(sets),
        )

    @cached_property
    def authorizer(self) -> Callable[[Lister], Authorizer | Missing]:
        """The authorizer of policies for a lister's time."""
        job = self._job
        if job.authorizers is None:
            return RBACAuthorizer
        sides, answers = job.authorizers.sides, job.authorizers.answers
        return policy_authorizer(Chains(self.cluster, sides, answers, job.versions, log_start=job.log_start))

    def _versions_of(self, sets: Sequence[ManifestSet]) -> Sequence[KubernetesVersion]:
        """Return the minors of the servers of sets: the baseline, then candidates."""
        versions = self._job.versions
        return (versions.current, *[versions.candidate] * (len(sets) - 1))

    def _asks_authorizers(self, sets: Sequence[ManifestSet]) -> bool:
        """Return whether decisions may depend on each set's own authorizers.

        If not, shared policies are decided once for both.
        """
        assert self._job.authorizers is not None
        current, candidate = self._job.authorizers.sides
        if current == candidate and not any(manifests.objects or manifests.removed for manifests in sets):
            return False
        return any(
            AUTHORIZER in reads.inputs
            for manifests, version in zip(sets, self._versions_of(sets), strict=True)
            for plugin in ALL_ORDERED_PLUGINS
            for reads in plugin.reads(manifests, version)
        )


def _looked_up(sets: Sequence[ManifestSet], discovery: Discovery) -> set[str]:
    resources = (each.resource for each in looked_up_resources(sets, discovery))
    return {f"{resource.resource}.{resource.group}".removesuffix(".") for resource in resources}


def _without_baseline(sets: Sets) -> Sets:
    # The baseline's objects stay. They are part of the cluster and deny nothing.
    return ManifestSet(objects=sets[0].objects), sets[1]


class ChangingServer(Server):
    """Server whose policies the log creates or deletes. Those that existed decide a request."""

    @cached_property
    def decider(self) -> TimedChain:
        """See `Server.decider`."""
        return self._timed(self._sets_without)

    @cached_property
    def candidate_chain(self) -> TimedChain:
        """See `Server.candidate_chain`."""
        whole = self._job.distinct_sets
        return self._timed(lambda names: (_without_baseline(whole)[0], self._sets_without(names)[1]))

    def _timed(self, sets: Callable[[frozenset[Name]], Sets]) -> TimedChain:
        job = self._job
        return TimedChain(job.sets[0], job.policy_writes, lambda names: self.chain_of(sets(names)))

    def _sets_without(self, names: frozenset[Name]) -> Sets:
        """Return the parts of both sets that run while some objects do not exist."""
        job = self._job
        sets = without(job.sets, names) if names else job.sets
        return distinct_sets(sets, job.webhooks.names, with_plugins=job.with_plugins, mutates_again=job.mutates_again)

    def decisions(self, request: ReplayRequest, lister: Lister) -> list[Decision]:
        """See `Server.decisions`. The event shows which objects were in force while they were written."""
        job = self._job
        backends = job.webhooks.backends(request)
        alternatives = [decide(each, request, lister, backends) for each in self.decider.chains(lister)]
        decisions = best_shown(request.record, alternatives, policy_names(job.distinct_sets[0]))
        entry = job.entries.get((request.record.seq, request.item))
        return decisions if entry is None else with_entry(decisions, entry)

    def chain_at(self, request: ReplayRequest, lister: Lister) -> RequestChain:
        """See `Server.chain_at`."""
        del request
        names = self.decider.absent(lister)[-1]
        return RequestChain(self.decider.chain(names), lister, without(self._job.sets, names))

    def _last_chain(self, lister: Lister) -> Chain:
        return self.decider.chains(lister)[-1]


class Shard(Server):
    """Shard of kcp. The policies of one workspace decide a request, without RBAC objects."""

    reads_rbac = False

    def __init__(self, job: JobInputs, workspaces: Workspaces) -> None:
        """Compile nothing yet."""
        super().__init__(job)
        self._workspaces = workspaces

    @cached_property
    def cluster(self) -> ShardCluster:
        """See `Server.cluster`."""
        return ShardCluster(self._job.snapshot, self._job.lookups, *self._history)

    def looked_up(self, store: Store) -> set[str]:
        """See `Server.looked_up`."""
        cluster = ShardCluster(self._job.snapshot, store.lookups(SHARD_LOOKUPS))
        return super().looked_up(store) | {*SHARD_LOOKUPS, *_looked_up(self._job.distinct_sets, cluster.discovery)}

    @cached_property
    def chain(self) -> ShardChain:
        """See `Server.chain`."""
        return self._chain(lambda sets: sets)

    @cached_property
    def candidate_chain(self) -> ShardChain:
        """See `Server.candidate_chain`."""
        return self._chain(lambda sets: (ManifestSet(), sets[1]))

    def _chain(self, chosen: Callable[[Sets], Sets]) -> ShardChain:
        """Return the chains of all workspaces, each with what is chosen of the sets that run."""
        job, only = self._job, self._workspaces.only

        def distinct(sets: Sets) -> Sets:
            current, candidate = (replace(each, down=own.down) for each, own in zip(sets, job.sets, strict=True))
            named = (only_named(current, only), only_named(candidate, only)) if only else (current, candidate)
            return chosen(distinct_sets(named, job.webhooks.names))

        return ShardChain(self.cluster, self._workspaces, job.versions, distinct, policy_names(job.distinct_sets[0]))

    def workspaces_of(self, record: RequestRecord) -> DecidedIn:
        """See `Server.workspaces_of`."""
        return self.chain.workspaces_of(record)

    def decisions(self, request: ReplayRequest, lister: Lister) -> list[Decision]:
        """See `Server.decisions`."""
        return in_force(self.chain, request, lister, self._job.webhooks.backends(request))

    def mutations(self, request: ReplayRequest, lister: Lister) -> list[Decision]:
        """See `Server.mutations`."""
        return self.decisions(request, lister)

    def chain_at(self, request: ReplayRequest, lister: Lister) -> RequestChain:
        """See `Server.chain_at`."""
        chains = self.chain.chains(request.attributes, lister)
        if isinstance(chains, Missing):
            raise ReplayError(f"nothing can be explained: {chains.reason}")
        return RequestChain(chains[-1].chain, chains[-1].lister, chains[-1].sides)


def server_of(job: JobInputs) -> Server:
    """Return the server of a job's log."""
    if job.workspaces is not None:
        return Shard(job, job.workspaces)
    return ChangingServer(job) if job.policy_writes else Server(job)
