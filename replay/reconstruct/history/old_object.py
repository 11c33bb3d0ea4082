"""`oldObject`: the state of the object that a request found.

The first source that applies decides:

1. An update that names a resourceVersion and succeeded found exactly that version (`Store.Update` refuses any other).
2. A deletion that answers with the object found that object, apart from the fields that a deletion writes.
3. A patch leaves untouched fields alone, unless a mutator changed them: there the response shows the old value.
4. Otherwise it is the last state of the history, if no line of the log is missing (`Trust`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from itertools import repeat

from msgspec import Struct

from replay.audit.event import RequestRecord
from replay.json import JSON, FieldPath
from replay.kube.attributes import Basis, Missing
from replay.kube.discovery import Discovery
from replay.reconstruct.history.derived import FINALIZERS, MICROSECONDS, scale_of
from replay.reconstruct.history.effect import EffectKind, is_gone
from replay.reconstruct.history.eviction import possibly_evicted
from replay.reconstruct.history.history import NOT_FOUND, History
from replay.reconstruct.patch.body import PatchForm, UnappliedPatchError, agrees, form_of, made_parts, touched
from replay.reconstruct.patch.result import after_patch, shown_form
from replay.reconstruct.record.body import BodyShape, revision, revision_of
from replay.reconstruct.record.exchange import Exchange
from replay.reconstruct.record.known import Hole, Known, get, merged

RECORD_RESPONSES = "audit writes to this resource at level RequestResponse"
_REVISION = ("metadata", "resourceVersion")
_GENERATION = ("metadata", "generation")
_MANAGED = ("metadata", "managedFields")
_DELETION = (("metadata", "deletionTimestamp"), ("metadata", "deletionGracePeriodSeconds"))
_REMOVAL_RACE = "two deletions removed the object at the same time, and the log does not show which state this one saw"
_UNTOUCHED = (
    "a mutating policy or webhook may have changed more than the patch, and the log has no earlier state of the object"
)
_WRITTEN_BY_ALL = (_REVISION, _GENERATION, _MANAGED)


def _never(exchange: Exchange) -> bool:
    del exchange
    return False


class OldObjects(Struct, frozen=True):
    """Finds the state that a request found.

    `trusted` says that the history has no gaps. `mutated` returns whether a mutator may have changed what an update
    shows beyond what its client asked for.
    """

    history: History
    trusted: bool = True
    mutated: Callable[[Exchange], bool] = _never

    def old_object(self, exchange: Exchange) -> Known | Missing:
        """Return the object that an UPDATE or DELETE found, in the kind of the request (a Scale for `scale`).

        It is never null.
        """
        if exchange.record.subresource == "scale":
            old = self._scale(exchange)
        elif exchange.record.verb == "delete":
            old = self._deleted(exchange)
        else:
            old = self._updated(exchange)
        if isinstance(old, Known) and old.value is None:
            return Missing("", "another request deleted the object at about the same time", RECORD_RESPONSES)
        return old

    def last(self, exchange: Exchange) -> Known | Missing:
        """Return the history's state before a request: by revision if both have one, otherwise by time."""
        place = self.history.place_before(exchange)
        if place is not None:
            state = self.history.after(place) if place >= 0 else _nothing_before()
            raced = isinstance(state, Known) and state.value and self.history.is_evicted_meanwhile(exchange)
            return possibly_evicted(state) if isinstance(state, Known) and raced else state
        at = revision(exchange.response.metadata) if exchange.succeeded and exchange.concerns_parent else None
        # A write that changed nothing answers with the revision that it found.
        repeated = self.history.index_at_revision(at) if at is not None else None
        if repeated is not None:
            return self.history.after(repeated)
        existing = self.history.existing_at(exchange.record.received, exchange.record.stage_time)
        return _nothing_before() if existing is None else existing

    def _updated(self, exchange: Exchange) -> Known | Missing:
        named = sent_revision(exchange)
        if exchange.dry_run and exchange.shape is BodyShape.OBJECT:
            # What was not stored answers with the version that it found
            # (`registry.DryRunnableStorage.GuaranteedUpdate`).
            named = revision(exchange.response.metadata)
        if named is not None:
            state = self._at_revision(exchange, named)
            # A success found exactly this version, so that its response may still show it. A failure shows nothing.
            if not isinstance(state, Missing) or not exchange.succeeded:
                return state
        # Only a trusted history counts here: nothing in the response confirms it.
        last = self._guarded(self.last(exchange))
        if exchange.shape is not BodyShape.OBJECT:
            return last if named is None else Missing("", _unknown_revision(named), RECORD_RESPONSES)
        if exchange.record.verb == "patch":
            return self._patched(exchange, self.last(exchange))
        if named is None:
            return last
        return self._kept_by_status(exchange, named)

    def _at_revision(self, exchange: Exchange, named: int) -> Known | Missing:
        """Return the state of a revision: a stored one, or the only state without revision in between."""
        index = self.history.index_at_revision(named)
        if index is not None:
            return self.history.after(index)
        place = self.history.index_of(exchange)
        if place is not None and place > 1:
            earlier = self.history.effects[place - 1]
            earlier_revisions = [e.revision for e in self.history.effects[: place - 1] if e.revision is not None]
            if (
                earlier.kind is EffectKind.BINDING
                and earlier.revision is None
                and (not earlier_revisions or earlier_revisions[-1] < named)
            ):
                state = self.history.after(place - 1)
                if not isinstance(state, Missing) and self._fits(exchange, state):
                    return state.with_value(_REVISION, str(named))
        return Missing("", _unknown_revision(named), RECORD_RESPONSES)

    def _fits(self, exchange: Exchange, state: Known) -> bool:
        """Return whether a derived state is what the writer saw: its body agrees in immutable fields."""
        body = exchange.request.json
        paths = (("metadata", "uid"), ("spec", "nodeName"))
        return all(get(body, path) in (None, get(state.value, path)) for path in paths)

    def _patched(self, exchange: Exchange, last: Known | Missing) -> Known | Missing:
        """Return what a successful patch found.

        The history's state counts if it agrees with the response; otherwise the response without what the patch
        touched.
        """
        after = exchange.response.json
        patch = exchange.request.json
        if _is_repetition(self.history, exchange):
            # The patch changed nothing, so the response is also the object that it found.
            return Known(after, Basis.RECORDED)
        is_apply = form_of(exchange) is PatchForm.APPLY
        if not isinstance(last, Missing) and last.value is not None:
            state = self._confirmed(exchange, last, None if is_apply else touched(patch))
            if state is not None:
                return state
            if self.trusted and self.mutated(exchange) and _is_same(last.value, after):
                return last
        # An apply may remove any field that it omits, so its body does not bound what changed.
        if is_apply or patch is None:
            return last if isinstance(last, Missing) else _gap()
        return (
            Missing("", _UNTOUCHED, RECORD_RESPONSES)
            if self.mutated(exchange)
            else _unpatched_part(after, touched(patch))
        )

    def _confirmed(self, exchange: Exchange, last: Known, changed: list[FieldPath] | None) -> Known | Missing | None:
        """Return the last state of the history if the response agrees with it, None otherwise.

        `changed` is None if the patch may have changed anything.
        """
        after = exchange.response.json
        if changed and self.trusted and _answers_with_removed_object(exchange):
            return _object_removed_by_patch(exchange, last, changed)
        # Every write may change these fields, so they are no evidence against the state.
        ignored = (*_WRITTEN_BY_ALL, *(hole.path for hole in last.holes))
        is_whole = changed is None or agrees(last.value, after, (*changed, *ignored))
        if not is_whole and changed is not None:  # defaults may depend on what the patch changed
            is_whole = agrees(_with_defaults(exchange, last.value), after, (*changed, *ignored))
        if not (is_whole and _generations_agree(last.value, after) and _is_same(last.value, after)):
            return None
        if changed is None:
            return last if self.trusted else _gap()
        return _filled(last, exchange, changed) if self.trusted else None

    def _kept_by_status(self, exchange: Exchange, named: int) -> Known | Missing:
        """Return the object that an update of `status` found.

        Every status strategy leaves all but status and metadata unchanged.
        """
        if exchange.record.subresource != "status":
            return Missing("", _unknown_revision(named), RECORD_RESPONSES)
        reason = "a status update changed it, and the log does not show the value before"
        open_metadata = ("labels", "annotations", "finalizers", "ownerReferences", "managedFields")
        holes = [Hole(("status",), reason, RECORD_RESPONSES)]
        holes += [Hole(("metadata", name), reason, RECORD_RESPONSES) for name in open_metadata]
        state = Known(exchange.response.json, Basis.RECONSTRUCTED, tuple(holes))
        return state.with_value(_REVISION, str(named))

    def _deleted(self, exchange: Exchange) -> Known | Missing:
        named = precondition(exchange)
        is_shown = exchange.shape is BodyShape.OBJECT
        # A removal may be validated again after its own first write, which changed the version.
        if named is not None and not (is_shown and _answers_with_removed_object(exchange)):
            state = self._at_precondition(exchange, named)
            if state is not None:
                return state
        last = self.last(exchange)
        if not is_shown:
            return self._guarded(last)
        metadata = exchange.response.metadata
        shown = Known(exchange.response.json, Basis.RECORDED)
        if _answers_with_removed_object(exchange):
            state = self._with_revision(shown, last)
            return state if _won_the_removal(metadata) else _lost_the_removal(state, last)
        if not isinstance(last, Missing) and last.value is not None:
            # The deletion of a namespace also sets its phase to Terminating (`REST.Delete` of namespaces).
            phase = [("status", "phase")] if exchange.record.resource == "namespaces" else []
            ignored = (*_WRITTEN_BY_ALL, *_DELETION, FINALIZERS, *phase, *(hole.path for hole in last.holes))
            if self.trusted and agrees(last.value, shown.value, ignored):
                return last
        if deletion_began_before(metadata, exchange.record.received):
            holes = [
                Hole(
                    path,
                    "the object was already being deleted, and the log does not show the value before",
                    RECORD_RESPONSES,
                )
                for path in _DELETION
            ]
            return self._with_revision(shown.as_basis(Basis.RECONSTRUCTED).with_holes(holes), last)
        return self._with_revision(_before_deletion(exchange, shown), last)

    def _at_precondition(self, exchange: Exchange, named: int) -> Known | None:
        """Return the state with the resourceVersion that a deletion requires.

        It is None if another state may have been validated. Everything validated before the deletion's own first write
        has that version (`storage.Preconditions.Check`).
        """
        precondition = f"ResourceVersion in precondition: {named}," in exchange.record.status_message
        if not (exchange.succeeded or exchange.record.code == NOT_FOUND or precondition):
            return None
        index = self.history.index_at_revision(named)
        if index is None:
            index = self.history.binding_at_revision(named)
        state = None if index is None else self.history.after(index)
        return state.with_value(_REVISION, str(named)) if isinstance(state, Known) and state.value else None

    def _with_revision(self, shown: Known, last: Known | Missing) -> Known:
        """Return the state that a deletion shows, with the revision of the history if both states are equal."""
        is_whole = not isinstance(last, Missing) and last.value is not None and not last.holes
        if isinstance(last, Known) and is_whole and agrees(last.value, shown.value, (_REVISION,)):
            return last
        hole = Hole(
            _REVISION,
            "the response of the deletion has a new resourceVersion, not that of the object before it",
            RECORD_RESPONSES,
        )
        return shown.with_holes([hole])

    def _scale(self, exchange: Exchange) -> Known | Missing:
        """Return the Scale that the history's workload gives."""
        named = sent_revision(exchange)
        workload = self._guarded(self.last(exchange)) if named is None else self._at_revision(exchange, named)
        return workload if isinstance(workload, Missing) else scale_of(workload)

    def _guarded(self, last: Known | Missing) -> Known | Missing:
        """Return a state that only the history tells: unknown if the history has gaps."""
        return last if self.trusted or isinstance(last, Missing) else _gap()


