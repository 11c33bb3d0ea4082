"""Counted outcomes: small mergeable cells, from which every view of a report is derived.

A cell holds requests that are alike in everything that a report groups by. Counts by user, namespace or workload are
sums of cells, so a request denied by two policies counts once. Merging is commutative, so the order of workers and
parts does not matter.
"""

from __future__ import annotations

import heapq
from bisect import insort
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple, Self, TypeVar

import orjson
from msgspec import Struct, field
from msgspec.structs import replace

from replay.admission.decision import Decision, Verdict
from replay.audit.answer import VALIDATION_FAILURE
from replay.compare.effect import (
    FAILED,
    CallChange,
    MutationConsequence,
    call_changes,
    chains,
    failed_calls,
    failed_webhooks,
    mutation_causes,
)
from replay.compare.outage import FailedCall
from replay.compare.outcome import MUTATIONS, Outcome, OutcomeKind, new_annotations, new_warnings
from replay.compare.tally import Tally
from replay.json import JSON
from replay.kcp.binding import NO_WORKSPACE
from replay.kube.attributes import Attributes, Missing, PartialObject
from replay.kube.gvk import GroupVersionResource
from replay.kube.json_patch import JSONPatchError, apply
from replay.kube.redact import Redactor
from replay.manifests.static_rule import without_suffix

# One object before and after a mutation, for each group of mutations in a report.
# The first request of each group is kept, for the groups with the earliest first requests. So the order in which parts are merged
# does not matter.

MAX_GROUPS = 200
NOT_KNOWN = "(not known)"
GroupKey = tuple[OutcomeKind, tuple[str, ...], tuple[tuple[str, ...], ...]]
"""Key by which a report groups mutations: outcome, policies, and the shapes of their patches."""


class ChangeExample(NamedTuple):
    """The object that the baseline leaves, and the object that the candidate leaves."""

    seq: int
    item: int
    about: str
    current: JSON
    candidate: JSON


class ChangeExamples(Tally):
    """Examples of one part of a log, or of the whole log.

    Of each group the first request is kept, so the order in which parts are merged does not matter.
    """

    groups: dict[GroupKey, ChangeExample] = field(default_factory=dict)

    def offer(
        self, key: GroupKey, outcome: Outcome, current_attributes: Attributes | Missing, redactor: Redactor
    ) -> None:
        """Keep a request if it is the first of its group. `current_attributes` are the attributes before mutation."""
        first = self.groups.get(key)
        if isinstance(current_attributes, Missing) or (first is not None and first[:2] <= (outcome.seq, outcome.item)):
            return
        value = _shown(current_attributes.object)
        if not isinstance(value, dict):
            return
        try:
            current_object, candidate_object = (
                apply(value, decision.patch) for decision in (outcome.current, outcome.candidate)
            )
        except JSONPatchError:
            return
        sides = (redactor.object(current_object), redactor.object(candidate_object))
        self._keep(key, ChangeExample(outcome.seq, outcome.item, _about(outcome), *sides))

    def add(self, other: Self) -> None:
        """Add the examples of another part."""
        for key, example in other.groups.items():
            first = self.groups.get(key)
            if first is None or example[:2] < first[:2]:
                self._keep(key, example)

    def _keep(self, key: GroupKey, example: ChangeExample) -> None:
        self.groups[key] = example
        if len(self.groups) > MAX_GROUPS:
            del self.groups[max(self.groups, key=lambda each: self.groups[each][:2])]


def _about(outcome: Outcome) -> str:
    resource = str(outcome.resource.group_resource)
    resource = f"{resource}/{outcome.subresource}" if outcome.subresource else resource
    name = f"{outcome.namespace}/{outcome.name}" if outcome.namespace else outcome.name
    return f"{outcome.operation} {resource} {name} by {outcome.user}"


def _shown(value: JSON | PartialObject | Missing) -> JSON:
    """Return an object as plain JSON, with unknown parts marked."""
    return _plain(value.value) if isinstance(value, PartialObject) else value


def _plain(value: JSON) -> JSON:
    if isinstance(value, Missing):
        return NOT_KNOWN
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value


MAX_EXAMPLES = 3
MAX_MESSAGES = 200
MAX_WORK = 1000
MORE_WORK = "makes or changes more objects afterwards"
MICROSECONDS = 1_000_000
_MINUTE = 60 * MICROSECONDS


class CellKey(Struct, frozen=True, order=True, array_like=True):
    """Key of a cell: what its requests have in common.

    `policies` cause the outcome and are in the server's order. For mutations, `shapes` has the patch of each policy
    without values (`add /metadata/labels/team`). It is empty otherwise. `owner` is the value of the namespace's label.
    A finding that `follows` is a consequence. It needs an earlier request to end otherwise than in the log. All others
    are direct findings, which the reports are about. `workspace` is the path of the request's kcp workspace. Then the
    policies have the path of theirs (`root:provider/size`).
    """

    outcome: OutcomeKind
    policies: tuple[str, ...]
    user: str
    namespace: str
    resource: str
    kind: str
    workload: str
    follows: bool
    shapes: tuple[tuple[str, ...], ...] = ()
    owner: str = ""
    workspace: str = ""


