"""Context of a search for differences between policies, and the exact decision about one request."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from random import Random

from msgspec import Struct

from replay.admission.decision import Decision
from replay.admission.validating.outcome import VALIDATION_FAILURE_KEY
from replay.admission.validating.plugin import ValidatingAdmission
from replay.cellib.version import KubernetesVersion
from replay.errors import UNFORESEEN
from replay.kube.admissionregistration import LabelSelector, ManifestSet, MatchResources
from replay.kube.discovery import APIResource, Discovery
from replay.kube.gvk import GroupVersionKind, GroupVersionResource, split_api_version
from replay.prove.claim import EnforcementLevel
from replay.prove.normal import match_alike
from replay.prove.request import OneAnswer, SymbolicRequest, Target
from replay.prove.search.generator import Generator
from replay.prove.search.interest import InterestingValues, interest_of
from replay.prove.search.skeleton import ValidSkeletons
from replay.prove.search.target import (
    NAMESPACE,
    CustomResources,
    ParamSlot,
    matched_targets,
    slot_of,
    with_custom_kinds,
)
from replay.prove.unit import BoundPolicy, CompiledUnit, manifests_of


class JudgedVerdict(Struct, frozen=True):
    """Decision of a set about a request. `level` is None if it is undetermined."""

    level: EnforcementLevel | None
    messages: tuple[str, ...] = ()


class _WitnessJudge:
    """Exact decisions of several sets about the same requests."""

    def __init__(self, sets: Sequence[ManifestSet], version: KubernetesVersion, discovery: Discovery) -> None:
        """Prepare admission. Expressions are compiled when a request first needs them."""
        self._admission = ValidatingAdmission(sets, version, discovery, OneAnswer)
        self._count = len(sets)

    def levels(self, request: SymbolicRequest) -> list[EnforcementLevel | None]:
        """Return the action of each set for a request, None if undetermined."""
        return [verdict.level for verdict in self.verdicts(request)]

    def verdicts(self, request: SymbolicRequest) -> list[JudgedVerdict]:
        """Return the decision of each set for a request, with messages."""
        try:
            decisions = self._admission.decide(request.attributes(), request.lister())
        except UNFORESEEN:
            return [JudgedVerdict(None)] * self._count
        return [verdict_of(decision) for decision in decisions]


def verdict_of(decision: Decision) -> JudgedVerdict:
    """Return the strictest action of a decision."""
    if decision.undetermined:
        return JudgedVerdict(None)
    if decision.denials:
        return JudgedVerdict(EnforcementLevel.DENIED, tuple(each.message for each in decision.denials))
    if decision.warnings:
        return JudgedVerdict(EnforcementLevel.WARNED, decision.warnings)
    if VALIDATION_FAILURE_KEY in decision.audit_annotations:
        return JudgedVerdict(EnforcementLevel.AUDITED, (decision.audit_annotations[VALIDATION_FAILURE_KEY],))
    return JudgedVerdict(EnforcementLevel.ADMITTED)


class ProofContext(Struct):
    """Compiled policies, and what requests to them are generated from."""

    units: Sequence[BoundPolicy]
    compiled: Sequence[CompiledUnit]
    discovery: Discovery
    targets: Sequence[Target]
    interest: InterestingValues
    params: tuple[ParamSlot, ...]
    skeletons: ValidSkeletons
    version: KubernetesVersion
    judge: _WitnessJudge

    def generator(self, seed: str) -> Generator:
        """Return a generator of random requests. The same seed gives the same requests."""
        chooser = Random(seed)  # noqa: S311 - nothing depends on its being secret
        return Generator(self.interest, self.targets, self.skeletons, chooser, self.params)


def context_of(  # noqa: PLR0913 - what requests are made of
    units: Sequence[BoundPolicy],
    judged: Sequence[Iterable[BoundPolicy]],
    discovery: Discovery,
    skeletons: ValidSkeletons,
    version: KubernetesVersion,
    *,
    world: CustomResources | None = None,
) -> ProofContext:
    """Return the context of policies. `judged` are the sides that are decided, each a part of the policies."""
    compiled = [unit.compiled(version) for unit in units]
    discovery_with_params = _with_param_kinds(_with_requested_kinds(discovery, units, world), units)
    interest = interest_of(expression for unit in compiled for expression in unit.every)
    for section in (section for unit in units for section in unit.matches):
        _add_match(interest, section)
    targets = _matched(discovery_with_params, units)
    sets = [manifests_of(side) for side in judged]
    params = tuple(dict.fromkeys(_params(units, discovery_with_params)))
    return ProofContext(
        units,
        compiled,
        discovery_with_params,
        targets,
        interest,
        params,
        skeletons,
        version,
        _WitnessJudge(sets, version, discovery_with_params),
    )


def targets_of(units: Sequence[BoundPolicy], discovery: Discovery) -> list[Target]:
    """Return the targets that the policies may evaluate, by their rules."""
    return _matched(_with_requested_kinds(discovery, units), units)


def kinds_of(units: Sequence[BoundPolicy], discovery: Discovery) -> list[GroupVersionKind]:
    """Return the kinds that the policies may evaluate, in the order of the discovery."""
    return list(dict.fromkeys(target.kind for target in targets_of(units, discovery)))


def _with_requested_kinds(
    discovery: Discovery, units: Sequence[BoundPolicy], world: CustomResources | None = None
) -> Discovery:
    """Return the discovery with custom resources that the rules name or allow."""
    rules = [rule for unit in units for rule in unit.rules]
    apart = len(units) > 1 and not match_alike(units)
    return with_custom_kinds(discovery, rules, apart=apart, world=world)


def _matched(discovery: Discovery, units: Sequence[BoundPolicy]) -> list[Target]:
    return matched_targets(discovery, [unit.policy.match_constraints for unit in units])


def _params(units: Sequence[BoundPolicy], discovery: Discovery) -> Iterator[ParamSlot]:
    for unit in units:
        kind = unit.policy.param_kind
        if kind is not None:
            refs = [each.param_ref for each in unit.bindings if each.param_ref is not None]
            yield from (slot_of(kind, ref, discovery, NAMESPACE) for ref in refs)


def _with_param_kinds(discovery: Discovery, units: Sequence[BoundPolicy]) -> Discovery:
    """Return the discovery with a custom resource for each unknown kind of parameters."""
    param_resources = []
    for unit in units:
        kind = unit.policy.param_kind
        if kind is None:
            continue
        gvk = GroupVersionKind(*split_api_version(kind.api_version), kind.kind)
        if discovery.of_kind(gvk) is None:
            is_namespaced = any(each.param_ref and each.param_ref.namespace for each in unit.bindings)
            resource = GroupVersionResource(gvk.group, gvk.version, f"{gvk.kind.lower()}s")
            param_resources.append(APIResource(resource, gvk, is_namespaced, custom=True))
    return Discovery([*discovery, *param_resources]) if param_resources else discovery


def _add_match(interest: InterestingValues, section: MatchResources) -> None:
    """Add what selectors and names of a match section read."""
    for selector, root in ((section.namespace_selector, "namespaceObject"), (section.object_selector, "object")):
        for key, values in _requirements(selector):
            interest.paths.setdefault(root, set()).add(("metadata", "labels", key))
            if root == "object":
                interest.paths.setdefault("oldObject", set()).add(("metadata", "labels", key))
            else:
                # For a write of a Namespace the selector reads the labels of that object
                # (`Matcher.GetNamespaceLabels`).
                interest.paths.setdefault("object", set()).add(("metadata", "labels", key))
            # The server sets this label to the name of the namespace.
            if key == "kubernetes.io/metadata.name":
                interest.paths.setdefault("request", set()).add(("namespace",))
                key = "namespace"  # noqa: PLW2901
            for value in values:
                interest.by_field.setdefault(key, {})[value] = None
                interest.texts[value] = None
    for rule in (*section.resource_rules, *section.exclude_resource_rules):
        for name in rule.resource_names:
            interest.paths.setdefault("request", set()).add(("name",))
            interest.by_field.setdefault("name", {})[name] = None


def _requirements(selector: LabelSelector) -> Iterator[tuple[str, tuple[str, ...]]]:
    for key, value in selector.match_labels.items():
        yield key, (value,)
    for each in selector.match_expressions:
        yield each.key, each.values