def sent_revision(exchange: Exchange) -> int | None:
    """Return the resourceVersion that an update, or a patch with one, requires, or None if none.

    `objectRef` has that of an update's body (`audit.LogRequestObject`), so that the body need not be decoded.
    """
    named = exchange.record.object_resource_version if exchange.record.verb == "update" else ""
    if (at := revision_of(named)) is not None:
        return at
    body = exchange.request.json
    return revision(body.get("metadata")) if isinstance(body, dict) else None


def precondition(exchange: Exchange) -> int | None:
    """Return the resourceVersion that the options of a deletion require."""
    named = get(exchange.request.json, ("preconditions", "resourceVersion"))
    return revision_of(named) if isinstance(named, str) else None


def _answers_with_removed_object(exchange: Exchange) -> bool:
    """Return whether a deletion answers with the object as it was removed, which is what the last validation saw.

    A pod without grace period is written once with its deletionTimestamp and validated again before its removal
    (`Store.Delete`).
    """
    return is_gone(exchange, exchange.response.metadata, exchange.response.json)


def _with_defaults(exchange: Exchange, old: JSON) -> JSON:
    """Return the result of a patch with its defaults, or the old object if that is unknown."""
    if form_of(exchange) is PatchForm.APPLY:
        return old
    try:
        return after_patch(exchange, old, strategic=shown_form(exchange, old))
    except UnappliedPatchError:
        return old


