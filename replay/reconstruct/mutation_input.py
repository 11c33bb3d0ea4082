"""The object that mutating policies get for a PATCH, and the result of a patch.

The body of a patch is not the object. The object before mutation is the response without what the strategy did
afterwards. If mutating policies or webhooks may have changed it too, it is the patch applied to the old object.
"""

from __future__ import annotations

from collections.abc import Callable

from replay.json import JSON, FieldPath
from replay.kube.attributes import Basis, Missing, Operation
from replay.kube.merge.field_manager import ApplyConflictError
from replay.kube.schema import Schemas
from replay.reconstruct.patch.apply import after_apply
from replay.reconstruct.patch.body import PatchForm, UnappliedPatchError, agrees, form_of, touched
from replay.reconstruct.patch.result import after_patch, shown_form
from replay.reconstruct.record.body import BodyShape
from replay.reconstruct.record.exchange import Exchange
from replay.reconstruct.record.known import Hole, Known, get

_GENERATION = ("metadata", "generation")
_MANAGED = ("metadata", "managedFields")
_IGNORED = (_GENERATION, ("metadata", "resourceVersion"), _MANAGED)
_SET_BY_STRATEGY = frozenset({"pods", "services", "jobs", "namespaces", "apiservices", "certificatesigningrequests"})


Mutators = Callable[[Exchange, Operation], bool]
"""Returns whether a mutating policy of the time may have changed the object of a request.

Policies leave no trace in the log. Webhooks do: an annotation names those that changed the object.
"""


def no_policies(exchange: Exchange, operation: Operation) -> bool:
    """Return false: the `Mutators` of a time without mutating policies."""
    del exchange, operation
    return False


def is_changed_by_webhook(exchange: Exchange) -> bool:
    """Return whether a mutating webhook changed the object, as its annotation says."""
    # The annotation is JSON inside JSON, so its quotes are escaped.
    return bool(exchange.record.annotations and '\\"mutated\\":true' in exchange.record.annotations)


def original_of_apply(exchange: Exchange) -> Known | Missing:
    """Return the object before mutation of an apply that created it, if no mutator changed it.

    It is the response without system fields.
    """
    if exchange.shape is not BodyShape.OBJECT:
        return Missing("", "the server sets defaults in an applied object, and the response does not show the object")
    if exchange.record.resource in _SET_BY_STRATEGY:
        return Missing("", "the response does not show which fields the client applied and which the server set")
    original = Known(exchange.response.json, Basis.RECONSTRUCTED)
    for name in ("uid", "creationTimestamp", "generation", "resourceVersion"):
        original = original.without(("metadata", name))
    return original


def original_of_patch(
    exchange: Exchange, validated: Known, old: Known | Missing, schemas: Schemas, *, mutated: bool
) -> Known | Missing:
    """Return the object before mutation of a successful patch: the validated object with the old generation.

    If a mutator may have changed it (`mutated`) and the patch alone does not explain the response, it is the result of
    the patch.
    """
    if mutated and not _is_explained(exchange, old):
        return _original_by_patch(exchange, old, schemas)
    original = validated.as_basis(Basis.RECONSTRUCTED)
    if isinstance(old, Missing) or old.value is None:
        original = original.with_holes([Hole(_GENERATION, "the log does not show the generation before the request")])
    elif get(old.value, _GENERATION) is not None:
        hole = next((hole for hole in old.holes if hole.path == _GENERATION), None)
        original = (
            original.with_holes([hole]) if hole else original.with_value(_GENERATION, get(old.value, _GENERATION))
        )
    if exchange.record.subresource == "scale":
        original = original.with_holes([Hole(_MANAGED, "the log does not show the managedFields of a Scale")])
    return original


def _original_by_patch(exchange: Exchange, old: Known | Missing, schemas: Schemas) -> Known | Missing:
    """Return the result of a patch, with the field managers of the response.

    Field managers are set before the mutating phase (`patcher.applyPatch`) and not changed after it.
    """
    original = patched(exchange, old, schemas)
    if isinstance(original, Missing):
        reason = "a mutating policy or webhook may have changed the object, and the object before that is not known"
        return Missing("", f"{reason}: {original.reason}", original.fix)
    managed = get(exchange.response.json, _MANAGED)
    return original if managed is None else original.with_value(_MANAGED, managed)


def _is_explained(exchange: Exchange, old: Known | Missing) -> bool:
    """Return whether the patch alone turns the old object into the response."""
    if isinstance(old, Missing) or old.value is None or form_of(exchange) is PatchForm.APPLY:
        return False
    try:
        after = after_patch(exchange, old.value, strategic=shown_form(exchange, old.value))
    except UnappliedPatchError:
        return False
    return agrees(after, exchange.response.json, (*_IGNORED, *(hole.path for hole in old.holes)))


def patched(  # noqa: PLR0911 - one return per reason why the result is not known
    exchange: Exchange, old: Known | Missing, schemas: Schemas
) -> Known | Missing:
    """Return the result of a patch; parts that cannot be computed are holes. `schemas` are those of the cluster."""
    if isinstance(old, Missing):
        return Missing("", f"the log has the patch, but the object before it is not known: {old.reason}", old.fix)
    if old.value is None:
        return Missing("", "the log has the patch, but not the object that it creates")
    patch, form = exchange.request.json, form_of(exchange)
    if patch is None:
        return Missing(
            "",
            exchange.request.fault or "the log does not have the patch",
            "audit this resource at level Request or RequestResponse",
        )
    base = old.as_basis(Basis.RECONSTRUCTED)
    holes = [Hole(_MANAGED, "the log does not show managedFields for a request that stored nothing")]
    try:
        _check_lists(patch, base)
        if form is PatchForm.APPLY:
            return after_apply(exchange, base, schemas).with_holes(holes)
        after = after_patch(exchange, old.value, strategic=shown_form(exchange, old.value))
        return Known(after, Basis.RECONSTRUCTED, base.holes).with_holes(holes)
    except ApplyConflictError:
        return Missing("", "the apply conflicts with other field managers of the object")
    except UnappliedPatchError as error:
        if form is PatchForm.APPLY:
            return Missing("", str(error))
        paths = touched(patch)
        # A patch of the whole object leaves nothing known.
        if any(not path for path in paths):
            return Missing("", str(error))
        shallow = [_cut_at_missing(path, old) for path in paths if path not in _NAMES]
        return base.with_holes([*holes, *(Hole(path, str(error)) for path in shallow)])


def _check_lists(patch: JSON, old: Known) -> None:
    """Raise `UnappliedPatchError` if a patch may move a partly known list item."""
    items = [hole.path for hole in old.holes if any(isinstance(part, int) for part in hole.path)]
    if any(item[: len(path)] == path for item in items for path in touched(patch)):
        raise UnappliedPatchError("the patch changes a list with an item that is not known")


_NAMES = (("apiVersion",), ("kind",), ("metadata", "name"), ("metadata", "namespace"))


def _cut_at_missing(path: FieldPath, old: Known) -> FieldPath:
    """Return a path, cut after the first part that the old object lacks."""
    for length in range(1, len(path)):
        if get(old.value, path[:length]) is None:
            return path[:length]
    return path
