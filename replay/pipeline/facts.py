"""Facts about a run that are no decisions: the log, the manifest sets, and irregularities of log and snapshot.

For sets that move to static manifests, and for upgrades, they also tell what decisions do not show.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import orjson

from replay.admission.webhook.webhooks import match_resources
from replay.audit.reject import EXPLANATIONS, RejectReason
from replay.audit.segment import IngestReport
from replay.audit.store import Store
from replay.cellib.version import Versions
from replay.compare.result import ApiVersionUse, LogFacts, Service, SetFacts, service_of
from replay.kube.admissionregistration import (
    GROUP,
    POLICY_KINDS,
    ManifestSet,
    MatchResources,
    Origin,
    Sets,
)
from replay.kube.discovery import Discovery, builtin_discovery
from replay.kube.engine_policy import policy_names
from replay.kube.gvk import GroupResource, GroupVersionResource
from replay.kube.lifecycle import LIFECYCLES
from replay.kube.lister import ObjectKey
from replay.manifests.diff import diff_sets, moved_names
from replay.manifests.object_diff import Verb
from replay.matching.coarse import CoarseClass, may_select
from replay.matching.rules import EquivalentResourceMapper, excluded_from_all
from replay.pipeline.replay.job import Job
from replay.pipeline.scenario import STDIN, Scenario, name_of
from replay.reconstruct.cluster import key_of


def log_facts(scenario: Scenario, store: Store, ingest: IngestReport, admission: int = 0) -> LogFacts:
    """Return the facts about the log. `admission` is the number of requests that reached admission, if known."""
    rejects = ingest.rejects
    ((first, last, requests, files),) = store.answer("log_facts")
    return LogFacts(
        names=tuple("standard input" if log == STDIN else name_of(Path(log)) for log in scenario.logs)
        or (store.storage.location.rpartition("/")[2],),
        files=files,
        octets=sum(file.size for entry in store.segments for file in entry.files),
        events=sum(entry.events for entry in store.segments),
        requests=requests,
        admission=admission,
        first=first or 0,
        last=last or 0,
        duplicates=rejects.counts[RejectReason.DUPLICATE],
        rejects=Counter(
            {EXPLANATIONS[reason]: n for reason, n in rejects.counts.items() if reason != RejectReason.DUPLICATE}
        ),
        reject_examples=tuple(
            f"{reject.file}:{reject.line}: {EXPLANATIONS[reject.reason]}"
            for reason in sorted(rejects.examples)
            for reject in rejects.examples[reason]
        ),
    )


def set_facts(path: Path | None, manifests: ManifestSet) -> SetFacts:
    """Return the facts about a set, as a report shows them."""
    counts = {
        "validating policies": sum(each.phase == "validating" for each in manifests.policies),
        "mutating policies": sum(each.phase == "mutating" for each in manifests.policies),
        "webhook configurations": len(manifests.configurations()),
    }
    if manifests.names_plugins:
        counts["built-in plugins"] = len(manifests.builtin)
    counts["objects"] = len(manifests.objects)
    counts_by_kind = tuple((name, count) for name, count in counts.items() if count)
    origins = _origins(manifests)
    return SetFacts(
        name_of(path) if path else "nothing", counts_by_kind, tuple(sorted(manifests.hashes.items())), origins
    )


def _origins(manifests: ManifestSet) -> dict[str, Origin]:
    """Return the sources of policies and webhooks. A webhook has its configuration's source."""
    policies = {name: origin for (kind, name), origin in manifests.origins.items() if kind in POLICY_KINDS}
    webhooks = {
        webhook.name: manifests.origins[configuration.key]
        for configuration in manifests.configurations()
        if configuration.key in manifests.origins
        for webhook in configuration.webhooks
    }
    engine = {
        name: manifests.origins[value["kind"], value["metadata"]["name"]]
        for value in manifests.engine_objects
        for name in policy_names(value)
        if (value["kind"], (value.get("metadata") or {}).get("name")) in manifests.origins
    }
    return {**webhooks, **policies, **engine}


SILENCE = 60
"""Seconds without any event that do not occur in a live cluster, because nodes and leaders renew leases all the time.
"""
MOST_NAMES = 3
"""Most names in one sentence."""
MICROSECONDS = 1_000_000
SKEW = 50_000
"""Microseconds by which etcd may seem to reorder the writes of several servers although no clock is wrong."""


