"""Refused requests, new and gone, and unused permissions, for the weekly report."""

from __future__ import annotations

from collections.abc import Iterator

from replay.compare.refusal import Refusals, Refused
from replay.json import JSON
from replay.report.render.document import Align, Block, Column, Listing, Section, Table, inert, number, plural


def refusal_sections(refusals: Refusals, rows: int) -> Iterator[Section]:
    """Yield the sections, none without refusals and unused permissions."""
    blocks: list[Block] = []
    if refusals.now:
        blocks.append(
            _table("forbidden", "", refusals, sorted(refusals.now, key=lambda each: (-refusals.now[each], each)), rows)
        )
    gone = refusals.no_longer
    if gone:
        blocks.append(
            _table("no-longer-forbidden", "No longer", refusals, sorted(gone, key=lambda e: (-gone[e], e)), rows)
        )
    if blocks:
        lead = (
            f"{plural(refusals.now.total(), 'request')} of {plural(len({each.user for each in refusals.now}), 'user')}."
        )
        yield Section("forbidden", "Who the authorizers refused", lead, tuple(blocks), quiet=True)
    if refusals.unused:
        shown = [inert(each) for each in refusals.unused[:rows]]
        rest = len(refusals.unused) - len(shown)
        text = "\n".join([*shown, *([f"… and {number(rest)} more"] if rest else [])])
        lead = (
            f"{plural(len(refusals.unused), 'binding')} allowed no request of the log. What is needed less often than the log is long "
            "is among them; `--format rbac --user NAME` writes a Role for what a user did."
        )
        yield Section("unused-bindings", "What could be revoked", lead, (Listing("", text),), quiet=True)


def _table(name: str, caption: str, refusals: Refusals, ordered: list[Refused], rows: int) -> Table:
    columns = (
        Column("user", Align.CODE),
        Column("request", Align.CODE),
        Column("requests", Align.NUMBER),
        Column("before", Align.NUMBER),
    )
    shown = tuple(
        (
            inert(each.user),
            inert(f"{each.verb} {each.target}"),
            number(refusals.now[each]),
            "" if refusals.earlier is None else number(refusals.earlier[each]) if each in refusals.earlier else "new",
        )
        for each in ordered[:rows]
    )
    return Table(name, caption, columns, shown, len(ordered))


def refusals_json(refusals: Refusals) -> JSON:
    """Every refusal with its count before, which is null where nothing is known of an earlier period."""
    keys = sorted({*refusals.now, *refusals.no_longer})
    return {
        "refused": [
            {
                **each._asdict(),
                "requests": refusals.now[each],
                "before": None if refusals.earlier is None else refusals.earlier[each],
            }
            for each in keys
        ],
        "unusedBindings": list(refusals.unused),
    }
