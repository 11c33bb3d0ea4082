"""Difference between two runs in one line: `-120 denied: prod-pay/Deployment/api, ...; +3 denied: ...`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from replay.compare.outcome import MUTATIONS, OutcomeKind
from replay.compare.result import RunResult
from replay.report.render.document import inert, number
from replay.report.run.views import workload_label

MOST_WORKLOADS = 3
NOTHING = "no difference"
_WORDS = (
    ("denied", (OutcomeKind.NEWLY_DENIED,)),
    ("mutated", MUTATIONS),
    ("undecided", (OutcomeKind.UNDETERMINED,)),
    ("admitted", (OutcomeKind.NEWLY_ADMITTED,)),
)
_Counts = Counter[tuple[str, str]]


def difference_line(previous: RunResult, following: RunResult) -> str:
    """Return how many direct findings are gone and new, and of which workloads. Consequences are not counted.

    A workload with an equal number of other requests is not mentioned.
    """
    old, new = _counts(previous), _counts(following)
    parts = [part for word, _ in _WORDS for part in _parts(word, old, new)]
    return "; ".join(parts) or NOTHING


def _counts(result: RunResult) -> _Counts:
    """Requests by what happens to them and workload."""
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
