"""The views of the page. They decide every sentence and number.

Texts come from an untrusted log: `inert` spells control characters, and each format escapes for itself.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any
from urllib.parse import quote, urlencode

from msgspec import Struct

from replay.report.render.document import Tone, inert, number, plural, share, span
from replay.serve.trials import TrialPhase, TrialState
from replay.serve.view import Cell, Grid, Item, View

MOST_ROWS = 500
"""Rows of a table on a page. The CSV and the JSON API have all rows."""
_SPARK_DAYS = 30
_DENIED = "newly_denied"
_MICROSECONDS = 1_000_000


class LogState(Struct, frozen=True):
    """The store now; times are microseconds since the epoch, `waiting` bytes are received and not in the store yet."""

    requests: int = 0
    events: int = 0
    octets: int = 0
    first: int = 0
    last: int = 0
    waiting: int = 0
    rejects: Mapping[str, int] = {}

    @property
    def lag(self) -> float:
        """Seconds since the last request of the store, 0 for an empty store."""
        return max(time.time() - self.last / _MICROSECONDS, 0.0) if self.last else 0.0


def trial_path(name: str) -> str:
    """Return the address of a trial's page."""
    return f"/trials/{quote(name)}"


def direct_denials(summary: Mapping[str, Any]) -> int:
    """Return the requests that a candidate would deny directly."""
    return int(summary["roots"].get(_DENIED, 0))


