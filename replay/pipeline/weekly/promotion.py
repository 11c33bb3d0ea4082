"""The policies that could be enforced: those that the candidate newly enforces, and those that only warn or audit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from replay.audit.period import Period, selected_counts
from replay.audit.store import Store
from replay.compare.summary import with_workspace
from replay.compare.weekly import (
    MAX_OWNERS,
    EffectAction,
    EffectCell,
    EffectCounts,
    EffectKey,
    EffectSide,
    MutationFigures,
    Owner,
    PolicyReadiness,
    Promotion,
)
from replay.kube.admissionregistration import (
    VIRTUAL_RESOURCES,
    ManifestSet,
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
)
from replay.kube.gvk import GroupResource
from replay.manifests.diff import diff_sets
from replay.manifests.object_diff import Verb
from replay.matching.coarse import Predicate, both, coarse_predicate
from replay.matching.rules import EquivalentResourceMapper
from replay.pipeline.manifests import Manifests
from replay.pipeline.weekly.scope import OwnSets, ReportScope

STATIC_SUFFIX = ".static.k8s.io"


class _PlannedPolicy(Struct, frozen=True):
    """A policy that could be enforced, and the effects that show its denials."""

    policy: ValidatingAdmissionPolicy
    side: EffectSide
    today: str
    actions: frozenset[EffectAction]

    def named(self, workspace: str) -> str:
        """Return the policy's name in a report, with its workspace."""
        return with_workspace([self.policy.name], workspace)[0]


def planned_policies(manifests: Manifests) -> Iterator[_PlannedPolicy]:
    """Yield the candidate's denying policies that are new or changed, then the baseline's policies still on trial."""
    renamed: dict[str, str] = {}
    changed: set[str] = set()
    if manifests.current is not None and manifests.candidate is not None:
        differences = diff_sets(manifests.current, manifests.candidate)
        renamed = {each.new_name: each.name for each in differences if each.verb is Verb.RENAMED}
        changed = {each.name for each in differences}
    trial = {} if manifests.current is None else dict(_on_trial(manifests.current))
    planned = set()
    if manifests.candidate is not None:
        for policy in _denying(manifests.candidate):
            was = renamed.get(policy.name, policy.name)
            if was in trial:
                planned.add(was)
                as_what = f" as {was.removesuffix(STATIC_SUFFIX)}" if was != policy.name else ""
                yield _PlannedPolicy(
                    policy, EffectSide.CANDIDATE, f"{trial[was][1]}{as_what}", frozenset({EffectAction.DENY})
                )
            elif manifests.current is None or not _is_enforced(manifests.current, was):
                yield _PlannedPolicy(policy, EffectSide.CANDIDATE, "not there", frozenset({EffectAction.DENY}))
            elif was in changed or any(b in changed for b in _bindings(manifests.current, was)):
                yield _PlannedPolicy(policy, EffectSide.CANDIDATE, "denies differently", frozenset({EffectAction.DENY}))
    for name, (policy, today) in trial.items():
        if name not in planned:
            yield _PlannedPolicy(policy, EffectSide.CURRENT, today, frozenset({EffectAction.WARN, EffectAction.AUDIT}))


def _on_trial(manifests: ManifestSet) -> Iterator[tuple[str, tuple[ValidatingAdmissionPolicy, str]]]:
    """Yield policies without a denying binding, with their present effect."""
    for policy, bindings in manifests.bound_policies(ValidatingAdmissionPolicy):
        actions = {action for binding in bindings for action in binding.validation_actions}
        if actions and "Deny" not in actions:
            words = {"Warn": "warns", "Audit": "audits"}
            yield policy.name, (policy, " and ".join(words[each] for each in ("Warn", "Audit") if each in actions))


def _denying(manifests: ManifestSet) -> Iterable[ValidatingAdmissionPolicy]:
    return [policy for policy in manifests.of(ValidatingAdmissionPolicy) if _is_enforced(manifests, policy.name)]


def _is_enforced(manifests: ManifestSet, policy: str) -> bool:
    return "Deny" in _actions(manifests, policy)


def _actions(manifests: ManifestSet, policy: str) -> set[str]:
    return {
        action
        for binding in manifests.of(ValidatingAdmissionPolicyBinding)
        if binding.policy_name == policy
        for action in binding.validation_actions
    }


def _bindings(manifests: ManifestSet, policy: str) -> Iterator[str]:
    return (binding.name for binding in manifests.of(ValidatingAdmissionPolicyBinding) if binding.policy_name == policy)


EffectCells = Mapping[EffectKey, EffectCell]
_Series = tuple[EffectSide, EffectAction, str]
_READINESS = tuple(PolicyReadiness)


