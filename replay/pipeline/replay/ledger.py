"""Plugins that remember, asked about a whole log in the order of admission: what quotas and buckets say of each request.

They come after all that looks at a request alone, so that a request which is refused before is not charged. What is not known of
earlier requests is followed both ways: a denial is certain where even the least that may have been charged leaves no room, and
likely where only the most does.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from replay.admission.builtin.cluster import PluginCluster
from replay.admission.builtin.plugin import Plugin
from replay.admission.builtin.resource_quota.plugin import RESOURCE_QUOTA, ResourceQuota
from replay.admission.chain import Chain
from replay.admission.decision import Decision, Undetermined
from replay.admission.effects import ADMITTED, Effects, joined
from replay.admission.ordered.builtin import asked_phase, cluster_of, note
from replay.admission.ordered.registry import BUILTIN_PLUGINS, rules_criteria
from replay.audit.store import Store
from replay.kube.admissionregistration import ManifestSet
from replay.kube.attributes import Attributes, Operation, PartialObject
from replay.kube.overlay import objects_by_kind
from replay.matching.coarse import Predicate, both, coarse_predicate
from replay.matching.equivalence import EquivalentResourceMapper
from replay.pipeline.replay.decide import decide
from replay.pipeline.replay.opening import open_books
from replay.pipeline.replay.order import LoggedRequest, in_order, logged_request
from replay.reconstruct.cluster import Cluster
from replay.reconstruct.reconstructor import Reconstructor

RequestKey = tuple[int, int]
"""`seq` of a request, and which object of a deletion of many."""
Entries = Mapping[RequestKey, tuple[Decision, ...]]
"""What the plugins say for each set, where they say anything."""

FAILED = 400
"""The least status of a request that was not carried out."""
_OF_DELETION = frozenset({"deletionTimestamp", "deletionGracePeriodSeconds"})
_LIKELY = "likely denied, if all that may have been charged before was"


def with_entry(decisions: Sequence[Decision], entry: tuple[Decision, ...] | None) -> list[Decision]:
    """Decisions with what the plugins that remember say; the first refusal ends a request."""
    if entry is None:
        return list(decisions)
    return [
        decision if decision.denials or own is ADMITTED else joined((decision, own), decision.patch)
        for decision, own in zip(decisions, entry, strict=True)
    ]


class Books(NamedTuple):
    """One plugin of one set twice: `least` was charged what certainly was, `most` all that may have been."""

    least: Plugin
    most: Plugin
    gone: set[tuple[str, str, str]]
    """What was deleted: resource, namespace and name."""


class Ledger(Struct):
    """The plugins that remember, of several sets; `places` are namespaces that they are about, None for all."""

    chain: Chain
    sets: Sequence[ManifestSet]
    books: Sequence[tuple[Books | None, ...]]
    """By plugin, for each set."""
    predicate: Predicate
    entries: dict[RequestKey, tuple[Decision, ...]] = field(default_factory=dict)

    def ask(self, cluster: Cluster, requests: Iterable[LoggedRequest]) -> Entries:
        """Go through requests in the order of admission."""
        request_list = list(requests)
        for books in self.books:
            plugin = next(each for each in books if each is not None).least
            for each in in_order(request_list, by_receipt=plugin.is_timed):
                if (plugin.handles(each.original.operation)) or isinstance(plugin, ResourceQuota):
                    self._ask(books, each, cluster)
        return self.entries

    def _ask(self, books: tuple[Books | None, ...], each: LoggedRequest, cluster: Cluster) -> None:
        request = each.request
        lister = cluster.at(request.record)
        decisions = decide(self.chain, request, lister)
        key = request.record.seq, request.item
        entries = self.entries.get(key, (ADMITTED,) * len(books))
        sides = self.chain.asking(each.original, request.attributes, lister, {}).sides
        attributes_by_side = self.chain.validated(each.original, request.attributes, lister)
        decisions_with_books = []
        for book, side, shown, decision, earlier in zip(
            books, sides, attributes_by_side, decisions, entries, strict=True
        ):
            own = ADMITTED
            if book is not None:
                where = cluster_of(side.lister, self.chain.context)
                own = _one(book, each, shown, where, joined((decision, earlier), ()))
            decisions_with_books.append(earlier if own is ADMITTED else joined((earlier, own), ()))
        if any(own is not ADMITTED for own in decisions_with_books):
            self.entries[key] = tuple(decisions_with_books)


def _one(
    book: Books, each: LoggedRequest, attributes: Attributes, cluster: PluginCluster, decision: Decision
) -> Decision:
    """What one plugin of one set says of a request, and what it remembers of it."""
    record = each.request.record
    time = record.received
    effects, refused = Effects(), bool(decision.denials)
    is_open = not each.is_certain or bool(decision.undetermined)
    if not refused and each.came_to_the_end:
        least = book.least if not is_open else copy.deepcopy(book.least)
        low, high = Effects(), Effects()
        result, _ = asked_phase(least, attributes, cluster, time, low)
        more, _ = asked_phase(book.most, attributes, cluster, time, high)
        if result is None or more is None:
            effects = high
        elif result.refusal is not None:
            note(effects, book.least.name, result)
        elif more.refusal is not None:
            effects.undetermined.append(
                Undetermined(book.least.name, "", f"{_LIKELY}: {more.refusal.message}", "usage")
            )
        refused = result is not None and result.refusal is not None
    _follow(book, each, cluster, time, refused=refused)
    return effects.decision()


def _follow(book: Books, each: LoggedRequest, cluster: PluginCluster, time: int, *, refused: bool) -> None:
    """Give back what a request freed that was carried out; what was refused was never charged."""
    attributes, record = each.request.attributes, each.request.record
    key = str(attributes.resource.group_resource), attributes.namespace, attributes.name
    if attributes.operation is Operation.CREATE and not attributes.subresource:
        book.gone.discard(key)
    elif record.code >= FAILED or key in book.gone:
        return
    if attributes.operation is Operation.DELETE:
        attributes = _as_charged(attributes)
    for plugin in (book.least, book.most):
        if isinstance(plugin, ResourceQuota) and (plugin is book.least or each.is_certain):
            freed = plugin.follow(attributes, cluster, time, refused=refused)
            if freed and attributes.operation is Operation.DELETE:
                book.gone.add(key)  # deletions that come at the same time all answer with the object


def _as_charged(attributes: Attributes) -> Attributes:
    """A deletion of an object as it was before anybody began to delete it: until it is gone, it is charged."""
    old = attributes.old_object
    value = old.value if isinstance(old, PartialObject) else old
    if not isinstance(value, dict) or not isinstance(value.get("metadata"), dict):
        return attributes
    metadata = {key: each for key, each in value["metadata"].items() if key not in _OF_DELETION}
    bare = {**value, "metadata": metadata}
    return replace(attributes, old_object=PartialObject(bare, old.missing) if isinstance(old, PartialObject) else bare)


def ledger_of(chain: Chain, sets: Sequence[ManifestSet], cluster: Cluster, begin: int = 0) -> Ledger | None:
    """The ledger for the sets of a chain, None where no plugin that remembers is asked; the log begins at `begin`."""
    books: list[tuple[Books | None, ...]] = []
    predicates: list[Predicate] = []
    mapper = EquivalentResourceMapper(cluster.discovery)
    for plugin in BUILTIN_PLUGINS:
        if not plugin.type.is_stateful or not plugin.type.keeps_books:
            continue
        plugins = [plugin.plugin(manifests) for manifests in sets]
        if not any(plugins):
            continue
        predicate = coarse_predicate(rules_criteria(plugin.type), mapper)
        if plugin.type is ResourceQuota:
            namespaces = _namespaces(plugins, sets, cluster)
            if namespaces is not None and not namespaces:
                continue
            for own, manifests in zip(plugins, sets, strict=True):
                if isinstance(own, ResourceQuota):
                    open_books(own, manifests, cluster, begin)
            predicate = _WRITES if namespaces is None else both(_WRITES, _within(namespaces))
        books.append(tuple(None if each is None else Books(each, copy.deepcopy(each), set()) for each in plugins))
        predicates.append(predicate)
    if not books:
        return None
    sql = " or ".join(each.sql for each in predicates)
    return Ledger(chain, sets, books, Predicate(f"({sql})", tuple(v for each in predicates for v in each.parameters)))


_WRITES = Predicate("(verb in ('create', 'update', 'patch', 'delete'))", ())


def _within(namespaces: Iterable[str]) -> Predicate:
    names = tuple(sorted(namespaces))
    return Predicate(f'("namespace" in ({", ".join("?" * len(names))}))', names)


def _namespaces(plugins: Sequence[Plugin | None], sets: Sequence[ManifestSet], cluster: Cluster) -> set[str] | None:
    """The namespaces that have a quota, None where things are limited without one."""
    if any(isinstance(each, ResourceQuota) and each.limits_without_quota for each in plugins):
        return None
    namespaces = {key[2] for key in cluster.keys(RESOURCE_QUOTA)}
    for manifests in sets:
        namespaces |= {namespace for namespace, _ in objects_by_kind(manifests.objects).get(("", "ResourceQuota"), {})}
    return namespaces


def entries_of(store: Store, ledger: Ledger, reconstructor: Reconstructor, cluster: Cluster) -> Entries:
    """What the plugins that remember say of the requests of a store."""
    return ledger.ask(cluster, _requests(store, ledger.predicate, reconstructor))


def _requests(store: Store, predicate: Predicate, reconstructor: Reconstructor) -> Iterator[LoggedRequest]:
    for number in range(store.parts):
        for records in store.part(number).objects(predicate):
            for request in reconstructor.requests(records):
                if (logged := logged_request(request)) is not None:
                    yield logged
