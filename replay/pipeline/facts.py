"""Facts about the inputs of a report: the log, the manifest sets, and irregularities of log and snapshot."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

from replay.audit.ingest_report import IngestReport
from replay.audit.reject import EXPLANATIONS, RejectReason
from replay.audit.store import Store
from replay.compare.result import LogFacts, SetFacts
from replay.kube.admissionregistration import CONFIGURATION_KINDS, ManifestSet, Origin
from replay.kube.discovery import builtin_discovery
from replay.kube.engine_policy import policy_names
from replay.kube.gvk import GroupResource
from replay.kube.object_lister import ObjectKey
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
        "validating policies": len(manifests.validating_policies),
        "mutating policies": len(manifests.mutating_policies),
        "webhook configurations": len(manifests.configurations),
    }
    if manifests.says_plugins:
        counts["built-in plugins"] = len(manifests.builtin)
    counts["objects"] = len(manifests.objects)
    counts_by_kind = tuple((name, count) for name, count in counts.items() if count)
    origins = _origins(manifests)
    return SetFacts(
        name_of(path) if path else "nothing", counts_by_kind, tuple(sorted(manifests.hashes.items())), origins
    )


def _origins(manifests: ManifestSet) -> dict[str, Origin]:
    """Return the sources of policies and webhooks. A webhook has its configuration's source."""
    policies = {name: origin for (kind, name), origin in manifests.origins.items() if kind.endswith("AdmissionPolicy")}
    webhooks = {
        webhook.name: manifests.origins[kind, configuration.name]
        for kind in CONFIGURATION_KINDS
        for configuration in manifests.of_kind(kind)
        if (kind, configuration.name) in manifests.origins
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
NAMED = 3
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
    if not job.trust.is_whole:
        yield "the log has gaps: updates replace versions of objects that no request in it stored; histories are not trusted"
    elif job.trust.distrusted:
        names = ", ".join(sorted(map(str, job.trust.distrusted)))
        yield f"the log has gaps in the history of {names}: these histories are not trusted"


def _silences(store: Store) -> Iterator[str]:
    for since, until in store.answer("log_silences", at_least=SILENCE):
        yield f"nothing is logged from {_clock(since)} to {_clock(until)}: a part of the log may be missing"


def _files(store: Store) -> Iterator[str]:
    """Yield a sentence if files overlap in time, or are not in the order of their names.

    Files of several API servers overlap.
    """
    files = store.answer("log_files")
    overlapping = sum(later[1] < earlier[2] - MICROSECONDS for earlier, later in pairwise(files))
    if overlapping:
        yield f"{overlapping + 1} files overlap in time, as those of several API servers do; requests are ordered by time"
    elif [row[0] for row in files] != sorted(row[0] for row in files):
        yield "the order of the files by name is not that of time; requests are ordered by time"


def _clocks(store: Store) -> Iterator[str]:
    for file, other, requests, apart in store.answer("log_clocks"):
        if apart > SKEW:
            where = f"of {Path(file).name} and {Path(other).name}" if file != other else f"within {Path(file).name}"
            yield (
                f"the clocks {where} differ by {apart / MICROSECONDS:.1f} s or more, as {requests} requests show: "
                "what depends on the order of their times is not decided"
            )


def _bindings(store: Store, job: Job) -> Iterator[str]:
    """Yield sentences about policies that the log itself writes. Other policies count as in force throughout."""
    timed = {write.name[1]: write for write in job.policy_writes}
    if timed:
        shown = [f"{name} {'from' if write.creates else 'until'} {_clock(write.end)}" for name, write in timed.items()]
        more = f" and {len(shown) - NAMED} more" if len(shown) > NAMED else ""
        yield (
            f"the log creates or deletes objects of the baseline through the API ({', '.join(shown[:NAMED])}{more}): they decide "
            "only while they are there; what the candidate alone denies outside that time is the bootstrap gap"
        )
    since: dict[tuple[str, str], int] = {}
    for resource, name, *_, answered in store.answer("written_policies"):
        if resource.endswith(("bindings", "webhookconfigurations")) and name not in timed:
            since.setdefault((resource, name), answered)
    written = sorted(((resource, name, at) for (resource, name), at in since.items()), key=lambda row: (row[2], *row))
    if written:
        shown = [f"{name} of {resource} from {_clock(at)} on" for resource, name, at in written[:NAMED]]
        more = f" and {len(written) - NAMED} more" if len(written) > NAMED else ""
        yield (
            f"the log itself writes {', '.join(shown)}{more} through the API: both sets are taken to be in force throughout, "
            "what that changed is in no verdict (`replay verify` shows it)"
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
            f"{other_objects} of {len(compared)} objects that both have are others in the snapshot than in the log: "
            "it is of another cluster, or of another time"
        )


def _clock(microseconds: int) -> str:
    return f"{datetime.fromtimestamp(microseconds // MICROSECONDS, tz=UTC):%Y-%m-%d %H:%M:%S} UTC"