def _unpatched_part(after: JSON, changed: list[FieldPath]) -> Known | Missing:
    """Return what a response shows of the old object, given the paths that a patch changed."""
    reason = "a patch changed it, and the log does not show the value before"
    holes = [Hole(path, reason, RECORD_RESPONSES) for path in (*made_parts(changed, after), *_WRITTEN_BY_ALL)]
    if any(not hole.path for hole in holes):
        return _gap()
    return Known(after, Basis.RECONSTRUCTED, tuple(holes))


def _object_removed_by_patch(exchange: Exchange, last: Known, changed: list[FieldPath]) -> Known | None:
    """Return the object that a patch found and removed, None if the history does not fit.

    The object was being deleted, without finalizers or grace period left. That is the `last` state of the history, or a
    deletion wrote it afterwards and failed before it answered. The patch's own fields come from `last`. All others come
    from the response, which has the revision of the found object.

    Source: `Store.deleteWithoutFinalizers`.
    """
    after = exchange.response.json
    if get(last.value, _REVISION) == get(after, _REVISION) and not last.holes:
        return last
    if any(path[:1] in ((), ("metadata",)) or _is_open(path, last) for path in changed):
        return None
    ignored = (*changed, *_WRITTEN_BY_ALL, *_DELETION, *(hole.path for hole in last.holes))
    if not _is_same(last.value, after) or not agrees(last.value, after, ignored):
        return None
    state = Known(after, Basis.RECONSTRUCTED)
    for path in changed:
        value = get(last.value, path)
        state = state.with_value(path, value) if value is not None else state.without(path)
    holes = [Hole(_MANAGED, "a patch changed it, and the log does not show the value before", RECORD_RESPONSES)]
    if exchange.record.subresource != "status":
        holes.append(Hole(_GENERATION, "the patch may have increased the generation", RECORD_RESPONSES))
    return state.with_holes(holes)


