"""Unused permissions: the report, its first screen, JSON, and the candidate set as YAML."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, tzinfo

import yaml

from replay.compare.permission_use import BindingUse, PermissionUses, SubjectUse, is_unlogged, narrowed
from replay.compare.readiness import Confidence, Doubt
from replay.go.time import timestamp
from replay.json import JSON
from replay.kube.rbac import compacted, rule_of, rule_text
from replay.report.render.document import (
    Align,
    Column,
    Document,
    Fact,
    Section,
    Table,
    Tone,
    inert,
    log_name,
    minute,
    moment,
    number,
    plural,
    span,
    without_empty,
    zone_name,
)
from replay.report.render.terminal import first_screen
from replay.report.trust import CONFIDENCE_TONES


def unused_document(uses: PermissionUses, zone: tzinfo = UTC) -> Document:
    """Return the document: bindings with the permissions that their subjects never needed, then each rule."""
    return Document(
        "Unused permissions",
        f"{moment(uses.period.start, zone)} to {moment(uses.period.end, zone)} · {log_name(uses.log)}",
        _verdict(uses),
        Tone.WARN if _rows(uses) or _wildcards(uses) else Tone.GOOD,
        tuple(_facts(uses)),
        tuple(
            each
            for each in (_subjects(uses, zone), _wildcards(uses), _rules(uses), _unexplained(uses))
            if each is not None
        ),
    )


def unused_screen(uses: PermissionUses, zone: tzinfo = UTC) -> Document:
    """Return the first screen."""
    steps = [
        ("replay report … --unused --format rbac > next.yaml", "roles and bindings without the unused rules"),
        ("replay run … --apply next.yaml", "what that would have forbidden"),
        ("replay report … --unused --format json", "every rule of every subject"),
    ]
    return first_screen(
        unused_document(uses, zone), {"subjects": 10, "wildcards": 4, "rules": 6, "unexplained": 3}, steps
    )


def _rows(uses: PermissionUses) -> list[tuple[BindingUse, SubjectUse]]:
    """Return the subjects with unused permissions: those that needed nothing first, then by the number of unused ones."""
    rows = [(binding, each) for binding in uses.bindings for each in binding.subjects if binding.unused(each)]
    return sorted(rows, key=lambda row: (bool(row[1].used), -len(row[0].unused(row[1])), row[0].name, row[1].subject))


def _verdict(uses: PermissionUses) -> str:
    subjects = [each for binding in uses.bindings for each in binding.subjects]
    idle = sum(not each.used for each in subjects)
    granted = sum(len(binding.permissions) for binding in uses.bindings for _ in binding.subjects)
    unused = sum(len(binding.unused(each)) for binding in uses.bindings for each in binding.subjects)
    text = "Every permission was needed."
    if unused:
        text = f"{number(unused)} of {plural(granted, 'permission')} were never needed."
    if idle:
        text += f" {number(idle)} of {plural(len(subjects), 'bound subject')} made no request by the binding."
    if wildcards := sum(len(each.wildcards) for each in subjects):
        text += f" {plural(wildcards, 'wildcard gives', 'wildcards give')} more than was asked for."
    return text


def _facts(uses: PermissionUses) -> Iterator[Fact]:
    _, confidence, why = _lowest(uses)
    yield Fact("Confidence", confidence.value, why, CONFIDENCE_TONES[confidence])
    yield Fact("Log", span(uses.period.length), f"{plural(uses.requests, 'request')} that RBAC allowed")
    others = f"; {plural(uses.dangling, 'binding')} of no known role" if uses.dangling else ""
    yield Fact("Bindings", number(len(uses.bindings)), f"without {number(uses.built_in)} of the server's own{others}")
    if uses.reviews:
        yield Fact(
            "Reviews", number(uses.reviews), "questions of other servers about users, which are not counted", Tone.WARN
        )
    if uses.unexplained:
        count = uses.unexplained.total()
        yield Fact(
            "Mismatch",
            number(count),
            "requests were allowed by bindings that are not known: take a snapshot of that time",
            Tone.BAD,
        )


def _lowest(uses: PermissionUses) -> Doubt:
    """Return the lowest confidence of the subjects that made requests. It holds for the whole candidate."""
    order = tuple(Confidence)
    subjects = [(binding.bound_in(uses.period), each) for binding in uses.bindings for each in binding.subjects]
    asking = [row for row in subjects if row[1].used] or subjects
    return min(
        (each.confidence(period) for period, each in asking),
        key=lambda doubt: order.index(doubt.most),
        default=Doubt(True, Confidence.LOW, "no subject is bound"),
    )


def _subjects(uses: PermissionUses, zone: tzinfo) -> Section | None:
    rows = _rows(uses)
    if not rows:
        return None
    columns = (
        Column("binding", Align.CODE),
        Column("role", Align.CODE),
        Column("subject", Align.CODE),
        Column("requests", Align.NUMBER),
        Column("needed", Align.NUMBER),
        Column("never", Align.NUMBER),
        Column("by others", Align.NUMBER, optional=True),
        Column(f"last, {zone_name(uses.period.end, zone)}", Align.SHORT, optional=True),
        Column("confidence", Align.SHORT),
        Column("why", optional=True),
    )
    cells = tuple(_subject_cells(binding, each, uses, zone) for binding, each in rows)
    lead = (
        "Each row is a subject of a binding. Needed and never: permissions of the role that its requests needed, or did not need. "
        "A permission is one verb on one resource. By others: requests that it would have allowed, but a ClusterRoleBinding allowed them first."
    )
    table = without_empty(Table("subjects", "", columns, cells, len(cells)))
    return Section("subjects", "Bindings with unused permissions", lead, (table,))


def _subject_cells(binding: BindingUse, each: SubjectUse, uses: PermissionUses, zone: tzinfo) -> tuple[str, ...]:
    _, confidence, why = each.confidence(binding.bound_in(uses.period))
    return (
        inert(binding.name),
        inert(binding.role_name),
        inert(each.subject.text),
        number(each.requests),
        number(len(each.used)),
        number(len(binding.unused(each))),
        number(each.allowed_before) if each.allowed_before else "",
        minute(each.last, zone) if each.last else "never",
        confidence.value,
        why,
    )


def _rules(uses: PermissionUses) -> Section | None:
    """Return the section with unused rules. A subject that needed nothing has no rules here, only its row."""
    rows = tuple(
        (inert(binding.name), inert(each.subject.text), inert(rule_text(rule)))
        for binding, each in _rows(uses)
        if each.used
        for rule in compacted(binding.unused(each))
    )
    columns = (Column("binding", Align.CODE), Column("subject", Align.CODE), Column("never needed", Align.CODE))
    table = without_empty(Table("rules", "", columns, rows, len(rows)))
    return Section("rules", "Rules that were never needed", "", (table,)) if rows else None


def _wildcards(uses: PermissionUses) -> Section | None:
    """Return the section with the permissions that were requested through each wildcard.

    The candidate grants these instead.
    """
    rows = tuple(
        (
            inert(binding.name),
            inert(each.subject.text),
            inert(rule_text(rule_of(wildcard))),
            number(len(asked)),
            inert("; ".join(map(rule_text, compacted(asked)))),
        )
        for binding in uses.bindings
        for each in binding.subjects
        for wildcard, asked in each.wildcards.items()
    )
    columns = (
        Column("binding", Align.CODE),
        Column("subject", Align.CODE),
        Column("wildcard", Align.CODE),
        Column("asked for", Align.NUMBER),
        Column("what", Align.CODE),
    )
    lead = "Asked for: the different permissions that requests used."
    table = Table("wildcards", "", columns, rows, len(rows))
    return Section("wildcards", "Wildcards", lead, (table,), Tone.WARN) if rows else None


def _unexplained(uses: PermissionUses) -> Section | None:
    rows = tuple((inert(reason), number(count)) for reason, count in uses.unexplained.most_common())
    columns = (Column("allowed by", Align.CODE), Column("requests", Align.NUMBER))
    lead = "The known roles and bindings do not allow these requests. They do not count as use of a permission."
    table = Table("unexplained", "", columns, rows, len(rows))
    return Section("unexplained", "Allowed by bindings that are not known", lead, (table,), Tone.BAD) if rows else None


def unused_json(uses: PermissionUses) -> JSON:
    """Return every subject with the rules that it needed and never needed, in the form of RBAC."""
    return {
        "log": uses.log,
        "from": timestamp(uses.period.start),
        "to": timestamp(uses.period.end),
        "requests": uses.requests,
        "builtInBindings": uses.built_in,
        "danglingBindings": uses.dangling,
        "accessReviews": uses.reviews,
        "unexplained": dict(uses.unexplained.most_common()),
        "bindings": [_binding_json(each, uses) for each in uses.bindings],
    }


def _binding_json(binding: BindingUse, uses: PermissionUses) -> JSON:
    kind, namespace, name = binding.key
    return {
        "kind": kind,
        "namespace": namespace,
        "name": name,
        "roleRef": binding.binding["roleRef"],
        "unlogged": compacted(each for each in binding.permissions if is_unlogged(each)),
        "subjects": [_subject_json(binding, each, uses) for each in binding.subjects],
    }


def _subject_json(binding: BindingUse, each: SubjectUse, uses: PermissionUses) -> JSON:
    _, confidence, why = each.confidence(binding.bound_in(uses.period))
    return {
        "subject": each.subject._asdict(),
        "requests": each.requests,
        "allowedByOthers": each.allowed_before,
        "users": len(each.users),
        "last": timestamp(each.last) if each.last else None,
        "needed": compacted(each.used),
        "neededOnce": each.once,
        "newestNeed": timestamp(each.newest) if each.newest else None,
        "wildcards": [
            {"rule": rule_of(wildcard), "askedFor": compacted(asked)} for wildcard, asked in each.wildcards.items()
        ],
        "neverNeeded": compacted(binding.unused(each)),
        "confidence": confidence.value,
        "because": why,
    }


def unused_yaml(uses: PermissionUses) -> str:
    """Return the candidate as YAML, with only the objects that change."""
    objects = narrowed(uses.bindings)
    start, end = moment(uses.period.start), moment(uses.period.end)
    if not objects:
        return f"# Everything that the bindings give was needed from {start} to {end}.\n"
    _, confidence, why = _lowest(uses)
    reason = f" ({why})" if why else ""
    header = (
        f"# Roles and bindings without the rules that were never needed from {start} to {end} ({span(uses.period.length)}).\n"
        f"# Confidence: {confidence.value}{reason}. A permission that is needed only now and then may be missing.\n"
        "# Rules of bind, escalate, impersonate, approve, attest, sign, use and */finalizers leave no trace in a log: they stay, but for wildcards.\n"
        "# Rehearse it: replay run LOG --current SET --cluster SNAPSHOT --apply FILE\n"
    )
    return header + yaml.safe_dump_all(objects, sort_keys=False, explicit_start=True)
