"""Comparison of two decisions about one request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum

from msgspec import Struct

from replay.admission.decision import Decision, Verdict
from replay.admission.webhook.answer import CALL_ANNOTATIONS
from replay.kcp.binding import NO_WORKSPACE, DecidedIn
from replay.kube.attributes import Basis
from replay.kube.gvk import GroupVersionResource
from replay.manifests.static_rule import without_suffix


class OutcomeKind(StrEnum):
    """Effect of a candidate on a request. If several apply, the first in this order counts."""

    NEWLY_DENIED = "newly_denied"
    NEWLY_ADMITTED = "newly_admitted"
    UNDETERMINED = "undetermined"
    NEWLY_MUTATED = "newly_mutated"
    MUTATION_CHANGED = "mutation_changed"
    NO_LONGER_MUTATED = "no_longer_mutated"
    NEWLY_WARNED = "newly_warned"
    NEWLY_AUDITED = "newly_audited"
    UNCHANGED = "unchanged"


WORDS = {
    OutcomeKind.NEWLY_DENIED: "newly denied",
    OutcomeKind.NEWLY_ADMITTED: "newly admitted",
    OutcomeKind.NEWLY_MUTATED: "newly mutated",
    OutcomeKind.MUTATION_CHANGED: "mutated differently",
    OutcomeKind.NO_LONGER_MUTATED: "no longer mutated",
    OutcomeKind.NEWLY_WARNED: "newly warned",
    OutcomeKind.NEWLY_AUDITED: "newly audited",
    OutcomeKind.UNDETERMINED: "undetermined",
}
"""Words for each outcome in a report."""

MUTATIONS = (OutcomeKind.NEWLY_MUTATED, OutcomeKind.MUTATION_CHANGED, OutcomeKind.NO_LONGER_MUTATED)
"""Outcomes in which only the patch differs."""

CALL_TRACES = (
    *CALL_ANNOTATIONS,
    "pod-security.kubernetes.io/enforce-policy",
    "pod-security.kubernetes.io/exempt",
)
"""Audit annotations about webhook calls and Pod Security. They are not audit findings."""


class Outcome(Struct, frozen=True):
    """One request that admission saw, with the decisions of both sets. It becomes a line of `--outcomes`.

    `workload` is the owner that a platform team would contact (`Deployment/web`), or the object itself if it has no
    owner. `owner` is the value of its namespace's label. `seq` and `item` are the position of the request in the log,
    and of the object in a `deletecollection`.
    """

    seq: int
    item: int
    audit_id: str
    stage_time: int
    user: str
    operation: str
    resource: GroupVersionResource
    subresource: str
    kind: str
    namespace: str
    name: str
    outcome: OutcomeKind
    basis: Mapping[str, Basis | None]
    current: Decision
    candidate: Decision
    workload: str = ""
    owner: str = ""
    decided_in: DecidedIn = NO_WORKSPACE


def outcome_kind(current: Decision, candidate: Decision) -> OutcomeKind:
    """Return what changes between two decisions about one request.

    A certain denial counts even if other policies are undetermined. It is certainly *new* only if the baseline
    certainly admits the request.
    """
    # Whatever a missing input is, one decision made once for both sets is the same decision.
    if current is candidate:
        return OutcomeKind.UNCHANGED
    if candidate.denials and not current.denials:
        return OutcomeKind.UNDETERMINED if current.verdict is Verdict.UNDETERMINED else OutcomeKind.NEWLY_DENIED
    if current.denials and not candidate.denials:
        return OutcomeKind.UNDETERMINED if candidate.verdict is Verdict.UNDETERMINED else OutcomeKind.NEWLY_ADMITTED
    if current.denials and candidate.denials:
        return OutcomeKind.UNCHANGED
    if Verdict.UNDETERMINED in (current.verdict, candidate.verdict):
        return OutcomeKind.UNDETERMINED
    return _effect_kind(current, candidate)


def _effect_kind(current: Decision, candidate: Decision) -> OutcomeKind:
    """Return the outcome of two admissions. Mutation comes first, then warnings, then audit annotations."""
    if candidate.patch != current.patch:
        if not current.patch:
            return OutcomeKind.NEWLY_MUTATED
        return OutcomeKind.MUTATION_CHANGED if candidate.patch else OutcomeKind.NO_LONGER_MUTATED
    if next(new_warnings(current, candidate), None) is not None:
        return OutcomeKind.NEWLY_WARNED
    if next(new_annotations(current, candidate), None) is not None:
        return OutcomeKind.NEWLY_AUDITED
    return OutcomeKind.UNCHANGED


def new_warnings(current: Decision, candidate: Decision) -> Iterator[str]:
    """Yield the warnings that only the candidate has.

    A policy that moves to static manifests has the same warnings, apart from the suffix of its name.
    """
    if candidate.warnings == current.warnings:
        return
    known = set(map(without_suffix, current.warnings))
    yield from (warning for warning in dict.fromkeys(candidate.warnings) if without_suffix(warning) not in known)


def new_annotations(current: Decision, candidate: Decision) -> Iterator[tuple[str, str]]:
    """Yield the audit annotations that only the candidate has, without traces of calls.

    Names compare as in `new_warnings`.
    """
    if candidate.audit_annotations == current.audit_annotations:
        return
    known = {without_suffix(key): without_suffix(value) for key, value in current.audit_annotations.items()}
    for key, value in candidate.audit_annotations.items():
        if known.get(without_suffix(key)) != without_suffix(value) and not key.startswith(CALL_TRACES):
            yield key, value
