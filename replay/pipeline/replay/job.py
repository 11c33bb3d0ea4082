"""The inputs that every worker needs to replay a part of the log, and the replay of one part."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct, field

from replay.admission.chain import Chain
from replay.admission.decision import Decision
from replay.admission.ordered.registry import (
    has_mutators,
    policy_names,
    webhook_mutators,
)
from replay.admission.ordered.request_class import ClassQuestions
from replay.audit.part import StorePart
from replay.authorization.chains import Authorizers
from replay.cellib.version import KubernetesVersion, Versions
from replay.compare.subject import OWNER_LABEL, Owners
from replay.json import JSON
from replay.kcp.shard.planned import Workspaces
from replay.kube.admissionregistration import ManifestSet, Sets
from replay.kube.attributes import Operation
from replay.kube.gvk import GroupResource
from replay.kube.lister import Lister
from replay.kube.overlay import objects_by_kind
from replay.matching.coarse import Predicate
from replay.matching.rules import excluded_from_all
from replay.pipeline.replay.decide import decide_again, decide_keeping
from replay.pipeline.replay.difference import Difference, difference_of
from replay.pipeline.replay.distinct_set import distinct_sets
from replay.pipeline.replay.gate import OPEN, Gate
from replay.pipeline.replay.kept_input import met_request, rows_of
from replay.pipeline.replay.ledger import DecidedRequests, Entries, with_entry
from replay.pipeline.replay.presence import PolicyWrite
from replay.pipeline.replay.redaction import redacted_denials
from replay.pipeline.replay.replayer import (
    Decide,
    Replayer,
    as_far_as_reached,
)
from replay.pipeline.replay.server import Server, server_of
from replay.pipeline.replay.spool import PartResult, spooled
from replay.pipeline.replay.webhook import NO_WEBHOOK_ANSWERS, WebhookAnswers
from replay.reconstruct.cluster import Cluster, Writes
from replay.reconstruct.history.collection_deletion import Row
from replay.reconstruct.reconstructor import Reconstructor
from replay.reconstruct.record.exchange import Exchange
from replay.reconstruct.request import ReplayRequest
from replay.reconstruct.server.builtin import REPRODUCED
from replay.reconstruct.server.default_class import DefaultClasses, ShownClass
from replay.reconstruct.skew import TolerantReconstructor
from replay.reconstruct.trust import Trust
from replay.world.earlier import StatesBeforeLog
from replay.world.elsewhere import COUNTED, Elsewhere
from replay.world.judge import Judge


class Job(Struct, frozen=True, dict=True):
    """Inputs that are the same for every part: the sets, the cluster, and the place of results.

    `lookups` are the writes to looked-up kinds. `revisions` are the samples of the revision clock. `classes` are the
    default classes that the log shows. `deletions` are the rows about collection deletions. `began` is when the first
    request was received. `clock_error` is the largest difference between the clocks of API servers. Both are in
    microseconds.
    """

    sets: Sets
    versions: Versions
    """Server minors of both sets."""
    snapshot: tuple[JSON, ...]
    trust: Trust
    predicate: Predicate
    spool: Path
    with_lines: bool = False
    redact: bool = True
    owner_label: str = OWNER_LABEL
    clock_error: int = 0
    began: int = 0
    webhooks: WebhookAnswers = NO_WEBHOOK_ANSWERS
    lookups: Writes = field(default_factory=dict)
    revisions: tuple[tuple[int, int, int], ...] = ()
    owners: Owners = field(default_factory=dict)
    classes: tuple[ShownClass, ...] = ()
    deletions: tuple[Row, ...] = ()
    within: Predicate | None = None
    """Selection among the requests of `predicate`, None for all."""
    with_plugins: bool = False
    """A flag that built-in plugins run that both sets configure alike."""
    again: bool = False
    """A flag that plugins that both sets configure alike mutate objects again, although the log shows their mutations.
    """
    entries: Entries = field(default_factory=dict)
    """Decisions of plugins with state, by request."""
    decided: DecidedRequests = field(default_factory=DecidedRequests)
    gate: Gate = OPEN
    authorizers: Authorizers | None = None
    """Authorizers for the `authorizer` of policies, None if no set has authorization manifests."""
    policy_writes: tuple[PolicyWrite, ...] = ()
    """Objects of the baseline that the log creates and deletes."""
    keeps_met: bool = False
    """A flag that requests are kept as they reach the validating phase."""
    earlier: ManifestSet | None = None
    """The candidate of an earlier run, which differs in validating policies alone.

    It has the form of `distinct_sets`.
    """
    workspaces: Workspaces | None = None
    """Workspaces of kcp, None outside of kcp. With workspaces, `sets` hold all policies that any of them ever has."""

    @property
    def version(self) -> KubernetesVersion:
        """The minor of the server that wrote the log."""
        return self.versions.current

    @cached_property
    def excluded(self) -> frozenset[GroupResource]:
        """Resources for which neither set's server calls a policy or webhook."""
        return excluded_from_all(self.distinct_sets)

    @cached_property
    def server(self) -> Server:
        """The server of the log, and who decides about its requests."""
        return server_of(self)

    @cached_property
    def cluster(self) -> Cluster:
        """The cluster over the time of the log."""
        return self.server.cluster

    @cached_property
    def distinct_sets(self) -> Sets:
        """Both sets without the webhooks that both call alike and that have no source of answers."""
        return distinct_sets(self.sets, self.webhooks.names, with_plugins=self.with_plugins, again=self.again)

    @cached_property
    def difference(self) -> Difference | None:
        """The earlier candidate, to compare this one with."""
        if self.earlier is None:
            return None
        current, candidate = self.distinct_sets
        return difference_of(current, self.earlier, candidate, self.server.chain_of)

    @cached_property
    def reconstructor(self) -> Reconstructor:
        """The reconstructor of requests, which rebuilds the parts that these sets need."""
        mutators = self._policy_may_have_changed
        mutation = self.questions.may_be_mutated if self.mutates else False
        classes = DefaultClasses(self.classes, self._undone)
        plugins = frozenset(each.name for manifests in self.distinct_sets for each in manifests.builtin)
        if self.clock_error:
            return TolerantReconstructor(
                self.cluster, self.trust, mutators, mutation, classes, plugins, self.clock_error
            )
        return Reconstructor(self.cluster, self.trust, mutators, mutation, classes, plugins)

    @cached_property
    def replayer(self) -> Replayer:
        """The joined stages, created once in each process."""
        chain = self.server.chain
        return Replayer(
            self.cluster,
            self.reconstructor,
            self.server.decisions,
            self.server.mutations,
            self.owners,
            policy_names(self.distinct_sets[0]),
            self.mutators,
            self.server.schemas,
            with_lines=self.with_lines,
            redact=self.redact,
            gate=self.gate,
            owner_label=self.owner_label,
            where=self.server.where,
            keep=partial(decide_keeping, chain) if self.keeps_met and isinstance(chain, Chain) else None,
        )

    @cached_property
    def judge(self) -> Judge:
        """The candidate's decisions for the walks. Its policies are also decided without those of the baseline."""
        return self.judging(self.replayer.decide, self._decide_alone)

    def _decide_alone(self, request: ReplayRequest, lister: Lister) -> Sequence[Decision]:
        backends = self.webhooks.backends(request)
        return self.server.alone.decide(request.before_mutation, request.attributes, lister, backends)

    def judging(self, decide_both: Decide, decide_alone: Decide) -> Judge:
        """Return a judge with two functions: for the policies of both sets, and for those of the candidate only."""

        def decisions(request: ReplayRequest, lister: Lister) -> list[Decision]:
            current, candidate = as_far_as_reached(request, decide_both(request, lister))
            shown_decision = shown(request, candidate)
            # Equal decisions stay one object, because later stages compare by identity.
            return [shown_decision if current is candidate else current, shown_decision]

        def shown(request: ReplayRequest, decision: Decision) -> Decision:
            return redacted_denials(request, decision, redact=self.redact)

        def with_quotas(request: ReplayRequest, decision: Decision) -> Decision:
            entry = self.entries.get((request.record.seq, request.item))
            return decision if entry is None else with_entry([decision], entry[1:])[0]

        return Judge(
            self.server.decider,
            lambda: self.server.alone,
            decisions,
            decide_alone,
            self.webhooks.backends,
            self.server.schemas,
            self.questions.asks_candidate,
            self.questions.reads_places,
            self.questions.consults,
            shown,
            with_quotas,
        )

    @cached_property
    def before_log(self) -> StatesBeforeLog | None:
        """The finder of differences from before the log. None if no `--outcomes` are written."""
        if not self.with_lines:
            return None
        current, candidate = (objects_by_kind(each.objects) for each in self.distinct_sets)
        return StatesBeforeLog(self.judge, self.elsewhere, self.cluster, (current, candidate))

    @cached_property
    def elsewhere(self) -> Elsewhere:
        """The builder of requests on objects that differ under the candidate."""
        # A name that does not occur in the text of the candidate is read by none of its policies.
        candidate = repr(self.distinct_sets[1])
        unread = frozenset(name for name in COUNTED if name not in candidate)
        return Elsewhere(self.reconstructor, self.server.chain.patchers, unread)

    @cached_property
    def _undone(self) -> frozenset[str]:
        """The built-in plugins without effect on the object before mutation: those that run here, or that were off."""
        admitting = {each.name for manifests in self.distinct_sets for each in manifests.builtin if each.admits}
        on = {each.name for each in self.sets[0].builtin}
        off = {name for name in REPRODUCED if name not in on} if on else set()
        return frozenset((admitting | off) & REPRODUCED)

    @cached_property
    def questions(self) -> ClassQuestions:
        """The questions about classes of requests to both sets."""
        return ClassQuestions(self.distinct_sets, self.versions, self.cluster.discovery)

    def _policy_may_have_changed(self, exchange: Exchange, operation: Operation) -> bool:
        return self.questions.may_have_changed(exchange.record, operation)

    @property
    def mutates(self) -> bool:
        """Return whether objects before mutation are needed."""
        return any(has_mutators(each) for each in self.distinct_sets)

    @property
    def mutators(self) -> frozenset[str]:
        """The names of all mutating policies, and of configurations of webhooks with answers, as in decisions."""
        unseen = [name for each in self.distinct_sets for name in policy_names(each, mutating=True)]
        configurations = [name for each in self.distinct_sets for name in webhook_mutators(each)]
        return frozenset((*unseen, *(configurations if self.webhooks.names or self.webhooks.removed else ())))

    def run(self, part: StorePart) -> PartResult:
        """Replay one part. Outcomes go to a file of the spool, so that they need not fit in memory together."""
        replayer = self.replayer
        selection = part.selection(self.predicate, self.within, only_failed=not self.with_lines)
        outcomes = replayer.replay(selection.objects())
        replayer.pass_over(selection.others(), outcomes)
        self.webhooks.close()
        return spooled(outcomes, self.spool / f"part-{part.number:05}-{part.share.number}")

    def run_again(self, portion: MetPortion) -> PartResult:
        """Replay requests that were kept as they reached the validating phase."""
        chain = self.server.chain
        assert isinstance(chain, Chain)
        met_requests = (met_request(row) for block in portion.blocks for row in rows_of(block))
        path = self.spool / f"{'differing' if portion.is_by_difference else 'again'}-{portion.number:05}"
        if not portion.is_by_difference:
            return spooled(self.replayer.replay_again(met_requests, partial(decide_again, chain)), path)
        assert self.difference is not None
        outcomes, earlier = self.replayer.replay_difference(met_requests, self.difference.decisions)
        return spooled(outcomes, path, earlier)


class MetPortion(NamedTuple):
    """Blocks of kept requests that one worker replays together.

    `is_by_difference` replays only requests that an earlier candidate decides differently.
    """

    number: int
    blocks: list[bytes]
    is_by_difference: bool


class RunAgain(NamedTuple):
    """The task of replaying kept requests."""

    def run(self, job: Job, portion: MetPortion) -> PartResult:
        """Return the result for one portion."""
        return job.run_again(portion)
