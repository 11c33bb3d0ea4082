"""Evidence of a log for and against each policy of the baseline, and conclusions about when it was in force.

An audit log names neither the API server that wrote an event nor the manifests that the server had loaded. The effects
of a policy tell both. A policy that begins to act at one instant came into force then. One that acts now and then, for
the same kind of request, is in force on some API servers. One that acts in one file of the log and not in another is in
force on the servers that wrote these files.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import pairwise
from typing import Any, NamedTuple, Self

import orjson
from msgspec import Struct, field

from replay.admission.decision import Decision, Verdict
from replay.audit.answer import VALIDATION_FAILURE, Observed
from replay.audit.event import RequestRecord
from replay.compare.fidelity import equal_texts, replayed_failures
from replay.compare.tally import Tally
from replay.go.format import parse_uint
from replay.json import JSON
from replay.kube.attributes import PartialObject
from replay.manifests.plugin import ALL_PLUGINS


class EngineDisagreement(NamedTuple):
    """One disagreement. `ours` and `theirs` are `true`, `false` or `error`."""

    audit_id: str
    policy: str
    expression: str
    ours: str
    theirs: str


class EngineAgreement(Tally):
    """Counts of evaluations: equal ones, and those that cel-python does not support or is known to do differently."""

    agreed: int = 0
    unsupported: Counter[str] = field(default_factory=Counter)
    habits: Counter[str] = field(default_factory=Counter)
    differing: list[EngineDisagreement] = field(default_factory=list)

    def add(self, other: Self) -> None:
        """Add the counts of another part of the log."""
        super().add(other)
        self.differing.sort()

    @property
    def count(self) -> int:
        """Number of evaluations."""
        return self.agreed + self.unsupported.total() + self.habits.total() + len(self.differing)


class UnknownPolicy(Tally):
    """Number of requests that show the policy, with the times of the first and the last (microseconds)."""

    requests: int = 0
    first: int = 0
    last: int = 0

    def add(self, other: Self) -> None:
        """Add the counts of another part of the log."""
        self.first = min(self.first, other.first) if self.requests else other.first
        self.last = max(self.last, other.last)
        self.requests += other.requests


def note_unknown_policies(
    unknown_policies: dict[str, UnknownPolicy], record: RequestRecord, observed: Observed, policies: frozenset[str]
) -> None:
    """Count the policies of one request that are not in the set."""
    for policy in set(_policies(observed)) - policies:
        unknown_policies.setdefault(policy, UnknownPolicy()).add(UnknownPolicy(1, record.received, record.received))


def _policies(observed: Observed) -> Iterator[str]:
    if observed.denial is not None and not observed.denial.webhook:
        yield observed.denial.policy
    for entry in observed.failures:
        yield str(entry.get("policy"))


class Sign(StrEnum):
    """Comparison of log and replay for one policy and one request."""

    SEEN = "seen"
    """Log and replay show the same."""
    ABSENT = "absent"
    """The policy would have acted, but the log does not show it."""
    OTHER = "other"
    """The policy acted, with a text that differs from its current one."""
    SURPLUS = "surplus"
    """The policy acted, although the replay says that it does not."""


_FIRST_ONLY = "older API servers write only the first failure"


class Evidence(NamedTuple):
    """One sign: its time, log file and request, and its aspect (denial, failure, annotation, mutation)."""

    time: int
    seq: int
    audit_id: str
    file: str
    policy: str
    aspect: str
    sign: Sign
    observed: str
    replayed: str
    contention: str = ""


PolicyTexts = Mapping[str, str]
"""Effect of each policy, as text."""


def evidence_of(
    record: RequestRecord, observed: Observed, decision: Decision, policies: frozenset[str], contention: str
) -> Iterator[Evidence]:
    """Yield the evidence of one request.

    Policies that are undetermined for it, and policies of other sets, give no evidence. `contention` names other events
    of the object or its namespace at that time, and is empty if there are none.
    """
    open_policies = {each.policy for each in decision.undetermined}
    # Without a policy, the whole decision is open.
    if "" in open_policies:
        return
    decided_policies = policies - open_policies
    failures = replayed_failures(decision)
    is_first = len(observed.failures) == 1 and list(observed.failures) == failures[:1]
    pairs: tuple[tuple[str, PolicyTexts, PolicyTexts], ...] = (
        ("failure", _failures(observed.failures), _failures(failures)),
        ("annotation", _annotations(observed.policy_annotations), _annotations(decision.audit_annotations)),
    )
    for aspect, observation, replayed in pairs:
        for policy in sorted((observation.keys() | replayed.keys()) & decided_policies):
            sign = _sign(observation.get(policy), replayed.get(policy))
            if open_policies and sign is Sign.SURPLUS:
                continue  # what an undetermined decision does not say is open
            texts = observation.get(policy, ""), replayed.get(policy, "")
            first_only = aspect == "failure" and sign is not Sign.SEEN and is_first
            yield _evidence(record, policy, aspect, sign, texts, _FIRST_ONLY if first_only else contention)
    for policy, sign, texts in _denials(observed, decision, open_policies, in_any_order=bool(record.workspace)):
        if policy in decided_policies and not (open_policies and sign is Sign.SURPLUS):
            yield _evidence(record, policy, "denial", sign, texts, contention)


def mutation_evidence(
    record: RequestRecord,
    decision: Decision,
    validated: JSON | PartialObject | None,
    policies: frozenset[str],
    shown: Callable[[Iterable[JSON]], tuple[JSON, ...]] = tuple,
) -> Iterator[Evidence]:
    """Yield evidence of mutating policies: whether the validated object has the changes that they make.

    Full patches are compared, and kept in the form that `shown` returns.
    """
    if decision.verdict is Verdict.UNDETERMINED or not isinstance(validated, dict) or not 200 <= record.code < 300:
        return
    for mutated in decision.mutated:
        if mutated.policy in policies:
            sign = Sign.SEEN if shows(validated, mutated.patch) else Sign.ABSENT
            text = orjson.dumps(shown(mutated.patch)).decode()
            yield _evidence(record, mutated.policy, "mutation", sign, ("", text), "")


def shows(value: JSON, patch: Iterable[JSON]) -> bool:
    """Return whether an object has what a patch writes and lacks what it removes."""
    for operation in patch:
        part, at = value, True
        for key in str(operation["path"]).split("/")[1:]:
            part, at = _child(part, key.replace("~1", "/").replace("~0", "~"))
            if not at:
                break
        if operation["op"] == "remove":
            if at:
                return False
        elif not at or not _contains(part, operation.get("value")):
            return False
    return True


def _child(value: JSON, key: str) -> tuple[JSON, bool]:
    if isinstance(value, dict):
        return value.get(key), key in value
    index = parse_uint(key) if isinstance(value, list) else None
    if index is not None and index < len(value):
        return value[index], True
    return None, False


def _contains(superset: JSON, part: JSON) -> bool:
    """Return whether a value contains another. Additional fields may be defaults."""
    if isinstance(superset, dict) and isinstance(part, dict):
        return all(key in superset and _contains(superset[key], value) for key, value in part.items())
    if isinstance(superset, list) and isinstance(part, list):
        # Later policies may append items.
        return len(superset) >= len(part) and all(map(_contains, superset, part))
    return bool(superset == part)


def _sign(observation: str | None, replayed: str | None) -> Sign:
    if observation is None:
        return Sign.ABSENT
    if replayed is None:
        return Sign.SURPLUS
    return Sign.SEEN if equal_texts(observation, replayed) else Sign.OTHER


def _evidence(  # noqa: PLR0913, PLR0917 - the fields of the result
    record: RequestRecord, policy: str, aspect: str, sign: Sign, texts: tuple[str, str], contention: str
) -> Evidence:
    observation, replayed = texts
    if sign is Sign.SEEN:
        observation = replayed = contention = ""
    return Evidence(
        time=record.received,
        seq=record.seq,
        audit_id=record.audit_id,
        file=record.file,
        policy=policy,
        aspect=aspect,
        sign=sign,
        observed=observation,
        replayed=replayed,
        contention=contention,
    )


def _denials(
    observed: Observed, decision: Decision, open_policies: set[str], *, in_any_order: bool
) -> Iterator[tuple[str, Sign, tuple[str, str]]]:
    """Yield the policies with a sign about their denial.

    The client sees only the first denial, so the log shows nothing about others. If it has no denial, they are all
    absent. A kcp shard reports any of them (`in_any_order`). If the policy that denied is undetermined in the replay,
    there is no evidence: its denial may have been the first.
    """
    refusal = observed.denial or observed.refusal
    if refusal is not None and refusal.policy in open_policies:
        return
    denial = None if refusal is None or refusal.webhook else refusal
    # Reversed, so that the first denial of a policy stays, which is the one that the client sees.
    replayed = {each.policy: each.message for each in reversed(decision.denials)}
    if denial is None:
        if refusal is None:
            yield from ((policy, Sign.ABSENT, ("", message)) for policy, message in replayed.items())
        return
    for each in decision.denials:
        if in_any_order or each.policy == denial.policy:
            break
        yield each.policy, Sign.ABSENT, ("", each.message)  # it would have been the first
    message = replayed.get(denial.policy)
    yield denial.policy, _sign(denial.message, message), (denial.message, message or "")


def _failures(entries: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    failures: dict[str, list[Any]] = {}
    for entry in entries:
        failures.setdefault(str(entry.get("policy")), []).append(entry)
    return {policy: orjson.dumps(each, option=orjson.OPT_SORT_KEYS).decode() for policy, each in failures.items()}


def _annotations(annotations: Mapping[str, str]) -> dict[str, str]:
    values_by_policy: dict[str, dict[str, str]] = {}
    for key, value in annotations.items():
        policy, slash, name = key.rpartition("/")
        if slash and key != VALIDATION_FAILURE:
            values_by_policy.setdefault(policy, {})[name] = value
    return {
        policy: orjson.dumps(each, option=orjson.OPT_SORT_KEYS).decode() for policy, each in values_by_policy.items()
    }


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
    APPEARED = "came into force"
    DISAPPEARED = "went out of force"
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
        if most_failures > 1 or each.contention != _FIRST_ONLY:
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
    # A plugin has no other text. What differs are the objects that it read.
    if counts[Sign.OTHER] + counts[Sign.SURPLUS] > tolerated and policy in _PLUGINS:
        return PolicyHistory(policy, PolicyState.UNCLEAR, counts)
    if counts[Sign.OTHER] + counts[Sign.SURPLUS] > tolerated:
        same = [each.sign is Sign.SEEN for each in signs]
        place, errors = _split(same)
        if errors <= tolerated:
            return PolicyHistory(policy, PolicyState.CHANGED, counts, *_between(signs, place))
        return PolicyHistory(policy, PolicyState.CHANGED if counts[Sign.OTHER] else PolicyState.UNCLEAR, counts)
    return PolicyHistory(policy, PolicyState.IN_FORCE, counts)


def another_set(histories: Sequence[PolicyHistory]) -> tuple[int, int]:
    """Return the time after which, and the time until which, another set was in force. 0 stands for neither.

    One of them is set only if most policies with a difference changed at one time, as they do when a set is replaced.
    """
    odd = [each for each in histories if each.story is not PolicyState.IN_FORCE]
    # A policy that rarely acts leaves a long interval. The change lies in what all intervals have in common.
    came = [
        each for each in odd if each.story in (PolicyState.APPEARED, PolicyState.CHANGED) and each.start and each.end
    ]
    went = [each for each in odd if each.story is PolicyState.DISAPPEARED and each.start and each.end]
    if 2 * len(came) > len(odd) and max(each.start for each in came) <= min(each.end for each in came) + RELOAD:
        return 0, min(each.end for each in came)
    if 2 * len(went) > len(odd) and max(each.start for each in went) <= min(each.end for each in went) + RELOAD:
        return max(each.start for each in went), 0
    return 0, 0


def _partly(
    policy: str, signs: Sequence[Evidence], acting: Sequence[bool], counts: Counter[Sign], tolerated: int
) -> PolicyHistory:
    """Return the story of a policy that acted only at some times: one change, or servers that differ."""
    by_file: dict[str, set[bool]] = defaultdict(set)
    for each, acts in zip(signs, acting, strict=True):
        by_file[each.file].add(acts)
    place, errors = _split(acting)
    if errors <= tolerated:
        return PolicyHistory(policy, PolicyState.APPEARED, counts, *_between(signs, place))
    place, errors = _split([not acts for acts in acting])
    if errors <= tolerated:
        return PolicyHistory(policy, PolicyState.DISAPPEARED, counts, *_between(signs, place))
    absent = [each.time for each, acts in zip(signs, acting, strict=True) if not acts]
    span = min(absent), max(absent)
    if len(by_file) > 1 and all(len(file_evidence) == 1 for file_evidence in by_file.values()):
        files = tuple(sorted(file for file, file_evidence in by_file.items() if file_evidence == {True}))
        return PolicyHistory(policy, PolicyState.SERVERS, counts, *span, files)
    # Many changes to and fro are no reloads. They are servers that differ.
    runs = 1 + sum(one is not other for one, other in pairwise(acting))
    return PolicyHistory(policy, PolicyState.SERVERS if runs >= FEWEST_RUNS else PolicyState.UNCLEAR, counts, *span)


def _split(values: Sequence[bool]) -> tuple[int, int]:
    """Return `(place, errors)` of the best cut.

    Errors are true values before the place, and false values from it on.
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
    PolicyState.SERVERS: "the API server that answered had different manifests from the others",
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
    if story in (PolicyState.APPEARED, PolicyState.DISAPPEARED, PolicyState.CHANGED):
        # 0 stands for an end of the log, where no change was seen.
        if history.start - RELOAD <= each.time <= history.end + RELOAD and history.start and history.end:
            return _cause_of_change(each.policy, is_written=is_written)
        if story is PolicyState.CHANGED:
            return _CAUSES[story]
        if (story is PolicyState.APPEARED) == (each.time <= history.start):
            return (
                "the policy was not in force yet"
                if story is PolicyState.APPEARED
                else "the policy was no longer in force"
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