def denied_rows(summary: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of direct denials: one for each policy and workload."""
    return [row for row in summary["rows"] if row["outcome"] == _DENIED and row["requests"]]


def is_lockout(row: Mapping[str, Any]) -> bool:
    """Return whether a row has requests of the control plane, a node or a controller."""
    return any(user.startswith("system:") for user in row["users"])


def match_with_log(summary: Mapping[str, Any]) -> tuple[int, int]:
    """Return how many recorded decisions the baseline reproduces, and how many there are."""
    kinds = [value for value in summary["fidelity"].values() if isinstance(value, dict)]
    return sum(kind["reproduced"] for kind in kinds), sum(kind["observed"] + kind.get("notInLog", 0) for kind in kinds)


def by_day(summary: Mapping[str, Any], policy: str | None = None) -> tuple[int, ...]:
    """Return the direct denials of the last days of the log, oldest first; of one policy if it is named."""
    chosen = summary.get("deniedByDay", {})
    days: dict[str, int] = {}
    for name, counts in chosen.items():
        if policy in (None, name):
            for day, count in counts.items():
                days[day] = days.get(day, 0) + count
    if not days:
        return ()
    end = date.fromisoformat(max(max(counts) for counts in chosen.values()))
    return tuple(days.get((end - timedelta(days=back)).isoformat(), 0) for back in reversed(range(_SPARK_DAYS)))


def trial_verdict(state: TrialState) -> tuple[str, Tone]:
    """Return whether the candidate can be enforced, in one sentence."""
    if state.summary is None:
        return f"{state.trial.name} {state.progress}.", Tone.BAD if state.phase is TrialPhase.FAILED else Tone.PLAIN
    rows = denied_rows(state.summary)
    decided = state.summary["decided"]
    unknown = decided["of"] - decided["requests"]
    if rows:
        workloads = {(row["namespace"], row["workload"]) for row in rows}
        owners = {row["owner"] for row in rows if row["owner"]}
        whose = f" of {plural(len(owners), 'team')}" if owners else ""
        return f"Would deny {plural(len(workloads), 'workload')}{whose}.", Tone.BAD
    if unknown:
        return f"No denial so far. {plural(unknown, 'request is', 'requests are')} undetermined.", Tone.WARN
    return "Can be enforced: no request of the log would be denied.", Tone.GOOD


def overview(states: Sequence[TrialState], log: LogState) -> View:
    """The first page: every trial in one row."""
    rows = tuple(_overview_row(state) for state in states)
    tones = [trial_verdict(state)[1] for state in states]
    bad = tones.count(Tone.BAD)
    verdict = f"{plural(len(states), 'trial')}: {bad} would deny or cannot be decided." if states else "No trial."
    columns = ("trial", "answer", "direct denials", "by day", "last hit", "match with the log", "determined", "state")
    grid = Grid("trials", "Trials", columns, rows, frozenset({2}), "Start `replay serve` with --trial NAME=DIR.")
    return View(
        "Policies on trial",
        verdict,
        Tone.BAD if bad else Tone.GOOD,
        _log_facts(log),
        (grid,),
        {"trials": [trial_data(state) for state in states], "log": log_data(log)},
        links=(Cell("Search", "/search"), Cell("Weekly reports", "/weekly"), Cell("Log health", "/log")),
        is_working=any(state.phase is TrialPhase.DECIDING for state in states),
    )


def _overview_row(state: TrialState) -> tuple[Cell, ...]:
    name = Cell(state.trial.name, trial_path(state.trial.name))
    verdict, _ = trial_verdict(state)
    if state.summary is None:
        return (name, Cell(verdict), *(Cell("") for _ in range(5)), Cell(state.phase.value))
    rows = denied_rows(state.summary)
    decided = state.summary["decided"]
    return (
        name,
        Cell(verdict),
        Cell(number(direct_denials(state.summary))),
        Cell("", spark=by_day(state.summary)),
        Cell(max((row["last"] for row in rows), default="")[:16].replace("T", " ")),
        Cell(share(*match_with_log(state.summary))),
        Cell(share(decided["requests"], decided["of"])),
        Cell(state.progress),
    )


def _log_facts(log: LogState) -> tuple[Item, ...]:
    if not log.requests:
        return (Item("Log", "empty", "no request is in the store yet", Tone.WARN),)
    return (
        Item("Requests", number(log.requests), f"{span(log.last - log.first)} of log"),
        Item("Last request", ago(log.lag), "behind now", Tone.WARN if log.lag > 3600 else Tone.PLAIN),
    )


def trial_page(state: TrialState, log: LogState) -> View:
    """One trial: policies, workloads, and what changed since the last result."""
    verdict, tone = trial_verdict(state)
    trail = (Cell("Trials", "/"),)
    if state.summary is None:
        waiting = (Item("State", state.phase.value, state.progress),)
        return View(state.trial.name, verdict, tone, waiting, (), trial_data(state), trail, is_working=True)
    summary = state.summary
    rows = denied_rows(summary)
    decided = summary["decided"]
    lockouts = sum(row["requests"] for row in rows if is_lockout(row))
    facts = (
        Item("Direct denials", number(direct_denials(summary)), "requests", Tone.BAD if rows else Tone.GOOD),
        Item("Lockouts", number(lockouts), "requests of system users", Tone.BAD if lockouts else Tone.GOOD),
        Item("Match with the log", share(*match_with_log(summary)), "recorded decisions that the baseline gives"),
        Item("Determined", share(decided["requests"], decided["of"]), f"of {plural(decided['of'], 'request')}"),
        Item("State", state.phase.value, state.progress),
        *_log_facts(log)[1:],
    )
    base = trial_path(state.trial.name)
    return View(
        state.trial.name,
        verdict,
        tone,
        facts,
        (_policies(state, base), _workloads(state, base), _changes(state, base), _accepted(summary)),
        {**trial_data(state), "summary": summary},
        trail,
        (
            Cell("Full report", f"{base}/report.html"),
            Cell("CSV", f"{base}/findings.csv"),
            Cell("Markdown", f"{base}/report.md"),
            Cell("JSON", f"{base}.json"),
        ),
        is_working=state.phase is TrialPhase.DECIDING,
    )


def _policies(state: TrialState, base: str) -> Grid:
    summary = state.summary or {}
    policies = summary["findings"].get(_DENIED, {}).get("policies", [])
    found = [policy for policy in policies if policy["requests"]]
    rows = tuple(
        (
            Cell(inert(policy["name"]), f"{base}/workloads?{urlencode({'policy': policy['name']})}"),
            Cell(number(policy["requests"])),
            Cell(number(policy["workloads"])),
            Cell("", spark=by_day(summary, policy["name"])),
            Cell(_place(policy.get("origin"))),
        )
        for policy in found[:MOST_ROWS]
    )
    columns = ("policy", "direct denials", "workloads", "by day", "file and line")
    return Grid("policies", "Policies that deny", columns, rows, frozenset({1, 2}), "No policy denies anything.")


def _place(origin: Mapping[str, Any] | None) -> str:
    return f"{origin['file']}:{origin['line']}" if origin else ""


def _workloads(state: TrialState, base: str, policy: str = "") -> Grid:
    rows = [row for row in denied_rows(state.summary or {}) if policy in ("", row["policy"])]
    shown = sorted(rows, key=lambda row: (-row["requests"], row["namespace"], row["workload"], row["policy"]))
    cells = tuple(
        (
            Cell(inert(row["workload"]), f"{base}/workload?{urlencode(workload_query(row))}"),
            Cell(inert(row["namespace"]) or "(cluster)"),
            Cell(inert(row["owner"])),
            Cell(inert(row["policy"])),
            Cell(number(row["requests"])),
            Cell(number(row["follow"])),
            Cell(row["last"][:16].replace("T", " ")),
        )
        for row in shown[:MOST_ROWS]
    )
    columns = ("workload", "namespace", "owner", "policy", "direct denials", "consequences", "last seen, UTC")
    more = f"… and {number(len(rows) - MOST_ROWS)} more: see the CSV." if len(rows) > MOST_ROWS else ""
    return Grid("workloads", "Workloads", columns, cells, frozenset({4, 5}), "No workload is denied.", more)


def workload_query(row: Mapping[str, Any]) -> dict[str, str]:
    """Return the query of a workload's page."""
    return {"namespace": row["namespace"], "workload": row["workload"], "policy": row["policy"]}


def workloads_page(state: TrialState, policy: str) -> View:
    """The workloads that one policy of a trial denies."""
    base = trial_path(state.trial.name)
    grid = _workloads(state, base, policy)
    verdict = f"{inert(policy)} would deny {plural(len(grid.rows), 'workload')}." if policy else "All denied workloads."
    trail = (Cell("Trials", "/"), Cell(state.trial.name, base))
    rows = [row for row in denied_rows(state.summary or {}) if policy in ("", row["policy"])]
    return View(
        inert(policy) or "Workloads", verdict, Tone.BAD if rows else Tone.GOOD, (), (grid,), {"rows": rows}, trail
    )


def workload_page(state: TrialState, row: Mapping[str, Any], proposal: str) -> View:
    """One workload and policy: the message, the requests, and the way to accept the denials."""
    base = trial_path(state.trial.name)
    name = f"{inert(row['workload'])} in {inert(row['namespace']) or '(cluster)'}"
    request = f"{base}/request?{urlencode({'id': row['auditID']})}" if row["auditID"] else ""
    facts = (
        Item("Policy", inert(row["policy"]), row["origin"]),
        Item("Message", inert(row["message"])),
        Item("Direct denials", number(row["requests"]), f"and {plural(row['follow'], 'consequence')}", Tone.BAD),
        Item("Owner", inert(row["owner"]) or "unknown"),
        Item("Users", inert(", ".join(row["users"][:5]))),
        Item("Seen", f"{row['first'][:16]} to {row['last'][:16]}".replace("T", " "), "UTC"),
    )
    grid = Grid(
        "requests",
        "First request",
        ("audit ID",),
        ((Cell(row["auditID"], request),),) if row["auditID"] else (),
    )
    accept = {**workload_query(row), "proposal": proposal}
    trail = (Cell("Trials", "/"), Cell(state.trial.name, base))
    verdict = f"{plural(row['requests'], 'request')} of {name} would be denied."
    return View(name, verdict, Tone.BAD, facts, (grid,), dict(row), trail, accept=accept)


def new_rows(state: TrialState) -> list[dict[str, Any]]:
    """Return the rows of direct denials that the last result has and the one before had not."""
    if state.summary is None or state.previous is None:
        return []
    known = {tuple(workload_query(row).values()) for row in denied_rows(state.previous)}
    return [row for row in denied_rows(state.summary) if tuple(workload_query(row).values()) not in known]


def _changes(state: TrialState, base: str) -> Grid:
    columns = ("workload", "namespace", "policy", "direct denials")
    rows = tuple(
        (
            Cell(inert(row["workload"]), f"{base}/workload?{urlencode(workload_query(row))}"),
            Cell(inert(row["namespace"]) or "(cluster)"),
            Cell(inert(row["policy"])),
            Cell(number(row["requests"])),
        )
        for row in new_rows(state)[:MOST_ROWS]
    )
    return Grid("new", "New since the last result", columns, rows, frozenset({3}), "Nothing new.")


def _accepted(summary: Mapping[str, Any]) -> Grid:
    entries = summary.get("accepted", {}).get("entries", [])
    columns = ("policy", "namespace", "workload", "reason", "expires", "requests")
    rows = tuple(
        tuple(Cell(inert(str(entry.get(name) if entry.get(name) is not None else ""))) for name in columns)
        for entry in entries
    )
    return Grid("accepted", "Accepted findings", columns, rows, frozenset({5}), "No finding is accepted.")


def log_page(states: Iterable[TrialState], log: LogState) -> View:
    """What the log lacks: undetermined requests with what would record them, and unusable lines."""
    rows = tuple(
        (
            Cell(state.trial.name, trial_path(state.trial.name)),
            Cell(inert(gap["policy"])),
            Cell(number(gap["requests"])),
            Cell(inert(gap["reason"])),
            Cell(inert(gap["fix"])),
        )
        for state in states
        if state.summary is not None
        for gap in state.summary["undetermined"]
    )
    columns = ("trial", "policy", "requests", "reason", "what would record it")
    undetermined = Grid(
        "undetermined", "Undetermined", columns, rows[:MOST_ROWS], frozenset({2}), "Every request is decided."
    )
    rejects = Grid(
        "rejects",
        "Unusable lines",
        ("reason", "lines"),
        tuple((Cell(inert(reason)), Cell(number(count))) for reason, count in sorted(log.rejects.items())),
        frozenset({1}),
        "Every line is usable.",
    )
    verdict = "Every request is decided." if not rows else "Some requests are undetermined: the log lacks something."
    facts = (*_log_facts(log), Item("Waiting", f"{log.waiting:,} bytes", "received, not in the store yet"))
    return View(
        "Log health",
        verdict,
        Tone.WARN if rows else Tone.GOOD,
        facts,
        (undetermined, rejects),
        log_data(log),
        (Cell("Trials", "/"),),
    )


def weekly_page(names: Sequence[str]) -> View:
    """The archive of weekly reports, newest first."""
    rows = tuple(
        (Cell(name, f"/weekly/{quote(name)}/report.html"), Cell("Markdown", f"/weekly/{quote(name)}/report.md"))
        for name in names
    )
    verdict = f"{plural(len(names), 'report')}." if names else "The first report appears when the log covers a week."
    grid = Grid("weekly", "Reports by last day", ("report", "other form"), rows, empty="No report yet.")
    return View("Weekly reports", verdict, Tone.PLAIN, (), (grid,), {"reports": list(names)}, (Cell("Trials", "/"),))


def trial_data(state: TrialState) -> dict[str, Any]:
    """Return a trial for machines, without its findings."""
    summary = state.summary
    verdict, _ = trial_verdict(state)
    data: dict[str, Any] = {
        "name": state.trial.name,
        "candidate": str(state.trial.candidate),
        "phase": state.phase.value,
        "error": state.error,
        "verdict": verdict,
        "decidedAt": datetime.fromtimestamp(state.decided, tz=UTC).isoformat() if state.decided else None,
        "seconds": round(state.seconds, 1),
    }
    if summary is not None:
        reproduced, recorded = match_with_log(summary)
        data |= {
            "directDenials": direct_denials(summary),
            "workloads": len({(row["namespace"], row["workload"]) for row in denied_rows(summary)}),
            "matchWithLog": {"reproduced": reproduced, "of": recorded},
            "determined": {"requests": summary["decided"]["requests"], "of": summary["decided"]["of"]},
        }
    return data


def log_data(log: LogState) -> dict[str, Any]:
    """Return the state of the store for machines."""
    return {
        "requests": log.requests,
        "events": log.events,
        "storeBytes": log.octets,
        "waitingBytes": log.waiting,
        "lagSeconds": round(log.lag, 1),
        "rejectedLines": dict(log.rejects),
    }


def ago(seconds: float) -> str:
    """Return a length of time in its largest unit."""
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"
