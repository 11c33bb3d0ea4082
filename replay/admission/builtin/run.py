"""Runs one plugin on one request: the mutating phase, then the validating phase."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct, field

from replay.admission.builtin.partial import UnknownInputError, require_known, unguarded
from replay.admission.builtin.plugin import Plugin, PluginCluster, PluginPhase, Refusal, Review
from replay.json import JSON
from replay.kube import json_patch
from replay.kube.attributes import Attributes, Missing, PartialObject

MALFORMED = (AttributeError, LookupError, TypeError, ValueError)
"""Exceptions for objects that no server would decode. QuantityError is a subclass of one."""


class PhaseResult(Struct, frozen=True):
    """Result of one phase. `patch` is RFC 6902 against the phase's input."""

    refusal: Refusal | None = None
    patch: tuple[JSON, ...] = ()
    warnings: tuple[str, ...] = ()
    audit_annotations: dict[str, str] = field(default_factory=dict)
    effects: tuple[JSON, ...] = ()
    review_spec: JSON = None

    @property
    def is_silent(self) -> bool:
        """Return whether the phase refused, changed and recorded nothing."""
        return self == PhaseResult()


class PluginResult(Struct, frozen=True):
    """Results of both phases. None if the plugin lacks the phase, does not handle the operation, or refused earlier."""

    admit: PhaseResult | None = None
    validate: PhaseResult | None = None
    unknown: Missing | None = None

    @property
    def allowed(self) -> bool:
        """Return whether the plugin allows the request."""
        return not any(phase is not None and phase.refusal is not None for phase in (self.admit, self.validate))

    @property
    def has_effect(self) -> bool:
        """Return whether a phase refused, changed or recorded something."""
        return any(phase is not None and not phase.is_silent for phase in (self.admit, self.validate))

    @property
    def patch(self) -> tuple[JSON, ...]:
        """Return the patch of the mutating phase."""
        return self.admit.patch if self.admit is not None else ()


def ask(
    plugin: Plugin,
    attributes: Attributes,
    cluster: PluginCluster,
    *,
    after: Attributes | None = None,
    time: int = 0,
) -> PluginResult:
    """Run a plugin: `admit` on the object of `attributes`, `validate` on the object of `after`.

    Without `after`, the validating phase sees the result of the mutating phase. An unknown input makes the result
    unknown.
    """
    if not plugin.handles(attributes.operation):
        return PluginResult()
    try:
        admitted, admitted_object = phase_result(plugin.admit, attributes, cluster, time, mutates=True)
        if admitted is not None and admitted.refusal is not None:
            return PluginResult(admitted)
        validated_attributes = attributes.with_object(admitted_object) if after is None else after
        validated, _ = phase_result(plugin.validate, validated_attributes, cluster, time, mutates=False)
    except UnknownInputError as error:
        return PluginResult(unknown=error.missing)
    except MALFORMED as error:
        return PluginResult(unknown=Missing("object", f"an object does not match the schema of its kind: {error!r}"))
    return PluginResult(admitted, validated)


def phase_result(
    phase: PluginPhase | None, attributes: Attributes, cluster: PluginCluster, time: int, *, mutates: bool
) -> tuple[PhaseResult | None, JSON]:
    """Return the result of one phase and its object. Raise UnknownInputError, or MALFORMED for other objects."""
    if phase is None:
        return None, attributes.object
    review = Review(attributes, cluster, time, is_read_only=not mutates)
    refusal = phase(review)
    if review.copied is None or not mutates:
        return _result(review, refusal, ()), attributes.object
    original = attributes.object
    if not isinstance(original, PartialObject):
        patch = _changes(original, review.copied)
        return _result(review, refusal, patch), json_patch.apply(original, patch)
    patch = _changes(original.value, unguarded(review.copied))
    # A change that copies an unknown part has an unknown value, so the result is unknown as a whole.
    require_known([each.get("value") for each in patch])
    return _result(review, refusal, patch), PartialObject(json_patch.apply(original.value, patch), original.missing)


def _changes(old: JSON, new: JSON) -> tuple[dict[str, JSON], ...]:
    """Return the patch between two objects, most of which are equal.

    The patched object shares the unchanged parts with the first, so that later comparisons are cheap.
    """
    shared = _shared(old, new)
    return () if shared is old else json_patch.diff(old, shared)


def _shared(old: JSON, new: JSON) -> JSON:
    """Return the new value with the parts that equal old ones as the same objects.

    Python compares much faster than a diff, which then skips these parts. It takes 1 for `true`, but no plugin writes one
    for the other.
    """
    if old == new:
        return old
    if isinstance(old, dict) and isinstance(new, dict):
        return {key: _shared(old[key], value) if key in old else value for key, value in new.items()}
    if isinstance(old, list) and isinstance(new, list):
        return [_shared(old[index], value) if index < len(old) else value for index, value in enumerate(new)]
    return new


def _result(review: Review, refusal: Refusal | None, patch: Iterable[JSON]) -> PhaseResult:
    return PhaseResult(
        refusal,
        # A plugin that denies may have changed the object before. The server drops such changes.
        () if refusal is not None else tuple(patch),
        tuple(review.warnings),
        review.audit_annotations,
        tuple(review.effects),
        review.review_spec,
    )
