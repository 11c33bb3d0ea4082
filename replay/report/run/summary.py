"""The first screen of `replay run`: the answer, the trust in it, the affected workloads, and the next steps.

It has at most 40 lines, in a terminal of 80 columns too. The full report has every table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from replay.compare.outcome import MUTATIONS, OutcomeKind
from replay.compare.result import RunResult
from replay.compare.summary import decided
from replay.kube.denial import without_webhook
from replay.report.render.document import (
    Align,
    Column,
    Document,
    Fact,
    Section,
    Table,
    Tone,
    few,
    inert,
    moment,
    number,
    plural,
    share,
    span,
)
from replay.report.render.terminal import cut, lines_over, next_steps, part_of
from replay.report.run.api_versions import api_versions_fact, removed_verdict
from replay.report.run.authorization import authorization_verdict
from replay.report.run.denied import accepted_facts, bootstrap_gap_fact
from replay.report.run.views import (
    CellItems,
    Group,
    by_policy,
    by_workload,
    cells_with,
    common_message,
    counted,
    counts,
    direct,
    grouped,
    lockout,
)
from replay.report.run.webhooks import outage_facts, outage_verdict, unknown_calls
from replay.report.trust import fidelity_fact, matches_log, mismatch

MOST_POLICIES = 10
MOST_WORKLOADS = 8
MOST_NAMES = 2
TITLE = "Impact of the candidate"
_MESSAGE = 36
"""Characters of a message in a table of the first screen, in which a row is one line of 100 columns."""
_POLICY = 36
_WORKLOAD = 44
_ON_PAGE = 300
"""Characters of a cell on a page, which wraps them."""
_LISTED = {
    OutcomeKind.NEWLY_MUTATED: "would newly be mutated",
    OutcomeKind.MUTATION_CHANGED: "would be mutated differently",
    OutcomeKind.NO_LONGER_MUTATED: "would no longer be mutated",
    OutcomeKind.NEWLY_ADMITTED: "would newly be admitted",
}
"""Outcomes that the answer names after denials."""


def run_summary(result: RunResult) -> Document:
    """Return the first screen as a document."""
    denied = cells_with(result.summary, OutcomeKind.NEWLY_DENIED)
    verdict, tone = run_verdict(result)
    if warning := mismatch(result):
        verdict, tone = f"{warning} {verdict}", Tone.BAD
    policies, workloads = _policies(result, denied, on_page=False), grouped(denied, by_workload)
    steps = _next_steps(result, denied)
    screen = Document(
        title=TITLE,
        subtitle=f"{result.subject} · {few(result.log.names)}",
        verdict=verdict,
        tone=tone,
        facts=tuple(_facts(result, denied)),
        sections=_sections(policies, _workloads(workloads, MOST_WORKLOADS, on_page=False), steps),
    )
    # Policies answer the question of a run, so only workloads give up rows.
    if (over := lines_over(screen)) > 0:
        fewer = _workloads(workloads, max(MOST_WORKLOADS - over, 1), on_page=False)
        return replace(screen, sections=_sections(policies, fewer, steps))
    return screen


def summary_tables(result: RunResult) -> tuple[Section, ...]:
    """Return the policies that deny most and the most affected workloads, for a page.

    Cells keep their text, because a page wraps it. In a terminal a row takes one line.
    """
    denied = cells_with(result.summary, OutcomeKind.NEWLY_DENIED)
    workloads = _workloads(grouped(denied, by_workload), MOST_WORKLOADS, on_page=True)
    return _sections(_policies(result, denied, on_page=True), workloads)


def _sections(*sections: Section | None) -> tuple[Section, ...]:
    return tuple(section for section in sections if section is not None)


def run_verdict(result: RunResult) -> tuple[str, Tone]:
    """Return the answer in words for a meeting, and its tone.

    The effects of the authorizers come first, then those of admission.
    """
    verdict, tone = _admission_verdict(result)
    if outage := outage_verdict(result):
        verdict = f"{outage} {verdict}"
    if removed := removed_verdict(result):
        verdict, tone = f"{removed} {verdict}", Tone.BAD
    authorized, grave = authorization_verdict(result.authorization) if result.authorization is not None else ("", tone)
    if not authorized:
        return verdict, tone
    return f"{authorized} {verdict}", Tone.BAD if Tone.BAD in (tone, grave) else Tone.WARN


def _admission_verdict(result: RunResult) -> tuple[str, Tone]:
    by_outcome = counts(result.summary)
    denied, _ = by_outcome[OutcomeKind.NEWLY_DENIED]
    determined, total = decided(result.summary, "candidate")
    changes = [f"{number(by_outcome[kind][0])} {words}" for kind, words in _LISTED.items() if by_outcome[kind][0]]
    sentences = [f"{number(denied) if denied else 'None'} of {plural(total, 'request')} would be denied directly."]
    if not denied and not changes:
        sentences = [f"None of {plural(determined, 'decided request')} would be denied or mutated."]
    if changes:
        sentences.append(f"{', '.join(changes)}.")
    if failing := result.world.failing:
        sentences.append(f"Another {number(failing)} would fail as a consequence.")
    if total > determined:
        unknown = total - determined
        sentences.append(f"{plural(unknown, 'request is', 'requests are')} undetermined.")
    if calls := unknown_calls(result.summary):
        sentences.append(f"{plural(calls, 'new webhook call')} could deny or mutate more: no webhook was called.")
    if denied:
        tone = Tone.BAD
    elif changes or total > determined or calls:
        tone = Tone.WARN
    else:
        tone = Tone.GOOD
    return " ".join(sentences), tone


def determined_fact(result: RunResult) -> Fact:
    """Return the number of requests with a certain verdict under the candidate."""
    determined, total = decided(result.summary, "candidate")
    tone = Tone.GOOD if determined == total else Tone.WARN
    return Fact("Determined", share(determined, total), f"{number(determined)} of {plural(total, 'request')}", tone)


def _facts(result: RunResult, denied: CellItems) -> Iterator[Fact]:
    log = result.log
    yield Fact("Log", plural(log.events, "event"), f"{moment(log.first)}, {span(log.last - log.first)}")
    rejected = sum(log.rejects.values())
    if rejected:
        yield Fact("Unusable", plural(rejected, "line"), "list them with --rejects FILE", Tone.WARN)
    yield fidelity_fact(result.fidelity)
    yield determined_fact(result)
    yield lockout_fact(denied)
    mutated = direct(cells_with(result.summary, *MUTATIONS))
    if mutated:
        groups = grouped(mutated, by_policy)
        yield Fact("Mutated", plural(counted(mutated)[0], "request"), f"by {_most_of(groups)}", Tone.WARN)
    yield from outage_facts(result)
    if gap := bootstrap_gap_fact(result):
        yield gap
    if served := api_versions_fact(result):
        yield served
    yield from accepted_facts(result.accepted)
    for note in result.notes:
        yield Fact("Note", inert(note))


def lockout_fact(denied: CellItems) -> Fact:
    """Return how many direct denials hit the cluster's own components, and which."""
    users: Counter[str] = Counter()
    for key, cell in denied:
        if lockout(key):
            users[key.user] += cell.count
    if not users:
        return Fact("Lockouts", "none", "no control plane, node or controller is denied", Tone.GOOD)
    named = ", ".join(f"{inert(user)} ({number(count)})" for user, count in users.most_common(MOST_NAMES))
    more = f" and {number(len(users) - MOST_NAMES)} more" if len(users) > MOST_NAMES else ""
    return Fact("Lockouts", plural(users.total(), "request"), named + more, Tone.BAD)


