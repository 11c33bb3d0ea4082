"""`/metrics` in the text format of Prometheus. The number of series is bounded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from replay.serve.growth import denied_rows
from replay.serve.processes import Intake
from replay.serve.stores import LogState
from replay.serve.trials import TrialPhase, TrialState
from replay.serve.views import lockouts, match_with_log

MOST_SERIES = 1000
"""Maximum number of series of one trial with labels from the log. The rest is one series with the labels `other`."""


def metrics(states: Sequence[TrialState], logs: Mapping[str, LogState], intake: Intake) -> str:
    """Return all metrics. `logs` are the stores by cluster."""
    return "\n".join([*_log(logs, intake), *_trials(states)]) + "\n"


def _log(logs: Mapping[str, LogState], intake: Intake) -> Iterator[str]:
    def each(value: Callable[[LogState], float]) -> list[tuple[dict[str, str], float]]:
        return [({"cluster": name} if name else {}, value(log)) for name, log in logs.items()]

    rejected = [
        ({**({"cluster": name} if name else {}), "reason": reason}, count)
        for name, log in logs.items()
        for reason, count in sorted(log.rejects.items())
    ]
    # Old requests are forgotten, so that these are no counters.
    yield from _metric("replay_store_events", "gauge", "Events in the store.", each(lambda log: log.events))
    yield from _metric("replay_store_unusable_lines", "gauge", "Lines that are no usable event.", rejected)
    yield from _metric("replay_store_requests", "gauge", "Requests in the store.", each(lambda log: log.requests))
    yield from _metric("replay_store_bytes", "gauge", "Size of the store.", each(lambda log: log.octets))
    text = "Received bytes that are not in the store yet."
    yield from _metric("replay_waiting_bytes", "gauge", text, each(lambda log: log.waiting))
    text = "Age of the last request in the store."
    yield from _metric("replay_log_lag_seconds", "gauge", text, each(lambda log: round(log.lag, 1)))
    text = "Events that were read into the store since the start of the service."
    yield from _metric("replay_events_received_total", "counter", text, [({}, intake.received)])
    text = "Requests to the listener that were refused since the start of the service."
    yield from _metric("replay_requests_refused_total", "counter", text, [({}, intake.refused)])


def _trials(states: Sequence[TrialState]) -> Iterator[str]:
    # What a trial that failed would deny is not known now: no sample says so, and its last numbers would hide it.
    current = (state for state in states if state.phase is not TrialPhase.FAILED)
    ready = [(state.trial.name, state.shown, state) for state in current if state.shown is not None]
    series = [
        ({"trial": name, "policy": key[0], "namespace": key[1], "owner": key[2]}, count)
        for name, summary, _ in ready
        for key, count in bounded(
            (row["policy"], row["namespace"], row["owner"], row["requests"]) for row in denied_rows(summary)
        )
    ]
    text = "Requests of the store that the candidate would deny directly. A request that two policies deny counts for each."
    yield from _metric("replay_trial_direct_denials_total", "gauge", text, series)
    locked = [({"trial": name}, lockouts(denied_rows(summary))) for name, summary, _ in ready]
    text = "Workloads of the control plane, nodes and controllers that the candidate would deny."
    yield from _metric("replay_trial_lockouts", "gauge", text, locked)
    unknown = [
        ({"trial": name}, summary["decided"]["of"] - summary["decided"]["requests"]) for name, summary, _ in ready
    ]
    yield from _metric("replay_trial_undetermined", "gauge", "Requests without a certain verdict.", unknown)
    matches = [({"trial": name}, match_with_log(summary)) for name, summary, _ in ready]
    ratios = [(labels, round(good / of, 4)) for labels, (good, of) in matches if of]
    yield from _metric(
        "replay_trial_match_ratio", "gauge", "Share of recorded decisions that the baseline gives.", ratios
    )
    times = [({"trial": state.trial.name}, round(state.decided, 3)) for state in states if state.decided]
    yield from _metric("replay_trial_decided_timestamp_seconds", "gauge", "Time of the last result.", times)
    failed = [({"trial": state.trial.name}, int(state.phase is TrialPhase.FAILED)) for state in states]
    yield from _metric(
        "replay_trial_failed", "gauge", "1 if the trial cannot be decided. It has no other samples then.", failed
    )


def bounded(rows: Iterable[tuple[str, str, str, int]]) -> list[tuple[tuple[str, str, str], int]]:
    """Return the sums by labels, largest first. The rest is one entry with the labels `other`."""
    counts: Counter[tuple[str, str, str]] = Counter()
    for policy, namespace, owner, count in rows:
        counts[policy, namespace, owner] += count
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    rest = sum(count for _, count in ordered[MOST_SERIES:])
    return ordered[:MOST_SERIES] + ([(("other", "other", "other"), rest)] if rest else [])


def _metric(name: str, kind: str, text: str, series: Sequence[tuple[dict[str, str], float]]) -> Iterator[str]:
    yield f"# HELP {name} {text}"
    yield f"# TYPE {name} {kind}"
    for labels, value in series:
        said = ",".join(f'{key}="{_escaped(label)}"' for key, label in labels.items())
        yield f"{name}{{{said}}} {value}" if said else f"{name} {value}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
