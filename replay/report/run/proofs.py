"""Proofs about each changed policy, compared with the log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from replay.compare.outcome import MUTATIONS, OutcomeKind
from replay.compare.summary import Summary
from replay.report.render.document import Align, Column, Section, Table, inert, number, plural
from replay.report.run.views import by_policy, cells_with, grouped

if TYPE_CHECKING:  # `replay run` loads what proves only where it is asked to
    from replay.compare.result import RunResult
    from replay.prove.sets import PolicyProof

_STRICTER = (OutcomeKind.NEWLY_DENIED, OutcomeKind.NEWLY_WARNED, OutcomeKind.NEWLY_AUDITED)
_SHOWN = (*_STRICTER, OutcomeKind.NEWLY_ADMITTED, *MUTATIONS)
_CAN = {
    "same": "nothing new is possible",
    "stricter": "no new admission is possible",
    "looser": "no new denial is possible",
    "both": "new denials and new admissions are possible",
    "unknown": "more is possible than the log shows",
}
_EXCLUDED: Mapping[str, tuple[OutcomeKind, ...]] = {
    "same": _SHOWN,
    "stricter": (OutcomeKind.NEWLY_ADMITTED,),
    "looser": _STRICTER,
}
"""Outcomes that a proof excludes."""


def findings_of(summary: Summary, proof: PolicyProof) -> dict[str, int]:
    """Return the number of requests by outcome that a policy causes in the log, under either of its names."""
    names = {proof.name, proof.new_name}
    counts = {
        kind.value: sum(each.requests for each in grouped(cells_with(summary, kind), by_policy) if each.label in names)
        for kind in _SHOWN
    }
    return {kind: count for kind, count in counts.items() if count}


def comparison(summary: Summary, proof: PolicyProof) -> str:
    """Return a text that compares the log with the proof."""
    result, claim = proof.proof.result.value, findings_of(summary, proof)
    shown = ", ".join(f"{number(count)} {kind.replace('_', ' ')}" for kind, count in claim.items())
    beyond = sum(claim.get(kind.value, 0) for kind in _EXCLUDED.get(result, ()))
    if beyond:
        return f"{shown}: {plural(beyond, 'request')} outside what the claim is about, or of another change in the sets"
    return f"{_CAN[result]}; the log shows {shown or 'no difference'}"


def proof_section(result: RunResult) -> Section | None:
    """Return one row for each changed policy, or None if proofs were not requested."""
    changed = [each for each in result.proofs if each.is_changed]
    if not changed:
        return None
    lines = tuple((inert(each.name), inert(each.proof.text), comparison(result.summary, each)) for each in changed)
    columns = (Column("policy", Align.CODE), Column("over all requests"), Column("beside the log"))
    table = Table("proofs", "", columns, lines, len(changed))
    lead = "What each change can ever do; `replay diff --prove` shows requests for it."
    return Section("proofs", "What the log does not show", lead, (table,))


def proofs_summary(result: RunResult) -> list[dict[str, Any]]:
    """Return the proofs as plain JSON."""
    from replay.report.proof import proofs_json  # noqa: PLC0415 - only where something was proved

    return [
        {**shown, "findings": findings_of(result.summary, each), "comparison": comparison(result.summary, each)}
        for each, shown in zip(result.proofs, proofs_json(result.proofs), strict=True)
    ]
