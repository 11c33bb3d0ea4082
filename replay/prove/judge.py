"""The exact decision about one request: the whole validator with bindings, match rules, selectors and failure policy."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from replay.admission.decision import Decision
from replay.admission.validating.audit_annotations import VALIDATION_FAILURE_KEY
from replay.admission.validating.plugin import ValidatingAdmission
from replay.cellib.version import KubernetesVersion
from replay.errors import UNFORESEEN
from replay.kube.admissionregistration import ManifestSet
from replay.kube.discovery import Discovery
from replay.prove.claim import EnforcementLevel
from replay.prove.request import OneAnswer, SymbolicRequest


class JudgedVerdict(Struct, frozen=True):
    """Result of a request in one set; `level` is None if it is unknown."""

    level: EnforcementLevel | None
    messages: tuple[str, ...] = ()


class WitnessJudge:
    """Decides requests for several sets at once, exactly."""

    def __init__(self, sets: Sequence[ManifestSet], version: KubernetesVersion, discovery: Discovery) -> None:
        """Expressions are compiled when a request first needs them."""
        self._admission = ValidatingAdmission(sets, version, discovery, OneAnswer)
        self._count = len(sets)

    def levels(self, request: SymbolicRequest) -> list[EnforcementLevel | None]:
        """Return the result of a request in each set, None if unknown."""
        return [verdict.level for verdict in self.verdicts(request)]

    def verdicts(self, request: SymbolicRequest) -> list[JudgedVerdict]:
        """The same with messages."""
        try:
            decisions = self._admission.decide(request.attributes(), request.lister())
        except UNFORESEEN:
            return [JudgedVerdict(None)] * self._count
        return [verdict_of(decision) for decision in decisions]


def verdict_of(decision: Decision) -> JudgedVerdict:
    """The hardest action of a decision."""
    if decision.undetermined:
        return JudgedVerdict(None)
    if decision.denials:
        return JudgedVerdict(EnforcementLevel.DENIED, tuple(each.message for each in decision.denials))
    if decision.warnings:
        return JudgedVerdict(EnforcementLevel.WARNED, decision.warnings)
    if VALIDATION_FAILURE_KEY in decision.audit_annotations:
        return JudgedVerdict(EnforcementLevel.AUDITED, (decision.audit_annotations[VALIDATION_FAILURE_KEY],))
    return JudgedVerdict(EnforcementLevel.ADMITTED)
