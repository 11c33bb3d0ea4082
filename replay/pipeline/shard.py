"""Replay of a kcp shard's log: its workspaces, all policies that any of them ever had, and the policies that decided.

Forensic commands use it to find the workspaces of requests and of policies.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

import orjson
from msgspec import Struct, field
from msgspec.structs import replace

from replay.admission.decision import Decision, Undetermined, Verdict
from replay.admission.webhook.plugin import Backends
from replay.audit.answer import VALIDATION_FAILURE
from replay.audit.store import Store
from replay.compare.presence import PolicyWrite, agreement_with_event, writes_to
from replay.kcp.shard.chain import ShardChain
from replay.kcp.shard.cluster import ShardCluster
from replay.kcp.shard.folder import WorkspaceNames
from replay.kcp.shard.planned import Workspaces
from replay.kube.admissionregistration import GROUP, RESOURCES, Sets
from replay.kube.attributes import Missing
from replay.kube.discovery import Discovery
from replay.kube.gvk import GroupResource
from replay.kube.lister import Lister
from replay.manifests.manifest_set import manifest_set_from_objects
from replay.pipeline.manifests import Manifests
from replay.pipeline.replay.distinct_set import only_named
from replay.reconstruct.cluster import Cluster
from replay.reconstruct.request import ReplayRequest
from replay.world.decide import decide

SHARD_LOOKUPS = (
    "apibindings.apis.kcp.io",
    "apiexports.apis.kcp.io",
    "apiresourceschemas.apis.kcp.io",
    "logicalclusters.core.kcp.io",
    "customresourcedefinitions.apiextensions.k8s.io",
    *(f"{name}.{GROUP}" for name in RESOURCES),
)
"""Kinds that determine whose policies decide, which policies exist, and which kinds exist."""


class Preparation(NamedTuple):
    """Sets, all known kinds, and the workspaces, None outside kcp."""

    sets: Sets
    discovery: Discovery
    workspaces: Workspaces | None = None
    policy_writes: tuple[PolicyWrite, ...] = ()
    """Objects of the baseline that the log creates and deletes, outside kcp."""


def prepare(store: Store, manifests: Manifests) -> Preparation:
    """Return a store's sets; for a shard, everything that its workspaces ever had.

    Raise ReplayError for one plain set with many workspaces.
    """
    rows = [(str(row[0]), str(row[1])) for row in store.answer("workspaces")]
    known = manifests.workspaces(rows)
    if known is None:
        written = writes_to(store, manifests.sets[0])
        return Preparation(manifests.sets, Cluster(manifests.snapshot).discovery, policy_writes=written)
    ((first, *_),) = store.answer("log_facts")
    workspaces = replace(
        known,
        log_start=int(first or 0),
        is_rehearsed=manifests.versions.differ or any(each.down for each in manifests.sets),
        only=manifests.only,
    )
    cluster = ShardCluster(manifests.snapshot, store.lookups(SHARD_LOOKUPS))
    chain = ShardChain(cluster, workspaces, manifests.versions, lambda sets: sets)
    current, candidate = (
        replace(
            manifest_set_from_objects((), chain.everything(planned=planned), origins=set_files.origins),
            down=set_files.down,
        )
        for planned, set_files in zip((False, True), manifests.sets, strict=True)
    )
    sets = (current, candidate)
    if manifests.only:
        sets = (only_named(current, manifests.only), only_named(candidate, manifests.only))
    return Preparation(sets, cluster.discovery, workspaces)


WorkspacePair = tuple[str, str]
"""Paths of the workspace of a request and of the workspace whose policies decide, empty if unknown."""
NO_WORKSPACE: WorkspacePair = ("", "")


class WorkspacePlaces(Struct):
    """Workspaces of a log's requests, by auditID, empty outside kcp."""

    by_audit_id: dict[str, WorkspacePair] = field(default_factory=dict)
    resources: Mapping[tuple[str, str, str], frozenset[WorkspacePair]] = field(default_factory=dict)
    """The workspace pairs of all requests, by logical cluster, group and resource."""

    def pair_for(self, audit_id: str) -> WorkspacePair:
        """Return the workspace in which a request was decided."""
        return self.by_audit_id.get(audit_id, NO_WORKSPACE)


