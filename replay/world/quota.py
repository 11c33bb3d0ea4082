"""Quota decisions for the requests of a log, for several sets at once, in the order of admission.

The first set was in force. The log shows what its quotas denied, and that always stands. For every other set, its
objects are followed one by one. For a logged quota, the usage before the log began comes from its status.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from replay.admission.builtin.partial import UnknownInputError, guarded, replaced
from replay.admission.builtin.plugin import PluginCluster, Review
from replay.admission.builtin.pod.resources import Amounts, amounts
from replay.admission.builtin.resource_quota.book import CountedObject, QuotaBook, minus, owners_of, plus
from replay.admission.builtin.resource_quota.evaluator import evaluator_of
from replay.admission.builtin.resource_quota.plugin import (
    RESOURCE_QUOTA,
    Quota,
    ResourceQuota,
    as_charged,
    is_removal,
)
from replay.admission.builtin.resource_quota.pod_usage import ENDED
from replay.admission.chain import Chain
from replay.admission.conversion import Object
from replay.admission.decision import Decision, Denial, Undetermined, Verdict
from replay.admission.effects import ADMITTED, Effects
from replay.admission.ordered.builtin import cluster_of, note, run_stateful_phase
from replay.audit.answer import refused_by
from replay.audit.event import RequestRecord
from replay.json import FieldPath
from replay.kube.attributes import Attributes, Missing, Operation, PartialObject
from replay.reconstruct.cluster import Cluster
from replay.reconstruct.history.derived import FINALIZERS, second
from replay.reconstruct.operation import creates
from replay.reconstruct.record.body import Body
from replay.reconstruct.record.exchange import Exchange
from replay.reconstruct.record.known import get
from replay.world.decide import RequestBySet, decide_by_set
from replay.world.order import LoggedRequest
from replay.world.request_adapter import RequestAdapter
from replay.world.result import Cause, answered

FAILED, FORBIDDEN, NOT_FOUND, EXISTS = 400, 403, 404, 409
_DELETED: FieldPath = ("metadata", "deletionTimestamp")
_GRACE: FieldPath = ("metadata", "deletionGracePeriodSeconds")
_LIKELY = "likely denied, if the usage is as high as it can be"
_UNKNOWN_USE = Undetermined(
    ResourceQuota.name,
    "",
    "the usage of a quota is not known",
    "usage",
    "audit writes to resourcequotas/status at level RequestResponse",
)


class QuotaLedger(Struct):
    """The quotas of several sets. An entry of `books` is None if the set lacks the plugin."""

    chain: Chain
    books: Sequence[QuotaBook | None]
    cluster: Cluster
    request_adapter: RequestAdapter
    refused: frozenset[int] = frozenset()
    """The numbers of requests that the log's authorizers allowed and those of the other sets deny."""
    newly_allowed: frozenset[int] = frozenset()
    """The numbers of requests that the log's authorizers denied and those of the other sets allow."""
    is_whole: bool = True
    """A flag that no line of the log is missing. Otherwise no object is certain to still exist."""
    offsets: dict[tuple[str, str], Amounts | None] = field(default_factory=dict)
    """The usage by unfollowed objects, by namespace and name of a logged quota. None is unknown."""

    def ask(self, each: LoggedRequest, seen: RequestBySet) -> list[Decision]:
        """Return the quota decision for each set, then follow the request.

        The decisions of `seen` are those of all other plugins and policies.
        """
        self._anchor(each, cluster_of(self.cluster.at(each.request.record), self.chain.context))
        own = []
        record, current = each.request.record, seen.decisions[0]
        stays_out = self._is_barred(record) or _is_refused_by_others(record, current)
        for number, (book, side, attributes, decision) in enumerate(zip(self.books, *seen, strict=True)):
            if book is None or (number > 0 and stays_out):
                if book is not None:
                    _note_absent(book, each.request.record)
                own.append(ADMITTED)
                continue
            where = cluster_of(side.lister, self.chain.context)
            step = _Step(self, book, each, _with_reset_status(attributes), where, number)
            own.append(step.run(decision))
        return own

    def _is_barred(self, record: RequestRecord) -> bool:
        """Return whether the authorizers of all sets but the first deny a request."""
        is_refused_in_log = answered(record).cause == Cause.FORBIDDEN
        return record.seq in self.refused or (is_refused_in_log and record.seq not in self.newly_allowed)

    def _anchor(self, each: LoggedRequest, live: PluginCluster) -> None:
        """Learn from quota statuses a namespace's usage by unfollowed objects."""
        book = self.books[0]
        namespace = each.request.attributes.namespace
        quotas = live.list(RESOURCE_QUOTA, namespace)
        if book is None or isinstance(quotas, Missing):
            return
        for quota in quotas:
            try:
                name, status = str(quota["metadata"]["name"]), quota.get("status") or {}
                hard, used = amounts(status.get("hard")), amounts(status.get("used"))
                known_quota = Quota(name, hard, used, [])
            except UnknownInputError:
                continue
            # The first status that tells is enough, because usage is followed from then on.
            if self.offsets.get((namespace, name)) is not None:
                continue
            # A namespace that the log creates has no objects from before the log.
            if self.cluster.is_created_by(namespace, each.request.record.received):
                self.offsets[namespace, name] = {}
                continue
            followed = book.used(namespace, known_quota)
            is_told = hard and set(hard) <= set(used) and followed is not None
            self.offsets[namespace, name] = minus(used, followed[1]) if is_told and followed is not None else None