def promotions(
    store: Store, scope: ReportScope, effects: EffectCounts, position: int, period: Period
) -> tuple[Promotion, ...]:
    """Return all policies that could be enforced; ready ones first, then by fewest new denials.

    SQL counts the matching requests. It may count too many, because selectors, conditions and bindings are ignored.
    """
    policies = [(each, own) for own in scope.own_sets() for each in planned_policies(own.manifests)]
    mapper = EquivalentResourceMapper(scope.discovery)
    counts = selected_counts(store, [_evaluated(each, own, mapper) for each, own in policies], period)
    cells = {key: cell for key, cell in effects.cells.items() if key.period == position}
    middle = period.start + period.length // 2
    halves: dict[_Series, list[int]] = {}
    for bucket, count in effects.timeline.items():
        if bucket.period == position and bucket.is_root:
            series = halves.setdefault((bucket.side, bucket.action, bucket.policy), [0, 0])
            series[bucket.start >= middle] += count
    promotions_ = [
        _promotion(each, each.named(own.workspace), (cells, halves), count)
        for (each, own), count in zip(policies, counts, strict=True)
    ]
    return tuple(
        sorted(
            promotions_,
            key=lambda each: (_READINESS.index(each.readiness), each.roots, each.follow, each.policy, each.side),
        )
    )


def _evaluated(planned: _PlannedPolicy, own: OwnSets, mapper: EquivalentResourceMapper) -> Predicate:
    criteria = planned.policy.match_constraints
    excluded = frozenset[GroupResource]() if own.workspace else VIRTUAL_RESOURCES
    predicate = coarse_predicate([] if criteria is None else [criteria], mapper, excluded=excluded)
    return predicate if own.within is None else both(predicate, own.within)


def candidate_mutations(cells: EffectCells) -> tuple[MutationFigures, ...]:
    """Return each mutating policy's changes, most requests first."""
    groups: dict[str, list[tuple[EffectKey, EffectCell]]] = {}
    for key, cell in cells.items():
        if key.side is EffectSide.CANDIDATE and key.action is EffectAction.MUTATE:
            groups.setdefault(key.policy, []).append((key, cell))
    mutation_figures = [
        MutationFigures(
            policy,
            sum(cell.count for _, cell in group),
            len({(key.namespace, key.workload) for key, _ in group}),
            len({key.user for key, _ in group}),
            max(cell.last for _, cell in group),
        )
        for policy, group in groups.items()
    ]
    return tuple(sorted(mutation_figures, key=lambda each: (-each.requests, each.policy)))


class _WorkloadDenials(Struct):
    """The requests of one workload, while they are counted."""

    users: dict[str, int] = field(default_factory=dict)
    requests: int = 0
    last: int = 0

    def add(self, user: str, cell: EffectCell) -> None:
        self.users[user] = self.users.get(user, 0) + cell.count
        self.requests += cell.count
        self.last = max(self.last, cell.last)


def _promotion(
    planned: _PlannedPolicy, name: str, effects: tuple[EffectCells, Mapping[_Series, list[int]]], requests: int
) -> Promotion:
    """Return the promotion of one policy, by its cells.

    If it both warns and audits, a request counts once, by the action with more requests.
    """
    cells, halves = effects
    own = [(k, c) for k, c in cells.items() if k.side is planned.side and k.policy == name]
    by_action = {
        action: [(key, cell) for key, cell in own if key.action is action] for action in sorted(planned.actions)
    }
    action, denied = max(by_action.items(), key=lambda item: sum(cell.count for _, cell in item[1]))
    promotion = Promotion(
        name,
        planned.side,
        planned.today,
        requests,
        undecided=sum(cell.count for key, cell in own if key.action is EffectAction.UNDETERMINED),
    )
    if not denied:
        return promotion
    roots = [(key, cell) for key, cell in denied if key.is_root]
    talks: dict[tuple[str, str, str], _WorkloadDenials] = {}
    for key, cell in roots:
        talks.setdefault((key.owner, key.namespace, key.workload), _WorkloadDenials()).add(key.user, cell)
    first_half, second_half = halves.get((planned.side, action, name), (0, 0))
    first = min((cell for _, cell in roots or denied), key=lambda cell: (cell.first, cell.audit_id))
    return replace(
        promotion,
        requests=sum(cell.count for _, cell in denied),
        denied_anyway=sum(cell.count for key, cell in denied if key.denied),
        users=len({key.user for key, _ in roots}),
        namespaces=len({key.namespace for key, _ in roots}),
        workloads=len({(key.namespace, key.workload) for key, _ in roots}),
        last=max((cell.last for _, cell in roots), default=0),
        halves=(first_half, second_half),
        message=first.message,
        audit_id=first.audit_id,
        owners=tuple(_owners(talks)),
        follow=sum(cell.count for key, cell in denied if key.follows and not key.denied),
    )


def _owners(talks: Mapping[tuple[str, str, str], _WorkloadDenials]) -> list[Owner]:
    """Return the owners, those with most requests first."""
    owners = [
        Owner(
            *place,
            tuple(sorted(talk.users, key=lambda user: (-talk.users[user], user))),
            talk.requests,
            talk.last,
        )
        for place, talk in talks.items()
    ]
    return sorted(owners, key=lambda each: (-each.requests, each.owner, each.namespace, each.workload))[:MAX_OWNERS]
