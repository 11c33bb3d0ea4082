"""Views of the page, which define every sentence and number.

Texts come from an untrusted log. `inert` makes control characters visible, and each format escapes texts itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any
from urllib.parse import quote, urlencode

from replay.report.render.document import Tone, inert, number, plural, share, size, span
from replay.report.run.views import locked_out
from replay.serve.growth import DENIED, denied_rows
from replay.serve.processes import WeeklyReport
from replay.serve.settings import Trial
from replay.serve.stores import GAP_MINUTES, LogState
from replay.serve.trials import TrialPhase, TrialState
from replay.serve.view import Grid, View, ViewCell, ViewItem, ViewLine, Work

_SPARK_DAYS = 30
_LATE_SECONDS = 3600
_MICROSECONDS = 1_000_000
_GROUPS = (
    *("can be enforced", "would deny requests", "with undetermined requests"),
    *("cannot be decided", "with changed manifests", "without a result yet"),
)
"""Groups of trials that the first page counts."""


def trial_path(name: str) -> str:
    """Return the address of a trial's page."""
    return f"/trials/{quote(name)}"


def direct_denials(summary: Mapping[str, Any]) -> int:
    """Return the requests that a candidate would deny directly."""
    return int(summary["roots"].get(DENIED, 0))


def is_lockout(row: Mapping[str, Any]) -> bool:
    """Return whether a row has requests of the control plane, a node or a controller."""
    return any(locked_out(user) for user in row["users"])


def lockouts(rows: Iterable[Mapping[str, Any]]) -> int:
    """Return the number of workloads of the control plane, nodes and controllers in rows of direct denials."""
    return len({(row["namespace"], row["workload"]) for row in rows if is_lockout(row)})


def match_with_log(summary: Mapping[str, Any]) -> tuple[int, int]:
    """Return the number of recorded decisions that the baseline reproduces, and of all recorded decisions."""
    kinds = [value for value in summary["fidelity"].values() if isinstance(value, dict)]
    return sum(kind["reproduced"] for kind in kinds), sum(kind["observed"] + kind.get("notInLog", 0) for kind in kinds)


def by_day(summary: Mapping[str, Any], policy: str | None = None) -> tuple[int, ...]:
    """Return the direct denials of the last days of the log, oldest first. `policy` limits them to one policy."""
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
    """Return one sentence that says whether the candidate can be enforced, and its tone."""
    if state.phase is TrialPhase.FAILED:
        return f"{state.trial.name} {state.progress}.", Tone.BAD
    if state.shown is None:
        return f"{state.trial.name} {state.progress}.", Tone.PLAIN
    text, tone = _answer(state, state.shown)
    return (f"{text} (the manifests before the change).", Tone.WARN) if state.is_changed else (f"{text}.", tone)


def _answer(state: TrialState, shown: Mapping[str, Any]) -> tuple[str, Tone]:
    rows = state.rows
    decided = shown["decided"]
    unknown = decided["of"] - decided["requests"]
    if rows:
        workloads = {(row["namespace"], row["workload"]) for row in rows}
        owners = {row["owner"] for row in rows if row["owner"]}
        whose = f" of {plural(len(owners), 'team')}" if owners else ""
        return f"Would deny {plural(len(workloads), 'workload')}{whose}", Tone.BAD
    if unknown:
        return f"No denial so far. {plural(unknown, 'request is', 'requests are')} undetermined", Tone.WARN
    return "Can be enforced: no request of the log would be denied", Tone.GOOD


def overview(states: Sequence[TrialState], logs: Mapping[str, LogState]) -> View:
    """Return the first page, with a row for each trial. `logs` are the stores by cluster."""
    is_fleet = any(logs)
    rows = tuple(_overview_row(state, logs[state.trial.cluster], is_fleet) for state in states)
    tones = [trial_verdict(state)[1] for state in states]
    counts = Counter(map(_group, states))
    said = ", ".join(f"{counts[words]} {words}" for words in _GROUPS if counts[words])
    verdict = f"{plural(len(states), 'trial')}: {said}." if states else "No trial."
    columns = (
        *(("cluster",) if is_fleet else ()),
        *("trial", "answer", "direct denials", "by policies and day", "last hit, UTC"),
        *("match with the log", "determined", *(("log is behind",) if is_fleet else ()), "state"),
    )
    grid = Grid(
        "trials",
        "Trials",
        columns,
        rows,
        frozenset({columns.index("direct denials")}),
        "Start `replay serve` with --trial NAME=PATH.",
    )
    tone = Tone.BAD if Tone.BAD in tones else Tone.WARN if {Tone.WARN, Tone.PLAIN} & set(tones) else Tone.GOOD
    return View(
        "Policies on trial",
        verdict,
        tone,
        _log_facts(logs),
        (grid,),
        {"trials": [trial_data(state) for state in states], "log": logs_data(logs)},
        links=(ViewCell("Search", "/search"), ViewCell("Weekly reports", "/weekly"), ViewCell("Log health", "/log")),
        work=Work(_work_of(states)),
    )


