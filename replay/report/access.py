"""Access as reports show it: the trace of one decision, and the new access of an RBAC change.

A trace has each authorizer, its conditions with their results, and why it was skipped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from replay.authorization.access import AccessChange, NewAccess, UnknownAccess
from replay.authorization.trace import (
    Authorization,
    AuthorizationVerdict,
    AuthorizerDecision,
    AuthorizerStep,
    ConditionOutcome,
    StepOutcome,
)
from replay.json import JSON
from replay.kube.rbac import compacted, rule_text
from replay.report.render.document import (
    Align,
    Column,
    Document,
    Listing,
    Section,
    Table,
    Tone,
    inert,
    number,
    plural,
    without_empty,
)
from replay.report.render.terminal import first_screen

_ANSWERS = {
    AuthorizationVerdict.ALLOW: "yes",
    AuthorizationVerdict.FORBID: "no",
    AuthorizationVerdict.ERROR: "no: error 500",
    AuthorizationVerdict.UNKNOWN: "not known",
}
_WORDS = {
    AuthorizerDecision.ALLOW: "allows",
    AuthorizerDecision.DENY: "denies",
    AuthorizerDecision.NO_OPINION: "no opinion",
    AuthorizerDecision.UNKNOWN: "not known",
    AuthorizerDecision.NOT_ASKED: "not reached",
}


def trace_lines(decided: Authorization) -> Iterator[str]:
    """Yield the answer, then a line for each authorizer, with its conditions below."""
    yield verdict_line(decided)
    for step in decided.trace:
        yield f"  {step.name} ({step.type}): {_result_text(step)}"
        yield from (
            f"    condition {each.index}: {each.result.value}: {' '.join((each.error or each.expression).split())}"
            for each in step.conditions
            if each.result is not ConditionOutcome.NOT_EVALUATED
        )


def authorization_trace(authorized: Iterable[tuple[str, Authorization]]) -> Iterator[Section]:
    """Yield a section for each set: its authorizers in order."""
    for name, decided in authorized:
        lines = [inert(line) for line in trace_lines(decided)]
        tone = Tone.GOOD if decided.decision is AuthorizationVerdict.ALLOW else Tone.BAD
        listing = Listing("", "\n".join(lines[1:]))
        yield Section(f"authorizers-{name}", f"Authorizers, {name}", f"{lines[0]}.", (listing,), tone)


def verdict_line(decided: Authorization) -> str:
    """Return the answer with its reason on one line."""
    parts = [_ANSWERS[decided.decision]]
    if decided.decided_by:
        parts.append(f"by {decided.decided_by}")
    if decided.if_no_opinion is not None:
        parts.append(f"{_ANSWERS[decided.if_no_opinion]} if it has no opinion")
    text = decided.error or decided.reason.replace("\n", "; ")
    return f"{', '.join(parts)}{f': {text}' if text else ''}"


def _result_text(step: AuthorizerStep) -> str:
    """Return a step's result with its reason or cause."""
    if step.outcome is StepOutcome.SKIPPED:
        return f"skipped, condition {step.skipped_by} is false"
    if step.outcome is StepOutcome.MATCH_CONDITION_ERROR:
        return f"{_WORDS[step.decision]}, because a condition fails (failurePolicy {step.failure_policy})"
    if step.outcome is StepOutcome.CALL_FAILED:
        return f"{_WORDS[step.decision]}, because the call failed (failurePolicy {step.failure_policy}): {step.error}"
    if step.outcome is StepOutcome.UNKNOWN:
        return f"would be called; {step.missing or 'its answer is not known'}"
    words = _WORDS[step.decision]
    reason = step.reason if not step.error else f"{step.reason}; {step.error}"
    others = len(step.possible_reasons) - 1
    more = f" (or {others} more)" if others > 0 else ""
    return f"{words}{f': {reason}' if reason else ''}{more}"


EVERYWHERE = "(cluster)"