def places_of(store: Store, manifests: Manifests, audit_ids: Collection[str] | None = None) -> WorkspacePlaces:
    """Return the workspaces of some requests, from log and snapshot; of all requests by default."""
    rows = [(str(row[0]), str(row[1])) for row in store.answer("workspaces")]
    if not rows or (audit_ids is not None and not audit_ids):
        return WorkspacePlaces()
    names = manifests.names(rows)
    cluster = ShardCluster(manifests.snapshot, store.lookups(SHARD_LOOKUPS))
    ids = None if audit_ids is None else frozenset(audit_ids)
    places_by_id: dict[str, WorkspacePair] = {}
    resources: dict[tuple[str, str, str], set[WorkspacePair]] = {}
    for audit_id, workspace, group, resource, start, end in store.query("request_workspaces").iter_rows():
        if ids is None or audit_id in ids:
            places_by_id[audit_id] = _place(cluster, names, workspace, (GroupResource(group, resource), start, end))
            resources.setdefault((workspace, group, resource), set()).add(places_by_id[audit_id])
    return WorkspacePlaces(places_by_id, {key: frozenset(places) for key, places in resources.items()})


def _place(
    cluster: ShardCluster, names: WorkspaceNames, workspace: str, change: tuple[GroupResource, int, int]
) -> WorkspacePair:
    own = cluster.policy_workspace(workspace, *change)
    return names.path(workspace), "" if isinstance(own, Missing) else names.path(own)


_OTHERS = "the event does not match the known policies of the workspace, and the log lacks events of that workspace"
_PARAMETERS = "the event does not match the known parameters, so the log lacks a write to them"
_CHANGING = "another request changed policies of the workspace at the same time, and the event does not show which were in force"


def in_force(chain: ShardChain, request: ReplayRequest, lister: Lister, backends: Backends) -> list[Decision]:
    """Return both sets' decisions about a logged request.

    A policy takes seconds to be in force, so the event chooses among possible sets. What it leaves open is
    undetermined.
    """
    if request.alternative is not None:
        return decide(chain, request, lister, backends)
    decisions = chain.alternatives(request.before_mutation, request.attributes, lister, backends)
    own = chain.policy_workspace(request.attributes, lister)
    is_followed = isinstance(own, Missing) or chain.is_followed(own)
    reading = chain.reading_parameters(request.attributes, lister)
    if len(decisions) == 1 and is_followed and not reading:
        return decisions[0]
    shown = [_shows(chain, request, each[0]) for each in decisions]
    if not any(shown):
        if not is_followed:
            return chain.undetermined(_OTHERS)
        if any(_shows(chain, request, each[0], apart=reading) for each in decisions):
            return chain.undetermined(_PARAMETERS)
    agreeing = [each for each, how in zip(decisions, shown, strict=True) if how == max(shown)]
    if all(each == agreeing[0] for each in agreeing[1:]):
        return agreeing[0]
    return [_open([each[side] for each in agreeing]) for side in range(len(agreeing[0]))]


def _shows(chain: ShardChain, request: ReplayRequest, decision: Decision, apart: frozenset[str] = frozenset()) -> int:
    """Return how well the event matches a set's decision: 2 fully, 1 as far as known, 0 not.

    Policies in `apart` are ignored.
    """
    comparable = _without(decision, apart) if apart else decision
    return agreement_with_event(request.record, comparable, chain.policies - apart)


def _without(decision: Decision, policies: frozenset[str]) -> Decision:
    """Return a decision without the denials and failures of some policies."""
    annotations = dict(decision.audit_annotations)
    failures = annotations.pop(VALIDATION_FAILURE, None)
    other_failures = [each for each in orjson.loads(failures or "[]") if each.get("policy") not in policies]
    other_annotations = (
        {**annotations, VALIDATION_FAILURE: orjson.dumps(other_failures).decode()} if other_failures else annotations
    )
    denials = tuple(each for each in decision.denials if each.policy not in policies)
    return replace(decision, denials=denials, audit_annotations=other_annotations)


def _open(decisions: list[Decision]) -> Decision:
    """Return the common part of several possible decisions."""
    if all(each == decisions[0] for each in decisions[1:]):
        return decisions[0]
    return Decision(Verdict.UNDETERMINED, undetermined=(Undetermined("", "", _CHANGING),))