def _group(state: TrialState) -> str:
    """Return the group in which a trial is counted, one of `_GROUPS`."""
    enforceable, denying, undetermined, failed, changed, young = _GROUPS
    if state.phase is TrialPhase.FAILED:
        return failed
    if state.shown is None:
        return young
    if state.is_changed:
        return changed
    return {Tone.GOOD: enforceable, Tone.BAD: denying}.get(trial_verdict(state)[1], undetermined)


def _work_of(states: Sequence[TrialState]) -> str:
    """Return which trial is being decided over the whole store, or an empty text."""
    busy = next((state for state in states if state.phase is TrialPhase.DECIDING), None)
    return f"{busy.trial.name} {busy.progress}." if busy is not None else ""


def _overview_row(state: TrialState, log: LogState, is_fleet: bool) -> tuple[ViewCell, ...]:
    verdict, _ = trial_verdict(state)
    shown = state.shown
    rows = state.rows
    decided = shown["decided"] if shown is not None else None
    cells = (
        *((ViewCell(inert(state.trial.cluster)),) if is_fleet else ()),
        ViewCell(state.trial.name.removeprefix(f"{state.trial.cluster}."), trial_path(state.trial.name)),
        ViewCell(verdict),
        ViewCell(number(direct_denials(shown)) if shown is not None else ""),
        ViewCell("", spark=by_day(shown) if shown is not None else ()),
        ViewCell(_minute(max((row["last"] for row in rows), default=""))),
        ViewCell(share(*match_with_log(shown)) if shown is not None else ""),
        ViewCell(share(decided["requests"], decided["of"]) if decided is not None else ""),
        *((ViewCell(ago(log.lag) if log.last else "no log"),) if is_fleet else ()),
    )
    return (*cells, ViewCell(state.progress))


def _minute(text: str) -> str:
    """Return a timestamp up to the minute."""
    return text[:16].replace("T", " ")


def _log_facts(logs: Mapping[str, LogState]) -> tuple[ViewItem, ...]:
    filled = [log for log in logs.values() if log.last]
    if not filled:
        return (ViewItem("Log", "empty", "no request is in the store yet", Tone.WARN),)
    lag = max(log.lag for log in filled)
    length = max(log.last for log in filled) - min(log.first for log in filled)
    behind = "behind now" if len(logs) == 1 else "behind now, in the cluster that is furthest behind"
    return (
        ViewItem("Requests", number(sum(log.requests for log in filled)), f"{span(length)} of log"),
        ViewItem("Log", ago(lag), behind, Tone.WARN if lag > _LATE_SECONDS else Tone.PLAIN),
    )


def trial_page(state: TrialState, log: LogState) -> View:
    """Return the page of one trial: policies, workloads, and findings of the last day."""
    verdict, tone = trial_verdict(state)
    trail = (ViewCell("Trials", "/"),)
    if state.shown is None:
        waiting = (ViewItem("State", state.phase.value, state.progress),)
        work = Work(_work_of([state]), state.trial.name)
        return View(state.trial.name, verdict, tone, waiting, (), trial_data(state), trail, work=work)
    shown = state.shown
    rows = state.rows
    decided = shown["decided"]
    locked = lockouts(rows)
    facts = (
        ViewItem("Direct denials", number(direct_denials(shown)), "requests", Tone.BAD if rows else Tone.GOOD),
        ViewItem(
            "Lockouts",
            number(locked),
            "workloads of the control plane, a node or a controller",
            Tone.BAD if locked else Tone.GOOD,
        ),
        ViewItem("Match with the log", share(*match_with_log(shown)), "recorded decisions that the baseline gives"),
        ViewItem("Determined", share(decided["requests"], decided["of"]), f"of {plural(decided['of'], 'request')}"),
        *(
            (ViewItem("State", "failed", "the numbers are those of the last result", Tone.WARN),)
            if state.phase is TrialPhase.FAILED
            else ()
        ),
        *_decided_facts(state, log),
    )
    base = trial_path(state.trial.name)
    return View(
        state.trial.name,
        verdict,
        tone,
        facts,
        (_policies(state, base), _changes(state, base), _workloads(state, base), _accepted(shown)),
        {**trial_data(state), "rows": rows},
        trail,
        (
            ViewCell("Full report", f"{base}/report.html"),
            ViewCell("Report in Markdown", f"{base}/report.md"),
            ViewCell("All findings in CSV", f"{base}/findings.csv"),
            ViewCell("JSON", f"/api/v1{base}"),
        ),
        work=Work(_work_of([state]), state.trial.name),
    )


