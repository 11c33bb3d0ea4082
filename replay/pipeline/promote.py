"""`replay promote`: effects of one policy denying that audits or warns today, by a run in which only this differs."""

from __future__ import annotations

from msgspec.structs import replace

from replay.audit.answer import decision_views
from replay.audit.ingest import Progress
from replay.audit.period import Period, selected_counts
from replay.audit.store import Store
from replay.compare.result import PromotedBinding, PromotedPolicy, RecordedFailures
from replay.errors import AuditLogError, ReplayError
from replay.json import JSON
from replay.kcp.shard.layout import is_by_workspace
from replay.kube.admissionregistration import (
    ManifestSet,
    MatchResources,
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
)
from replay.kube.discovery import Discovery
from replay.kube.engine_policy import ENGINES, function_of, is_of_engine, policy_name, policy_names
from replay.kube.gvk import GroupResource
from replay.manifests.engine_object import DENIES_ALREADY, EnginePromotion
from replay.manifests.set_loader import SetObjects
from replay.matching.coarse import coarse_predicate
from replay.matching.rules import EquivalentResourceMapper, excluded_from_all
from replay.pipeline.manifests import SetFiles, manifests_of, set_files
from replay.pipeline.options import Options, microseconds, period
from replay.pipeline.project.focus import resolve_policy_names
from replay.pipeline.run import run_sets
from replay.pipeline.scenario import Scenario
from replay.reconstruct.cluster import Cluster


def promote(scenario: Scenario, name: str, options: Options, progress: Progress) -> PromotedPolicy:
    """Return the effects of promoting one policy of the baseline, by its name or a part of it.

    Without a set, the snapshot holds the policies in force. Raise ReplayError for unusable input, an unknown name, and
    a policy that cannot be promoted.
    """
    if is_by_workspace((scenario.current, scenario.cluster)):
        raise ReplayError("sets by workspace are not taken: `replay report` tells for each what can be enforced")
    is_in_snapshot = scenario.current is None and scenario.cluster is not None
    scenario = replace(scenario, candidate=None)
    files = SetFiles(SetObjects(), None) if is_in_snapshot else set_files(scenario)
    manifests = manifests_of(scenario, files)
    current = manifests.current
    if current is None or files is None:
        raise ReplayError("no baseline: give the manifests in force, or a snapshot that holds them", path="--current")
    discovery = Cluster(manifests.snapshot).discovery
    policy = _policy(current, name)
    if isinstance(policy, ValidatingAdmissionPolicy):
        bindings, criteria, rules = _bindings(current, policy), policy.match_constraints, frozenset({policy.name})
        planned = manifests.denying({"": frozenset({policy.name})})
        is_audited = any("Audit" in each.actions for each in bindings)
        untold = "" if is_audited else "warnings leave no trace in an audit log"
        called = policy.name
    else:
        called, rules = policy_name(policy), frozenset(policy_names(policy))
        engine = _engine_promotion(policy, called, discovery)
        bindings, criteria, untold = (
            (_engine_binding(current, policy, engine),),
            engine.criteria,
            engine.unlogged_reason,
        )
        planned = manifests_of(scenario, files._replace(added=(SetObjects(engine=(engine.promoted,)),)))
    asked = _AuditedRequests(called, criteria, discovery, excluded_from_all([current]), options)
    result = run_sets(scenario, planned, options, progress, asked.read)
    return PromotedPolicy(called, rules, bindings, asked.period, asked.selected, asked.recorded, result, untold)


class _AuditedRequests:
    """Facts that the log itself shows about a policy, filled from a store."""

    def __init__(
        self,
        name: str,
        criteria: MatchResources | None,
        discovery: Discovery,
        excluded: frozenset[GroupResource],
        options: Options,
    ) -> None:
        self._name, self._criteria, self._discovery = name, criteria, discovery
        self._excluded, self._options = excluded, options
        self.period, self.selected, self.recorded = Period(0, 0), 0, RecordedFailures()

    def read(self, store: Store) -> None:
        """Read the facts from a store, for the period of the options."""
        if not store.requests:
            raise AuditLogError("the store holds no request")
        focus = self._options.focus
        start, end = (microseconds(each) for each in period(store, focus.since, focus.until, focus.zone))
        self.period = Period(start, end + 1)
        store.prepare(decision_views())
        row = store.query("policy_failures", policy=self._name, start=start, end=end).row(0)
        self.recorded = RecordedFailures(*row)
        mapper = EquivalentResourceMapper(self._discovery)
        criteria = [] if self._criteria is None else [self._criteria]
        predicate = coarse_predicate(criteria, mapper, excluded=self._excluded)
        (self.selected,) = selected_counts(store, [predicate], self.period)


def _policy(current: ManifestSet, name: str) -> ValidatingAdmissionPolicy | JSON:
    """Return the policy of a name: a native one, or an engine's object, whose rules are parts of it."""
    by_name: dict[str, ValidatingAdmissionPolicy | JSON] = {
        policy_name(each): each for each in current.engine_objects if policy_names(each)
    }
    by_name |= {policy.name: policy for policy in current.of(ValidatingAdmissionPolicy)}
    names = resolve_policy_names(name, by_name, "POLICY")
    if len(names) > 1:
        raise ReplayError(f"`{name}` means {len(names)} policies: name one", path="POLICY")
    return by_name[names.pop()]


def _bindings(current: ManifestSet, policy: ValidatingAdmissionPolicy) -> tuple[PromotedBinding, ...]:
    """Return the bindings of a policy that do not deny. Raise ReplayError if there are none."""
    own = [each for each in current.of(ValidatingAdmissionPolicyBinding) if each.policy_name == policy.name]
    if not own:
        raise ReplayError(f"no binding of the baseline refers to `{policy.name}`: it does nothing today", path="POLICY")
    patch = {"spec": {"validationActions": ["Deny"]}}
    bindings = tuple(
        PromotedBinding(each.name, each.static, each.validation_actions, patch, current.origins.get(each.key))
        for each in own
        if "Deny" not in each.validation_actions
    )
    if not bindings:
        raise ReplayError(DENIES_ALREADY.format(policy.name), path="POLICY")
    return bindings


def _engine_promotion(policy: JSON, name: str, discovery: Discovery) -> EnginePromotion:
    """Return how to make an engine's policy deny. Raise ReplayError if nothing can be changed."""
    engine = next(each for each in ENGINES if is_of_engine(policy, each))
    promotion: EnginePromotion | str = function_of(engine.promotion)(policy, discovery)
    if isinstance(promotion, str):
        raise ReplayError(promotion.format(name), path="POLICY")
    return promotion


def _engine_binding(current: ManifestSet, policy: JSON, engine: EnginePromotion) -> PromotedBinding:
    metadata, kind = policy["metadata"], str(policy["kind"])
    group = str(policy["apiVersion"]).partition("/")[0]
    return PromotedBinding(
        str(metadata["name"]),
        static=False,
        actions=engine.actions,
        patch=engine.patch,
        origin=current.origins.get((kind, str(metadata["name"]))),
        resource=f"{kind.lower()}.{group}",
        namespace=str(metadata.get("namespace") or ""),
    )
