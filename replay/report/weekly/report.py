"""Weekly report: policies ready for enforcement, admission's actions, what is new, and the match with the log."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, tzinfo

from replay.compare.weekly import (
    ActionFigures,
    EffectAction,
    Figures,
    FigureSource,
    PolicyReadiness,
    Promotion,
    WeeklyResult,
)
from replay.report.render.document import (
    Align,
    Block,
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
    policy_anchors,
    share,
    span,
    without_empty,
    zone_name,
)
from replay.report.render.terminal import first_screen
from replay.report.scan_report import at_rest_section
from replay.report.trust import disagreements_section, fidelity_fact, gaps_section
from replay.report.weekly.charts import by_step, charts, label, starts, step_of
from replay.report.weekly.sections import (
    SAME,
    change,
    in_force,
    left_out,
    newness,
    readiness_sections,
    refusal_sections,
    some,
    talks,
)

TERMINAL_ROWS = 8
_LATE = 20
"""Divisor of a period: the first request must come within this part for a comparison of its halves."""
PAGE_ROWS = 200
ACTION_WORDS = {
    EffectAction.DENY: "denied",
    EffectAction.WARN: "warned",
    EffectAction.AUDIT: "audited",
    EffectAction.MUTATE: "mutated",
    EffectAction.FAILED_OPEN: "failed open",
}
_FACTS = {
    EffectAction.DENY: "Denials",
    EffectAction.AUDIT: "Audited failures",
    EffectAction.WARN: "Warnings",
    EffectAction.MUTATE: "Mutations",
}
_READINESS = {
    PolicyReadiness.READY: "can be enforced",
    PolicyReadiness.UNDECIDED: "undetermined",
    PolicyReadiness.NOT_ASKED: "never evaluated",
    PolicyReadiness.DENIES: "would deny",
}
_INDIRECT = "no direct denial"
_TONES = {
    PolicyReadiness.READY: Tone.GOOD,
    PolicyReadiness.UNDECIDED: Tone.WARN,
    PolicyReadiness.NOT_ASKED: Tone.WARN,
    PolicyReadiness.DENIES: Tone.BAD,
}


def weekly_document(
    result: WeeklyResult, *, zone: tzinfo = UTC, rows: int = TERMINAL_ROWS, with_charts: bool = False
) -> Document:
    """Return the document, with at most `rows` rows in a table. Charts are only for formats that draw them."""
    figures, period = result.figures, result.figures.period
    sections = [
        _consumers(result, rows),
        _promotions(result, rows, zone),
        _owners(result, rows, zone),
        _actions(result, rows, zone, with_charts=with_charts),
        newness(result, rows),
        _mutations(result, rows, zone),
        at_rest_section(result.at_rest, rows),
        in_force(result, rows, zone),
        gaps_section(result.gaps, rows),
        disagreements_section(result.fidelity, rows),
        *refusal_sections(result.refusals, rows),
        *readiness_sections(result.readiness, rows),
        left_out(result),
    ]
    verdict, tone = _verdict(result)
    sets = " → ".join(inert(each.name) for each in (result.current, result.candidate) if each is not None)
    return Document(
        title="Admission report",
        subtitle=" · ".join(
            part
            for part in (
                f"{moment(period.start, zone)} to {moment(period.end, zone)} ({span(figures.period.length)})",
                log_name(result.log),
                sets,
            )
            if part
        ),
        verdict=verdict,
        tone=tone,
        facts=_facts(result),
        sections=tuple(section for section in sections if section is not None),
    )


def weekly_screen(result: WeeklyResult, zone: tzinfo = UTC) -> Document:
    """Return the first screen of the report."""
    document = weekly_document(result, zone=zone)
    steps = [("replay report … --full", "every table; with --out DIR: a page")]
    if result.figures.promotions:
        steps.append(("replay run … --policy POLICY", "which requests a policy would deny, and why"))
    if result.figures.total(EffectAction.DENY):
        steps.append(("replay lookup … --action deny", "who was denied, by which policy, since when"))
    return first_screen(document, {"promotions": 8, "owners": 4, "by-policy": 4}, steps)


def _verdict(result: WeeklyResult) -> tuple[str, Tone]:
    promotions = result.figures.promotions
    ready = sum(each.readiness is PolicyReadiness.READY for each in promotions)
    denied = result.figures.total(EffectAction.DENY)
    parts = [
        f"{number(denied)} of {plural(result.figures.requests, 'request')} {'was' if denied == 1 else 'were'} denied."
    ]
    if not promotions:
        return f"{parts[0]} No policy is on trial or planned.", Tone.PLAIN
    parts.append(_enforceable(ready, len(promotions)))
    return " ".join(parts), Tone.GOOD if ready == len(promotions) else Tone.WARN


def _enforceable(ready: int, count: int) -> str:
    policies = f"{plural(count, 'policy', 'policies')} on trial or planned"
    if not ready:
        return f"None of {policies} can be enforced yet."
    return f"{number(ready)} of {policies} can be enforced: {'it' if ready == 1 else 'they'} would deny nothing new."


def _facts(result: WeeklyResult) -> tuple[Fact, ...]:
    figures, previous = result.figures, result.previous
    facts = [
        Fact(
            "Requests",
            number(figures.requests),
            change(figures.requests, None if previous is None else previous.requests) or "that reached admission",
        )
    ]
    for action in (EffectAction.DENY, EffectAction.AUDIT, EffectAction.WARN, EffectAction.MUTATE):
        count = figures.total(action)
        trend = change(count, None if previous is None else previous.total(action))
        if count or trend not in ("", SAME) or action is EffectAction.DENY:
            facts.append(Fact(_FACTS[action], number(count), trend))
    if figures.promotions:
        ready = sum(each.readiness is PolicyReadiness.READY for each in figures.promotions)
        facts.append(Fact("Can be enforced", f"{ready} of {len(figures.promotions)}", "policies on trial or planned"))
    if result.current is not None or result.candidate is not None:
        determined = max(figures.requests - figures.undecided, 0)
        tone = Tone.GOOD if not figures.undecided else Tone.WARN
        facts.append(
            Fact(
                "Determined",
                share(determined, figures.requests),
                f"{plural(figures.undecided, 'request is', 'requests are')} undetermined" if figures.undecided else "",
                tone,
            )
        )
    if result.current is not None:
        facts.append(fidelity_fact(result.fidelity))
    if (scan := result.at_rest) is not None and scan.objects:
        tone = Tone.BAD if scan.breaches else Tone.GOOD
        objects = f"of {number(len(scan.objects))} in the snapshot: their next update is denied"
        facts.append(Fact("Existing objects", number(len(scan.breaches)), objects, tone))
    return tuple(facts)


def _promotions(result: WeeklyResult, rows: int, zone: tzinfo) -> Section | None:
    promotions = result.figures.promotions
    if not promotions:
        return None
    previous = {} if result.previous is None else {(e.policy, e.side): e for e in result.previous.promotions}
    columns = (
        Column("policy", Align.CODE),
        Column("verdict"),
        Column("new denials", Align.NUMBER),
        Column("consequences", Align.NUMBER, optional=True),
        Column("trend", optional=True),
        Column("workloads", Align.NUMBER),
        Column("users", Align.NUMBER, optional=True),
        Column("evaluated", Align.NUMBER),
        Column("undetermined", Align.NUMBER, optional=True),
        Column("today", optional=True),
        Column(f"last, {zone_name(result.figures.period.end, zone)}", Align.SHORT, optional=True),
    )
    is_whole_period = _begins_in_time(result.figures)
    shown = tuple(
        _promotion_row(each, previous.get((each.policy, each.side)), zone, is_whole=is_whole_period)
        for each in promotions[:rows]
    )
    lead = (
        "Each row is a policy that only warns or audits today, or that is planned. The numbers are for the whole period, as if the policy "
        "had denied from its start. New denials: requests that succeed today. Evaluated: requests that match the policy. A low number "
        "means little evidence."
    )
    if any(each.follow for each in promotions):
        lead += " Consequences: requests that would fail because an earlier request is denied."
    tones = tuple(Tone.WARN if _readiness(each) == _INDIRECT else _TONES[each.readiness] for each in promotions[:rows])
    anchors = policy_anchors([inert(each.policy) for each in promotions[:rows]])
    table = without_empty(Table("promotions", "", columns, shown, len(promotions), tones, anchors=anchors))
    return Section("promotions", "Can it be enforced?", lead, (table,))


def _consumers(result: WeeklyResult, rows: int) -> Section | None:
    """Return the section with kcp workspaces, because a provider first needs to know whom its policies deny.

    None for other logs.
    """
    workspaces = result.figures.workspaces
    if not workspaces:
        return None
    columns = (
        Column("consumer", Align.CODE),
        *((Column("new denials", Align.NUMBER),) if result.candidate is not None else ()),
        *(Column(word, Align.NUMBER) for word in ACTION_WORDS.values()),
        *((Column("undetermined", Align.NUMBER, optional=True),) if result.candidate is not None else ()),
    )
    shown = tuple(
        (
            inert(each.workspace),
            *((number(each.newly_denied),) if result.candidate is not None else ()),
            *(number(each.total(action)) for action in ACTION_WORDS),
            *((number(each.undecided),) if result.candidate is not None else ()),
        )
        for each in workspaces[:rows]
    )
    lead = (
        "Each row is a workspace of kcp. A request counts once for each policy. New denials are those of the candidate."
    )
    table = without_empty(Table("consumers", "", columns, shown, len(workspaces)))
    return Section("consumers", "By consumer", lead, (table,))


def _readiness(each: Promotion) -> str:
    """Return the verdict about a policy in words. One whose denials are all consequences denies nothing directly."""
    denies = each.readiness is PolicyReadiness.DENIES
    return _INDIRECT if denies and not each.roots else _READINESS[each.readiness]


def _begins_in_time(figures: Figures) -> bool:
    """Return whether the log starts near the beginning of the period. Only then can its halves be compared."""
    first = min((start for start, count in figures.steps.items() if count), default=figures.period.end)
    return first - figures.period.start <= max(figures.period.length // _LATE, figures.step)


def _promotion_row(each: Promotion, previous: Promotion | None, zone: tzinfo, *, is_whole: bool) -> tuple[str, ...]:
    return (
        inert(each.policy),
        _readiness(each),
        number(each.roots),
        number(each.follow),
        _promotion_trend(each, previous) if is_whole or previous is not None else "",
        number(each.workloads),
        number(each.users),
        number(each.matches),
        number(each.undecided),
        inert(each.today),
        minute(each.last, zone) if each.last else "never",
    )


def _promotion_trend(each: Promotion, previous: Promotion | None) -> str:
    """Return the trend from the earlier period if it has the policy, otherwise from the first half to the second."""
    if previous is not None:
        return change(each.roots, previous.roots)
    first, second = each.halves
    if first == second:
        return ""
    return f"{'falls' if second < first else 'rises'}: {number(first)}, then {number(second)}"


def _owners(result: WeeklyResult, rows: int, zone: tzinfo) -> Section | None:
    """Return the section with the people to contact, by policy. Policies that are nearest to enforcement come first."""
    owners = [talk for each in result.figures.promotions for talk in talks(each)]
    if not owners:
        return None
    labelled = any(talk.owner for talk in owners)
    columns = (
        Column("policy", Align.CODE),
        *((Column("owner"),) if labelled else ()),
        Column("namespaces", Align.CODE),
        Column("requests", Align.NUMBER),
        Column("workloads", Align.CODE),
        Column("users", Align.CODE),
        Column(f"last, {zone_name(result.figures.period.end, zone)}", Align.SHORT, optional=True),
    )
    shown = tuple(
        (
            inert(talk.policy),
            *((inert(talk.owner),) if labelled else ()),
            inert(some(talk.namespaces)) or "(cluster)",
            number(talk.requests),
            inert(some(talk.workloads)),
            inert(some(talk.users)),
            minute(talk.last, zone),
        )
        for talk in owners[:rows]
    )
    lead = "Owners of the workloads that would newly be denied. Policies that are nearest to enforcement come first."
    return Section(
        "owners", "Owners to talk to", lead, (without_empty(Table("owners", "", columns, shown, len(owners))),)
    )


def _actions(result: WeeklyResult, rows: int, zone: tzinfo, *, with_charts: bool) -> Section:
    figures = result.figures
    drawn: tuple[Block, ...] = charts(result, zone) if with_charts else ()
    policies = _by_policy(result, rows, zone)
    blocks = (*([policies] if policies.rows else ()), *drawn, _by_step(figures, rows, zone))
    lead = "Decisions that the log records."
    if result.notes:
        lead += f" Note: {inert('; '.join(result.notes))}."
    if any(each.source is FigureSource.REPLAY for each in figures.actions):
        lead += (
            " Audit logs do not record warnings and mutations. These rows come from a replay, and their source says so."
        )
    elif result.current is None:
        lead += " Audit logs do not record warnings and mutations. Give --current to see them."
    return Section("actions", "What admission did", lead, tuple(blocks))


def _by_policy(result: WeeklyResult, rows: int, zone: tzinfo) -> Table:
    previous = {}
    if result.previous is not None:
        previous = {(each.policy, each.action): each.requests for each in result.previous.actions}
    now = {(each.policy, each.action) for each in result.figures.actions}
    gone = [
        (inert(policy), ACTION_WORDS[action], "0", change(0, requests), "0", "0", "earlier", "")
        for (policy, action), requests in sorted(previous.items())
        if (policy, action) not in now and action in ACTION_WORDS
    ]
    columns = (
        Column("policy or webhook", Align.CODE),
        Column("what"),
        Column("requests", Align.NUMBER),
        Column("trend", Align.SHORT),
        Column("users", Align.NUMBER),
        Column("namespaces", Align.NUMBER, optional=True),
        Column(f"last, {zone_name(result.figures.period.end, zone)}", Align.SHORT, optional=True),
        Column("source", optional=True),
    )
    listed = [
        (
            *_action_row(each, result, previous.get((each.policy, each.action), 0)),
            minute(each.last, zone),
            _SOURCES[each.source],
        )
        for each in result.figures.actions
    ] + gone
    return without_empty(Table("by-policy", "Decisions by policy", columns, tuple(listed[:rows]), len(listed)))


_SOURCES = {FigureSource.LOG: "log", FigureSource.REPLAY: "replayed"}


def _action_row(each: ActionFigures, result: WeeklyResult, previous: int) -> tuple[str, ...]:
    return (
        inert(each.policy),
        ACTION_WORDS[each.action],
        number(each.requests),
        change(each.requests, previous) if result.previous is not None else "",
        number(each.users),
        number(each.namespaces),
    )


def _by_step(figures: Figures, rows: int, zone: tzinfo) -> Table:
    """Return the actions by day."""
    step = step_of(figures)
    actions = [a for a in ACTION_WORDS if any(each.action is a for each in figures.actions)]
    requests = by_step(figures.steps, step, zone)
    counts = {
        action: _added(by_step(each.timeline, step, zone) for each in figures.actions if each.action is action)
        for action in actions
    }
    points = starts(figures.period, step, zone)
    columns = (
        Column("day" if step >= 86_400_000_000 else "from"),
        Column("requests", Align.NUMBER),
        *(Column(ACTION_WORDS[action], Align.NUMBER) for action in actions),
    )
    shown = tuple(
        (label(start, step, zone), number(requests[start]), *(number(counts[a].get(start, 0)) for a in actions))
        for start in points[-rows:]
    )
    caption = "By day" if step >= 86_400_000_000 else f"By {span(step)}"
    return Table("by-day", caption, columns, shown, len(points))


def _added(counts: Iterable[dict[int, int]]) -> dict[int, int]:
    total: dict[int, int] = {}
    for each in counts:
        for start, count in each.items():
            total[start] = total.get(start, 0) + count
    return total


def _mutations(result: WeeklyResult, rows: int, zone: tzinfo) -> Section | None:
    if not result.mutations:
        return None
    columns = (
        Column("policy", Align.CODE),
        Column("requests", Align.NUMBER),
        Column("workloads", Align.NUMBER),
        Column("users", Align.NUMBER),
        Column(f"last, {zone_name(result.figures.period.end, zone)}", Align.SHORT, optional=True),
    )
    shown = tuple(
        (inert(each.policy), number(each.requests), number(each.workloads), number(each.users), minute(each.last, zone))
        for each in result.mutations[:rows]
    )
    table = Table("mutations", "", columns, shown, len(result.mutations))
    lead = "Requests that mutating policies of the candidate would change. `replay run` shows the changes."
    return Section("mutations", "What the candidate would change", lead, (table,))