def _decided_facts(state: TrialState, log: LogState) -> Iterator[ViewItem]:
    """Yield up to which request a trial is decided, and how many requests were decided on arrival."""
    if not state.covered:
        return
    until = datetime.fromtimestamp(state.covered / _MICROSECONDS, UTC)
    yield ViewItem(
        "Decided until", f"{until:%Y-%m-%d %H:%M:%S}", "UTC", Tone.WARN if log.last > state.covered else Tone.PLAIN
    )
    if state.growth is not None:
        count = state.growth["decided"]["of"]
        note = "counted here, not yet in the full report and the exports"
        yield ViewItem("Decided on arrival", plural(count, "request"), note)


def _policies(state: TrialState, base: str) -> Grid:
    summary = state.shown or {}
    policies = summary["findings"].get(DENIED, {}).get("policies", [])
    found = [policy for policy in policies if policy["requests"]]
    rows = tuple(
        (
            ViewCell(inert(policy["name"]), f"{base}/workloads?{urlencode({'policy': policy['name']})}"),
            ViewCell(number(policy["requests"])),
            ViewCell(number(policy["workloads"])),
            ViewCell("", spark=by_day(summary, policy["name"])),
            ViewCell(_place(policy.get("origin"), state.trial)),
        )
        for policy in found
    )
    columns = ("policy", "direct denials", "workloads", "by day", "file and line")
    return Grid("policies", "Policies that deny", columns, rows, frozenset({1, 2}), "No policy denies anything.")


def _place(origin: Mapping[str, Any] | None, trial: Trial) -> str:
    return shortened(f"{origin['file']}:{origin['line']}", trial) if origin else ""


def shortened(place: str, trial: Trial) -> str:
    """Return a place in a candidate, relative to the directory that holds the candidate."""
    return place.removeprefix(f"{trial.candidate.parent}/")


def _workloads(state: TrialState, base: str, policy: str = "") -> Grid:
    rows = [row for row in state.rows if policy in ("", row["policy"])]
    shown = sorted(rows, key=lambda row: (-row["requests"], row["namespace"], row["workload"], row["policy"]))
    cells = tuple(
        (
            ViewCell(inert(row["workload"]), f"{base}/workload?{urlencode(workload_query(row))}"),
            ViewCell(inert(row["namespace"]) or "(cluster)"),
            ViewCell(inert(row["owner"])),
            ViewCell(inert(row["policy"])),
            ViewCell(number(row["requests"])),
            ViewCell(number(row["follow"])),
            ViewCell(_minute(row["last"])),
        )
        for row in shown
    )
    columns = ("workload", "namespace", "owner", "policy", "direct denials", "consequences", "last seen, UTC")
    return Grid("workloads", "Workloads", columns, cells, frozenset({4, 5}), "No workload is denied.")


def workload_query(row: Mapping[str, Any]) -> dict[str, str]:
    """Return the query of a workload's page."""
    return {"namespace": row["namespace"], "workload": row["workload"], "policy": row["policy"]}


def workloads_page(state: TrialState, policy: str) -> View:
    """Return the page of the workloads that one policy of a trial denies."""
    base = trial_path(state.trial.name)
    grid = _workloads(state, base, policy)
    verdict = f"{inert(policy)} would deny {plural(len(grid.rows), 'workload')}." if policy else "All denied workloads."
    trail = (ViewCell("Trials", "/"), ViewCell(state.trial.name, base))
    rows = [row for row in state.rows if policy in ("", row["policy"])]
    return View(
        inert(policy) or "Workloads", verdict, Tone.BAD if rows else Tone.GOOD, (), (grid,), {"rows": rows}, trail
    )


