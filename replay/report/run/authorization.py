"""Effects of a change of authorizers or RBAC on the requests of a log, as report sections and JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from replay.authorization.trace import AuthorizationVerdict
from replay.compare.authorization import AuthorizationCell, AuthorizationOutcome, AuthorizationSummary
from replay.json import JSON
from replay.report.render.document import (
    Align,
    Block,
    Column,
    Fact,
    Listing,
    Section,
    Table,
    Tone,
    inert,
    number,
    plural,
    share,
)
from replay.report.run.views import LOCKED_OUT, locked_out

_WORDS = {
    AuthorizationOutcome.NEWLY_FORBIDDEN: "newly forbidden",
    AuthorizationOutcome.NEWLY_FAILING: "newly failing (500)",
    AuthorizationOutcome.NEWLY_UNKNOWN: "no longer known",
    AuthorizationOutcome.NEWLY_ALLOWED: "newly allowed",
    AuthorizationOutcome.NO_LONGER_FAILING: "forbidden instead of failing",
    AuthorizationOutcome.DECIDED_BY_ANOTHER: "decided by another authorizer",
}
_LOCKING_OUT = (AuthorizationOutcome.NEWLY_FORBIDDEN, AuthorizationOutcome.NEWLY_FAILING)
ChangeViews = Sequence[tuple[str, str, Callable[[AuthorizationCell], str]]]
_VIEWS: ChangeViews = (
    ("sources", "deciding rule, before and now", lambda cell: f"{cell.source} → {cell.target}"),
    ("users", "user", lambda cell: cell.user),
    ("resources", "verb and resource", lambda cell: f"{cell.verb} {cell.resource}"),
    ("namespaces", "namespace", lambda cell: cell.namespace or "(cluster)"),
)


def authorization_facts(summary: AuthorizationSummary) -> Iterator[Fact]:
    """Yield the facts at the head of a report."""
    counts = summary.outcomes
    yield from authorization_fidelity(summary)
    forbidden = sum(counts[kind] for kind in _LOCKING_OUT)
    yield Fact("Newly forbidden", number(forbidden), _refused(summary), Tone.BAD if forbidden else Tone.GOOD)
    allowed = counts[AuthorizationOutcome.NEWLY_ALLOWED]
    yield Fact("Newly allowed", number(allowed), "", Tone.WARN if allowed else Tone.GOOD)


def authorization_fidelity(summary: AuthorizationSummary) -> Iterator[Fact]:
    """Yield the number of requests that reached the authorizers, and the match of the baseline's chain with the log."""
    reached = summary.observed
    note = f"{number(summary.questions)} different questions" if summary.questions else ""
    yield Fact("Authorization", plural(reached, "request"), note)
    if reached:
        tone = Tone.GOOD if summary.reproduced == reached else Tone.WARN
        detail = f"decisions and reasons of the current chain; {number(summary.differs)} differ"
        unknown = f", {number(summary.undecided)} are not known" if summary.undecided else ""
        yield Fact("Authorization match", share(summary.reproduced, reached), f"{detail}{unknown}", tone)


def authorization_differences(summary: AuthorizationSummary, rows: int) -> Iterator[Section]:
    """Yield where the baseline's chain and the log disagree, and the requests that reached no authorizer."""
    yield from (each for each in (_disagreements(summary, rows), _skipped_section(summary)) if each is not None)


def fidelity_json(summary: AuthorizationSummary) -> JSON:
    """Return the match of the baseline's chain with the log, with the first differences."""
    return {
        "observed": summary.observed,
        "reproduced": summary.reproduced,
        "undetermined": summary.undecided,
        "differs": summary.differs,
        "notReached": dict(sorted(summary.not_reached.items())),
        "differences": [
            {"auditID": each.audit_id, "recorded": each.recorded, "replayed": each.replayed}
            for each in summary.disagreements
        ],
    }


def _refused(summary: AuthorizationSummary) -> str:
    """Return how many newly forbidden requests fail, and how many writes do not reach admission."""
    failing, writes = summary.outcomes[AuthorizationOutcome.NEWLY_FAILING], summary.writes_newly_refused
    parts = (
        f"{number(failing)} of them fail with 500" if failing else "",
        f"{plural(writes, 'write')} no longer {'reaches' if writes == 1 else 'reach'} admission" if writes else "",
    )
    return "; ".join(filter(None, parts))


def authorization_verdict(summary: AuthorizationSummary) -> tuple[str, Tone]:
    """Return one sentence, empty if nothing changes."""
    kinds = (*_LOCKING_OUT, AuthorizationOutcome.NEWLY_ALLOWED, AuthorizationOutcome.NEWLY_UNKNOWN)
    parts = [f"{number(summary.outcomes[kind])} {_WORDS[kind]}" for kind in kinds if summary.outcomes[kind]]
    if not parts:
        return "", Tone.GOOD
    tone = Tone.BAD if any(summary.outcomes[kind] for kind in _LOCKING_OUT) else Tone.WARN
    return f"{', '.join(parts)} of {plural(summary.observed, 'request')} that reached the authorizers.", tone


