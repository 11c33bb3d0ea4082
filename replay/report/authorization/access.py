"""The new access of an RBAC change, as a document and as JSON."""

from __future__ import annotations

from replay.authorization.access import AccessChange, NewAccess, UnknownAccess
from replay.json import JSON
from replay.kube.rbac import compacted, rule_text
from replay.report.render.document import (
    Align,
    Column,
    Document,
    Section,
    Table,
    Tone,
    inert,
    number,
    plural,
    without_empty,
)
from replay.report.render.terminal import first_screen

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