def _most_of(groups: Sequence[Group]) -> str:
    """Return the policy with most requests, and how many others there are."""
    first, *others = groups
    return f"{inert(first.label)} ({number(first.requests)})" + (f" and {number(len(others))} more" if others else "")


def _policies(result: RunResult, denied: CellItems, *, on_page: bool) -> Section | None:
    groups = [group for group in grouped(denied, by_policy) if group.requests]
    if not groups:
        return None
    columns = (
        Column("policy", Align.SHORT if on_page else Align.CODE),
        Column("direct", Align.NUMBER),
        Column("sole", Align.NUMBER),
        Column("consequences", Align.NUMBER),
        Column("most frequent message"),
    )
    cells = [
        [
            cut(group.label, _ON_PAGE if on_page else _POLICY),
            *map(number, (group.requests, group.sole, group.consequences)),
            cut(without_webhook(common_message(result, group.label)).strip(), _ON_PAGE if on_page else _MESSAGE),
        ]
        for group in groups[:MOST_POLICIES]
    ]
    rows = tuple(map(tuple, cells))
    title = f"Policies that deny requests{part_of(len(rows), len(groups))}"
    return Section(
        "first-policies",
        title if on_page else f"{title}; sole: denied by no other policy",
        "Sole: requests that no other policy denies." if on_page else "",
        (Table("first-policies-table", "", columns, rows, is_one_line=not on_page),),
        Tone.BAD,
    )


def _workloads(workloads: Sequence[Group], most: int, *, on_page: bool) -> Section | None:
    groups = [group for group in workloads if group.requests]
    if not groups:
        return None
    columns = (
        Column("workload", Align.SHORT if on_page else Align.CODE),
        Column("owner", Align.SHORT),
        Column("direct", Align.NUMBER),
        Column("consequences", Align.NUMBER),
        Column("policies", Align.TEXT if on_page else Align.CODE),
    )
    rows = tuple(
        (
            cut(group.label, _ON_PAGE if on_page else _WORKLOAD),
            cut(", ".join(sorted(group.owners)), 12),
            number(group.requests),
            number(group.consequences),
            cut(", ".join(sorted(group.policies)), _ON_PAGE)
            if on_page
            else _first_name(sorted(group.policies), _POLICY),
        )
        for group in groups[:most]
    )
    title = f"Workloads hit most{part_of(len(rows), len(groups))}"
    return Section(
        "first-workloads",
        title,
        "",
        (Table("first-workloads-table", "", columns, rows, is_one_line=not on_page),),
        Tone.BAD,
    )


def _first_name(names: Sequence[str], most: int) -> str:
    """Return the first name and how many more there are, in at most `most` characters."""
    more = f" +{len(names) - 1}" if len(names) > 1 else ""
    return cut(names[0], most - len(more)) + more


def _next_steps(result: RunResult, denied: CellItems) -> Section:
    """Return the next steps. `…` stands for the arguments of this run."""
    steps = [("replay run … --full, or --report DIR", "every table, or a page")]
    if not matches_log(result.fidelity):
        steps.insert(0, ("replay verify …", "why the match is low"))
    groups = grouped(direct(denied), by_policy)
    if groups:
        example, _ = groups[0].examples[0]
        steps.append((f"replay explain {inert(example.audit_id)} …", "why this one is denied"))
        steps.append((f"replay accept --policy {inert(groups[0].label)} …", "record intended denials"))
    determined, total = decided(result.summary, "candidate")
    if total > determined:
        steps.append(("replay coverage …", "what the log lacks"))
    return next_steps(steps)