def _is_open(path: FieldPath, state: Known) -> bool:
    """Return whether a path is at, above or below an unknown part."""
    return any(_overlaps(path, hole.path) for hole in state.holes)


def _filled(last: Known, exchange: Exchange, changed: list[FieldPath]) -> Known:
    """Return a state completed from the response, in the unknown fields that the patch left alone."""
    for hole in last.holes:
        is_unchanged = hole.path == _GENERATION and exchange.record.subresource == "status"
        if (is_unchanged or hole.path not in _WRITTEN_BY_ALL) and not any(
            _overlaps(hole.path, path) for path in changed
        ):
            value = get(exchange.response.json, hole.path)
            last = last.with_value(hole.path, value) if value is not None else last.without(hole.path)
    return last


def _overlaps(one: FieldPath, other: FieldPath) -> bool:
    """Return whether one path equals, contains or is inside the other."""
    return one[: len(other)] == other or other[: len(one)] == one


def _won_the_removal(metadata: dict[str, JSON]) -> bool:
    """Return whether this request removed the object, and not another deletion at the same time.

    If another deletion removes the pod first, the answer is the last written object without a resourceVersion. The last
    validation saw that object, or the earlier state that the watch cache still held.
    """
    return not metadata.get("deletionTimestamp") or revision(metadata) is not None


