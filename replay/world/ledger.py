"""Plugins with state, evaluated over a whole log in admission order: decisions of quotas and rate limits.

They run after everything that depends on one request only, so that a request that is denied earlier is not charged. If
earlier charges are uncertain, both bounds are followed. A denial is certain if even the least charge leaves no room,
and likely if only the most does.

The usage of quotas at the start of a log is assumed, from the snapshot's quotas or objects.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from msgspec import Struct, field

from replay.admission.builtin.plugin import Plugin, PluginCluster
from replay.admission.builtin.resource_quota.book import CountedObject, QuotaBook
from replay.admission.builtin.resource_quota.evaluator import counted_resources
from replay.admission.builtin.resource_quota.plugin import RESOURCE_QUOTA, ResourceQuota
from replay.admission.chain import Chain
from replay.admission.decision import Decision, Undetermined
from replay.admission.effects import ADMITTED, Effects, joined
from replay.admission.ordered.builtin import cluster_of, note, run_stateful_phase
from replay.admission.ordered.registry import BUILTIN_PLUGINS, counts_requests, rules_criteria
from replay.audit.store import Store
from replay.json import JSON
from replay.kube.admissionregistration import ManifestSet
from replay.kube.attributes import Attributes, Missing
from replay.kube.discovery import Discovery
from replay.kube.gvk import GroupResource, split_api_version
from replay.kube.overlay import objects_by_kind
from replay.matching.coarse import Predicate, both, coarse_predicate
from replay.matching.rules import EquivalentResourceMapper
from replay.reconstruct.cluster import Cluster, key_of
from replay.reconstruct.reconstructor import Reconstructor
from replay.reconstruct.record.known import GONE, get
from replay.world.decide import OPEN, Gate, RequestBySet, decide_by_set
from replay.world.order import DELETE_COLLECTION, LoggedRequest, in_order, logged_request
from replay.world.quota import QuotaLedger
from replay.world.request_adapter import RequestAdapter

_MICROSECONDS = 1_000_000


def open_book(book: QuotaBook, namespaces: Collection[str] | None, cluster: Cluster, begin: int) -> None:
    """Enter the snapshot's objects that existed before `begin` (microseconds); `namespaces` None means all."""
    for namespace, counted in _objects_before(cluster, begin):
        if namespaces is None or namespace in namespaces:
            name = str(counted.object["metadata"]["name"])
            book.put(namespace, (str(counted.resource), name), counted)


def _new_quotas(manifests: ManifestSet, cluster: Cluster) -> Iterator[tuple[tuple[str, str], JSON]]:
    quota_names = {key[2:] for key in cluster.keys(RESOURCE_QUOTA)}
    for name, quota in objects_by_kind(manifests.objects).get(("", "ResourceQuota"), {}).items():
        if name not in quota_names:
            yield name, quota


def _objects_before(cluster: Cluster, begin: int) -> Iterator[tuple[str, CountedObject]]:
    """Yield the snapshot's objects that were created before a time, with their namespaces."""
    kinds = _resources(cluster.discovery)
    for obj in cluster.snapshot:
        group, kind, namespace, _ = key_of(obj)
        created = (obj.get("metadata") or {}).get("creationTimestamp")
        if namespace and (group, kind) in kinds and isinstance(created, str) and _time(created) < begin:
            yield namespace, CountedObject(kinds[group, kind], obj)


def _resources(discovery: Discovery) -> Mapping[tuple[str, str], GroupResource]:
    return {(each.kind.group, each.kind.kind): each.resource.group_resource for each in discovery}


def _time(text: str) -> int:
    try:
        return round(datetime.fromisoformat(text).timestamp() * _MICROSECONDS)
    except ValueError:
        return 0


def assumptions(sets: Sequence[ManifestSet], cluster: Cluster) -> Iterator[str]:
    """Yield assumptions about usage, one sentence each."""
    new = sorted({"/".join(name) for manifests in sets for name, _ in _new_quotas(manifests, cluster)})
    if counts_requests(sets):
        yield (
            "quotas and rate limits are followed in the order of admission; retries that a refusal would cause are not added"
        )
    for name in new:
        namespace = name.partition("/")[0]
        kinds = {split_api_version(str(obj.get("apiVersion")))[0] + str(obj.get("kind")) for obj in cluster.snapshot}
        own = [obj for obj in cluster.snapshot if key_of(obj)[2] == namespace]
        begin = "the objects of the snapshot" if own and "Pod" in kinds else "nothing: the snapshot has no pods"
        yield f"ResourceQuota {name} begins with {begin}"


RequestKey = tuple[int, int]
"""Sequence number of a request, and the number of the object in a collection deletion."""
Entries = Mapping[RequestKey, tuple[Decision, ...]]
"""Decisions of plugins with state, for each set."""


