"""Webhooks that moved to static manifests, and the requests that only static webhooks get.

Those are about policies, bindings and webhook configurations.
"""

from __future__ import annotations

from collections.abc import Iterator

from replay.admission.webhook.webhooks import configurations_of, match_resources
from replay.audit.store import Store
from replay.kube.admissionregistration import GROUP, ManifestSet
from replay.kube.discovery import Discovery
from replay.manifests.diff import diff_sets, moved_names
from replay.manifests.object_diff import Verb
from replay.matching.coarse import CoarseClass, may_select
from replay.matching.equivalence import EquivalentResourceMapper


def moved_as_they_are(sets: tuple[ManifestSet, ManifestSet]) -> frozenset[str]:
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


def newly_asked(
    store: Store, sets: tuple[ManifestSet, ManifestSet], discovery: Discovery, *, asked: frozenset[str] = frozenset()
) -> Iterator[str]:
    """Yield a line for each moved webhook that is not in `asked`.

    There is none if the log has no requests that only static webhooks get.
    """
    mapper = EquivalentResourceMapper(discovery)
    for phase in ("mutating", "validating"):
        before, after = (configurations_of(each, phase) for each in sets)
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
                        f"`{webhook.name}` is static in the candidate, so it is also asked about policies and webhook configurations:"
                        f" {requests:,} of the log's requests, and its answer is not known"
                    )
