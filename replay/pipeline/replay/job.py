"""The job of a worker: what one process builds of the inputs, each once, and the replay of one part."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, partial
from typing import NamedTuple

from replay.admission.chain import Chain
from replay.admission.decision import Decision
from replay.admission.ordered.registry import (
    has_mutators,
    names_decided_alike,
    policy_names,
    webhook_mutators,
)
from replay.admission.ordered.request_class import ClassQuestions
from replay.audit.part import StorePart
from replay.kube.admissionregistration import ManifestSet
from replay.kube.attributes import Operation
from replay.kube.lister import Lister
from replay.kube.overlay import objects_by_kind
from replay.pipeline.replay.difference import Difference, difference_of
from replay.pipeline.replay.job_inputs import JobInputs
from replay.pipeline.replay.kept_input import KeptRequest, rows_of
from replay.pipeline.replay.redaction import redacted_denials
from replay.pipeline.replay.replayer import (
    Decide,
    Replayer,
    as_far_as_reached,
)
from replay.pipeline.replay.server import Server, server_of
from replay.pipeline.replay.spool import PartResult, spooled
from replay.reconstruct.cluster import Cluster
from replay.reconstruct.reconstructor import Reconstructor, TolerantReconstructor
from replay.reconstruct.record.exchange import Exchange
from replay.reconstruct.request import ReplayRequest
from replay.reconstruct.server.builtin import REPRODUCED
from replay.reconstruct.server.default_class import DefaultClasses
from replay.world.before_log import StatesBeforeLog
from replay.world.decide import decide_again, decide_and_keep, with_logged_denial
from replay.world.judge import Judge
from replay.world.ledger import with_entry
from replay.world.request_adapter import COUNTED, RequestAdapter


class Job(JobInputs, frozen=True, dict=True):
    """Replay of parts with the same inputs: its server decides, its reconstructor rebuilds requests, its replayer joins both."""

    @cached_property
    def server(self) -> Server:
        """The server of the log, and who decides about its requests."""
        return server_of(self)

    @cached_property
    def cluster(self) -> Cluster:
        """The cluster over the time of the log."""
        return self.server.cluster

    @cached_property
    def difference(self) -> Difference | None:
        """The earlier candidate, to compare this one with."""
        if self.earlier is None:
            return None
        current, candidate = self.distinct_sets
        return difference_of(current, self.earlier, candidate, self.server.chain_of, self.versions.candidate)

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
            workspaces_of=self.server.workspaces_of,
            alike=self.decided_alike,
            keep=partial(decide_and_keep, chain) if self.keeps_requests and isinstance(chain, Chain) else None,
        )

    @cached_property
    def decided_alike(self) -> frozenset[str]:
        """The names of policies and plugins that decide about equal requests alike in both sets."""
        return self._decided_alike(self.distinct_sets[1])

    @cached_property
    def decided_alike_earlier(self) -> frozenset[str]:
        """The same names for the baseline and the earlier candidate."""
        return self._decided_alike(self.earlier) if self.earlier is not None else frozenset()

    def _decided_alike(self, candidate: ManifestSet) -> frozenset[str]:
        if self.versions.differ or self.workspaces is not None:
            return frozenset()
        current, authorizers = self.distinct_sets[0], self.authorizers
        is_seen_alike = (
            current.objects == candidate.objects
            and not candidate.removed
            and (authorizers is None or authorizers.sides[0] == authorizers.sides[1])
        )
        return names_decided_alike((current, candidate), self.version, with_lookups=is_seen_alike)

    @cached_property
    def judge(self) -> Judge:
        """The candidate's decisions for the walks. Its policies are also decided without those of the baseline."""
        return self.judging(self.replayer.decide, self._decide_candidate)

    def _decide_candidate(self, request: ReplayRequest, lister: Lister) -> Sequence[Decision]:
        backends = self.webhooks.backends(request)
        return self.server.candidate_chain.decide(request.before_mutation, request.attributes, lister, backends)

    def judging(self, decide_both: Decide, decide_candidate: Decide) -> Judge:
        """Return a judge with two functions: for the policies of both sets, and for those of the candidate only."""

        def decisions(request: ReplayRequest, lister: Lister) -> list[Decision]:
            made = as_far_as_reached(request, decide_both(request, lister))
            current, candidate = with_logged_denial(request.record, made, self.decided_alike)
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
            lambda: self.server.candidate_chain,
            decisions,
            decide_candidate,
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
        return StatesBeforeLog(self.judge, self.request_adapter, self.cluster, (current, candidate))

    @cached_property
    def request_adapter(self) -> RequestAdapter:
        """The builder of requests on objects that differ under the candidate."""
        # A name that does not occur in the text of the candidate is read by none of its policies.
        candidate = repr(self.distinct_sets[1])
        unread = frozenset(name for name in COUNTED if name not in candidate)
        return RequestAdapter(self.reconstructor, self.server.chain.patchers, unread)

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

    def compile(self) -> None:
        """Make all that `run_again` needs, for this process and those that are forked from it."""
        _ = self.replayer, self.difference, self.decided_alike_earlier

    def run_again(self, portion: KeptPortion) -> PartResult:
        """Replay requests that were kept as they reached the validating phase."""
        chain = self.server.chain
        assert isinstance(chain, Chain)
        kept_requests = (KeptRequest(row) for block in portion.blocks for row in rows_of(block))
        path = self.spool / f"{'differing' if portion.is_by_difference else 'again'}-{portion.number:05}"
        if not portion.is_by_difference:
            mutated_requests = (each.mutated for each in kept_requests)
            return spooled(self.replayer.replay_again(mutated_requests, partial(decide_again, chain)), path)
        difference = self.difference
        assert difference is not None
        differing = (each.mutated for each in kept_requests if not difference.is_alike(each, self.cluster))
        outcomes, earlier = self.replayer.replay_difference(differing, difference.decisions, self.decided_alike_earlier)
        return spooled(outcomes, path, earlier)


class KeptPortion(NamedTuple):
    """Blocks of kept requests that one worker replays together.

    `is_by_difference` replays only requests that an earlier candidate decides differently.
    """

    number: int
    blocks: list[bytes]
    is_by_difference: bool


class RunAgain(NamedTuple):
    """The task of replaying kept requests."""

    def run(self, job: Job, portion: KeptPortion) -> PartResult:
        """Return the result for one portion."""
        return job.run_again(portion)