class DecidedRequests(dict[RequestKey, Sequence[Decision]]):
    """Decisions of all other plugins and policies about the requests that a ledger was asked about.

    They stay in the process that made them: workers decide their own requests sooner than they read these.
    """

    def __reduce__(self) -> tuple[type[DecidedRequests], tuple[()]]:
        """Leave the decisions out of a pickle."""
        return DecidedRequests, ()


_LIKELY = "likely denied, if the usage is as high as it can be"


def with_entry(decisions: Sequence[Decision], entry: tuple[Decision, ...] | None) -> list[Decision]:
    """Return the decisions joined with those of plugins with state. The first refusal ends a request."""
    if entry is None:
        return list(decisions)
    return [
        decision if decision.denials or own is ADMITTED else joined((decision, own), decision.patch)
        for decision, own in zip(decisions, entry, strict=True)
    ]


class ChargeBounds(NamedTuple):
    """One plugin of one set twice: `least` has the certain charges, `most` all possible ones."""

    least: Plugin
    most: Plugin


class Ledger(Struct):
    """The plugins with state of several sets."""

    chain: Chain
    books: Sequence[tuple[ChargeBounds | None, ...]]
    """The bounds of each plugin, in each set."""
    predicate: Predicate
    quotas: QuotaLedger | None = None
    """The quotas, which run after all other plugins."""
    entries: dict[RequestKey, tuple[Decision, ...]] = field(default_factory=dict)
    decided: DecidedRequests = field(default_factory=DecidedRequests)

    def ask(self, cluster: Cluster, requests: Iterable[LoggedRequest]) -> Entries:
        """Decide requests in admission order, and return the decisions."""
        # A list, because every plugin goes through the requests in an order of its own.
        request_list = list(requests)
        for books in self.books:
            plugin = next(each for each in books if each is not None).least
            for each in in_order(request_list, by_receipt=plugin.is_timed):
                if plugin.handles(each.original.operation) and each.request.record.verb != DELETE_COLLECTION:
                    self._ask(books, each, cluster)
        for each in in_order(request_list, by_receipt=False) if self.quotas is not None else ():
            self._ask_quotas(self.quotas, each, cluster)
        return self.entries

    def _by_set(self, each: LoggedRequest, cluster: Cluster) -> RequestBySet:
        """Return a request with each set's decision of everything before the plugin that is asked."""
        request = each.request
        key = request.record.seq, request.item
        seen = decide_by_set(self.chain, request, cluster.at(request.record))
        self.decided[key] = seen.decisions
        earlier = self.entries.get(key)
        if earlier is None:
            return seen
        pairs = zip(seen.decisions, earlier, strict=True)
        return seen._replace(decisions=[joined((decision, own), ()) for decision, own in pairs])

    def _note(self, each: LoggedRequest, decisions: Sequence[Decision]) -> None:
        key = each.request.record.seq, each.request.item
        earlier = self.entries.get(key, (ADMITTED,) * len(decisions))
        if any(own is not ADMITTED for own in decisions):
            pairs = zip(earlier, decisions, strict=True)
            self.entries[key] = tuple(one if own is ADMITTED else joined((one, own), ()) for one, own in pairs)

    def _ask_quotas(self, quotas: QuotaLedger | None, each: LoggedRequest, cluster: Cluster) -> None:
        if quotas is not None and each.request.attributes.namespace:
            self._note(each, quotas.ask(each, self._by_set(each, cluster)))

    def _ask(self, books: tuple[ChargeBounds | None, ...], each: LoggedRequest, cluster: Cluster) -> None:
        seen = self._by_set(each, cluster)
        decisions = [
            ADMITTED
            if book is None
            else _one(book, each, attributes, cluster_of(side.lister, self.chain.context), decision)
            for book, side, attributes, decision in zip(books, *seen, strict=True)
        ]
        self._note(each, decisions)


def _one(
    book: ChargeBounds, each: LoggedRequest, attributes: Attributes, cluster: PluginCluster, decision: Decision
) -> Decision:
    """Return one plugin's decision about a request, and update its state."""
    record = each.request.record
    time = record.received
    effects = Effects()
    if decision.denials or not each.reached_last_plugins:
        return ADMITTED
    is_open = not each.is_certain or bool(decision.undetermined)
    # It is uncertain whether this request is charged, so the certain charges stay as they are.
    least = book.least if not is_open else copy.deepcopy(book.least)
    low, high = Effects(), Effects()
    result, _ = run_stateful_phase(least, attributes, cluster, time, low)
    more, _ = run_stateful_phase(book.most, attributes, cluster, time, high)
    if result is None or more is None:
        effects = high
    elif result.refusal is not None:
        note(effects, book.least.name, result)
    elif more.refusal is not None:
        effects.undetermined.append(Undetermined(book.least.name, "", f"{_LIKELY}: {more.refusal.message}", "usage"))
    return effects.decision()


