"""Report of `replay mutations`: who changed objects between the request and the storage."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import orjson

from replay.compare.attribution import Actor, Attributions, ChangeCell, ChangedBy, ChangedRequest, MutationsResult
from replay.json import JSON
from replay.report.render.document import (
    Align,
    Column,
    Document,
    Fact,
    Listing,
    Section,
    Table,
    Tone,
    inert,
    log_name,
    number,
    plural,
)
from replay.report.render.terminal import first_screen

ROWS = 12
EXAMPLES = 4
MOST_LINES = 16
"""Maximum number of operations of an example."""

_NAMED = (Actor.WEBHOOK, Actor.POLICY, Actor.UNKNOWN)
"""Actors with names."""

Groups = list[tuple[ChangedBy, ChangeCell]]
_TITLES = {
    Actor.WEBHOOK: ("By webhooks", "Their annotations hold the patch."),
    Actor.POLICY: (
        "By mutating policies",
        "Policies leave no annotation. The baseline makes these changes, and the stored object shows them.",
    ),
    Actor.UNKNOWN: (
        "By an unknown cause",
        (
            "No annotation of a webhook and no policy of the baseline explains these changes. The cause is a built-in plugin or default that "
            "`replay` does not reproduce, or a policy that the baseline lacks."
        ),
    ),
    Actor.PLUGIN: ("By built-in plugins", "ServiceAccount, Priority, DefaultTolerationSeconds and the like."),
    Actor.SERVER: (
        "By the server itself",
        "System fields, status, what the strategy of a resource sets, and what an update keeps of the stored object.",
    ),
}


def mutations_document(result: MutationsResult, *, rows: int = ROWS) -> Document:
    """Return the document, with at most `rows` rows in a table."""
    attributions = result.attributions
    sections = [_section(actor, attributions, rows) for actor in _TITLES]
    sections.append(_not_compared(attributions, rows))
    return Document(
        title="Who changed what between request and storage?",
        subtitle=f"{log_name(result.log)} · policies of {inert(result.current) if result.current else 'no set'}",
        verdict=_verdict(attributions),
        tone=Tone.WARN if _requests(attributions, Actor.UNKNOWN) else Tone.GOOD,
        facts=_facts(attributions),
        sections=tuple(section for section in sections if section is not None),
    )


def mutations_screen(result: MutationsResult) -> Document:
    """Return the first screen: who changed what, without the changes by the server itself."""
    steps = [
        ("replay mutations … --full", "every table, with the patches of examples"),
        ("replay explain AUDIT-ID …", "what one request went through"),
    ]
    rows = {"by-webhook": 6, "by-policy": 6, "by-unknown": 6, "by-built-in-plugin": 8}
    return first_screen(mutations_document(result), rows, steps)


def mutations_json(result: MutationsResult) -> dict[str, Any]:
    """Return the result as JSON."""
    attributions = result.attributions
    return {
        "compared": attributions.compared,
        "changed": attributions.changed,
        "groups": [_group_value(key, cell) for key, cell in _sorted(attributions.groups.items())],
        "notCompared": dict(sorted(attributions.not_compared.items())),
        "policiesWithoutEffect": dict(sorted(attributions.unseen.items())),
    }


def _group_value(key: ChangedBy, cell: ChangeCell) -> JSON:
    example = cell.example
    return {
        "by": key.actor,
        "name": key.name,
        "resource": key.resource,
        "shape": key.shape,
        "requests": cell.count,
        "example": {
            "auditID": example.audit_id,
            "operation": example.operation,
            "namespace": example.namespace,
            "name": example.name,
            "user": example.user,
            "patch": example.patch,
        },
    }


def _sorted(groups: Iterable[tuple[ChangedBy, ChangeCell]]) -> Groups:
    order = list(_TITLES)
    return sorted(groups, key=lambda item: (order.index(item[0].actor), -item[1].count, item[0]))


def _requests(attributions: Attributions, actor: Actor) -> int:
    return sum(cell.count for key, cell in attributions.groups.items() if key.actor is actor)


def _verdict(attributions: Attributions) -> str:
    unknown = _requests(attributions, Actor.UNKNOWN)
    verdict = f"{plural(attributions.changed, 'request')} of {number(attributions.compared)} changed by more than the server itself"
    return f"{verdict}; who made {plural(unknown, 'change')} is not known." if unknown else f"{verdict}."


def _facts(attributions: Attributions) -> tuple[Fact, ...]:
    without_effect = attributions.unseen.total()
    left_out = attributions.not_compared.total()
    return (
        Fact(
            "Compared",
            plural(attributions.compared, "write"),
            f"{number(left_out)} could not be compared" if left_out else "",
        ),
        *(
            Fact(label, number(count), "requests", tone if count else Tone.PLAIN)
            for label, actor, tone in (
                ("Webhooks", Actor.WEBHOOK, Tone.PLAIN),
                ("Policies", Actor.POLICY, Tone.PLAIN),
                ("Built-in", Actor.PLUGIN, Tone.PLAIN),
                ("Unknown", Actor.UNKNOWN, Tone.WARN),
            )
            for count in [_requests(attributions, actor)]
        ),
        *([Fact("Not seen", number(without_effect), _unseen_note(attributions), Tone.WARN)] if without_effect else []),
    )


def _unseen_note(attributions: Attributions) -> str:
    names = ", ".join(inert(name) for name, _ in attributions.unseen.most_common(3))
    return f"changes that policies of this set should have made: {names}"


def _section(actor: Actor, attributions: Attributions, rows: int) -> Section | None:
    groups = [(key, cell) for key, cell in _sorted(attributions.groups.items()) if key.actor is actor]
    if not groups:
        return None
    title, lead = _TITLES[actor]
    columns = (
        *([Column("by", Align.TEXT if actor is Actor.UNKNOWN else Align.CODE)] if actor in _NAMED else []),
        Column("resource", Align.CODE),
        *([] if actor is Actor.SERVER else [Column("change", Align.CODE)]),
        Column("requests", Align.NUMBER),
        Column("first audit id", Align.ID, optional=True),
    )
    shown = tuple(_row(key, cell) for key, cell in groups[:rows])
    table = Table(f"by-{actor.replace(' ', '-')}", "", columns, shown, len(groups))
    listings = () if actor is Actor.SERVER else tuple(_listing(key, cell.example) for key, cell in groups[:EXAMPLES])
    quiet = actor in (Actor.SERVER, Actor.PLUGIN)
    tone = Tone.WARN if actor is Actor.UNKNOWN else Tone.PLAIN
    return Section(str(actor).replace(" ", "-"), title, lead, (table, *(() if quiet else listings)), tone, quiet=quiet)


def _row(key: ChangedBy, cell: ChangeCell) -> tuple[str, ...]:
    end = (number(cell.count), inert(cell.example.audit_id))
    if key.actor is Actor.SERVER:
        return (inert(key.resource), *end)
    name = (inert(key.name),) if key.actor in _NAMED else ()
    return (*name, inert(key.resource), inert(", ".join(key.shape)), *end)


def _listing(key: ChangedBy, example: ChangedRequest) -> Listing:
    name = f"{example.namespace}/{example.name}" if example.namespace else example.name
    lines = "\n".join(inert(orjson.dumps(operation).decode()) for operation in example.patch[:MOST_LINES])
    return Listing(inert(f"{example.operation} {key.resource} {name} by {example.user}"), lines)


def _not_compared(attributions: Attributions, rows: int) -> Section | None:
    if not attributions.not_compared:
        return None
    reasons = sorted(attributions.not_compared.items(), key=lambda item: (-item[1], item[0]))
    columns = (Column("why"), Column("requests", Align.NUMBER))
    shown = tuple((inert(reason), number(count)) for reason, count in reasons[:rows])
    table = Table("not-compared", "", columns, shown, len(reasons))
    return Section(
        "not-compared", "Not compared", "What was sent or what was stored is not recorded.", (table,), quiet=True
    )