def workload_page(state: TrialState, row: Mapping[str, Any], proposal: str, listing: Sequence[ViewLine]) -> View:
    """Return the page of one workload and policy: message, line of the policy, a request, and a form to accept denials."""
    base = trial_path(state.trial.name)
    name = f"{inert(row['workload'])} in {inert(row['namespace']) or '(cluster)'}"
    query = urlencode({"id": row["auditID"]})
    links = (ViewCell("Explain the first request", f"{base}/request?{query}"),) if row["auditID"] else ()
    facts = (
        ViewItem("Policy", inert(row["policy"]), shortened(row["origin"], state.trial)),
        ViewItem("Message", inert(row["message"])),
        ViewItem("Direct denials", number(row["requests"]), f"and {plural(row['follow'], 'consequence')}", Tone.BAD),
        ViewItem("Owner", inert(row["owner"]) or "unknown"),
        ViewItem("Users", inert(", ".join(row["users"][:5])), _rest(len(row["users"]) - 5)),
        ViewItem("Resources", inert(", ".join(row["resources"]))),
        ViewItem("Seen", f"{_minute(row['first'])} to {_minute(row['last'])}", "UTC"),
    )
    trail = (ViewCell("Trials", "/"), ViewCell(state.trial.name, base))
    return View(
        name,
        f"{plural(row['requests'], 'request')} of {name} would be denied.",
        Tone.BAD,
        facts,
        (),
        {**row, "lines": [line._asdict() for line in listing]},
        trail,
        links,
        accept={**workload_query(row), "proposal": proposal},
        listing=tuple(listing),
        place=_listing_place(row["origin"], listing, state.trial),
    )


def _listing_place(origin: str, listing: Sequence[ViewLine], trial: Trial) -> str:
    cause = next((line.number for line in listing if line.is_cause), 0)
    return shortened(f"{origin.rpartition(':')[0]}:{cause}", trial) if cause else ""


def _rest(count: int) -> str:
    return f"and {count} more" if count > 0 else ""


def _changes(state: TrialState, base: str) -> Grid:
    columns = ("workload", "namespace", "owner", "policy", "direct denials")
    found = state.of_last_day()
    rows = tuple(
        (
            ViewCell(inert(row["workload"]), f"{base}/workload?{urlencode(workload_query(row))}"),
            ViewCell(inert(row["namespace"]) or "(cluster)"),
            ViewCell(inert(row["owner"])),
            ViewCell(inert(row["policy"])),
            ViewCell(number(row["requests"])),
        )
        for row in found
    )
    return Grid("new", "New in the last 24 hours", columns, rows, frozenset({4}), "Nothing new.")


def _accepted(summary: Mapping[str, Any]) -> Grid:
    entries = summary.get("accepted", {}).get("entries", [])
    columns = ("policy", "namespace", "workload", "reason", "expires", "requests")
    rows = tuple(
        tuple(ViewCell(inert(str(entry.get(name) if entry.get(name) is not None else ""))) for name in columns)
        for entry in entries
    )
    return Grid("accepted", "Accepted findings", columns, rows, frozenset({5}), "No finding is accepted.")


def log_page(states: Iterable[TrialState], logs: Mapping[str, LogState]) -> View:
    """Return the page about the log: undetermined requests and how to record them, gaps, and unusable lines."""
    gaps = tuple(
        (
            ViewCell(state.trial.name, trial_path(state.trial.name)),
            ViewCell(inert(gap["policy"])),
            ViewCell(number(gap["requests"])),
            ViewCell(inert(gap["reason"])),
            ViewCell(inert(gap["fix"])),
            ViewCell("show the audit policy", f"{trial_path(state.trial.name)}/coverage"),
        )
        for state in states
        if state.shown is not None
        for gap in state.shown["undetermined"]
    )
    columns = ("trial", "policy", "requests", "reason", "what would record it", "how")
    undetermined = Grid("undetermined", "Undetermined", columns, gaps, frozenset({2}), "Every request is decided.")
    rejected = [(name, reason, count) for name, log in logs.items() for reason, count in sorted(log.rejects.items())]
    is_fleet = any(logs)
    rejects = Grid(
        "rejects",
        "Unusable lines",
        (*(("cluster",) if is_fleet else ()), "reason", "lines"),
        tuple(
            (*((ViewCell(inert(name)),) if is_fleet else ()), ViewCell(inert(reason)), ViewCell(number(count)))
            for name, reason, count in rejected
        ),
        frozenset({2 if is_fleet else 1}),
        "Every line is usable.",
    )
    stores = Grid(
        "stores",
        "Stores",
        ("cluster", "requests", "from, UTC", "to, UTC", "size", "received, not in the store yet"),
        tuple(
            (
                ViewCell(inert(name) or "(one cluster)"),
                ViewCell(number(log.requests)),
                ViewCell(_second(log.first)),
                ViewCell(_second(log.last)),
                ViewCell(size(log.octets)),
                ViewCell(size(log.waiting)),
            )
            for name, log in logs.items()
        ),
        frozenset({1, 4, 5}),
    )
    holes = Grid(
        "gaps",
        f"Gaps of {GAP_MINUTES} minutes or more without any request",
        ("cluster", "from, UTC", "to, UTC", "length"),
        tuple(
            (
                ViewCell(inert(name) or "(one cluster)"),
                ViewCell(_second(begin)),
                ViewCell(_second(end)),
                ViewCell(span(end - begin)),
            )
            for name, log in logs.items()
            for begin, end in log.gaps
        ),
        empty="There is no gap.",
    )
    verdict = "Every request is decided." if not gaps else "Some requests are undetermined: the log lacks something."
    data = {**logs_data(logs), "undetermined": [_named(state) for state in states if state.shown is not None]}
    return View(
        "Log health",
        verdict,
        Tone.WARN if gaps else Tone.GOOD,
        _log_facts(logs),
        (undetermined, holes, stores, rejects),
        data,
        (ViewCell("Trials", "/"),),
    )


