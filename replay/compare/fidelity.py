"""Match with the log: comparison of the decisions of the baseline with those in the log.

A request counts if the log shows a denial or an annotation, or if the replay does. If both show nothing, it is counted
separately, so that it does not raise the share.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self

import orjson
from msgspec import Struct, field

from replay.admission.decision import Decision, Denial, Verdict
from replay.audit.answer import NOTHING_OBSERVED, VALIDATION_FAILURE, Observed
from replay.compare.tally import Tally
from replay.json import JSON

# Comparison of texts that may have the keys of a map in different orders.
# Go iterates over a map in a new order each time.

_PARTS = re.compile(r"[\w./:@-]+|\W")
"""Words, such as keys and values of a map, and the characters between them."""


def equal_texts(one: JSON, other: JSON) -> bool:
    """Return whether two values are equal, except for the order of words in their texts."""
    if one == other:
        return True
    if isinstance(one, str) and isinstance(other, str):
        return len(one) == len(other) and sorted(_PARTS.findall(one)) == sorted(_PARTS.findall(other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(equal_texts(value, other[key]) for key, value in one.items())
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(equal_texts, one, other))
    return False


MAX_EXAMPLES = 20


class Disagreement(Struct, frozen=True, order=True):
    """A request for which baseline and log differ. `aspect` is denial, failure or annotation."""

    seq: int
    audit_id: str
    aspect: str
    observed: str
    replayed: str
    cause: str = ""


class Agreement(Tally):
    """Counts of one aspect: what the log has, what of it the replay reproduced, and what the replay adds."""

    observed: int = 0
    reproduced: int = 0
    undetermined: int = 0
    differs: int = 0
    extra: int = 0


class Fidelity(Tally):
    """Match of the baseline with the log, by aspect, with the first disagreements."""

    denials: Agreement = field(default_factory=Agreement)
    failures: Agreement = field(default_factory=Agreement)
    annotations: Agreement = field(default_factory=Agreement)
    disagreements: list[Disagreement] = field(default_factory=list)
    disagreement_count: int = 0
    most_failures: int = 0
    first_only: list[Disagreement] = field(default_factory=list)
    """Requests whose event has only the first of several failures, as older API servers write."""

    def record(  # noqa: PLR0913, PLR0917 - one request from both sides, and what may be shown of it
        self,
        seq: int,
        audit_id: str,
        observed: Observed,
        decision: Decision,
        policies: frozenset[str],
        shown: Callable[[str], str] = str,
        *,
        in_any_order: bool = False,
    ) -> None:
        """Compare one request. `policies` are the names in the baseline. It cannot reproduce others.

        Full texts are compared, and kept in the form that `shown` returns. If several policies deny a request, the
        server names the first, or any of them (`in_any_order`).
        """
        is_observed = observed.denial or observed.refusal or observed.failures or observed.annotations
        if not (is_observed or decision.denials or decision.audit_annotations):
            return
        self.most_failures = max(self.most_failures, len(observed.failures))
        aspects: list[tuple[str, Agreement, Any, Any]] = []
        if observed.denial or observed.refusal or decision.denials:
            named = observed if in_any_order else NOTHING_OBSERVED
            both = _observed_denial(observed, policies), _replayed_denial(decision, named)
            aspects.append(("denial", self.denials, *both))
        if observed.failures or VALIDATION_FAILURE in decision.audit_annotations:
            failures = [entry for entry in observed.failures if entry.get("policy") in policies]
            aspects.append(("failure", self.failures, failures, replayed_failures(decision)))
        written = decision.audit_annotations and _policy_annotations(decision.audit_annotations, policies)
        aspects.append(("annotation", self.annotations, _policy_annotations(observed.annotations, policies), written))
        for aspect, agreement, observation, replayed in aspects:
            if not observation and not replayed:
                continue
            agreement.observed += bool(observation)
            is_same = observation == replayed or equal_texts(observation, replayed)
            if decision.verdict is Verdict.UNDETERMINED and not is_same:
                agreement.undetermined += 1
            elif is_same:
                agreement.reproduced += 1
            # Whether the server writes only the first failure is known at the end (`settle`).
            elif aspect == "failure" and equal_texts(observation, replayed[:1]):
                agreement.differs += 1
                self.first_only.append(
                    Disagreement(seq, audit_id, aspect, shown(_text(observation)), shown(_text(replayed)))
                )
            else:
                agreement.differs += bool(observation)
                agreement.extra += not observation
                self._disagree(Disagreement(seq, audit_id, aspect, shown(_text(observation)), shown(_text(replayed))))

    def _disagree(self, disagreement: Disagreement) -> None:
        self.disagreement_count += 1
        self.disagreements.append(disagreement)
        # Twice as many are kept, so that not every request sorts them.
        if len(self.disagreements) > 2 * MAX_EXAMPLES:
            self.disagreements = heapq.nsmallest(MAX_EXAMPLES, self.disagreements)

    @property
    def compared(self) -> tuple[int, int]:
        """Pair `(reproduced, compared)` of decisions. Compared are those in the log and those that only the replay has."""
        aspects = (self.denials, self.failures, self.annotations)
        compared = sum(each.observed + each.extra - each.undetermined for each in aspects)
        return sum(each.reproduced for each in aspects), compared

    def settle(self) -> None:
        """Decide, after all requests are counted, whether the API server only ever wrote the first failure."""
        if self.most_failures > 1:
            for disagreement in self.first_only:
                self._disagree(disagreement)
            self.disagreements = heapq.nsmallest(MAX_EXAMPLES, self.disagreements)
        else:
            self.failures.reproduced += len(self.first_only)
            self.failures.differs -= len(self.first_only)
        self.first_only = []

    def add(self, other: Self) -> None:
        """Add the counts of another part of the log. In any order of merging, the first disagreements by `seq` stay."""
        # `Tally.add` sums numbers, but this one is a maximum.
        most_failures = max(self.most_failures, other.most_failures)
        super().add(other)
        self.most_failures = most_failures
        self.disagreements = heapq.nsmallest(MAX_EXAMPLES, self.disagreements)


def _observed_denial(observed: Observed, policies: frozenset[str]) -> tuple[str, str, str] | None:
    denial = observed.denial or observed.refusal
    if denial is None or denial.webhook or denial.policy not in policies:
        return None
    return denial.policy, denial.binding, denial.message


def visible_denial(decision: Decision, observed: Observed) -> Denial | None:
    """Return the denial that the client sees: the one that the server reported, or else the first."""
    named = observed.denial
    for denial in decision.denials if named is not None else ():
        if named is not None and (denial.policy, denial.binding, denial.message) == (
            named.policy,
            named.binding,
            named.message,
        ):
            return denial
    return decision.denials[0] if decision.denials else None


def _replayed_denial(decision: Decision, observed: Observed) -> tuple[str, str, str] | None:
    first = visible_denial(decision, observed)
    if first is None or first.of_webhook:
        return None  # an answer of today says nothing about how well the past is replayed
    return first.policy, first.binding, first.message


def replayed_failures(decision: Decision) -> list[Any]:
    """Return the failures of validation that a decision writes into the audit annotation."""
    text = decision.audit_annotations.get(VALIDATION_FAILURE)
    return orjson.loads(text) if text else []


def _policy_annotations(annotations: Mapping[str, str], policies: frozenset[str]) -> Mapping[str, str]:
    """Return the annotations that these policies write."""
    written = {}
    for key, value in annotations.items():
        if key.rpartition("/")[0] in policies:
            written[key] = value  # noqa: PERF403 - a comprehension is a call in Python 3.11
    return written


def _text(value: Any) -> str:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode() if value else "nothing"


def merged(parts: Iterable[Fidelity]) -> Fidelity:
    """Return the match of a whole log from that of its parts."""
    total = Fidelity()
    for part in parts:
        total.add(part)
    total.settle()
    return total
