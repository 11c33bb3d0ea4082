"""`/metrics` in the text format of Prometheus. The number of series is bounded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from replay.serve.trials import TrialPhase, TrialState
from replay.serve.views import LogState, denied_rows, match_with_log

MOST_SERIES = 1000
"""Series of one trial with labels from the log. The rest is one series with the labels `other`."""


def metrics(states: Sequence[TrialState], log: LogState) -> str:
    """Return all metrics."""
    return "\n".join([*_log(log), *_trials(states)]) + "\n"


def _log(log: LogState) -> Iterator[str]:
    yield from _metric("replay_events_total", "counter", "Events in the store.", [({}, log.events)])
    rejected = [({"reason": reason}, count) for reason, count in sorted(log.rejects.items())]
    yield from _metric("replay_rejected_lines_total", "counter", "Lines that are no usable event.", rejected)
    yield from _metric("replay_store_requests", "gauge", "Requests in the store.", [({}, log.requests)])
    yield from _metric("replay_store_bytes", "gauge", "Size of the store.", [({}, log.octets)])
    yield from _metric(
        "replay_waiting_bytes", "gauge", "Received bytes that are not in the store yet.", [({}, log.waiting)]
    )
    yield from _metric(
        "replay_log_lag_seconds", "gauge", "Age of the last request in the store.", [({}, round(log.lag, 1))]
    )


def _trials(states: Sequence[TrialState]) -> Iterator[str]:
    ready = [(state.trial.name, state.summary, state) for state in states if state.summary is not None]
    series = [
        ({"trial": name, "policy": key[0], "namespace": key[1], "owner": key[2]}, count)
        for name, summary, _ in ready
        for key, count in bounded(
            (row["policy"], row["namespace"], row["owner"], row["requests"]) for row in denied_rows(summary)
        )
    ]
    text = "Requests of the store that the candidate would deny directly."
    yield from _metric("replay_trial_direct_denials_total", "gauge", text, series)
    unknown = [
        ({"trial": name}, summary["decided"]["of"] - summary["decided"]["requests"]) for name, summary, _ in ready
    ]
    yield from _metric("replay_trial_undetermined", "gauge", "Requests without a certain verdict.", unknown)
    matches = [({"trial": name}, match_with_log(summary)) for name, summary, _ in ready]
    ratios = [(labels, round(good / of, 4)) for labels, (good, of) in matches if of]
    yield from _metric(
        "replay_trial_match_ratio", "gauge", "Share of recorded decisions that the baseline gives.", ratios
    )
    times = [({"trial": name}, round(state.decided, 3)) for name, _, state in ready]
    yield from _metric("replay_trial_decided_timestamp_seconds", "gauge", "Time of the last result.", times)
    failed = [({"trial": state.trial.name}, int(state.phase is TrialPhase.FAILED)) for state in states]
    yield from _metric("replay_trial_failed", "gauge", "1 if the trial cannot be decided.", failed)


def bounded(rows: Iterable[tuple[str, str, str, int]]) -> list[tuple[tuple[str, str, str], int]]:
    """Return the sum by labels, the largest ones; all others are one entry with the labels `other`."""
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