class Example(Struct, frozen=True, array_like=True):
    """One request of a cell."""

    seq: int
    item: int
    audit_id: str
    stage_time: int
    operation: str
    name: str
    messages: tuple[str, ...]
    patch: tuple[JSON, ...] = ()

    @property
    def place(self) -> tuple[int, int]:
        """Return the position in the log."""
        return self.seq, self.item


class OutcomeFinding(Struct, frozen=True, array_like=True):
    """One request whose outcome is not `unchanged`, with its cell. It counts as a direct finding at first.

    `chains` are the effects of its mutation on validation, with the message of each denial. `also_mutated` says that
    its patch differs too.
    """

    key: CellKey
    example: Example
    chains: tuple[tuple[MutationConsequence, str], ...] = ()
    also_mutated: bool = False


class Cell(Tally):
    """Number of requests, with the first and last time (microseconds since the epoch), and the first examples."""

    count: int = 0
    first: int = 0
    last: int = 0
    examples: list[Example] = field(default_factory=list)

    def add(self, other: Self) -> None:
        """Add the requests of another part of the log."""
        self.first = min(self.first, other.first) if self.count else other.first
        self.last = max(self.last, other.last)
        self.count += other.count
        # Most parts bring no earlier example, and the merge is then skipped.
        if not self.is_full or other.examples[0].place < self.examples[-1].place:
            merged = [*self.examples, *other.examples]
            self.examples = heapq.nsmallest(MAX_EXAMPLES, merged, key=lambda example: example.place)

    def add_example(self, example: Example) -> None:
        """Add one request."""
        self.first, self.last = min(self.first, example.stage_time), max(self.last, example.stage_time)
        self.count += 1
        if not self.is_full or example.place < self.examples[-1].place:
            insort(self.examples, example, key=lambda each: each.place)
            del self.examples[MAX_EXAMPLES:]

    @property
    def is_full(self) -> bool:
        """Whether the cell has the maximum number of examples."""
        return len(self.examples) == MAX_EXAMPLES


class Gap(NamedTuple):
    """Reason for undetermined verdicts. `path` was unknown, and `fix` would record it."""

    policy: str
    path: str
    reason: str
    fix: str


class TriggeredWork(NamedTuple):
    """Work that a set's policy does after requests. `unknown` says why it is not known."""

    side: str
    policy: str
    work: str
    unknown: str


