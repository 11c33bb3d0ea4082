"""The inputs that every worker needs to replay a part of the log: plain data, which is sent to each process once."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

from msgspec import Struct, field

from replay.authorization.chains import Authorizers
from replay.cellib.version import KubernetesVersion, Versions
from replay.compare.presence import PolicyWrite
from replay.compare.subject import OWNER_LABEL, Owners
from replay.json import JSON
from replay.kcp.shard.planned import Workspaces
from replay.kube.admissionregistration import ManifestSet, Sets
from replay.kube.gvk import GroupResource
from replay.matching.coarse import Predicate
from replay.matching.rules import excluded_from_all
from replay.pipeline.replay.distinct_set import distinct_sets
from replay.pipeline.replay.webhook import NO_WEBHOOK_ANSWERS, WebhookAnswers
from replay.reconstruct.cluster import Writes
from replay.reconstruct.history.collection_deletion import Row
from replay.reconstruct.server.default_class import ShownClass
from replay.reconstruct.trust import Trust
from replay.world.decide import OPEN, Gate
from replay.world.ledger import DecidedRequests, Entries


class JobInputs(Struct, frozen=True, dict=True):
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
    log_start: int = 0
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
    mutates_again: bool = False
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
    keeps_requests: bool = False
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
    def distinct_sets(self) -> Sets:
        """Both sets without the webhooks that both call alike and that have no source of answers."""
        return distinct_sets(
            self.sets, self.webhooks.names, with_plugins=self.with_plugins, mutates_again=self.mutates_again
        )