def authorization_sections(summary: AuthorizationSummary, rows: int) -> list[Section]:
    """Return the sections: lockouts first, then each kind of change, webhooks, and mismatches with the log."""
    sections = [
        _lockouts(summary, rows),
        *(_changed(summary, kind, rows) for kind in _WORDS),
        _webhooks(summary),
        unused_section(summary, rows),
    ]
    return [
        section
        for section in (*sections, _skipped_section(summary), _disagreements(summary, rows))
        if section is not None
    ]


def _lockouts(summary: AuthorizationSummary, rows: int) -> Section | None:
    groups: Counter[tuple[str, str, str, str]] = Counter()
    for cell, count in summary.cells.items():
        who = _lockout(cell)
        if who:
            groups[who, cell.user, f"{cell.verb} {cell.resource}", cell.source] += count
    if not groups:
        return None
    ordered = sorted(groups.items(), key=lambda item: (LOCKED_OUT.index(item[0][0]), -item[1], item[0]))
    columns = (
        Column("who"),
        Column("user", Align.CODE),
        Column("request", Align.CODE),
        Column("allowed until now by", Align.CODE, optional=True),
        Column("requests", Align.NUMBER),
    )
    shown = tuple((*map(inert, key), number(count)) for key, count in ordered[:rows])
    lead = "Requests of the control plane, of nodes and of controllers that the authorizers would deny."
    table = Table("authorization-lockouts", "", columns, shown, len(ordered))
    return Section("authorization-lockouts", "Locked out by the authorizers", lead, (table,), Tone.BAD)


def _cell_json(cell: AuthorizationCell) -> JSON:
    fields = cell._asdict()
    was_allowed = fields.pop("was_allowed")
    return {**fields, "wasAllowed": was_allowed}


def _lockout(cell: AuthorizationCell) -> str:
    """Return which part of the cluster loses permissions, empty if none."""
    is_lost = cell.was_allowed and cell.outcome in _LOCKING_OUT
    return locked_out(cell.user) if is_lost else ""


def _changed(summary: AuthorizationSummary, outcome: AuthorizationOutcome, rows: int) -> Section | None:
    cells = {cell: count for cell, count in summary.cells.items() if cell.outcome is outcome}
    if not cells:
        return None
    is_grave = outcome in _LOCKING_OUT
    views = _VIEWS if is_grave or outcome is AuthorizationOutcome.NEWLY_ALLOWED else _VIEWS[:1]
    blocks: list[Block] = [
        _table(f"{outcome.value}-{name}", f"By {label}", cells, label_of, rows) for name, label, label_of in views
    ]
    if is_grave or outcome is AuthorizationOutcome.NEWLY_ALLOWED:
        blocks.append(_examples(summary, outcome, cells, rows))
    lead = _lead(summary, outcome, sum(cells.values()))
    title = f"{_WORDS[outcome][0].upper()}{_WORDS[outcome][1:]}"
    tone = Tone.BAD if is_grave else Tone.WARN if outcome is AuthorizationOutcome.NEWLY_ALLOWED else Tone.PLAIN
    is_quiet = outcome in (AuthorizationOutcome.NO_LONGER_FAILING, AuthorizationOutcome.DECIDED_BY_ANOTHER)
    return Section(outcome.value.replace("_", "-"), title, lead, tuple(blocks), tone, quiet=is_quiet)


def _lead(summary: AuthorizationSummary, outcome: AuthorizationOutcome, count: int) -> str:
    lead = f"{plural(count, 'request')}."
    if outcome is AuthorizationOutcome.NEWLY_ALLOWED and summary.writes_newly_let_in:
        lead += f" {number(summary.writes_newly_let_in)} are writes, and the log does not have their objects."
    if outcome is AuthorizationOutcome.NEWLY_UNKNOWN:
        lead += " An authorization webhook decides them, and its answer is not known. Give it with `--webhook NAME=FILE` or `NAME=URL`."
    return lead


def _table(
    name: str,
    caption: str,
    cells: dict[AuthorizationCell, int],
    label_of: Callable[[AuthorizationCell], str],
    rows: int,
) -> Table:
    requests: Counter[str] = Counter()
    users: dict[str, set[str]] = {}
    for cell, count in cells.items():
        requests[label_of(cell)] += count
        users.setdefault(label_of(cell), set()).add(cell.user)
    ordered = sorted(requests.items(), key=lambda item: (-item[1], item[0]))
    columns = (Column("what", Align.CODE), Column("requests", Align.NUMBER), Column("users", Align.NUMBER))
    shown = tuple((inert(label), number(count), number(len(users[label]))) for label, count in ordered[:rows])
    return Table(name, caption, columns, shown, len(ordered))


