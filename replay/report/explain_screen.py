"""First screen of an explanation: what each policy decides, and why."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, tzinfo

from msgspec.structs import replace

from replay.admission.decision import Verdict
from replay.admission.explain.explanation import PolicyExplanation
from replay.reconstruct.request import Reached
from replay.report.explain_report import (
    TONES,
    Explained,
    SetExplanation,
    denies_request,
    explain_document,
    step_lines,
)
from replay.report.render.document import Align, Column, Document, Listing, Section, Table, Tone, inert
from replay.report.render.terminal import cut, first_screen

_ROWS = 10
_LINES = 9
"""Maximum number of lines about the reasons."""
_PARTS = 5
"""Maximum number of lines about one validation: its value, its text, and the values of its first parts."""
_WIDTH = 74
"""Maximum length of a line about a reason, so that it does not wrap in a terminal of 80 columns."""

_EFFECTS = {Verdict.DENIED: "denies the request", Verdict.UNDETERMINED: "is undetermined"}


def explain_screen(explained: Explained, zone: tzinfo = UTC) -> Document:
    """Return the first screen: the answer, the decision of each matching policy, and the reasons."""
    document = replace(explain_document(explained, zone), sections=_policies(explained))
    steps = [("replay explain … --full", "every policy, expression and value, and what is known")]
    if explained.request.reached is Reached.VALIDATION and explained.sets:
        steps.append(("replay export … --minimise", "a test case of this request"))
    return first_screen(document, {"policies": _ROWS}, steps, _reasons(explained))


def _policies(explained: Explained) -> tuple[Section, ...]:
    """Return the section with the policies that match in a set. Policies that deny come first."""
    outcomes: dict[str, dict[str, str]] = {}
    denying = set()
    for each in explained.sets:
        for policy in each.policies:
            outcomes.setdefault(policy.policy, {})[each.side] = _outcome(explained, policy)
            if policy.matches and denies_request(policy):
                denying.add(policy.policy)
    matching = {policy.policy for each in explained.sets for policy in each.policies if policy.matches}
    names = sorted((name for name in outcomes if name in matching), key=lambda name: name not in denying)
    sides = [each.side for each in explained.sets]
    rows = tuple((inert(name), *(outcomes[name].get(side, "not in this set") for side in sides)) for name in names)
    columns = (Column("policy", Align.CODE), *(Column(side) for side in sides))
    return (Section("policies", "Policies that match", "", (Table("policies", "", columns, rows, len(rows)),)),)


def _outcome(explained: Explained, policy: PolicyExplanation) -> str:
    if not policy.matches:
        return "does not match"
    outcomes = [each.outcome for each in policy.bindings if not each.mismatch and each.outcome]
    return inert(", ".join(dict.fromkeys(map(explained.concealer.text, outcomes))) or policy.error or "matches")


def _reasons(explained: Explained) -> Section | None:
    """Return the section with the reasons of the candidate, or of the baseline if only it denies. None without reasons."""
    if not explained.sets:
        return None
    # A request that only the baseline denies is explained by the baseline: the candidate has nothing to say about it.
    refusing = (each for each in reversed(explained.sets) if each.decision.denials or each.decision.undetermined)
    decisive = next(refusing, explained.sets[-1])
    lines = [cut(line, _WIDTH) for line in _lines(explained, decisive)]
    if not lines:
        return None
    if len(lines) > _LINES:
        lines = [*lines[: _LINES - 1], f"… and {len(lines) - _LINES + 1} more lines"]
    title = f"Why the {decisive.side} {_EFFECTS.get(decisive.decision.verdict, 'changes the object')}"
    return Section("why", title, "", (Listing("", "\n".join(lines)),), TONES.get(decisive.decision.verdict, Tone.PLAIN))


def _lines(explained: Explained, each: SetExplanation) -> Iterator[str]:
    """Yield each denial with the false validation, else each gap, else the changes of each policy."""
    text, decision = explained.concealer.text, each.decision
    for denial in decision.denials:
        yield f"{denial.policy}: {text(denial.message)}"
        for policy in each.policies:
            if policy.policy == denial.policy:
                yield from _false_validations(explained, policy)
        yield from (f"  {text(place)}" for place in denial.places)
    if decision.denials:
        return
    for gap in decision.undetermined:
        yield f"{gap.policy}: {text(gap.reason)}"
        if gap.fix:
            yield f"  to record it: {gap.fix}"
    if not decision.undetermined:
        for entry in decision.mutated:
            yield f"{entry.policy}:"
            yield from (f"  {json.dumps(part, ensure_ascii=False)}" for part in explained.concealer.patch(entry.patch))


def _false_validations(explained: Explained, policy: PolicyExplanation) -> Iterator[str]:
    for binding in policy.bindings:
        for step in binding.steps:
            if step.effect and not binding.mismatch:
                yield from (f"  {line}" for line in tuple(step_lines(explained, step))[:_PARTS])
