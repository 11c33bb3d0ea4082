"""A run in a few lines: while a policy is written, as the difference from the last run, and as a pull request comment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from replay.compare.outcome import MUTATIONS, WORDS, OutcomeKind
from replay.compare.result import RunResult
from replay.compare.summary import Cell, CellKey
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
)
from replay.report.run.report import run_document
from replay.report.run.summary import run_summary
from replay.report.run.views import Group, by_policy, cells_with, direct, grouped, workload_label
from replay.report.trust import MATCH

MOST_LINES = 10
MOST_POLICIES = 5
MOST_WORKLOADS = 3


def brief_lines(result: RunResult) -> list[str]:
    """Return at most ten lines about a run.

    They are the answer, the match with the log, lockouts, unusable lines, and the policies that deny most with their
    workloads.
    """
    document = run_summary(result)
    facts = {fact.label: fact.value for fact in document.facts}
    denied = direct(cells_with(result.summary, OutcomeKind.NEWLY_DENIED))
    groups = grouped(denied, by_policy)
    lines = [
        document.verdict,
        f"determined {facts['Determined']}, match with the log {facts[MATCH]}",
        f"lockouts: {facts['Lockouts']}",
        *([f"unusable: {facts['Unusable']} of the log"] if "Unusable" in facts else []),
    ]
    lines += [_policy(group) for group in groups[:MOST_POLICIES]]
    if len(groups) > MOST_POLICIES:
        rest = groups[MOST_POLICIES:]
        lines.append(
            f"{sum(each.requests for each in rest):>7,} by {plural(len(rest), 'other policy', 'other policies')}"
        )
    if result.accepted.requests:
        lines.append(f"{plural(result.accepted.requests, 'accepted denial')} not counted")
    return lines[:MOST_LINES]


def _policy(group: Group) -> str:
    names = sorted(inert(name).replace(" ", "/", 1) for name in group.workloads)
    more = f" and {number(len(names) - MOST_WORKLOADS)} more" if len(names) > MOST_WORKLOADS else ""
    return f"{group.requests:>7,} {inert(group.label)}: {', '.join(names[:MOST_WORKLOADS])}{more}"


NOTHING = "no difference"
_WORDS = (
    ("denied", (OutcomeKind.NEWLY_DENIED,)),
    ("mutated", MUTATIONS),
    ("undecided", (OutcomeKind.UNDETERMINED,)),
    ("admitted", (OutcomeKind.NEWLY_ADMITTED,)),
)
_Counts = Counter[tuple[str, str]]


def difference_line(previous: RunResult, following: RunResult) -> str:
    """Return which objects of the candidate changed, and how many direct findings are gone and new, of which workloads.

    Consequences are not counted. A workload with an equal number of other requests is not mentioned.
    """
    old, new = _counts(previous), _counts(following)
    parts = [part for word, _ in _WORDS for part in _parts(word, old, new)]
    changed = ", ".join(_changed_objects(previous, following))
    return f"{changed}{': ' if changed else ''}{'; '.join(parts) or NOTHING}"


def _changed_objects(previous: RunResult, following: RunResult) -> list[str]:
    """Return the objects that differ from the baseline in another way than before, in order."""
    before, after = _differences(previous.changes), _differences(following.changes)
    return sorted(name for name in {**before, **after} if before.get(name) != after.get(name))


def _differences(changes: Iterable[str]) -> dict[str, list[str]]:
    """Return the lines of `diff_text` by object: a line with its sign and name, then lines of its fields."""
    differences: dict[str, list[str]] = {}
    for line in changes:
        if line[:2] in ("+ ", "- ", "~ "):
            lines = differences.setdefault(inert(line[2:].partition(" ")[0]), [])
        elif not differences:
            continue
        lines.append(line)
    return differences


def _counts(result: RunResult) -> _Counts:
    """Return the number of requests by what happens to them and by workload."""
    words = {kind: word for word, kinds in _WORDS for kind in kinds}
    counts: _Counts = Counter()
    for key, cell in result.summary.cells.items():
        if not key.follows and key.outcome in words:
            counts[words[key.outcome], inert(workload_label(key)).replace(" ", "/", 1)] += cell.count
    return counts


def _parts(word: str, old: _Counts, new: _Counts) -> Iterator[str]:
    for sign, changes in (("-", old - new), ("+", new - old)):
        mine = Counter({workload: count for (each, workload), count in changes.items() if each == word})
        if mine:
            named = sorted(mine, key=lambda workload: (-mine[workload], workload))
            more = ", ..." if len(named) > MOST_WORKLOADS else ""
            yield f"{sign}{number(mine.total())} {word}: {', '.join(named[:MOST_WORKLOADS])}{more}"


MOST_ROWS = 25
_FACTS = ("Unusable", "Determined", MATCH, "Denied", "Newly mutated", "Predicted outcome", "Accepted")
_TONES = {OutcomeKind.NEWLY_DENIED: Tone.BAD, OutcomeKind.UNDETERMINED: Tone.PLAIN}
_Items = list[tuple[CellKey, Cell]]


def run_comment(result: RunResult) -> Document:
    """Return the comment: a section for each policy and outcome, those that deny most first."""
    document = run_document(result)
    sections = [
        _section(result, kind, group.label, [item for item in cells if group.label in item[0].policies])
        for kind in (OutcomeKind.NEWLY_DENIED, *MUTATIONS, OutcomeKind.UNDETERMINED)
        if (cells := direct(cells_with(result.summary, kind)))
        for group in grouped(cells, by_policy)
    ]
    facts = tuple(fact for fact in document.facts if fact.label in _FACTS)
    return Document(document.title, document.subtitle, document.verdict, document.tone, facts, tuple(sections))


def _section(result: RunResult, kind: OutcomeKind, policy: str, cells: _Items) -> Section:
    """Return the workloads and users that a policy affects, with its file and line and its most frequent message."""
    counts: dict[tuple[str, str], int] = {}
    for key, cell in cells:
        who = workload_label(key), key.user
        counts[who] = counts.get(who, 0) + cell.count
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    rows = tuple((inert(workload), inert(user), number(count)) for (workload, user), count in ordered[:MOST_ROWS])
    columns = Column("workload", Align.CODE), Column("user", Align.CODE), Column("requests", Align.NUMBER)
    table = Table(f"{kind}-{policy}", "", columns, rows, len(ordered))
    requests = plural(sum(counts.values()), "request")
    workloads = plural(len({workload for workload, _ in counts}), "workload")
    title = f"{inert(policy)}: {requests} of {workloads} {WORDS[kind]}"
    origin = result.origin(policy)
    place = f"{origin.file}:{origin.line}" if origin is not None else ""
    messages = result.summary.messages.get((kind, policy))
    common = max(messages.items(), key=lambda item: (item[1], item[0]))[0] if messages else ""
    lead = ": ".join(inert(part) for part in (place, common) if part)
    return Section(f"{kind}-{policy}", title, lead, (table,), _TONES.get(kind, Tone.WARN))
