"""Which policies could be enforced: what the candidate newly denies, and what the current set has on trial."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from replay.compare.summary import placed
from replay.compare.weekly.effect import EffectAction, EffectSide
from replay.kube.admissionregistration import ManifestSet, ValidatingAdmissionPolicy
from replay.manifests.diff import diff_sets
from replay.manifests.object_diff import Verb
from replay.pipeline.manifests import Manifests

STATIC_SUFFIX = ".static.k8s.io"


class PlannedPolicy(Struct, frozen=True):
    """A policy that could be enforced, and what tells of its denials."""

    policy: ValidatingAdmissionPolicy
    side: EffectSide
    today: str
    actions: frozenset[EffectAction]

    def named(self, workspace: str) -> str:
        """How a report calls it: with the workspace that it is of."""
        return placed([self.policy.name], workspace)[0]


def planned_policies(manifests: Manifests) -> Iterator[PlannedPolicy]:
    """The candidate's denying policies that are new or changed, then what the current set has on trial and keeps."""
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
                yield PlannedPolicy(
                    policy, EffectSide.CANDIDATE, f"{trial[was][1]}{as_what}", frozenset({EffectAction.DENY})
                )
            elif manifests.current is None or not _is_enforced(manifests.current, was):
                yield PlannedPolicy(policy, EffectSide.CANDIDATE, "not there", frozenset({EffectAction.DENY}))
            elif was in changed or any(b in changed for b in _bindings(manifests.current, was)):
                yield PlannedPolicy(policy, EffectSide.CANDIDATE, "denies differently", frozenset({EffectAction.DENY}))
    for name, (policy, today) in trial.items():
        if name not in planned:
            yield PlannedPolicy(policy, EffectSide.CURRENT, today, frozenset({EffectAction.WARN, EffectAction.AUDIT}))


def _on_trial(manifests: ManifestSet) -> Iterator[tuple[str, tuple[ValidatingAdmissionPolicy, str]]]:
    """Yield policies without a denying binding, with what they do instead."""
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