def _is_refused_by_others(record: RequestRecord, current: Decision) -> bool:
    """Return whether a policy or plugin that the first set lacks refused the request in the log.

    Every set leaves that as it is.
    """
    if answered(record).cause != Cause.DENIED or current.denials or current.verdict is Verdict.UNDETERMINED:
        return False
    return refused_by(record.status_message, record.resource) != ResourceQuota.name


def _note_absent(book: QuotaBook, record: RequestRecord) -> None:
    """Note that a set lacks the object that a logged request creates."""
    if record.verb == "create" and not record.subresource and record.code < FAILED:
        book.note_absent(record.response_uid)


def _with_reset_status(attributes: Attributes) -> Attributes:
    """Return the attributes of a creation without an unknown status. The strategies of counted kinds reset it."""
    value = attributes.object
    if attributes.operation is not Operation.CREATE or not isinstance(value, PartialObject):
        return attributes
    if not isinstance(value.value, dict) or not isinstance(value.value.get("status"), Missing):
        return attributes
    plain = {key: each for key, each in value.value.items() if key != "status"}
    return replace(attributes, object=PartialObject(plain, value.missing))


def _name_of(value: Object) -> str:
    """Return the name of an object, empty if it is not known."""
    name = get(value.value if isinstance(value, PartialObject) else value, ("metadata", "name"))
    return name if isinstance(name, str) else ""


def _being_deleted(present: CountedObject, time: int) -> CountedObject:
    """Return an object that finalizers or a node hold after its deletion."""
    metadata = replaced(present.object["metadata"], {"deletionTimestamp": second(time)})
    return present._replace(object=replaced(present.object, {"metadata": metadata}))


def _is_finalized(present: CountedObject, left: CountedObject) -> bool:
    """Return whether a write takes the last finalizer of a deleted object, and so the object."""
    try:
        is_deleted = get(present.object, _DELETED) is not None
        return is_deleted and not get(left.object, FINALIZERS) and not get(left.object, _GRACE)
    except UnknownInputError:
        return False


def _object_after_write(present: CountedObject, counted: CountedObject, subresource: str) -> CountedObject:
    """Return the object of a set after a logged write.

    A status write keeps the set's own spec. Any other write keeps its status.
    """
    kept, written = (present, counted) if subresource == "status" else (counted, present)
    status = dict.get(written.object, "status")
    changes, removed = ({}, ("status",)) if status is None else ({"status": status}, ())
    return counted._replace(object=replaced(kept.object, changes, removed))


def _has_ended(counted: CountedObject) -> bool:
    """Return whether an object is an ended pod, which uses no quota (`QuotaV1Pod`)."""
    try:
        phase = (counted.object.get("status") or {}).get("phase")
    except UnknownInputError:
        return False
    return str(counted.resource) == "pods" and phase in ENDED


