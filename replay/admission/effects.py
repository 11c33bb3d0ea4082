"""Effects of plugins on one request on its way through the chain, and the result of one set's mutating phase.

With that result the validating phase can be decided without running the mutating phase again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct, field

from replay.admission.conversion import Object
from replay.admission.decision import Decision, Denial, Mutated, Triggered, Undetermined, Verdict, WebhookCall
from replay.admission.partial_patch import is_same, known_part
from replay.json import JSON
from replay.kube import json_patch
from replay.kube.attributes import Missing
from replay.kube.json_patch import diff

# Changes between two states of an object.

Patch = tuple[JSON, ...]
"""Operations of an RFC 6902 patch."""


def changes(old: Object, new: Object) -> Patch:
    """Return the patch between two states of an object, empty if one of them is unknown."""
    if old is new or old is None or new is None:
        return ()
    if type(old) is dict and type(new) is dict:  # known in all parts, as nearly always
        return diff(old, new)
    if isinstance(old, Missing) or isinstance(new, Missing):
        return ()
    return diff(known_part(old), known_part(new))


class Changes(Struct):
    """Computes `changes` for one request, each pair of objects once: sets, policies and phases need the same pairs."""

    _patches: dict[tuple[int, int], tuple[Object, Object, Patch]] = field(default_factory=dict)
    """Patches by the identities of two states. The states are kept, so that no other object can have the same identity.
    """

    def __call__(self, old: Object, new: Object) -> Patch:
        """Return the patch between two states."""
        if old is new:
            return ()
        key = id(old), id(new)
        if key not in self._patches:
            self._patches[key] = old, new, changes(old, new)
        return self._patches[key][2]

    def note(self, old: Object, new: Object, patch: Patch) -> None:
        """Record a patch between two states. It may also touch unchanged parts."""
        self._patches[id(old), id(new)] = old, new, patch

    def is_same(self, old: Object, new: Object) -> bool:
        """Return whether two states are equal in all known parts."""
        if old is new:
            return True
        # The patch is needed again for the report, so that it replaces a comparison here.
        if isinstance(old, dict) and isinstance(new, dict):
            return not self(old, new)
        return is_same(old, new)


ADMITTED = Decision(Verdict.ADMITTED)


class Effects(Struct):
    """One plugin's refusal, changes, messages and webhook calls, and what is unknown about them."""

    denials: list[Denial] = field(default_factory=list)
    undetermined: list[Undetermined] = field(default_factory=list)
    mutated: list[Mutated] = field(default_factory=list)
    calls: list[WebhookCall] = field(default_factory=list)
    triggered: list[Triggered] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    audit_annotations: dict[str, str] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Return whether the plugin had no effect."""
        said = self.calls or self.denials or self.undetermined or self.mutated or self.triggered or self.warnings
        return not (said or self.audit_annotations)

    def decision(self) -> Decision:
        """Return the effects as a decision of this plugin."""
        if self.is_empty:
            return ADMITTED
        return Decision(
            verdict=verdict(self.undetermined, self.denials),
            denials=tuple(self.denials),
            warnings=tuple(self.warnings),
            audit_annotations=self.audit_annotations,
            undetermined=tuple(self.undetermined),
            mutated=tuple(self.mutated),
            webhooks=tuple(self.calls),
            triggered=() if self.denials else tuple(self.triggered),
        )


def joined(parts: Sequence[Decision], patch: Patch) -> Decision:
    """Return the decision of several plugins, in order. `patch` is their combined change."""
    acting = [part for part in parts if part is not ADMITTED]
    if not acting and not patch:
        return ADMITTED
    all_effects, caused, healed = Effects(), list[Denial](), list[Denial]()
    for part in acting:
        all_effects.denials += part.denials
        all_effects.undetermined += part.undetermined
        all_effects.mutated += part.mutated
        all_effects.calls += part.webhooks
        all_effects.triggered += part.triggered
        all_effects.warnings += part.warnings
        all_effects.audit_annotations.update(part.audit_annotations)
        caused += part.caused_by_mutation
        healed += part.healed_by_mutation
    return Decision(
        verdict=verdict(all_effects.undetermined, all_effects.denials),
        denials=tuple(all_effects.denials),
        # The server writes each warning once (`filters.recorder.AddWarning`).
        warnings=tuple(dict.fromkeys(all_effects.warnings)),
        audit_annotations=all_effects.audit_annotations,
        patch=patch,
        undetermined=tuple(dict.fromkeys(all_effects.undetermined)),
        mutated=tuple(all_effects.mutated),
        webhooks=tuple(all_effects.calls),
        triggered=() if all_effects.denials else tuple(dict.fromkeys(all_effects.triggered)),
        caused_by_mutation=tuple(caused),
        healed_by_mutation=tuple(healed),
    )


def verdict(undetermined: Sequence[Undetermined], denials: Sequence[Denial]) -> Verdict:
    """Return the verdict of denials and unknown parts."""
    if undetermined:
        return Verdict.UNDETERMINED
    return Verdict.DENIED if denials else Verdict.ADMITTED


class Admitted(Struct, frozen=True):
    """The outcome of one set's mutating phase.

    `parts` are the effects of each plugin that ran, in order. `patch` is the change of all of them. `is_same` says that
    the object is unchanged, `is_refused` that a plugin refused the request. `carried` leads from the recorded object to
    the validated one: a patch, or the validated object itself if one of the two is only partly known.
    """

    parts: tuple[Decision, ...] = ()
    patch: Patch = ()
    carried: Patch | Object = ()
    is_same: bool = True
    is_refused: bool = False

    def validated(self, recorded: Object, changes: Changes) -> Object:
        """Return the object that the set validates. `changes` receives its differences from the recorded object."""
        if not isinstance(self.carried, tuple):
            return self.carried
        if not self.carried:
            return recorded
        value = json_patch.apply(recorded, self.carried)
        changes.note(recorded, value, self.carried)
        return value


UNCHANGED: Final = Admitted()
"""Outcome of a mutating phase in which nothing acted on the request."""


class Made(Struct, frozen=True):
    """The decisions of all sets, and the result of each mutating phase.

    `admitted` is None if the results are unknown.
    """

    decisions: list[Decision]
    admitted: Sequence[Admitted] | None


def carried(recorded: Object, validated: Object, changes: Changes) -> Patch | Object:
    """Return the way from a recorded object to the validated one.

    It is a patch, or the validated object if a part is unknown.
    """
    if validated is recorded:
        return ()
    return changes(recorded, validated) if type(recorded) is dict and type(validated) is dict else validated