def _named(state: TrialState) -> dict[str, Any]:
    return {"trial": state.trial.name, "gaps": (state.shown or {})["undetermined"]}


def _second(microseconds: int) -> str:
    """Return a time up to the second, or an empty text for 0."""
    return f"{datetime.fromtimestamp(microseconds / _MICROSECONDS, UTC):%Y-%m-%d %H:%M:%S}" if microseconds else ""


def weekly_page(reports: Sequence[WeeklyReport]) -> View:
    """Return the archive of weekly reports, newest first."""
    is_fleet = any(report.cluster for report in reports)
    rows = tuple(
        (
            *((ViewCell(inert(report.cluster)),) if is_fleet else ()),
            *(
                ViewCell(text, f"/weekly/{quote(report.name)}/report.{form}")
                for text, form in ((report.day, "html"), ("Markdown", "md"), ("JSON", "json"))
            ),
        )
        for report in reports
    )
    verdict = (
        plural(len(reports), "report") + "." if reports else "The first report appears when the log covers a week."
    )
    columns = (*(("cluster",) if is_fleet else ()), "report of the week to", "Markdown", "JSON")
    grid = Grid("weekly", "Reports", columns, rows, empty="No report yet.")
    data = {"reports": [report._asdict() for report in reports]}
    return View("Weekly reports", verdict, Tone.PLAIN, (), (grid,), data, (ViewCell("Trials", "/"),))


def trial_data(state: TrialState) -> dict[str, Any]:
    """Return a trial for machines, without its findings."""
    summary = state.shown
    verdict, _ = trial_verdict(state)
    data: dict[str, Any] = {
        "name": state.trial.name,
        "candidate": str(state.trial.candidate),
        "phase": state.phase.value,
        "error": state.error,
        "verdict": verdict,
        "decidedAt": datetime.fromtimestamp(state.decided, tz=UTC).isoformat() if state.decided else None,
        "seconds": round(state.seconds, 1),
        "progress": {"what": state.work.what, "done": state.work.done, "of": state.work.total},
    }
    if state.trial.cluster:
        data["cluster"] = state.trial.cluster
    if summary is not None:
        reproduced, recorded = match_with_log(summary)
        data |= {
            "directDenials": direct_denials(summary),
            "workloads": len({(row["namespace"], row["workload"]) for row in denied_rows(summary)}),
            "matchWithLog": {"reproduced": reproduced, "of": recorded},
            "determined": {"requests": summary["decided"]["requests"], "of": summary["decided"]["of"]},
            "decidedOnArrival": state.growth["decided"]["of"] if state.growth is not None else 0,
            "newInLastDay": len(state.of_last_day()),
        }
    return data


def logs_data(logs: Mapping[str, LogState]) -> dict[str, Any]:
    """Return the state of the stores for machines: of the only store, or by cluster."""
    by_name = {
        name: {
            "requests": log.requests,
            "events": log.events,
            "storeBytes": log.octets,
            "waitingBytes": log.waiting,
            "lagSeconds": round(log.lag, 1),
            "rejectedLines": dict(log.rejects),
            "gaps": [{"from": _second(begin), "to": _second(end)} for begin, end in log.gaps],
        }
        for name, log in logs.items()
    }
    return {"clusters": by_name} if any(logs) else by_name[""]


def ago(seconds: float) -> str:
    """Return a duration in its largest unit."""
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"