def _lost_the_removal(state: Known, last: Known | Missing) -> Known | Missing:
    """Return the object that a deletion found if another one removed it, with or without the deletion's fields."""
    if not isinstance(last, Missing) and last.value is not None:
        ignored = (*_WRITTEN_BY_ALL, *_DELETION, *(hole.path for hole in last.holes))
        if agrees(last.value, state.value, ignored):
            return merged([state, last], _REMOVAL_RACE, RECORD_RESPONSES)
    paths = (*_DELETION, _GENERATION)
    return state.as_basis(Basis.RECONSTRUCTED).with_holes([Hole(path, _REMOVAL_RACE) for path in paths])


def deletion_began_before(metadata: dict[str, JSON], received: int) -> bool:
    """Return whether an earlier request asked for the deletion that an answer shows."""
    at = metadata.get("deletionTimestamp")
    if not isinstance(at, str):
        return False
    # The deletionTimestamp is the end of the grace period (`rest.BeforeDelete`).
    asked_at = datetime.fromisoformat(at).timestamp() - (metadata.get("deletionGracePeriodSeconds") or 0)
    return asked_at < received // MICROSECONDS


def _before_deletion(exchange: Exchange, shown: Known) -> Known:
    """Return the object that a graceful deletion found: without deletion fields, in the previous generation.

    Source: `rest.BeforeDelete`.
    """
    state = shown.as_basis(Basis.RECONSTRUCTED)
    for path in _DELETION:
        state = state.without(path)
    generation = get(shown.value, _GENERATION)
    # `rest.BeforeDelete` increments only a generation that is set.
    if isinstance(generation, int) and generation > 0:
        state = state.with_value(_GENERATION, generation - 1)
    if get(shown.value, FINALIZERS):
        state = state.with_holes([Hole(FINALIZERS, "a deletion may add a finalizer", RECORD_RESPONSES)])
    if exchange.record.resource == "namespaces":
        state = state.with_value(("status", "phase"), "Active")
    return state


def _is_repetition(history: History, exchange: Exchange) -> bool:
    """Return whether a write changed nothing, because it answers with a revision that another write stored.

    A dry run answers like this too, whatever it would change, and does not count.
    """
    if exchange.dry_run:
        return False
    at = revision(exchange.response.metadata)
    return at is not None and history.index_of(exchange) is None and history.index_at_revision(at) is not None


def _generations_agree(old: JSON, after: JSON) -> bool:
    """Return whether at most one change of the spec lies between two states."""
    one, other = get(old, _GENERATION), get(after, _GENERATION)
    if not isinstance(one, int) or not isinstance(other, int):
        return bool(one == other)
    # A deletion also increments the generation, without a change of the spec.
    if get(old, ("spec",)) == get(after, ("spec",)):
        return bool(other == one or get(after, _DELETION[0]))
    return bool(other == one + 1)


def _is_same(old: JSON, after: JSON) -> bool:
    """Return whether two states belong to the same object, not to two objects of the same name."""
    return bool(get(old, ("metadata", "uid")) == get(after, ("metadata", "uid")))


def _nothing_before() -> Missing:
    return Missing("", "the log has no earlier state of the object", RECORD_RESPONSES)


def _gap() -> Missing:
    return Missing("", "the log has gaps, and an earlier write to the object may be missing", RECORD_RESPONSES)


def _unknown_revision(named: int) -> str:
    return f"the log does not have the object with resourceVersion {named}"


# Records of one object as exchanges, with the object's history.

NO_HISTORY = OldObjects(History(()))
"""History for creations, which find nothing."""


class ObjectHistory:
    """The records of an object, and what its requests found; the history is computed on demand."""

    def __init__(
        self,
        records: Sequence[RequestRecord],
        discovery: Discovery,
        old_objects: Callable[[Sequence[Exchange]], OldObjects],
    ) -> None:
        """`old_objects` computes the history from exchanges."""
        self._discovery = discovery
        self._make = old_objects
        self._olds: OldObjects | None = None
        self.exchanges = list(map(Exchange, records, repeat(discovery)))

    @property
    def old_objects(self) -> OldObjects:
        """The history of the object."""
        if self._olds is None:
            self._olds = self._make([each for each in self.exchanges if each.record.verb != "deletecollection"])
        return self._olds

    def check(self) -> None:
        """Check all bodies before they count as objects, and drop the history."""
        self._olds = None
        self.exchanges = [Exchange(each.record, self._discovery, checked=True) for each in self.exchanges]