class Summary(Tally):
    """All counts about outcomes.

    `verdicts` is by (set, verdict), `basis` by (attribute, basis), `gaps` by (set, Gap), `timeline` by (minute since
    the epoch, outcome, policy), `messages` by (outcome, policy), `not_reached` by the reason in the log, and
    `call_failures` by (webhook, text). `also_mutated` counts, by outcome, direct findings whose patch differs although
    another outcome comes first. `timeline` and `messages` are of direct findings too.
    """

    requests: int = 0
    outcomes: Counter[OutcomeKind] = field(default_factory=Counter)
    verdicts: Counter[tuple[str, Verdict]] = field(default_factory=Counter)
    basis: Counter[tuple[str, str]] = field(default_factory=Counter)
    gaps: Counter[tuple[str, Gap]] = field(default_factory=Counter)
    not_reached: Counter[str] = field(default_factory=Counter)
    cells: dict[CellKey, Cell] = field(default_factory=dict)
    messages: dict[tuple[OutcomeKind, str], Counter[str]] = field(default_factory=dict)
    timeline: Counter[tuple[int, OutcomeKind, str]] = field(default_factory=Counter)
    webhooks: Counter[CallChange] = field(default_factory=Counter)
    call_failures: Counter[tuple[str, str]] = field(default_factory=Counter)
    triggered: Counter[TriggeredWork] = field(default_factory=Counter)
    failed_calls: Counter[FailedCall] = field(default_factory=Counter)
    """The calls that fail under the candidate, by minute."""
    chains: dict[MutationConsequence, Cell] = field(default_factory=dict)
    also_mutated: Counter[OutcomeKind] = field(default_factory=Counter)
    spared: int = 0
    """Direct denials that an earlier mutation of the candidate prevents, so that the request succeeds in its world."""
    changes: ChangeExamples = field(default_factory=ChangeExamples)

    def count(self, outcome: Outcome) -> None:
        """Count one request in all numbers except the cells."""
        self.requests += 1
        self.outcomes[outcome.outcome] += 1
        self.verdicts["current", outcome.current.verdict] += 1
        self.verdicts["candidate", outcome.candidate.verdict] += 1
        for attribute, basis in outcome.basis.items():
            self.basis[attribute, basis or "null"] += 1
        if outcome.current.undetermined or outcome.candidate.undetermined:
            self._count_gaps(outcome)
        if outcome.current.webhooks or outcome.candidate.webhooks:
            self._count_calls(outcome)
        if outcome.current.triggered or outcome.candidate.triggered:
            self._count_triggered(outcome)

    def _count_gaps(self, outcome: Outcome) -> None:
        for name, decision in (("current", outcome.current), ("candidate", outcome.candidate)):
            # A set, because several bindings may lack the same input for one request.
            for gap in {Gap(u.policy, u.path, u.reason, u.fix) for u in decision.undetermined}:
                self.gaps[name, gap] += 1

    def _count_triggered(self, outcome: Outcome) -> None:
        for side, decision in (("current", outcome.current), ("candidate", outcome.candidate)):
            for each in decision.triggered:
                work = TriggeredWork(side, each.policy, each.work, each.unknown)
                # Work names objects. The limit keeps a summary small.
                if work not in self.triggered and len(self.triggered) >= MAX_WORK:
                    work = work._replace(work=MORE_WORK)
                self.triggered[work] += 1

    def _count_calls(self, outcome: Outcome) -> None:
        self.webhooks.update(call_changes(outcome.current, outcome.candidate))
        if not any(call.answer.startswith(FAILED) for call in (*outcome.current.webhooks, *outcome.candidate.webhooks)):
            return
        for webhook in failed_webhooks(outcome.candidate):
            resource, minute = _resource(outcome.resource, outcome.subresource), outcome.stage_time // _MINUTE
            self.failed_calls[FailedCall(*webhook, outcome.operation, resource, minute)] += 1
        failures = {*failed_calls(outcome.current), *failed_calls(outcome.candidate)}
        for failure in sorted(failures):
            # Texts may contain addresses and times. The limit keeps a summary small.
            if failure in self.call_failures or len(self.call_failures) < MAX_MESSAGES:
                self.call_failures[failure] += 1

    def discount(self, other: Summary) -> None:
        """Subtract the counts of another summary. Cells and examples stay unchanged."""
        self.requests -= other.requests
        _discount(self.outcomes, other.outcomes)
        _discount(self.verdicts, other.verdicts)
        _discount(self.basis, other.basis)
        _discount(self.gaps, other.gaps)
        _discount(self.webhooks, other.webhooks)
        _discount(self.triggered, other.triggered)
        _discount(self.failed_calls, other.failed_calls)

    def count_unchanged(self, number: int, bases: Iterable[tuple[str, str]] = ()) -> None:
        """Count requests that no policy of either set can match. Both sets admit them, so they are not rebuilt."""
        self.requests += number
        self.outcomes[OutcomeKind.UNCHANGED] += number
        self.verdicts["current", Verdict.ADMITTED] += number
        self.verdicts["candidate", Verdict.ADMITTED] += number
        for basis in bases:
            self.basis[basis] += 1

    def remembers(self, finding: OutcomeFinding) -> bool:
        """Return whether a finding later than all others adds more than numbers."""
        cell = self.cells.get(finding.key)
        return cell is None or not cell.is_full or bool(finding.chains)

    def add_finding(self, finding: OutcomeFinding, *, spared: bool = False) -> None:
        """Add a request whose outcome is not `unchanged` to its cell, after its cause and end are known."""
        key, example = finding.key, finding.example
        if (cell := self.cells.get(key)) is None:
            self.cells[key] = _single(example)
        else:
            cell.add_example(example)
        for chain, message in finding.chains:
            _merge(self.chains, chain._replace(follows=key.follows), _single(replace(example, messages=(message,))))
        if key.follows:
            return
        self.spared += spared and key.outcome is OutcomeKind.NEWLY_DENIED
        self.also_mutated[key.outcome] += finding.also_mutated
        minute = example.stage_time // (60 * MICROSECONDS)
        for policy, message in zip(key.policies, example.messages, strict=False):
            self.timeline[minute, key.outcome, policy] += 1
            about = key.outcome, policy
            counted = self.messages.get(about) or self.messages.setdefault(about, Counter())  # making one is slow
            if message in counted or len(counted) < MAX_MESSAGES:
                counted[message] += 1


