"""Finds when a set was in force: the evidence of many requests about each policy, combined.

An audit log names neither the API server that wrote an event nor the manifests that the server had loaded. The effects
of a policy tell both. A policy that begins to act at one instant came into force then. One that acts now and then, for
the same kind of request, is in force on some API servers. One that acts in one file of the log and not in another is in
force on the servers that wrote these files.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from enum import StrEnum
from itertools import pairwise

from msgspec import Struct, field

from replay.compare.in_force.evidence import FIRST_ONLY, Evidence, Sign
from replay.manifests.plugin import ALL_PLUGINS

RELOAD = 10_000_000
"""Microseconds around a change in which either set may have decided. Servers look for new manifests periodically."""
TOLERATED = 0.02
"""Share of signs that may contradict a story, because single requests can race with a change."""
FEWEST_RUNS = 4
_PLUGINS = frozenset(each.name for each in ALL_PLUGINS)
"""Names of the built-in plugins. They have no manifest that a server could reload."""


class PolicyState(StrEnum):
    """Conclusion from the signs about one policy."""

    IN_FORCE = "in force"
    NEVER = "never in force"
    CAME = "came into force"
    WENT = "went out of force"
    SERVERS = "in force on some API servers"
    CHANGED = "had another text"
    UNCLEAR = "unclear"


class PolicyHistory(Struct, frozen=True):
    """One policy with its story and signs, and the instants (microseconds) between which it changed, or 0.

    `files` are the files in which it was in force, if that differs by file.
    """

    policy: str
    story: PolicyState
    signs: Counter[Sign]
    start: int = 0
    end: int = 0
    files: tuple[str, ...] = ()


class Contradiction(Struct, frozen=True, order=True):
    """A request for which log and baseline differ about a policy, with the likely cause."""

    seq: int
    audit_id: str
    policy: str
    aspect: str
    observed: str
    replayed: str
    cause: str


class Findings(Struct):
    """All policies with a sign, and all contradictions in the order of the log."""

    histories: list[PolicyHistory] = field(default_factory=list)
    contradictions: list[Contradiction] = field(default_factory=list)


def findings_of(
    evidence: Iterable[Evidence], most_failures: int = 50, written: frozenset[str] = frozenset()
) -> Findings:
    """Return the story of each policy and the cause of each contradiction.

    `written` are the policies that the log writes through the API, which no server reloads. `most_failures` is the
    largest number of failures in any event. If it is one, the servers write only the first failure.
    """
    by_policy: dict[str, list[Evidence]] = defaultdict(list)
    for each in evidence:
        if most_failures > 1 or each.contention != FIRST_ONLY:
            by_policy[each.policy].append(each)
    findings = Findings()
    for policy in sorted(by_policy):
        signs = sorted(by_policy[policy])
        history = policy_history(policy, signs)
        findings.histories.append(history)
        findings.contradictions += [
            _contradiction(each, history, is_written=policy in written) for each in signs if each.sign is not Sign.SEEN
        ]
    findings.contradictions.sort()
    return findings


def policy_history(policy: str, signs: Sequence[Evidence]) -> PolicyHistory:
    """Return the story of one policy from its signs, which are sorted by time."""
    counts = Counter(each.sign for each in signs)
    acting = [each.sign is not Sign.ABSENT for each in signs]
    if counts[Sign.ABSENT] == len(signs):
        return PolicyHistory(policy, PolicyState.NEVER, counts)
    tolerated = int(TOLERATED * len(signs))
    if counts[Sign.ABSENT] > tolerated:
        return _partly(policy, signs, acting, counts, tolerated)
    if counts[Sign.OTHER] + counts[Sign.SURPLUS] > tolerated and policy in _PLUGINS:
        return PolicyHistory(policy, PolicyState.UNCLEAR, counts)
    if counts[Sign.OTHER] + counts[Sign.SURPLUS] > tolerated:
        same = [each.sign is Sign.SEEN for each in signs]
        place, errors = _split(same)
        if errors <= tolerated:
            return PolicyHistory(policy, PolicyState.CHANGED, counts, *_between(signs, place))
        return PolicyHistory(policy, PolicyState.CHANGED if counts[Sign.OTHER] else PolicyState.UNCLEAR, counts)
    return PolicyHistory(policy, PolicyState.IN_FORCE, counts)


def _partly(
    policy: str, signs: Sequence[Evidence], acting: Sequence[bool], counts: Counter[Sign], tolerated: int
) -> PolicyHistory:
    """Return the story of a policy that acted only at some times: one change, or servers that differ."""
    by_file: dict[str, set[bool]] = defaultdict(set)
    for each, acts in zip(signs, acting, strict=True):
        by_file[each.file].add(acts)
    place, errors = _split(acting)
    if errors <= tolerated:
        return PolicyHistory(policy, PolicyState.CAME, counts, *_between(signs, place))
    place, errors = _split([not acts for acts in acting])
    if errors <= tolerated:
        return PolicyHistory(policy, PolicyState.WENT, counts, *_between(signs, place))
    absent = [each.time for each, acts in zip(signs, acting, strict=True) if not acts]
    span = min(absent), max(absent)
    if len(by_file) > 1 and all(len(file_evidence) == 1 for file_evidence in by_file.values()):
        files = tuple(sorted(file for file, file_evidence in by_file.items() if file_evidence == {True}))
        return PolicyHistory(policy, PolicyState.SERVERS, counts, *span, files)
    runs = 1 + sum(one is not other for one, other in pairwise(acting))
    return PolicyHistory(policy, PolicyState.SERVERS if runs >= FEWEST_RUNS else PolicyState.UNCLEAR, counts, *span)


def _split(values: Sequence[bool]) -> tuple[int, int]:
    """Return `(place, errors)` of the best cut.

    Errors are false values before the place, and true values from it on.
    """
    errors = best = sum(not value for value in values)
    place = 0
    for index, value in enumerate(values, 1):
        errors += 1 if value else -1
        if errors < best:
            best, place = errors, index
    return place, best


def _between(signs: Sequence[Evidence], place: int) -> tuple[int, int]:
    """Return the instants before and after a cut, or 0 at an end."""
    return signs[place - 1].time if place else 0, signs[place].time if place < len(signs) else 0


_CAUSES = {
    PolicyState.NEVER: "the policy was not in force",
    PolicyState.SERVERS: "the API server that answered had other manifests than the others",
    PolicyState.CHANGED: "the policy had another text at the time",
}


def _contradiction(each: Evidence, history: PolicyHistory, *, is_written: bool) -> Contradiction:
    cause = _cause(each, history, is_written=is_written)
    return Contradiction(each.seq, each.audit_id, each.policy, each.aspect, each.observed, each.replayed, cause)


def _cause(each: Evidence, history: PolicyHistory, *, is_written: bool) -> str:
    """Return the likely cause.

    What explains the policy as a whole comes first, then what happened around the request.
    """
    story = history.story
    if story is PolicyState.NEVER or (story is PolicyState.SERVERS and each.sign is Sign.ABSENT):
        return _CAUSES[story]
    if story in (PolicyState.CAME, PolicyState.WENT, PolicyState.CHANGED):
        if history.start - RELOAD <= each.time <= history.end + RELOAD and history.start and history.end:
            return _cause_of_change(each.policy, is_written=is_written)
        if story is PolicyState.CHANGED:
            return _CAUSES[story]
        if (story is PolicyState.CAME) == (each.time <= history.start):
            return (
                "the policy was not in force yet" if story is PolicyState.CAME else "the policy was no longer in force"
            )
    if each.policy in _PLUGINS:
        return each.contention or "the plugin read objects in a state that the log does not show"
    return each.contention or "not explained"


def _cause_of_change(policy: str, *, is_written: bool) -> str:
    if policy in _PLUGINS:
        return "an API server started with other flags at that time"
    if is_written:
        return "the log writes the policy through the API at that time"
    return "the manifests were reloaded at that time"