def access_document(change: AccessChange, names: tuple[str, str]) -> Document:
    """Return the document: the answer, the new access of each subject, then each rule. `names` are those of the two sets."""
    verdict, tone = _verdict(change)
    sections = tuple(each for each in (_subjects_section(change), _rules(change), _unknown(change)) if each is not None)
    return Document("New access", f"{inert(names[0])} → {inert(names[1])}", verdict, tone, (), sections)


def access_screen(change: AccessChange, names: tuple[str, str]) -> Document:
    """Return the first screen of the document."""
    steps = [("replay diff … --no-new-access --format json", "every new rule, as RBAC writes it")]
    if change.unknown:
        steps.append(("replay diff … --no-new-access --cluster cluster.jsonl", "with the roles of the cluster"))
    steps.append(("replay run LOG --current … --candidate …", "what that does to recorded requests"))
    return first_screen(access_document(change, names), {"who": 10, "rules": 12, "unknown": 6}, steps)


def _subjects_section(change: AccessChange) -> Section | None:
    columns = (
        Column("subject", Align.CODE),
        Column("namespace", Align.CODE),
        Column("new rules", Align.NUMBER),
        Column("by", Align.CODE),
        Column("leads to"),
    )
    rows = tuple(
        (*_place(each), number(len(each.permissions)), inert("; ".join(each.sources)), _leads(each))
        for each in change.new
    )
    lead = "A rule is one verb on one resource. It is new if no rule of today covers it for the subject, or for the groups that its name tells."
    table = without_empty(Table("who", "", columns, rows, len(rows)))
    return Section("who", "Who is granted something new", lead, (table,), Tone.BAD) if rows else None


def _rules(change: AccessChange) -> Section | None:
    columns = (Column("subject", Align.CODE), Column("namespace", Align.CODE), Column("newly may", Align.CODE))
    rows = tuple((*_place(each), inert(rule_text(rule))) for each in change.new for rule in compacted(each.permissions))
    return Section("rules", "What", "", (Table("rules", "", columns, rows, len(rows)),)) if rows else None


def _unknown(change: AccessChange) -> Section | None:
    columns = (
        Column("subject", Align.CODE),
        Column("namespace", Align.CODE),
        Column("role", Align.CODE),
        Column("by", Align.CODE),
    )
    rows = tuple(
        (*_place(each), inert(f"{each.role.kind} {each.role.name}"), inert(each.source)) for each in change.unknown
    )
    lead = "These subjects are newly bound to roles that neither set holds. Give a snapshot of the cluster (--cluster)."
    table = Table("unknown", "", columns, rows, len(rows))
    return Section("unknown", "Not known", lead, (table,), Tone.WARN) if rows else None


def _place(access: NewAccess | UnknownAccess) -> tuple[str, str]:
    return inert(access.subject.text), inert(access.namespace) or EVERYWHERE


def _verdict(change: AccessChange) -> tuple[str, Tone]:
    subjects = len({each.subject for each in change.new})
    if change.new:
        return f"The candidate grants new access to {plural(subjects, 'subject')}.", Tone.BAD
    if change.unknown:
        return "The candidate may grant new access: it binds roles that are not known.", Tone.WARN
    return "The candidate grants nothing new.", Tone.GOOD


def _leads(access: NewAccess) -> str:
    """Return what the access leads to, and whether the subject can already grant it to itself."""
    texts = list(access.leads_to)
    if access.reachable:
        texts.append("could already grant it to itself")
    return "; ".join(texts)


def access_json(change: AccessChange) -> JSON:
    """Return every subject with its new rules, in the form of RBAC."""
    return {
        "newAccess": [
            {
                "subject": each.subject._asdict(),
                "namespace": each.namespace,
                "rules": compacted(each.permissions),
                "by": list(each.sources),
                "leadsTo": list(each.leads_to),
                "couldGrantItself": each.reachable,
            }
            for each in change.new
        ],
        "unknown": [
            {
                "subject": each.subject._asdict(),
                "namespace": each.namespace,
                "role": {"kind": each.role.kind, "namespace": each.role.namespace, "name": each.role.name},
                "by": each.source,
            }
            for each in change.unknown
        ],
    }
