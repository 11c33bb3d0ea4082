"""`replay promote`: what would follow if one policy that audits or warns denied, by a run in which nothing else differs."""

from __future__ import annotations

from msgspec.structs import replace

from replay.audit.answer.refusal import decision_views
from replay.audit.ingest import Progress
from replay.audit.period import Period, selected_counts
from replay.audit.store import Store
from replay.compare.promoted_policy import PromotedBinding, PromotedPolicy, RecordedFailures
from replay.errors import AuditLogError, ReplayError
from replay.kube.admissionregistration import ManifestSet, ValidatingAdmissionPolicy
from replay.manifests.set_loader import SetObjects
from replay.matching.coarse import coarse_predicate
from replay.matching.equivalence import EquivalentResourceMapper
from replay.pipeline.kcp.layout import is_by_workspace
from replay.pipeline.manifests import Manifests, SetFiles, manifests_of
from replay.pipeline.options import Options
from replay.pipeline.period import microseconds, period
from replay.pipeline.policy_name import resolve_policy_names
from replay.pipeline.run import run_sets
from replay.pipeline.scenario import Scenario
from replay.pipeline.weekly.consequence import bound_to_deny
from replay.reconstruct.cluster import Cluster

_BINDING = "ValidatingAdmissionPolicyBinding"


def promote(scenario: Scenario, name: str, options: Options, progress: Progress) -> PromotedPolicy:
    """Answer for one policy of the baseline, by its name or a part of it; without a set the snapshot tells what is in force.

    Raises ReplayError for unusable input, for a name that the baseline does not have, and for a policy that has nothing to promote.
    """
    if is_by_workspace((scenario.current, scenario.cluster)):
        raise ReplayError("sets by workspace are not taken: `replay report` tells for each what can be enforced")
    is_in_snapshot = scenario.current is None and scenario.cluster is not None
    files = SetFiles(SetObjects(), None) if is_in_snapshot else None
    manifests = manifests_of(replace(scenario, candidate=None), files)
    current = manifests.current
    if current is None:
        raise ReplayError("no baseline: give the manifests in force, or a snapshot that holds them", path="--current")
    policy = _policy(current, name)
    bindings = _bindings(current, policy)
    asked = _Asked(policy, manifests, options)
    planned = replace(manifests, candidate=bound_to_deny(current, {policy.name}))
    result = run_sets(scenario, planned, options, progress, asked.of)
    return PromotedPolicy(policy.name, bindings, asked.period, asked.selected, asked.recorded, result)


class _Asked:
    """What the log itself says of a policy, once it is asked."""

    def __init__(self, policy: ValidatingAdmissionPolicy, manifests: Manifests, options: Options) -> None:
        self._policy, self._manifests, self._options = policy, manifests, options
        self.period, self.selected, self.recorded = Period(0, 0), 0, RecordedFailures()

    def of(self, store: Store) -> None:
        """Ask a store, of the period of the options."""
        if not store.requests:
            raise AuditLogError("the store holds no request")
        focus = self._options.focus
        start, end = (microseconds(each) for each in period(store, focus.since, focus.until, focus.zone))
        self.period = Period(start, end + 1)
        store.prepare(decision_views())
        row = store.query("policy_failures", policy=self._policy.name, start=start, end=end).row(0)
        self.recorded = RecordedFailures(*row)
        criteria = self._policy.match_constraints
        mapper = EquivalentResourceMapper(Cluster(self._manifests.snapshot).discovery)
        predicate = coarse_predicate(
            [] if criteria is None else [criteria], mapper, version=self._manifests.versions.current
        )
        (self.selected,) = selected_counts(store, [predicate], self.period)


def _policy(current: ManifestSet, name: str) -> ValidatingAdmissionPolicy:
    by_name = {policy.name: policy for policy in current.validating_policies}
    names = resolve_policy_names(name, by_name, "POLICY")
    if len(names) > 1:
        raise ReplayError(f"`{name}` means {len(names)} policies: name one", path="POLICY")
    return by_name[names.pop()]


def _bindings(current: ManifestSet, policy: ValidatingAdmissionPolicy) -> tuple[PromotedBinding, ...]:
    """The bindings of a policy that do not deny. Raises ReplayError if there are none."""
    own = [each for each in current.validating_bindings if each.policy_name == policy.name]
    if not own:
        raise ReplayError(f"no binding of the baseline refers to `{policy.name}`: it does nothing today", path="POLICY")
    bindings = tuple(
        PromotedBinding(each.name, each.static, each.validation_actions, current.origins.get((_BINDING, each.name)))
        for each in own
        if "Deny" not in each.validation_actions
    )
    if not bindings:
        raise ReplayError(f"`{policy.name}` denies already: `replay lookup` shows whom", path="POLICY")
    return bindings
