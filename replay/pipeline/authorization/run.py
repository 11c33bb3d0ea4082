"""Authorization as a part of `replay run`: the sets' authorizers, and all requests of a store replayed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path

from msgspec import Struct

from replay.audit.event import RequestRecord
from replay.audit.place import LogPosition
from replay.audit.store import Store
from replay.authorization.chain import DEFAULT_CONFIGURATION
from replay.authorization.chains import AuthorizationSide, Chains, asks_graph, sides, webhook_names
from replay.authorization.diff import diff_authorization
from replay.authorization.manifest import dangling_bindings
from replay.authorization.question import attributes_from_uri
from replay.authorization.start import configuration_of_mode
from replay.authorization.trace import Authorization
from replay.authorization.webhook import (
    AuthorizerAnswers,
    NamedAnswers,
    RecordedAnswers,
    answer_records,
    recorded_answers,
)
from replay.cellib.version import Versions
from replay.compare.authorization import AuthorizationSummary
from replay.errors import ReplayError
from replay.kube.authorizer import AuthorizationAttributes
from replay.kube.rbac import RBAC_KINDS, RBAC_RESOURCES
from replay.manifests.object_diff import ObjectDiff
from replay.pipeline.authorization.replay import (
    AuthorizationReplay,
    AuthorizedRequest,
    read_questions,
    summarized,
    with_authorization,
)
from replay.pipeline.manifests import Manifests
from replay.pipeline.options import Options
from replay.pipeline.replay.job import Job
from replay.pipeline.replay.preparation import looked_up, revisions
from replay.reconstruct.cluster import Cluster
from replay.reconstruct.history.clock import RevisionClock
from replay.reconstruct.history.collection_deletion import CollectionDeletions
from replay.reconstruct.reconstructor import widened_samples
from replay.webhook.client import AuthorizerEndpoint
from replay.world.decide import Gate

_WEBHOOK_OPTION = "--webhook"
_GRAPH_RESOURCES = (
    "pods",
    "persistentvolumes",
    "volumeattachments.storage.k8s.io",
    "resourceslices.resource.k8s.io",
    "podcertificaterequests.certificates.k8s.io",
)
_GRAPH_NAMES = frozenset(name.partition(".")[0] for name in _GRAPH_RESOURCES)


class AuthorizationInputs(Struct, frozen=True):
    """The authorizers of both sets, and the sources of their webhooks' answers."""

    sides: tuple[AuthorizationSide, AuthorizationSide]
    answers: NamedAnswers
    versions: Versions
    warnings: tuple[str, ...] = ()

    @property
    def webhooks(self) -> frozenset[str]:
        """The names of the webhooks of both chains."""
        return frozenset(webhook_names(side.configuration for side in self.sides))


class Authorized(Struct, frozen=True):
    """All requests of a store with both chains' decisions."""

    replayed: AuthorizationReplay
    summary: AuthorizationSummary
    gate: Gate

    def lines(self, lines: Iterable[tuple[LogPosition, bytes]]) -> Iterator[tuple[LogPosition, bytes]]:
        """See `lines_with_authorization`."""
        return lines_with_authorization(lines, self.replayed)


def authorization_inputs(manifests: Manifests, options: Options) -> AuthorizationInputs | None:
    """Return both chains and their webhook answers, None if neither set has authorization manifests.

    Raise ReplayError for an unknown mode, and for unusable answers.
    """
    both_sides = manifests.authorization
    if all(each.is_empty for each in both_sides):
        return None
    mode = options.authorization_mode
    both = sides(both_sides, configuration_of_mode(mode) if mode else DEFAULT_CONFIGURATION)
    timeouts = webhook_names(side.configuration for side in both)
    answers = named_answers([option for option in options.webhooks if option.partition("=")[0] in timeouts], timeouts)
    cluster = Cluster(manifests.snapshot)
    there = [key[1:] for kind in RBAC_KINDS for key in cluster.keys(kind)]
    warnings = (
        f"{each.path}: {warning}" for each in both_sides for warning in dangling_bindings(each.rbac or (), there)
    )
    return AuthorizationInputs(both, answers, manifests.versions, tuple(dict.fromkeys(warnings)))


