"""Patches applied to objects that differ from the log's and may have unknown parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from replay.json import JSON, FieldPath
from replay.kube.attributes import Basis, Missing
from replay.kube.schema import Schemas
from replay.reconstruct.mutation_input import patched
from replay.reconstruct.patch.body import UnappliedPatchError, UnfittingPatchError, touched
from replay.reconstruct.patch.result import after_patch, may_be_either, shown_form
from replay.reconstruct.record.exchange import Exchange
from replay.reconstruct.record.known import Hole, Known, replaced
from replay.world.state import INSIGNIFICANT_FIELDS

_STAND_IN = "\x00hole {}"
"""Replacement of an unknown part while a patch is applied. No client sends it, so no patch refers to it."""

_OF_ONE_WORLD = tuple(
    Hole(path, "the server sets it, and the value under the candidate is not known") for path in INSIGNIFICANT_FIELDS
)
"""Server-set fields. A patch that fails on them may have named values that its client had read."""


def after_patch_of(
    exchange: Exchange, live: Known | Missing, schemas: Schemas, *, strategic: bool | None
) -> Known | Missing:
    """Return the object after a JSON, merge or strategic merge patch.

    Raise `UnfittingPatchError` if the server would refuse the patch. `strategic` is the form that the patch's effect
    in the log shows; if that is unknown, the patch is taken as a strategic merge patch, as `kubectl` sends it.
    """
    if isinstance(live, Known) and live.value is not None:
        # A patch may move list items with their unknown parts, so that a stand-in marks each part while the patch is
        # applied.
        in_lists = {_STAND_IN.format(number): hole for number, hole in enumerate(live.holes) if _is_in_list(hole.path)}
        others = tuple(hole for hole in live.holes if not _is_in_list(hole.path))
        if not _meets(touched(exchange.request.json), others):
            try:
                after = after_patch(exchange, _with(in_lists, live.value), strategic=strategic is not False)
            except UnfittingPatchError:
                # The patch may fail only because of an unknown part, or because of a field that the server sets.
                if not _meets(touched(exchange.request.json), (*live.holes, *_OF_ONE_WORLD)):
                    raise
                return patched(exchange, live, schemas)
            except UnappliedPatchError:
                return patched(exchange, live, schemas)
            return Known(after, Basis.RECONSTRUCTED, (*others, *_holes(after, in_lists, ())))
    return patched(exchange, live, schemas)


def is_strategic_patch(exchange: Exchange, old: Callable[[], Known | Missing]) -> bool | None:
    """Return whether a map patch is a strategic merge patch, as far as its effect in the log tells."""
    if not exchange.succeeded or exchange.record.verb != "patch" or not may_be_either(exchange):
        return None
    live = old()
    if isinstance(live, Missing) or live.value is None:
        return None
    return shown_form(exchange, live.value, (*INSIGNIFICANT_FIELDS, *(hole.path for hole in live.holes)))


def _is_in_list(path: FieldPath) -> bool:
    """Return whether a patch may move a part."""
    return any(isinstance(part, int) for part in path)


def _meets(paths: list[FieldPath], holes: tuple[Hole, ...]) -> bool:
    return any(
        all(one == other for one, other in zip(path, hole.path, strict=False)) for path in paths for hole in holes
    )


def _with(stand_ins: Mapping[str, Hole], value: JSON) -> JSON:
    for text, hole in stand_ins.items():
        value = replaced(value, hole.path, text)
    return value


def _holes(value: JSON, stand_ins: Mapping[str, Hole], at: FieldPath) -> Iterator[Hole]:
    """Yield the unknown parts at the present places of their replacements."""
    if isinstance(value, str) and value in stand_ins:
        yield stand_ins[value]._replace(path=at)
    elif isinstance(value, dict) and stand_ins:
        for key, inner in value.items():
            yield from _holes(inner, stand_ins, (*at, key))
    elif isinstance(value, list) and stand_ins:
        for index, inner in enumerate(value):
            yield from _holes(inner, stand_ins, (*at, index))
