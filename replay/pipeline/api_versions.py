"""Effects of an upgrade on a log's clients: API versions, and webhooks that newer servers call less."""

from __future__ import annotations

from collections.abc import Iterator

import orjson

from replay.admission.webhook.webhooks import configurations_of
from replay.audit.store import Store
from replay.cellib.version import Versions
from replay.compare.api_version_use import ApiVersionUse, Service, service_of
from replay.kube.admissionregistration import ManifestSet, MatchResources
from replay.kube.discovery import Discovery
from replay.kube.gvk import GroupResource, GroupVersionResource
from replay.kube.lifecycle import LIFECYCLES
from replay.matching.coarse import CoarseClass, may_select
from replay.matching.equivalence import EquivalentResourceMapper
from replay.matching.rules import excluded_from_all

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


def webhooks_not_called(store: Store, sets: tuple[ManifestSet, ManifestSet], discovery: Discovery) -> Iterator[str]:
    """Yield a line if webhooks of the baseline match resources for which the candidate's server calls no webhook."""
    current, candidate = sets
    left = excluded_from_all([candidate]) - excluded_from_all([current])
    webhooks = [
        (webhook.name, MatchResources(resource_rules=webhook.rules, match_policy=webhook.match_policy))
        for phase in ("mutating", "validating")
        for configuration in configurations_of(current, phase)
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
            f"the server of the candidate asks no webhook about reviews of tokens and access: that of the baseline may have asked {named}"
            f" about {requests:,} requests"
        )