def ledger_of(  # noqa: PLR0913 - what a ledger is made of
    chain: Chain,
    sets: Sequence[ManifestSet],
    cluster: Cluster,
    request_adapter: RequestAdapter,
    *,
    begin: int = 0,
    gate: Gate = OPEN,
    is_whole: bool = True,
) -> Ledger | None:
    """Return the ledger for the sets of a chain, None if no plugin with state is on.

    `request_adapter` builds requests on objects that differ from the log's. The log begins at `begin`, in microseconds.
    `gate` holds the requests that reach admission in one set only. `is_whole` says that the log has no gaps.
    """
    books: list[tuple[ChargeBounds | None, ...]] = []
    quotas: QuotaLedger | None = None
    predicates: list[Predicate] = []
    mapper = EquivalentResourceMapper(cluster.discovery)
    for plugin in BUILTIN_PLUGINS:
        if not plugin.type.is_stateful or not plugin.type.counts_requests:
            continue
        plugins = [plugin.plugin(manifests) for manifests in sets]
        if not any(plugins):
            continue
        if plugin.type is ResourceQuota:
            namespaces = _namespaces(plugins, sets, cluster)
            if namespaces is not None and not namespaces:
                continue
            own = [QuotaBook(each) if isinstance(each, ResourceQuota) else None for each in plugins]
            for book in own:
                if book is not None:
                    open_book(book, namespaces, cluster, begin)
            quotas = QuotaLedger(chain, own, cluster, request_adapter, gate.refused, gate.newly_allowed, is_whole)
            followed = _WRITES if namespaces is None else both(_WRITES, _within(namespaces))
            hard = _hard_names(sets, cluster) if namespaces is not None else None
            predicates.append(followed if hard is None else both(followed, _counted(hard)))
            continue
        books.append(tuple(None if each is None else ChargeBounds(each, copy.deepcopy(each)) for each in plugins))
        predicates.append(coarse_predicate(rules_criteria(plugin.type), mapper))
    if not predicates:
        return None
    sql = " or ".join(each.sql for each in predicates)
    parameters = tuple(value for each in predicates for value in each.parameters)
    return Ledger(chain, books, Predicate(f"({sql})", parameters), quotas)


_WRITES = Predicate("(verb in ('create', 'update', 'patch', 'delete', 'deletecollection'))", ())


def _within(namespaces: Iterable[str]) -> Predicate:
    names = tuple(sorted(namespaces))
    return Predicate(f'("namespace" in ({", ".join("?" * len(names))}))', names)


def _counted(hard: Iterable[str]) -> Predicate:
    """Select writes to what quotas count, and creations of what may own it."""
    resources = sorted((each.group, each.resource) for each in counted_resources(hard))
    sql = " or ".join([f"(api_group = ? and resource = ? and {_HAS_OBJECT})"] * len(resources) + [_MAY_OWN])
    return Predicate(f"({sql})", tuple(part for each in resources for part in each))


_HAS_OBJECT = "subresource not in ('binding', 'exec', 'attach', 'portforward', 'proxy')"
_MAY_OWN = "(verb = 'create' and subresource = '' and resource <> 'events')"


def _hard_names(sets: Sequence[ManifestSet], cluster: Cluster) -> set[str] | None:
    """Return what the quotas of the log and of all sets ever limit; None where that is not known."""
    quotas: list[JSON] = []
    for manifests in sets:
        quotas += objects_by_kind(manifests.objects).get(("", "ResourceQuota"), {}).values()
    for _, _, namespace, name in cluster.keys(RESOURCE_QUOTA):
        history = cluster.history(RESOURCE_QUOTA, namespace, name)
        for place in range(len(history.effects) if history is not None else 0):
            state = history.after(place) if history is not None else GONE
            if isinstance(state, Missing) or any(hole.path[:1] != ("metadata",) for hole in state.holes):
                return None
            quotas.append(state.value)
    return {name for quota in quotas for part in ("spec", "status") for name in get(quota, (part, "hard")) or ()}


def _namespaces(plugins: Sequence[Plugin | None], sets: Sequence[ManifestSet], cluster: Cluster) -> set[str] | None:
    """Return the namespaces with a quota, None if something is limited even without one."""
    if any(isinstance(each, ResourceQuota) and each.limits_without_quota for each in plugins):
        return None
    namespaces = {key[2] for key in cluster.keys(RESOURCE_QUOTA)}
    for manifests in sets:
        namespaces |= {namespace for namespace, _ in objects_by_kind(manifests.objects).get(("", "ResourceQuota"), {})}
    return namespaces


def entries_of(store: Store, ledger: Ledger, reconstructor: Reconstructor, cluster: Cluster) -> Entries:
    """Return the decisions of plugins with state about a store's requests, and keep those of all others in the ledger."""
    return ledger.ask(cluster, _requests(store, ledger.predicate, reconstructor))


def _requests(store: Store, predicate: Predicate, reconstructor: Reconstructor) -> Iterator[LoggedRequest]:
    for number in range(store.parts):
        for records in store.part(number).objects(predicate):
            for request in reconstructor.requests(records):
                if (logged := logged_request(request, for_quotas=True)) is not None:
                    yield logged
