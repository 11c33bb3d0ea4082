"""`replay mutations`: changes of objects between request and storage, and the mutators that made them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

from msgspec import Struct
from msgspec.structs import replace

from replay.admission.decision import Decision, Verdict
from replay.audit.answer import observe
from replay.audit.event import RequestRecord
from replay.audit.ingest import Progress
from replay.audit.part import StorePart
from replay.compare.attribution import (
    Actor,
    AttributedPaths,
    Attributions,
    ChangedBy,
    ChangedRequest,
    MutationsResult,
    Tokens,
    attributed,
)
from replay.compare.effect import patch_shape
from replay.compare.summary import with_workspace
from replay.go.format import parse_uint
from replay.json import JSON, FieldPath
from replay.kcp.mutation import BY_STORAGE, set_by_plugins
from replay.kube.admissionregistration import VIRTUAL_RESOURCES, ManifestSet
from replay.kube.attributes import Basis, Missing, PartialObject
from replay.kube.go_object import DecodeError
from replay.kube.json_patch import diff, tokens
from replay.matching.coarse import Predicate, both
from replay.pipeline.forensic.past import past_job
from replay.pipeline.log import store_of
from replay.pipeline.manifests import manifests_of
from replay.pipeline.options import Options
from replay.pipeline.project.focus import chosen
from replay.pipeline.replay.job import Job
from replay.pipeline.replay.redaction import redactor_of
from replay.pipeline.replay.workers import prepare_workers, replay_parts
from replay.pipeline.scenario import Scenario
from replay.pipeline.weekly.part import in_workspace
from replay.reconstruct.reconstructor import Reconstructor, Write
from replay.reconstruct.record.body import BodyShape
from replay.reconstruct.record.exchange import NOT_THE_OBJECT, Exchange
from replay.reconstruct.record.known import Known, attribute, differences, get
from replay.reconstruct.request import ReplayRequest
from replay.reconstruct.server.strategy import after_create, after_update, as_validated

_WRITES = Predicate(
    "verb in ('create', 'update', 'patch') and code between 200 and 299 and subresource not in "
    f"({', '.join('?' * len(NOT_THE_OBJECT))})",
    tuple(sorted(NOT_THE_OBJECT)),
)
_SYSTEM_FIELDS = frozenset(
    ("metadata", name)
    for name in (
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "resourceVersion",
        "managedFields",
        "selfLink",
        "name",
        "namespace",
    )
)
_ANSWERS = frozenset({("status",)})
"""Fields that a review's storage fills in. Nothing of it is stored."""


def mutations(scenario: Scenario, options: Options, progress: Progress) -> MutationsResult:
    """Attribute every change of a log. Raise ReplayError for unusable input."""
    prepare_workers(options)
    manifests = manifests_of(scenario)
    current = manifests.current or ManifestSet()
    mutating = current.only("mutating")
    with store_of(scenario, progress, options.fleet) as store:
        job = past_job(store, replace(manifests, current=mutating, candidate=None))
        work = MutationsJob(replace(job, within=chosen(store, options.focus)), redact=options.redact)
        attributions = Attributions()
        for part in replay_parts(work, store, options, progress):
            attributions.add(part)
    return MutationsResult(scenario.name, scenario.current.name if scenario.current else "", attributions)


