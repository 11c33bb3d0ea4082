"""Which policies could be enforced: what each of those that only warn, audit or are planned would have denied."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from replay.audit.period import Period, selected_counts
from replay.audit.store import Store
from replay.compare.weekly.effect import EffectAction, EffectCell, EffectKey, Effects, Side
from replay.compare.weekly.figures import MAX_OWNERS, Mutation, Owner, Promotion, Readiness
from replay.kube.admissionregistration import ManifestSet, ValidatingAdmissionPolicy
from replay.manifests.diff import diff_sets
from replay.manifests.object_diff import Verb
from replay.matching.coarse import coarse_predicate
from replay.matching.equivalence import EquivalentResourceMapper
from replay.pipeline.manifests import Manifests
from replay.reconstruct.cluster import Cluster

Cells = Mapping[EffectKey, EffectCell]
_Series = tuple[Side, EffectAction, str]
_READINESS = tuple(Readiness)
STATIC_SUFFIX = ".static.k8s.io"


@dataclass(frozen=True, slots=True)
class _Planned:
    """A policy that could be enforced, and what tells of its denials."""

    policy: ValidatingAdmissionPolicy
    side: Side
    today: str
    actions: frozenset[EffectAction]


def promotions(
    store: Store, manifests: Manifests, effects: Effects, position: int, period: Period
) -> tuple[Promotion, ...]:
    """All policies that could be enforced; those that can be today first, then those with the fewest new denials.

    The requests that a policy is asked about are counted by SQL: too many rather than too few, since selectors, conditions and
    bindings are not looked at.
    """
    planned = list(_planned(manifests))
    mapper = EquivalentResourceMapper(Cluster(manifests.snapshot).discovery)
    criteria = [each.policy.match_constraints for each in planned]
    predicates = [coarse_predicate([each] if each is not None else [], mapper) for each in criteria]
    asked = selected_counts(store, predicates, period)
    cells = {key: cell for key, cell in effects.cells.items() if key.period == position}
    middle = period.start + period.length // 2
    halves: dict[_Series, list[int]] = {}
    for bucket, count in effects.timeline.items():
        if bucket.period == position and not bucket.denied:
            series = halves.setdefault((bucket.side, bucket.action, bucket.policy), [0, 0])
            series[bucket.start >= middle] += count
    found = [_promotion(each, cells, halves, count) for each, count in zip(planned, asked, strict=True)]
    return tuple(
        sorted(found, key=lambda each: (_READINESS.index(each.readiness), each.newly_denied, each.policy, each.side))
    )


def candidate_mutations(cells: Cells) -> tuple[Mutation, ...]:
    """What each mutating policy of the candidate changes, most requests first."""
    groups: dict[str, list[tuple[EffectKey, EffectCell]]] = {}
    for key, cell in cells.items():
        if key.side is Side.CANDIDATE and key.action is EffectAction.MUTATE:
            groups.setdefault(key.policy, []).append((key, cell))
    found = [
        Mutation(
            policy,
            sum(cell.count for _, cell in group),
            len({(key.namespace, key.workload) for key, _ in group}),
            len({key.user for key, _ in group}),
            max(cell.last for _, cell in group),
        )
        for policy, group in groups.items()
    ]
    return tuple(sorted(found, key=lambda each: (-each.requests, each.policy)))


def _planned(manifests: Manifests) -> Iterator[_Planned]:
    """The candidate's denying policies that are new or changed, then what the current set has on trial and keeps."""
    renamed: dict[str, str] = {}
    changed: set[str] = set()
    if manifests.current is not None and manifests.candidate is not None:
        differences = diff_sets(manifests.current, manifests.candidate)
        renamed = {each.new_name: each.name for each in differences if each.verb is Verb.RENAMED}
        changed = {each.name for each in differences}
    trial = {} if manifests.current is None else dict(_on_trial(manifests.current))
    taken = set()
    if manifests.candidate is not None:
        for policy in _denying(manifests.candidate):
            was = renamed.get(policy.name, policy.name)
            if was in trial:
                taken.add(was)
                as_what = f" as {was.removesuffix(STATIC_SUFFIX)}" if was != policy.name else ""
                yield _Planned(policy, Side.CANDIDATE, f"{trial[was][1]}{as_what}", frozenset({EffectAction.DENY}))
            elif manifests.current is None or not _is_enforced(manifests.current, was):
                yield _Planned(policy, Side.CANDIDATE, "not there", frozenset({EffectAction.DENY}))
            elif was in changed or any(b in changed for b in _bindings(manifests.current, was)):
                yield _Planned(policy, Side.CANDIDATE, "denies otherwise", frozenset({EffectAction.DENY}))
    for name, (policy, today) in trial.items():
        if name not in taken:
            yield _Planned(policy, Side.CURRENT, today, frozenset({EffectAction.WARN, EffectAction.AUDIT}))


