"""The comparison of two decisions about one request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import NamedTuple

from replay.admission.decision import Decision, Verdict
from replay.admission.webhook.answer import CALL_ANNOTATIONS
from replay.kube.attributes import Basis
from replay.kube.gvk import GroupVersionResource
from replay.manifests.static_rule import without_suffix


class OutcomeKind(StrEnum):
    """What a candidate changes for a request. If several apply, the first in this order counts."""

    NEWLY_DENIED = "newly_denied"
    NEWLY_ADMITTED = "newly_admitted"
    UNDETERMINED = "undetermined"
    NEWLY_MUTATED = "newly_mutated"
    MUTATION_CHANGED = "mutation_changed"
    NO_LONGER_MUTATED = "no_longer_mutated"
    NEWLY_WARNED = "newly_warned"
    NEWLY_AUDITED = "newly_audited"
    UNCHANGED = "unchanged"


MUTATIONS = (OutcomeKind.NEWLY_MUTATED, OutcomeKind.MUTATION_CHANGED, OutcomeKind.NO_LONGER_MUTATED)
"""The outcomes that are about the patch alone."""

CALL_TRACES = (
    *CALL_ANNOTATIONS,
    "pod-security.kubernetes.io/enforce-policy",
    "pod-security.kubernetes.io/exempt",
)
"""Audit annotations about webhook calls and pods. They are not audit findings."""


class DecidedIn(NamedTuple):
    """The paths of the workspaces of kcp that a request is to, whose policies decide about it, and whose would with the candidate.

    All are empty in other servers, and those of policies where they are not known.
    """

    workspace: str = ""
    policies: str = ""
    planned: str = ""


NOWHERE = DecidedIn()


class Outcome(NamedTuple):
    """One request that admission saw, decided by both sets; the line format of `--outcomes` is made of it.

    `workload` is the owner that a platform team would talk to (`Deployment/web`), the object itself where nothing owns
    it, `owner` what the label of its namespace says. `seq` and `item` are the position of the request in the log and of the object in a `deletecollection`.
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
    decided_in: DecidedIn = NOWHERE


def outcome_kind(current: Decision, candidate: Decision) -> OutcomeKind:
    """Return what changes between two decisions about one request.

    A certain denial counts even if other policies are undetermined. It is *new* for certain only if the baseline
    certainly allows the request.
    """
    if candidate.denials and not current.denials:
        return OutcomeKind.UNDETERMINED if current.verdict is Verdict.UNDETERMINED else OutcomeKind.NEWLY_DENIED
    if current.denials and not candidate.denials:
        return OutcomeKind.UNDETERMINED if candidate.verdict is Verdict.UNDETERMINED else OutcomeKind.NEWLY_ADMITTED
    if current.denials and candidate.denials:
        return OutcomeKind.UNCHANGED
    if Verdict.UNDETERMINED in (current.verdict, candidate.verdict):
        # Whatever the missing input is, one decision made once for both sets is the same decision.
        return OutcomeKind.UNCHANGED if current is candidate else OutcomeKind.UNDETERMINED
    return _effect_kind(current, candidate)


def _effect_kind(current: Decision, candidate: Decision) -> OutcomeKind:
    """The outcome of two admissions: mutation first, then what only informs."""
    if candidate.patch != current.patch:
        if not current.patch:
            return OutcomeKind.NEWLY_MUTATED
        return OutcomeKind.MUTATION_CHANGED if candidate.patch else OutcomeKind.NO_LONGER_MUTATED
    if any(True for _ in new_warnings(current, candidate)):
        return OutcomeKind.NEWLY_WARNED
    if any(True for _ in new_annotations(current, candidate)):
        return OutcomeKind.NEWLY_AUDITED
    return OutcomeKind.UNCHANGED


def new_warnings(current: Decision, candidate: Decision) -> Iterator[str]:
    """Warnings of the candidate alone; that a policy moved to static manifests makes none new."""
    if candidate.warnings == current.warnings:
        return
    known = set(map(without_suffix, current.warnings))
    yield from (warning for warning in dict.fromkeys(candidate.warnings) if without_suffix(warning) not in known)


def new_annotations(current: Decision, candidate: Decision) -> Iterator[tuple[str, str]]:
    """Audit annotations of the candidate alone, without traces of calls; otherwise as `new_warnings`."""
    if candidate.audit_annotations == current.audit_annotations:
        return
    known = {without_suffix(key): without_suffix(value) for key, value in current.audit_annotations.items()}
    for key, value in candidate.audit_annotations.items():
        if known.get(without_suffix(key)) != without_suffix(value) and not key.startswith(CALL_TRACES):
            yield key, value
