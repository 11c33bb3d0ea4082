"""The result of a patch, in the form in which the API server holds it (`endpoints/handlers.patcher`).

An audit event has no content type. A map with a strategic directive is a strategic merge patch. A map for a custom
resource can only be a merge patch. In other cases the form does not matter as long as both give the same object.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache

from replay.json import JSON, FieldPath
from replay.kube.default import set_defaults
from replay.kube.go_object import DecodeError, round_trip
from replay.kube.schema import Schema, Schemas
from replay.reconstruct.patch.body import (
    PatchForm,
    UnappliedPatchError,
    agrees,
    applied,
    form_of,
    is_ambiguous,
    merge_patched,
)
from replay.reconstruct.patch.strategic_merge import StrategicMergeError, has_directive, strategic_merge
from replay.reconstruct.record.exchange import Exchange


def after_patch(exchange: Exchange, value: JSON, *, strategic: bool | None = None) -> JSON:
    """Return the result of a JSON, merge or strategic merge patch.

    Raise `UnappliedPatchError` if the log leaves it open.

    `strategic` is the form of a map patch for a built-in kind, None if unknown.
    """
    patch, form, schema = exchange.request.json, form_of(exchange), builtin_schema(exchange)
    if form is PatchForm.MERGE and isinstance(patch, dict):
        if schema is not None:
            return _after_map(schema, value, patch, strategic=strategic)
        if exchange.api_resource is not None and exchange.api_resource.custom:
            return merge_patched(patch, value)
    after = applied(patch, form, value)
    return after if schema is None else settled(schema, after, value)


def builtin_schema(exchange: Exchange) -> Schema | None:
    """Return the schema of the request's kind, None if the kind is not built in."""
    kind, api_resource = exchange.kind, exchange.api_resource
    return None if kind is None or api_resource is None or api_resource.custom else _builtin().for_kind(kind)


@cache
def _builtin() -> Schemas:
    return Schemas()


def may_be_either(exchange: Exchange) -> bool:
    """Return whether a map patch may have either form with different results.

    A directive shows that it is strategic.
    """
    patch = exchange.request.json
    return isinstance(patch, dict) and is_ambiguous(patch) and not has_directive(patch)


def shown_form(exchange: Exchange, old: JSON, ignored: Sequence[FieldPath] | None = None) -> bool | None:
    """Return whether a map patch is a strategic merge patch, as far as its answer shows, or None if it does not.

    With `ignored`, a form is also shown if it alone leads from the old object to the answer outside these paths.

    Mutation may have changed the object after the patch. So only places count where the forms differ. The answer shows
    a form if it has this form's value in at least one of these places, and the other form's value in none.
    """
    answer = exchange.response.json
    if not exchange.succeeded or not isinstance(answer, dict) or not may_be_either(exchange):
        return None
    results: dict[bool, JSON] = {}
    for strategic in (True, False):
        with suppress(UnappliedPatchError):
            results[strategic] = after_patch(exchange, old, strategic=strategic)
    if ignored is not None:
        leading = [strategic for strategic, result in results.items() if agrees(result, answer, ignored)]
        if len(leading) == 1:
            return leading[0]
    if True not in results:
        return None
    if False not in results:
        return True  # the server would have refused a merge patch
    shown = set(_shows_strategic_form(results[True], results[False], answer))
    return shown.pop() if len(shown) == 1 else None


def _shows_strategic_form(strategic: JSON, merged: JSON, answer: JSON) -> Iterator[bool]:
    """Yield whether the answer has the value of the strategic form, for each place where the forms differ.

    Places with neither value are left out.
    """
    if strategic == merged:
        return
    if isinstance(strategic, dict) and isinstance(merged, dict) and isinstance(answer, dict):
        for key in {**strategic, **merged}:
            yield from _shows_strategic_form(strategic.get(key), merged.get(key), answer.get(key))
    elif isinstance(strategic, list) and isinstance(merged, list) and isinstance(answer, list):
        if len(strategic) != len(merged) and len(answer) in (len(strategic), len(merged)):
            yield len(answer) == len(strategic)
        for one, other, item in zip(strategic, merged, answer, strict=False):
            yield from _shows_strategic_form(one, other, item)
    elif answer in (strategic, merged):
        yield bool(answer == strategic)


def _after_map(schema: Schema, value: JSON, patch: dict[str, JSON], *, strategic: bool | None) -> JSON:
    """Return the result of a map patch that has one of two forms. A form that the server would refuse was not sent."""
    if not is_ambiguous(patch):
        return settled(schema, merge_patched(patch, value), value)
    objects = []
    try:
        if strategic is not False:
            objects.append(settled(schema, strategic_merge(schema, value, patch), value))
    except StrategicMergeError as error:
        # Without a directive, a patch that does not apply as a strategic one may still be a merge patch.
        if has_directive(patch):
            raise UnappliedPatchError("the strategic merge patch does not apply to the object") from error
    if strategic is not True and not has_directive(patch):
        objects.append(settled(schema, merge_patched(patch, value), value))
    if not objects or any(after != objects[0] for after in objects):
        raise UnappliedPatchError(
            "the log does not have the content type of the patch, and patch types treat lists differently"
        )
    return objects[0]


def settled(schema: Schema, after: JSON, old: JSON) -> JSON:
    """Return an object in the form of its Go type, with defaults for what a patch omits.

    Raise `UnappliedPatchError` if the object does not fit the type.
    """
    try:
        written = round_trip(schema, after, old)
    except DecodeError as error:
        raise UnappliedPatchError("the patched object does not match the schema of its kind") from error
    set_defaults(schema, written, old)
    return written