class _Step(Struct):
    """The evaluation of one request in one set."""

    ledger: QuotaLedger
    book: QuotaBook
    each: LoggedRequest
    attributes: Attributes
    where: PluginCluster
    number: int
    """The number of the set. 0 is the set that was in force."""

    @property
    def is_logged(self) -> bool:
        """Return whether the set was in force."""
        return self.number == 0

    @property
    def record(self) -> RequestRecord:
        """Return the logged request."""
        return self.each.request.record

    def run(self, decision: Decision) -> Decision:
        """Return the decision of the set's quotas, and follow the object."""
        attributes = self.attributes
        if attributes.operation is Operation.DELETE or attributes.subresource == "eviction":
            self._delete(decision)
            return ADMITTED
        if attributes.operation is Operation.CREATE and not attributes.subresource:
            return self._create(decision)
        if attributes.operation is Operation.UPDATE:
            return self._update(decision)
        return ADMITTED

    @property
    def key(self) -> tuple[str, str]:
        """The object's resource and name. The deletion of a collection names no object, and has each as old object."""
        attributes = self.attributes
        name = attributes.name or Body(self.record.response_object).metadata.get("name")
        if not name and attributes.operation is Operation.DELETE:
            name = _name_of(attributes.old_object)
        return str(attributes.resource.group_resource), str(name or "")

    def _counted(self, *, is_certain: bool) -> CountedObject | None:
        value = self.attributes.object
        if isinstance(value, Missing) or value is None:
            return None
        plain = guarded(value.value) if isinstance(value, PartialObject) else value
        return CountedObject(self.attributes.resource.group_resource, plain, is_certain)

    def _create_adapted(self) -> Decision:
        """Decide an update that creates its object in this set.

        The log's refusals about the old object do not count.
        """
        ledger, lister = self.ledger, self.ledger.cluster.at(self.record)
        request = ledger.request_adapter.creation(Exchange(self.record, ledger.cluster.discovery), lister)
        seen = decide_by_set(ledger.chain, request, lister)
        self.attributes = _with_reset_status(seen.attributes[self.number])
        return self._create(seen.decisions[self.number], is_unlike_log=True)

    def _create(self, decision: Decision, *, is_unlike_log: bool = False) -> Decision:
        record, namespace = self.record, self.attributes.namespace
        is_certain = self.each.is_certain and not decision.undetermined
        counted = self._counted(is_certain=is_certain)
        if self._is_unsent(counted):
            return ADMITTED
        if decision.denials or not (is_unlike_log or self._reaches_quotas()):
            _note_absent(self.book, self.record)
            return ADMITTED
        own = self._checked(is_certain=is_certain)
        if own.denials:
            _note_absent(self.book, self.record)
        elif counted is not None and not self.attributes.dry_run:
            # Admission charges before storage refuses a second object of the same name (409). The charge stays until a
            # recount.
            is_there = self.book.get(namespace, self.key) is not None
            if is_there or (record.code == EXISTS and self.is_logged):
                self.book.leak(namespace, counted)
            elif self.key[1]:
                self.book.put(namespace, self.key, counted)
        return own

    def _reaches_quotas(self) -> bool:
        """Return whether an admitted creation reaches its quotas: validation (422) is before, storage (409) after."""
        record = self.record
        if self.is_logged:
            return record.code < FAILED or record.code == EXISTS or self._is_refused_in_log
        return (
            record.code < FAILED or record.code == EXISTS or self.each.reached_last_plugins or record.code == FORBIDDEN
        )

    @property
    def _is_refused_in_log(self) -> bool:
        return refused_by(self.record.status_message, self.record.resource) == ResourceQuota.name

    def _is_unsent(self, counted: CountedObject | None) -> bool:
        """Return whether a creation is for an owner that this set lacks. Its controller would not send it."""
        try:
            is_unsent = counted is not None and any(uid in self.book.absent for uid in owners_of(counted.object))
        except UnknownInputError:
            return False
        if is_unsent:
            _note_absent(self.book, self.record)
        return is_unsent

    def _checked(self, *, is_certain: bool) -> Decision:
        """Return the quotas' decision about a write.

        It is evaluated with the least and with the most usage that is possible. A denial is certain only with the
        least. With the most alone it is undetermined.
        """
        if self.is_logged:
            return self._as_logged()
        review = Review(self.attributes, self.where, self.record.received, is_read_only=True)
        least, most = Effects(), Effects()
        low = self._asked(review, 0, least)
        if low is None:
            return least.decision()
        if low.refusal is not None and is_certain and self.ledger.is_whole:
            note(least, self.book.plugin.name, low)
            return least.decision()
        high = self._asked(review, 1, most)
        if high is None:
            return most.decision()
        if high.refusal is not None:
            most.undetermined.append(
                Undetermined(self.book.plugin.name, "", f"{_LIKELY}: {high.refusal.message}", "usage")
            )
        return most.decision()

    def _asked(self, review: Review, bound: int, effects: Effects):  # type: ignore[no-untyped-def]  # noqa: ANN202
        """Return the plugin's result with the least (0) or the most (1) possible usage, or None if unknown."""
        namespace = self.attributes.namespace
        try:
            quotas = self.book.quotas(review)
        except UnknownInputError as error:
            missing = error.missing
            reason = f"`{missing.path}` is not known: {missing.reason}"
            effects.undetermined.append(Undetermined(self.book.plugin.name, "", reason, missing.path, missing.fix))
            return None
        counts = evaluator_of(self.attributes.resource.group_resource).counts
        for quota in quotas:
            if not any(map(counts, quota.hard)):  # it never refuses this request, whatever its usage is
                continue
            used = self.book.used(namespace, quota)
            offset = self.ledger.offsets.get((namespace, quota.name), {})
            if used is None or offset is None:
                effects.undetermined.append(_UNKNOWN_USE)
                return None
            self.book.plugin.set_used(namespace, quota.name, plus(used[bound], offset))
        result, _ = run_stateful_phase(self.book.plugin, self.attributes, self.where, self.record.received, effects)
        return result

    def _as_logged(self) -> Decision:
        """Return the log's denial, if quotas made it."""
        if not self._is_refused_in_log:
            return ADMITTED
        effects = Effects()
        record = self.record
        effects.denials.append(
            Denial(self.book.plugin.name, "", None, record.status_message, record.status_reason, record.code)
        )
        return effects.decision()

    def _update(self, decision: Decision) -> Decision:
        namespace, attributes = self.attributes.namespace, self.attributes
        is_certain = self.each.is_certain and not decision.undetermined
        present = self.book.get(namespace, self.key)
        if present is None and self._creates():
            self.attributes = replace(attributes, operation=Operation.CREATE, old_object=None)
            return self._create(decision) if self.is_logged else self._create_adapted()
        if present is None:
            present = self._adopted()
        if present is None or decision.denials:
            return ADMITTED
        # The API server evaluates quotas for no other subresource of an update (`Evaluator.Handles`).
        is_evaluated = self.each.reached_last_plugins and attributes.subresource in ("", "resize")
        own = self._checked(is_certain=is_certain) if is_evaluated else ADMITTED
        counted = self._counted(is_certain=is_certain and present.is_certain)
        if own.denials or self.record.code >= FAILED or attributes.dry_run or counted is None:
            return own
        left = counted if self.is_logged else _object_after_write(present, counted, attributes.subresource)
        if _is_finalized(present, left):
            self.book.remove(namespace, self.key, is_certain=is_certain)
            return own
        self.book.put(namespace, self.key, left)
        if _has_ended(left) and not _has_ended(present):
            self.book.recount(namespace, attributes.resource.group_resource)
        return own

    def _creates(self) -> bool:
        """Return whether an update creates its object, because only the log has it."""
        is_known = any(self.key in each.known_names(self.attributes.namespace) for each in self.ledger.books if each)
        return is_known and creates(Exchange(self.record, self.ledger.cluster.discovery))

    def _adopted(self) -> CountedObject | None:
        """Return an object from before the log that a request shows, or None if this set lacks it.

        It is then followed in all sets, so its usage is taken from the quotas' offsets.
        """
        old, namespace = self.attributes.old_object, self.attributes.namespace
        if any(self.key in each.known_names(namespace) for each in self.ledger.books if each is not None):
            return None
        value = guarded(old.value) if isinstance(old, PartialObject) else old
        if not isinstance(value, dict):
            return None
        counted = CountedObject(self.attributes.resource.group_resource, as_charged(value))
        for book in self.ledger.books:
            if book is not None:
                book.put(namespace, self.key, counted)
        for (place, name), offset in self.ledger.offsets.items():
            book = self.ledger.books[0]
            if place == namespace and offset and book is not None:
                self.ledger.offsets[place, name] = minus(offset, book.usage(namespace, name, counted))
        return counted

    def _delete(self, decision: Decision) -> None:
        record, namespace = self.record, self.attributes.namespace
        if decision.denials or self.attributes.dry_run or not self._may_delete():
            return
        present = self.book.get(namespace, self.key)
        if present is None:
            return
        attributes = self.attributes
        # The deletion failed in the log, so its old object is not that of this set.
        if record.code >= FAILED:
            attributes = replace(attributes, old_object=present.object)
        try:
            is_gone = attributes.subresource == "eviction" or is_removal(
                Review(attributes, self.where, record.received, is_read_only=True)
            )
            if (present.object.get("metadata") or {}).get("finalizers"):
                is_gone = False
            # A pod on a node is removed later, by a request of its kubelet.
            if attributes.subresource == "eviction" and (present.object.get("spec") or {}).get("nodeName"):
                is_gone = False
        except UnknownInputError:
            self.book.remove(namespace, self.key, is_certain=False)
            return
        if is_gone:
            self.book.remove(namespace, self.key, is_certain=self.each.is_certain and not decision.undetermined)
        else:
            self.book.put(namespace, self.key, _being_deleted(present, record.received))

    def _may_delete(self) -> bool:
        """Return whether a deletion is carried out.

        Another set may have an object that the log did not find or may not delete.
        """
        if self.record.code < FAILED or self.is_logged:
            return self.record.code < FAILED
        return self.record.code in (FORBIDDEN, NOT_FOUND) or answered(self.record).cause == Cause.DENIED
