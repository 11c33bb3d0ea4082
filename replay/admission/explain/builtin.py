"""A built-in plugin on one request, explained: it has no expressions, what it said is all there is."""

from __future__ import annotations

from typing import Protocol

from replay.admission.change import Patch
from replay.admission.decision import Decision
from replay.admission.effects import Effects
from replay.admission.explain.explanation import BindingExplanation, PolicyExplanation, Step, refusal_of
from replay.admission.mutating.mutator import Object
from replay.kube.admissionregistration import FailurePolicy

KIND = "built-in plugin"


class _Admitter(Protocol):
    effects: Effects

    def admit(self, value: Object, *, reinvoke: bool) -> tuple[Object, bool]:
        """One pass."""
        ...


class BuiltinWatch:
    """The mutating phase of a plugin, watched."""

    def __init__(self, name: str, admitter: _Admitter) -> None:
        """`admitter` is that of one set and request."""
        self._name = name
        self._admitter = admitter

    def step(self, value: Object, refused: str, *, reinvoke: bool) -> Step:
        """One pass."""
        if refused:
            return Step(value, False, refused, (explained(self._name, None, refused),))
        known = len(self._admitter.effects.mutated)
        value, changed = self._admitter.admit(value, reinvoke=reinvoke)
        effects = self._admitter.effects
        patch = tuple(each for mutated in effects.mutated[known:] for each in mutated.patch)
        told = explained(self._name, effects.decision(), "", patch)
        shown = () if reinvoke and not patch else (told,)
        return Step(value, changed, refusal_of(effects.denials), shown)


def explained(name: str, decision: Decision | None, refused: str, patch: Patch = ()) -> PolicyExplanation:
    """What one phase of a plugin came to."""
    if refused or decision is None:
        return PolicyExplanation(name, KIND, FailurePolicy.FAIL, mismatch=f"not asked: {refused}")
    if decision.undetermined:
        outcome = f"undetermined: {decision.undetermined[0].reason}"
    elif decision.denials:
        outcome = f"denies: {decision.denials[0].message}"
    elif patch:
        outcome = "changes the object"
    else:
        outcome = "; ".join(decision.warnings) or "admits"
    return PolicyExplanation(
        name, KIND, FailurePolicy.FAIL, bindings=(BindingExplanation("", outcome=outcome, patch=patch),)
    )