def finding(outcome: Outcome) -> OutcomeFinding:
    """Return the finding of a request whose outcome is not `unchanged`."""
    policies, messages, shapes, patch = _cause(outcome)
    key = CellKey(
        outcome=outcome.outcome,
        policies=policies if outcome.decided_in is NO_WORKSPACE else with_workspace(policies, _home(outcome)),
        user=outcome.user,
        namespace=outcome.namespace,
        resource=_resource(outcome.resource, outcome.subresource),
        kind=outcome.kind,
        workload=outcome.workload,
        follows=False,
        shapes=shapes,
        owner=outcome.owner,
        workspace=outcome.decided_in.workspace,
    )
    also_mutated = outcome.outcome not in MUTATIONS and outcome.candidate.patch != outcome.current.patch
    example = Example(
        seq=outcome.seq,
        item=outcome.item,
        audit_id=outcome.audit_id,
        stage_time=outcome.stage_time,
        operation=outcome.operation,
        name=outcome.name,
        messages=messages,
        patch=patch,
    )
    has_chains = outcome.candidate.caused_by_mutation or outcome.candidate.healed_by_mutation
    return OutcomeFinding(key, example, tuple(chains(outcome)) if has_chains else (), also_mutated)


def _home(outcome: Outcome) -> str:
    """Return the workspace of the policies that cause the outcome."""
    is_of_current = outcome.outcome is OutcomeKind.NEWLY_ADMITTED
    return outcome.decided_in.policies if is_of_current else outcome.decided_in.planned


def with_workspace(policies: Iterable[str], workspace: str) -> tuple[str, ...]:
    """Return the names of policies with the workspace to which they belong."""
    return tuple([f"{workspace}/{policy}" if workspace and policy else policy for policy in policies])


def _single(example: Example) -> Cell:
    return Cell(1, example.stage_time, example.stage_time, [example])


_Key = TypeVar("_Key")


def _merge(cells: dict[_Key, Cell], key: _Key, cell: Cell) -> None:
    cell_so_far = cells.get(key)
    if cell_so_far is None:
        cells[key] = cell
    else:
        cell_so_far.add(cell)


def _discount(counter: Counter[_Key], others: Counter[_Key]) -> None:
    for key, count in others.items():
        counter[key] -= count
        if not counter[key]:
            del counter[key]


@lru_cache(maxsize=1024)
def _resource(resource: GroupVersionResource, subresource: str) -> str:
    name = str(resource.group_resource)
    return f"{name}/{subresource}" if subresource else name


_Cause = tuple[tuple[str, ...], tuple[str, ...], tuple[tuple[str, ...], ...], tuple[JSON, ...]]


def _cause(outcome: Outcome) -> _Cause:
    """Return `(policies, messages, patch shapes, patch)` that cause the outcome. The first three are parallel."""
    kind, current, candidate = outcome.outcome, outcome.current, outcome.candidate
    if kind in (OutcomeKind.NEWLY_DENIED, OutcomeKind.NEWLY_ADMITTED):
        denials = candidate.denials if kind is OutcomeKind.NEWLY_DENIED else current.denials
        # Built in reverse, so that the first denial of each policy stays. Reversed again, its order is the server's.
        first = {denial.policy: denial.message for denial in reversed(denials)}
        return tuple(reversed(first)), tuple(reversed(first.values())), (), ()
    if kind in MUTATIONS:
        causes = mutation_causes(current, candidate)
        patch = current.patch if kind is OutcomeKind.NO_LONGER_MUTATED else candidate.patch
        return (
            tuple([policy for policy, _ in causes]),
            ("",) * len(causes),
            tuple([shape for _, shape in causes]),
            patch,
        )
    if kind is OutcomeKind.UNDETERMINED:
        entries = {u.policy: u.reason for u in (*current.undetermined, *candidate.undetermined)}
        return tuple(entries), tuple(entries.values()), (), ()
    return _informing(kind, current, candidate)


def _informing(kind: OutcomeKind, current: Decision, candidate: Decision) -> _Cause:
    """Return the cause of a new warning or audit annotation.

    The text of the warning or the key of the annotation stands for the policy.
    """
    if kind is OutcomeKind.NEWLY_WARNED:
        warnings = tuple(new_warnings(current, candidate))
        return warnings, warnings, (), ()
    current_annotations = current.audit_annotations
    new = dict(new_annotations(current, candidate))
    text = new.pop(VALIDATION_FAILURE, "[]")
    known = orjson.loads(without_suffix(current_annotations.get(VALIDATION_FAILURE, "[]")))
    entries = zip(orjson.loads(text), orjson.loads(without_suffix(text)), strict=True)
    failures = {entry["policy"]: entry["message"] for entry, unmoved in entries if unmoved not in known}
    failures.update({key.rpartition("/")[0]: value for key, value in new.items()})
    return tuple(failures), tuple(failures.values()), (), ()


def decided(summary: Summary, side: str) -> tuple[int, int]:
    """Return `(decided, all)` requests of one set, without those that did not reach validation."""
    counts = {verdict: summary.verdicts[side, verdict] for verdict in Verdict}
    total = sum(counts.values()) - counts[Verdict.NOT_REACHED]
    return total - counts[Verdict.UNDETERMINED], total