def named_answers(options: Sequence[str], timeouts: Mapping[str, int]) -> NamedAnswers:
    """Return the answers that options name. `timeouts` are the timeouts of the chains' webhooks by name.

    A file in several options is read once. Raise ReplayError for an invalid option, an unknown or repeated name, and an
    unusable file or URL.
    """
    by_name: dict[str, AuthorizerAnswers] = {}
    files: dict[str, RecordedAnswers] = {}
    for option in options:
        name, separator, target = option.partition("=")
        if not separator or not name or not target:
            raise ReplayError(f"`{option}` is neither NAME=FILE nor NAME=URL", path=_WEBHOOK_OPTION)
        if name not in timeouts:
            there_are = ", ".join(f"`{each}`" for each in sorted(timeouts)) or "none"
            raise ReplayError(f"neither chain has a webhook `{name}`; there are: {there_are}", path=_WEBHOOK_OPTION)
        if name in by_name:
            raise ReplayError(f"`{name}` is given twice", path=_WEBHOOK_OPTION)
        if "://" in target:
            by_name[name] = AuthorizerEndpoint(target, timeouts[name] / 1e9)
            continue
        if target not in files:
            files[target] = recorded_answers(answer_records(Path(target)))
        by_name[name] = files[target]
    return NamedAnswers(by_name)


def authorization_changes(manifests: Manifests, inputs: AuthorizationInputs | None) -> list[ObjectDiff]:
    """Return the candidate's changes of the chain and of RBAC, without a log."""
    return diff_authorization(*manifests.authorization, DEFAULT_CONFIGURATION) if inputs is not None else []


def replay_authorization(store: Store, inputs: AuthorizationInputs, job: Job) -> Authorized:
    """Replay every request of a store with both chains. `job` has the history of the log."""
    questions = read_questions(store)
    replayed = AuthorizationReplay(store, chains_of(store, inputs, job, questions.values()), questions, job.within)
    summary, gate = summarized(replayed)
    summary.warnings = inputs.warnings
    summary.unused = tuple(replayed.chains.unused_bindings())
    return Authorized(replayed, summary, gate)


def chains_of(
    store: Store, inputs: AuthorizationInputs, job: Job, questions: Collection[AuthorizationAttributes]
) -> Chains:
    """Return the chains of both sets over the time of a store, for some questions. `job` has the history of the log."""
    if not any(map(asks_graph, questions)):
        return Chains(job.cluster, inputs.sides, inputs.answers, inputs.versions, log_start=job.log_start)
    job, lookups = looked_up(store, job, {*map(str, RBAC_RESOURCES), *_GRAPH_RESOURCES})
    clock = RevisionClock(widened_samples(revisions(store, job), job.clock_error))
    writes = [record for key, lookup in lookups.items() if key.resource in _GRAPH_NAMES for record in lookup]
    deletions = CollectionDeletions(job.deletions, job.clock_error)
    cluster = Cluster(job.snapshot, lookups, clock, deletions=deletions)
    return Chains(cluster, inputs.sides, inputs.answers, inputs.versions, writes, job.log_start)


def authorized_request(
    store: Store, inputs: AuthorizationInputs, job: Job, record: RequestRecord
) -> tuple[Authorization, Authorization]:
    """Return both chains' decisions about one request."""
    attributes = attributes_from_uri(record.user, record.verb, record.request_uri)
    chains = chains_of(store, inputs, job, [attributes])
    state = chains.state_of(record.received, record.stage_time, with_graph=asks_graph(attributes))
    current, candidate = chains.at(record.received, record.stage_time, state)
    return current.decide(attributes), candidate.decide(attributes)


def lines_with_authorization(
    lines: Iterable[tuple[LogPosition, bytes]], replayed: AuthorizationReplay
) -> Iterator[tuple[LogPosition, bytes]]:
    """Yield the lines of `--outcomes` with the authorizers' decisions.

    They include lines for requests that admission never sees.
    """
    admitted = groupby(lines, key=lambda line: line[0].seq)
    following = next(admitted, None)
    for seq, requests in groupby(replayed.requests(), key=lambda request: request.seq):
        own: dict[str, list[tuple[LogPosition, bytes]]] = {}
        if following is not None and following[0] == seq:
            for place, line in following[1]:
                own.setdefault(_audit_id(line), []).append((place, line))
            following = next(admitted, None)
        for request in requests:
            yield from _completed(request, own.get(request.audit_id, []), replayed)


def _completed(
    request: AuthorizedRequest, lines: Sequence[tuple[LogPosition, bytes]], replayed: AuthorizationReplay
) -> Iterator[tuple[LogPosition, bytes]]:
    if not lines:
        yield LogPosition(request.seq, 0), replayed.line(request)
    for place, line in lines:
        yield place, with_authorization(line, replayed.authorization_json(request))


def _audit_id(line: bytes) -> str:
    """Return the audit ID of a line, which is its first value (`outcome_line`)."""
    return line.split(b'"', 4)[3].decode()
