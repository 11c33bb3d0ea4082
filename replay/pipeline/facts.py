"""Facts about a report's inputs: the log and the manifest sets."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from replay.audit.ingest_report import IngestReport
from replay.audit.reject import EXPLANATIONS, RejectReason
from replay.audit.store import Store
from replay.compare.result import LogFacts, SetFacts
from replay.kube.admissionregistration import ManifestSet, Origin
from replay.kube.engine_policy import policy_names
from replay.pipeline.scenario import STDIN, Scenario, name_of


def log_facts(scenario: Scenario, store: Store, ingest: IngestReport, admission: int = 0) -> LogFacts:
    """Return facts about the log; `admission` is the number of requests that reached admission, if known."""
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
    """A set as a report names it."""
    counts = {
        "validating policies": len(manifests.validating_policies),
        "mutating policies": len(manifests.mutating_policies),
        "webhook configurations": len(manifests.validating_webhooks) + len(manifests.mutating_webhooks),
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
    configurations = (
        ("ValidatingWebhookConfiguration", manifests.validating_webhooks),
        ("MutatingWebhookConfiguration", manifests.mutating_webhooks),
    )
    webhooks = {
        webhook.name: manifests.origins[kind, configuration.name]
        for kind, configurations_of_kind in configurations
        for configuration in configurations_of_kind
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
