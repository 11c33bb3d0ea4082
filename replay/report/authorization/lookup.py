"""Authorizer decisions found by `replay lookup`, as document and JSON."""

from __future__ import annotations

from replay.compare.authorization_lookup import AlikeRequests, AuthorizationLookup
from replay.json import JSON
from replay.report.render.document import Align, Column, Document, Section, Table, Tone, inert, number, plural


def lookup_document(lookup: AuthorizationLookup, rows: int) -> Document:
    """The most frequent sorts of requests first."""
    columns = (
        Column("decision"),
        Column("user", Align.CODE),
        Column("request", Align.CODE),
        Column("namespace", Align.CODE, optional=True),
        Column("by", Align.CODE, optional=True),
        Column("reason"),
        Column("requests", Align.NUMBER),
        Column("first audit id", Align.ID, optional=True),
    )
    ordered = _ordered(lookup)
    shown = tuple(
        (
            each.decision,
            inert(each.user),
            inert(f"{each.verb} {each.resource}"),
            inert(each.namespace),
            inert(each.authorizer),
            inert(each.reason.replace("\n", "; ")),
            number(count),
            inert(lookup.first[each]),
        )
        for each, count in ordered[:rows]
    )
    table = Table("authorized", "", columns, shown, len(ordered))
    verdict = f"{plural(lookup.requests.total(), 'request')} of {plural(len({each.user for each in lookup.requests}), 'user')}."
    sections = (Section("authorized", "Requests", "", (table,)),) if ordered else ()
    return Document("What did the authorizers decide?", inert(lookup.log), verdict, Tone.PLAIN, (), sections)


def lookup_json(lookup: AuthorizationLookup) -> JSON:
    """Every sort of requests."""
    return [
        {**each._asdict(), "requests": count, "firstAuditID": lookup.first[each]} for each, count in _ordered(lookup)
    ]


def _ordered(lookup: AuthorizationLookup) -> list[tuple[AlikeRequests, int]]:
    return sorted(lookup.requests.items(), key=lambda item: (-item[1], item[0]))