class MutationsJob(Struct, frozen=True, dict=True):
    """The work of one worker."""

    job: Job
    redact: bool = True

    @cached_property
    def _reconstructor(self) -> Reconstructor:
        return replace(self.job.reconstructor, mutation=True)

    def run(self, part: StorePart) -> Attributions:
        """Return the changes in one part."""
        attributions = Attributions()
        for records in part.objects(both(_WRITES, self.job.within) if self.job.within is not None else _WRITES):
            for write in self._reconstructor.writes(records):
                self._count(write, attributions)
        return attributions

    def _count(self, write: Write, attributions: Attributions) -> None:
        exchange, request, _, body = write
        if isinstance(body, Missing):
            attributions.not_compared[body.reason] += 1
            return
        if exchange.shape is not BodyShape.OBJECT:
            attributions.not_compared["the response does not show the object"] += 1
            return
        attributions.compared += 1
        stored = as_validated(Known(exchange.response.json, Basis.RECORDED), exchange).value
        holes = [tuple(map(str, hole.path)) for hole in body.holes]
        # What is unknown of the body cannot be compared.
        operations = [each for each in diff(body.value, stored) if not _is_below(tokens(each["path"]), holes)]
        decision = self._decision(exchange, request, body)
        home = self.job.server.workspaces_of(request.record).policies
        claims = [*_webhook_claims(request.record, home), *_policy_claims(decision, stored, attributions, home)]
        claims += self._server_claims(write, body, operations)
        claims += _shard_claims(request.record, body.value, stored)
        changes = attributed(operations, claims)
        attributions.changed += any(actor is not Actor.SERVER for actor, _ in changes)
        for (actor, name), patch in changes.items():
            self._keep(exchange, request, _named(actor, name, request.record, decision), patch, attributions)

    def _decision(self, exchange: Exchange, request: ReplayRequest, body: Known) -> Decision:
        """Return the decision of the baseline's mutating policies. A patch is applied first."""
        original = request.before_mutation
        if isinstance(original, Missing) or exchange.record.verb == "patch":
            original = replace(request.attributes, object=attribute(body, "object"))
        lister = self.job.cluster.at(request.record)
        return self.job.server.chain.decide(original, request.attributes, lister)[0]

    def _server_claims(self, write: Write, body: Known, operations: Sequence[JSON]) -> Iterator[AttributedPaths]:
        """Yield changes by plugins, defaults, strategies and storage, and values that an update keeps."""
        exchange, original = write.exchange, write.request.before_mutation
        if exchange.record.verb != "patch" and not isinstance(original, Missing):
            plugged = original.object.value if isinstance(original.object, PartialObject) else original.object
            yield AttributedPaths(
                Actor.PLUGIN, "", frozenset(tokens(each["path"]) for each in diff(body.value, plugged))
            )
        old = write.old
        if isinstance(old, Known) and old.value is None:
            after = after_create(body, exchange, self.job.cluster.discovery.resource(exchange.resource))
        else:
            after = after_update(body, old, exchange)
        paths = {tuple(map(str, path)) for path in differences(body.value, after.value)}
        paths |= {tuple(map(str, hole.path)) for hole in after.holes}
        kept_paths = {path for path in (tokens(each["path"]) for each in operations) if _is_kept(path, old, exchange)}
        answers = _ANSWERS if exchange.resource.group_resource in VIRTUAL_RESOURCES else frozenset()
        yield AttributedPaths(
            Actor.SERVER, "", _SYSTEM_FIELDS | answers | paths | kept_paths | self._defaulted(exchange, body)
        )

    def _defaulted(self, exchange: Exchange, body: Known) -> frozenset[Tokens]:
        """Return the fields that decoding and defaulting set in a patch's object.

        Other bodies are recorded after defaulting.
        """
        if exchange.kind is None or exchange.record.verb != "patch":
            return frozenset()
        patcher = self.job.server.chain.patchers.patcher_for(exchange.kind, self.job.cluster.at(exchange.record))
        if patcher is None:
            return frozenset()
        try:
            settled = patcher.settle(body.value)
        except DecodeError:
            return frozenset()
        return frozenset(tokens(each["path"]) for each in diff(body.value, settled))

    def _keep(
        self,
        exchange: Exchange,
        request: ReplayRequest,
        who: tuple[Actor, str],
        patch: tuple[JSON, ...],
        attributions: Attributions,
    ) -> None:
        record, attributes = request.record, request.attributes
        resource = str(attributes.resource.group_resource)
        resource = f"{resource}/{record.subresource}" if record.subresource else resource
        shown = redactor_of(request, redact=self.redact).patch(patch)
        # The server changes almost every object, so its changes are counted without their form.
        shape = () if who[0] is Actor.SERVER else tuple(sorted(patch_shape(patch)))
        example = ChangedRequest(
            record.seq,
            record.audit_id,
            attributes.operation,
            in_workspace(self.job.server.workspaces_of(record).workspace, attributes.namespace),
            attributes.name,
            record.user.username,
            shown if who[0] is not Actor.SERVER else (),
        )
        attributions.count(ChangedBy(*who, resource if exchange.kind else record.resource, shape), example)