def health_notes(store: Store, job: Job) -> tuple[str, ...]:
    """Return sentences about irregularities of the log and the snapshot.

    They concern gaps, silences, clocks, overlapping files, policies that the log itself writes, and a snapshot of
    another cluster.
    """
    return (
        *_gaps(job),
        *_silences(store),
        *_files(store),
        *_clocks(store),
        *_bindings(store, job),
        *_snapshot(store, job),
    )


def _gaps(job: Job) -> Iterator[str]:
    """Yield the gaps that the log itself shows (`replay.reconstruct.trust`)."""
    if not job.trust.is_complete:
        yield "the log has gaps: updates replace object versions that no request in the log stored. The histories of objects are not used"
    elif job.trust.distrusted:
        names = ", ".join(sorted(map(str, job.trust.distrusted)))
        yield f"the log has gaps in the history of {names}. These histories are not used"


def _silences(store: Store) -> Iterator[str]:
    for since, until in store.answer("log_silences", at_least=SILENCE):
        yield f"the log has no events from {_clock(since)} to {_clock(until)}. A part of the log may be missing"


def _files(store: Store) -> Iterator[str]:
    """Yield a sentence if files overlap in time, or are not in the order of their names.

    Files of several API servers overlap.
    """
    ((*_, count),) = store.answer("log_facts")
    files = store.answer("log_files") if count > 1 else []
    overlapping = sum(later[1] < earlier[2] - MICROSECONDS for earlier, later in pairwise(files))
    if overlapping:
        yield f"{overlapping + 1} files overlap in time, as files of several API servers do. Requests are ordered by time"
    elif [row[0] for row in files] != sorted(row[0] for row in files):
        yield "the file names are not in the order of time. Requests are ordered by time"


def _clocks(store: Store) -> Iterator[str]:
    for file, other, requests, apart in store.answer("log_clocks"):
        if apart > SKEW:
            where = f"of {Path(file).name} and {Path(other).name}" if file != other else f"within {Path(file).name}"
            yield (
                f"the clocks {where} differ by {apart / MICROSECONDS:.1f} s or more, as {requests} requests show: "
                "verdicts that depend on the order of their events are undetermined"
            )


def _bindings(store: Store, job: Job) -> Iterator[str]:
    """Yield sentences about policies that the log itself writes. Other policies count as in force throughout."""
    timed = {write.name[1]: write for write in job.policy_writes}
    if timed:
        shown = [f"{name} {'from' if write.creates else 'until'} {_clock(write.end)}" for name, write in timed.items()]
        more = f" and {len(shown) - MOST_NAMES} more" if len(shown) > MOST_NAMES else ""
        yield (
            f"the log creates or deletes objects of the baseline through the API ({', '.join(shown[:MOST_NAMES])}{more}): they decide "
            "only while they exist. Denials by the candidate alone outside that time are the bootstrap gap"
        )
    since: dict[tuple[str, str], int] = {}
    for resource, name, *_, answered in store.answer("written_policies"):
        if resource.endswith(("bindings", "webhookconfigurations")) and name not in timed:
            since.setdefault((resource, name), answered)
    written = sorted(((resource, name, at) for (resource, name), at in since.items()), key=lambda row: (row[2], *row))
    if written:
        shown = [f"{name} of {resource} from {_clock(at)} on" for resource, name, at in written[:MOST_NAMES]]
        more = f" and {len(written) - MOST_NAMES} more" if len(written) > MOST_NAMES else ""
        yield (
            f"the log itself writes {', '.join(shown)}{more} through the API: both sets count as in force for the whole log, "
            "so no verdict includes this change (`replay verify` shows it)"
        )


def _snapshot(store: Store, job: Job) -> Iterator[str]:
    """Yield a sentence if most objects in both log and snapshot have different UIDs.

    The snapshot is then of another cluster.
    """
    if not job.snapshot:
        return
    shown = {key_of(obj): str((obj.get("metadata") or {}).get("uid") or "") for obj in job.snapshot}
    kinds = {served.resource.group_resource: served.kind.kind for served in builtin_discovery()}
    logged: dict[ObjectKey, set[str]] = defaultdict(set)
    for group, resource, namespace, name, response_kind, uid in store.answer("lookup_uids"):
        kind = kinds.get(GroupResource(group, resource), "")
        if response_kind == kind:
            logged[group, kind, "" if resource == "namespaces" else namespace, name].add(uid)
    compared = [key for key in logged if shown.get(key)]
    other_objects = sum(shown[key] not in logged[key] for key in compared)
    if other_objects > len(compared) // 2:
        yield (
            f"{other_objects} of {len(compared)} objects have another uid in the snapshot than in the log: "
            "the snapshot is from another cluster, or from another time"
        )


