"""Explanation of a built-in plugin. It has no expressions, so its message is everything."""

from __future__ import annotations

from collections.abc import Sequence

from replay.admission.conversion import Object
from replay.admission.decision import Decision, Denial
from replay.admission.effects import Effects, Patch
from replay.admission.explain.explanation import BindingExplanation, Explanation, PolicyExplanation
from replay.admission.ordered.plugin import Admitter, Asking, RequestValidator
from replay.kube.admissionregistration import FailurePolicy

KIND = "built-in plugin"


class BuiltinAdmitterWatch:
    """Observes the mutating phase of one set's plugin on one request."""

    def __init__(self, name: str, admitter: Admitter) -> None:
        """`admitter` is the step of one set for one request."""
        self._name = name
        self._admitter = admitter
        self._passes: list[tuple[PolicyExplanation, Patch]] = []

    @property
    def effects(self) -> Effects:
        """The effects of the plugin."""
        return self._admitter.effects

    def admit(self, value: Object, *, reinvoke: bool) -> tuple[Object, bool]:
        """Run one pass."""
        count = len(self.effects.mutated)
        value, changed = self._admitter.admit(value, reinvoke=reinvoke)
        patch = tuple(each for mutated in self.effects.mutated[count:] for each in mutated.patch)
        self._passes.append((_explained(self._name, self.effects.decision(), patch), patch))
        return value, changed

    def explained(self, number: int, refused: str) -> Explanation:
        """Explain a pass. A second pass shows only changes."""
        if number > len(self._passes):
            return Explanation((_not_evaluated(self._name, refused),))
        explained, patch = self._passes[number - 1]
        return Explanation((explained,) if number == 1 or patch else ())


class BuiltinValidatorWatch:
    """Observes the validating phase of one set's plugin."""

    def __init__(self, name: str, index: int, validator: RequestValidator) -> None:
        """`index` is the index of the set among the plugin's sets."""
        self._name = name
        self._index = index
        self._validator = validator
        self._decision: Decision | None = None

    @property
    def denials(self) -> Sequence[Denial]:
        """The denials of the plugin."""
        return () if self._decision is None else self._decision.denials

    def __call__(self, objects: Sequence[Object], asking: Asking, live: Sequence[bool]) -> Sequence[Decision]:
        """Decide, and keep the decision of the observed set."""
        decisions = self._validator(objects, asking, live)
        if live[self._index]:
            self._decision = decisions[self._index]
        return decisions

    def explained(self, refused: str) -> Explanation:
        """Explain its message."""
        if self._decision is None:
            return Explanation((_not_evaluated(self._name, refused),))
        return Explanation((_explained(self._name, self._decision),))


def _not_evaluated(name: str, refused: str) -> PolicyExplanation:
    return PolicyExplanation(name, KIND, FailurePolicy.FAIL, mismatch=f"not asked: {refused}")


def _explained(name: str, decision: Decision, patch: Patch = ()) -> PolicyExplanation:
    """Return the explanation of one phase."""
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