def _webhook_claims(record: RequestRecord, home: str) -> Iterator[AttributedPaths]:
    """Yield the patches in the annotations. `home` is the kcp workspace of the webhooks and policies."""
    for entry in observe(record).mutations:
        if entry.mutated and entry.patch is not None:
            paths = (operation.get("path") for operation in entry.patch if isinstance(operation, dict))
            (webhook,) = with_workspace([entry.webhook], home)
            yield AttributedPaths(Actor.WEBHOOK, webhook, frozenset(_without_dash(path) for path in paths if path))


def _policy_claims(
    decision: Decision, stored: JSON, attributions: Attributions, home: str
) -> Iterator[AttributedPaths]:
    """Yield changes by the baseline's policies that the stored object shows."""
    for entry in decision.mutated:
        shown = [each for each in entry.patch if _is_shown(each, stored)]
        (policy,) = with_workspace([entry.policy], home)
        if len(shown) < len(entry.patch):
            attributions.unseen[policy] += 1
        yield AttributedPaths(Actor.POLICY, policy, frozenset(tokens(each["path"]) for each in shown))


def _shard_claims(record: RequestRecord, body: JSON, stored: JSON) -> Iterator[AttributedPaths]:
    """Yield kcp's own changes of a workspace's object."""
    if record.workspace:
        yield AttributedPaths(Actor.PLUGIN, "", frozenset(set_by_plugins(record.api_group, body, stored)))
        yield AttributedPaths(Actor.SERVER, "", frozenset({BY_STORAGE}))


def _named(actor: Actor, name: str, record: RequestRecord, decision: Decision) -> tuple[Actor, str]:
    """Return the actor. An unknown one gets the known details."""
    if actor is not Actor.UNKNOWN:
        return actor, name
    silent = [each.webhook for each in observe(record).mutations if each.mutated and each.patch is None]
    if silent:
        return actor, f"{', '.join(dict.fromkeys(silent))} changed the object, and the log does not have the patch"
    if decision.verdict is Verdict.UNDETERMINED:
        policies = ", ".join(dict.fromkeys(each.policy for each in decision.undetermined))
        return actor, f"the effect of {policies} on the object is not known"
    return actor, "neither a webhook annotation nor a policy of the baseline explains the change"


def _is_shown(operation: JSON, stored: JSON) -> bool:
    """Return whether the stored object has the result of an operation."""
    value = get(stored, _path(tokens(operation["path"])))
    return value is None if operation["op"] == "remove" else value == operation.get("value")


def _is_kept(path: Tokens, old: Known | Missing, exchange: Exchange) -> bool:
    """Return whether an update kept the stored value at a path."""
    if isinstance(old, Missing):
        return False
    at = _path(path)
    value = get(old.value, at)
    return value is not None and value == get(exchange.response.json, at)


def _path(names: Tokens) -> FieldPath:
    """Return a path with numbers as indices."""
    indices = [(name, parse_uint(name)) for name in names]
    return tuple(name if index is None else index for name, index in indices)


def _is_below(path: Tokens, holes: Sequence[Tokens]) -> bool:
    return any(path[: len(hole)] == hole for hole in holes)


def _without_dash(path: str) -> Tokens:
    """Return an operation's path. An append to a list counts for the list."""
    steps = tokens(path)
    return steps[:-1] if steps[-1:] == ("-",) else steps