def _clock(microseconds: int) -> str:
    return f"{datetime.fromtimestamp(microseconds // MICROSECONDS, tz=UTC):%Y-%m-%d %H:%M:%S} UTC"


def policies_only_moved(sets: Sets) -> frozenset[str]:
    """Return the policies that are static only in the candidate and change in nothing else, by their new names.

    A changed binding counts as a change of its policy.
    """
    current, candidate = sets
    differences = diff_sets(current, candidate)
    differing = [each for each in differences if each.verb is not Verb.MOVED or each.fields]
    changed = {name for each in differing for name in (each.name, each.new_name)}
    changed |= {each.policy_name for each in candidate.bindings if each.name in changed}
    policies = [each.name for each in candidate.policies if each.static]
    moved = frozenset(each.new_name for each in differences if each.verb is Verb.MOVED)
    return (moved - changed).intersection(policies)


def newly_called_webhooks(
    store: Store, sets: Sets, discovery: Discovery, *, asked: frozenset[str] = frozenset()
) -> Iterator[str]:
    """Yield a line for each moved webhook that is not in `asked`.

    There is none if the log has no requests that only static webhooks get.
    """
    mapper = EquivalentResourceMapper(discovery)
    for phase in ("mutating", "validating"):
        before, after = (each.configurations(phase) for each in sets)
        moved = frozenset(moved_names(before, after).values())
        for configuration in (each for each in after if each.static and each.name in moved):
            for webhook in configuration.webhooks:
                selects = may_select(match_resources(webhook), mapper)
                requests = sum(
                    count
                    for *columns, count in store.answer("admission_classes")
                    if columns[1] == GROUP and selects(CoarseClass(*columns))
                )
                if requests and webhook.name not in asked:
                    yield (
                        f"`{webhook.name}` is static in the candidate, so the server also calls it for policies and webhook configurations:"
                        f" {requests:,} of the log's requests, and its answer is not known"
                    )


_ORDER = list(Service)


def api_version_uses(store: Store, versions: Versions) -> tuple[ApiVersionUse, ...]:
    """Return users of versions that the candidate's server does not serve, then users of versions removed later.

    Most requests come first.
    """
    if not versions.differ:
        return ()
    removed = [each for each, lifecycle in LIFECYCLES.items() if lifecycle.removed <= versions.candidate.minor]
    resources = orjson.dumps(sorted("/".join(filter(None, each)) for each in removed)).decode()
    uses = []
    for group, version, name, user, agent, *counts, release in store.query(
        "api_versions", removed_versions=resources
    ).iter_rows():
        resource = GroupVersionResource(group, version, name)
        uses.append(ApiVersionUse(resource, *service_of(resource, release, versions), user, agent or "", *counts))
    return tuple(sorted(uses, key=lambda use: (_ORDER.index(use.service), -use.requests, use.resource, use.user)))


def webhooks_not_called(store: Store, sets: Sets, discovery: Discovery) -> Iterator[str]:
    """Yield a line if webhooks of the baseline match resources for which the candidate's server calls no webhook."""
    current, candidate = sets
    left = excluded_from_all([candidate]) - excluded_from_all([current])
    webhooks = [
        (webhook.name, MatchResources(resource_rules=webhook.rules, match_policy=webhook.match_policy))
        for phase in ("mutating", "validating")
        for configuration in current.configurations(phase)
        for webhook in configuration.webhooks
        if webhook.rules
    ]
    if not left or not webhooks:
        return
    mapper = EquivalentResourceMapper(discovery)
    selecting = [(name, may_select(match, mapper)) for name, match in webhooks]
    requests, names = 0, set[str]()
    for *columns, count in store.answer("admission_classes"):
        asked = CoarseClass(*columns)
        if GroupResource(asked.api_group, asked.resource) in left:
            own = {name for name, selects in selecting if selects(asked)}
            requests += count if own else 0
            names |= own
    if requests:
        named = ", ".join(f"`{name}`" for name in sorted(names))
        yield (
            f"the API server of the candidate calls no webhook for reviews of tokens and access. That of the baseline may have called "
            f"{named} for {requests:,} requests"
        )