def _examples(
    summary: AuthorizationSummary, outcome: AuthorizationOutcome, cells: dict[AuthorizationCell, int], rows: int
) -> Table:
    ordered = sorted(cells.items(), key=lambda item: (-item[1], item[0]))
    columns = (
        Column("user", Align.CODE),
        Column("request", Align.CODE),
        Column("namespace", Align.CODE, optional=True),
        Column("requests", Align.NUMBER),
        Column("audit id", Align.ID, optional=True),
    )
    shown = tuple(
        (
            inert(cell.user),
            inert(f"{cell.verb} {cell.resource}"),
            inert(cell.namespace),
            number(count),
            inert(summary.examples[cell]),
        )
        for cell, count in ordered[:rows]
    )
    return Table(f"{outcome.value}-examples", "By user, request and namespace", columns, shown, len(ordered))


def _webhooks(summary: AuthorizationSummary) -> Section | None:
    names = sorted({name for _, name in summary.webhooks})
    if not names:
        return None
    columns = (
        Column("webhook", Align.CODE),
        Column("calls, baseline", Align.NUMBER),
        Column("calls, candidate", Align.NUMBER),
    )
    shown = tuple(
        (inert(name), number(summary.webhooks["current", name]), number(summary.webhooks["candidate", name]))
        for name in names
    )
    table = Table("authorization-webhooks", "", columns, shown, len(shown))
    lead = "Requests for which each webhook is called. A server caches answers, so it calls less often."
    return Section("authorization-webhooks", "Webhooks of the authorizers", lead, (table,), quiet=True)


def unused_section(summary: AuthorizationSummary, rows: int) -> Section | None:
    """Return permissions that could be revoked, as far as a log can tell."""
    if not summary.unused:
        return None
    shown = summary.unused[:rows]
    rest = len(summary.unused) - len(shown)
    more = [f"… and {number(rest)} more"] if rest else []
    text = "\n".join([*map(inert, shown), *more])
    lead = (
        f"{plural(len(summary.unused), 'binding')} allowed no request of this log. No one used their permissions, or another "
        "authorizer or a cluster-wide binding allowed the requests first. A permission that is needed only now and then may be among them."
    )
    return Section("unused-bindings", "What could be revoked", lead, (Listing("", text),), quiet=True)


def _skipped_section(summary: AuthorizationSummary) -> Section | None:
    lines = [f"{number(count)} not decided: {inert(reason)}" for reason, count in sorted(summary.not_reached.items())]
    lines += [inert(warning) for warning in summary.warnings]
    if not lines:
        return None
    listing = Listing("", "\n".join(lines))
    return Section("authorization-left-out", "Requests without authorization", "", (listing,), quiet=True)


def _disagreements(summary: AuthorizationSummary, rows: int) -> Section | None:
    if not summary.disagreements:
        return None
    columns = (Column("audit id", Align.ID), Column("the log says"), Column("the baseline says"))
    shown = tuple(tuple(map(inert, each)) for each in summary.disagreements[:rows])
    table = Table("authorization-disagreements", "", columns, shown, summary.differs)
    lead = "The baseline decides these requests differently from the log. It may not have been in force."
    return Section("authorization-disagreements", "Authorization mismatches", lead, (table,), Tone.WARN)


def authorization_json(summary: AuthorizationSummary) -> JSON:
    """Return everything that the sections show, without limits."""
    cells = sorted(summary.cells.items(), key=lambda item: (item[0].outcome, -item[1], item[0]))
    return {
        "requests": summary.requests,
        "reached": summary.observed,
        "questions": summary.questions,
        "notReached": dict(sorted(summary.not_reached.items())),
        "fidelity": {
            "observed": summary.observed,
            "reproduced": summary.reproduced,
            "undetermined": summary.undecided,
            "differs": summary.differs,
        },
        "outcomes": {kind.value: count for kind, count in sorted(summary.outcomes.items())},
        "decisions": [
            {"current": old_verdict.value, "candidate": new_verdict.value, "requests": count}
            for (old_verdict, new_verdict), count in sorted(summary.decisions.items(), key=_verdict_key)
        ],
        "writes": {"newlyRefused": summary.writes_newly_refused, "newlyLetIn": summary.writes_newly_let_in},
        "changes": [{**_cell_json(cell), "lockout": _lockout(cell), "requests": count} for cell, count in cells],
        "webhooks": [
            {"set": side, "webhook": name, "requests": count}
            for (side, name), count in sorted(summary.webhooks.items())
        ],
        "warnings": list(summary.warnings),
        "unusedBindings": list(summary.unused),
    }


def _verdict_key(item: tuple[tuple[AuthorizationVerdict, AuthorizationVerdict], int]) -> tuple[str, str]:
    return item[0][0].value, item[0][1].value