def _on_trial(manifests: ManifestSet) -> Iterator[tuple[str, tuple[ValidatingAdmissionPolicy, str]]]:
    """The policies of which no binding denies, with what they do instead."""
    for policy in manifests.validating_policies:
        actions = _actions(manifests, policy.name)
        if actions and "Deny" not in actions:
            words = {"Warn": "warns", "Audit": "audits"}
            yield policy.name, (policy, " and ".join(words[each] for each in ("Warn", "Audit") if each in actions))


def _denying(manifests: ManifestSet) -> Iterable[ValidatingAdmissionPolicy]:
    return [policy for policy in manifests.validating_policies if _is_enforced(manifests, policy.name)]


def _is_enforced(manifests: ManifestSet, policy: str) -> bool:
    return "Deny" in _actions(manifests, policy)


def _actions(manifests: ManifestSet, policy: str) -> set[str]:
    return {
        action
        for binding in manifests.validating_bindings
        if binding.policy_name == policy
        for action in binding.validation_actions
    }


def _bindings(manifests: ManifestSet, policy: str) -> Iterator[str]:
    return (binding.name for binding in manifests.validating_bindings if binding.policy_name == policy)


@dataclass(slots=True)
class _Talk:
    """The requests of one workload, while they are counted."""

    users: dict[str, int] = field(default_factory=dict)
    requests: int = 0
    last: int = 0

    def add(self, user: str, cell: EffectCell) -> None:
        self.users[user] = self.users.get(user, 0) + cell.count
        self.requests += cell.count
        self.last = max(self.last, cell.last)


def _promotion(planned: _Planned, cells: Cells, halves: Mapping[_Series, list[int]], asked: int) -> Promotion:
    """Count a policy's cells; where one both warns and audits, a request counts once, by the action that shows more."""
    own = [(k, c) for k, c in cells.items() if k.side is planned.side and k.policy == planned.policy.name]
    by_action = {
        action: [(key, cell) for key, cell in own if key.action is action] for action in sorted(planned.actions)
    }
    action, denied = max(by_action.items(), key=lambda item: sum(cell.count for _, cell in item[1]))
    made = Promotion(
        planned.policy.name,
        planned.side,
        planned.today,
        asked,
        undecided=sum(cell.count for key, cell in own if key.action is EffectAction.UNDETERMINED),
    )
    if not denied:
        return made
    newly = [(key, cell) for key, cell in denied if not key.denied]
    talks: dict[tuple[str, str, str], _Talk] = {}
    for key, cell in newly:
        talks.setdefault((key.owner, key.namespace, key.workload), _Talk()).add(key.user, cell)
    first_half, second_half = halves.get((planned.side, action, planned.policy.name), (0, 0))
    first = min((cell for _, cell in newly or denied), key=lambda cell: (cell.first, cell.audit_id))
    return replace(
        made,
        requests=sum(cell.count for _, cell in denied),
        denied_anyway=sum(cell.count for key, cell in denied if key.denied),
        users=len({key.user for key, _ in newly}),
        namespaces=len({key.namespace for key, _ in newly}),
        workloads=len({(key.namespace, key.workload) for key, _ in newly}),
        last=max((cell.last for _, cell in newly), default=0),
        halves=(first_half, second_half),
        message=first.message,
        audit_id=first.audit_id,
        owners=tuple(_owners(talks)),
    )


def _owners(talks: Mapping[tuple[str, str, str], _Talk]) -> list[Owner]:
    """Those with most requests first."""
    found = [
        Owner(
            *place,
            tuple(sorted(talk.users, key=lambda user: (-talk.users[user], user))),
            talk.requests,
            talk.last,
        )
        for place, talk in talks.items()
    ]
    return sorted(found, key=lambda each: (-each.requests, each.owner, each.namespace, each.workload))[:MAX_OWNERS]
