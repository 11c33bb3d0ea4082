"""Properties of the policies of one set: errors, impossible denials, redundant policies.

Each is a proof: the property holds within a bound, a request refutes it, or it is unknown.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

from msgspec import Struct
from msgspec.structs import replace

from replay.kube.admissionregistration import FailurePolicy, ManifestSet, MatchCondition, Validation
from replay.kube.gvk import GroupVersionKind
from replay.prove.claim import Comparison, Proof
from replay.prove.context import kinds_of
from replay.prove.prover import Prover
from replay.prove.unit import BoundPolicy, Pair, UnitPair, units_of

_NEVER = "false"
_ALWAYS = "true"
_IMPLIED = frozenset({Comparison.SAME, Comparison.STRICTER})
_MOST_KINDS = 10


class Property(Struct, frozen=True):
    """Property of a policy. `proof` is the claim from which it follows."""

    name: str
    policy: str
    text: str
    proof: Proof
    is_warning: bool = True


def properties_of(prover: Prover, manifests: ManifestSet) -> Iterator[Property]:
    """Yield all properties of a set's validating policies that are worth reporting."""
    units = [unit for unit in units_of(manifests).values() if unit.bindings]
    for unit in units:
        yield never_errors(prover, unit)
        yield from _denial_properties(prover, unit)
        yield from _conditions(prover, unit)
    for unit in units:
        yield from _redundant(prover, unit, units)
    yield from _contradictions(prover, units)


def errors_of(prover: Prover, manifests: ManifestSet) -> Iterator[Property]:
    """Yield for each validating policy whether it can fail with an error."""
    yield from (never_errors(prover, unit) for unit in units_of(manifests).values() if unit.bindings)


def _denial_properties(prover: Prover, unit: BoundPolicy) -> Iterator[Property]:
    """Yield whether a policy never denies, or denies everything that it matches, overall or for some kinds."""
    extreme = _nothing_or_everything(prover, unit, None)
    if extreme is not None:
        yield extreme
        return
    kinds = kinds_of([unit], prover.discovery)
    if 1 < len(kinds) <= _MOST_KINDS:
        by_kind = (_nothing_or_everything(prover, unit, kind) for kind in kinds)
        yield from (each for each in by_kind if each is not None)


def _nothing_or_everything(prover: Prover, unit: BoundPolicy, kind: GroupVersionKind | None) -> Property | None:
    name = unit.policy.name
    what = "" if kind is None else f" of {kind.kind}"
    denies = _same(prover, (unit,), _with_validations(unit, _ALWAYS), kind)
    if denies.result is Comparison.SAME:
        return Property("never-denies", name, f"it never denies anything{what}: {denies.text}", denies)
    everything = _same(prover, (unit,), _with_validations(unit, _NEVER), kind)
    if everything.result is Comparison.SAME:
        text = f"it denies all{what} that it matches: {everything.text}"
        return Property("denies-everything", name, text, everything)
    return None


def _conditions(prover: Prover, unit: BoundPolicy) -> Iterator[Property]:
    """Yield the match conditions that are never true."""
    for index, condition in enumerate(unit.policy.match_conditions):
        policy = replace(
            unit.policy,
            match_conditions=(MatchCondition(condition.name, condition.expression),),
            # With Fail a condition that fails would deny as if it were true.
            failure_policy=FailurePolicy.IGNORE,
            validations=(Validation(_NEVER),),
            audit_annotations=(),
        )
        conditions_only = replace(unit, policy=policy)
        never = _same(prover, (conditions_only,), _with_validations(conditions_only, _ALWAYS))
        if never.result is Comparison.SAME:
            text = f"its match condition `{condition.name or index}` is never true: {never.text}"
            yield Property("condition-never-true", unit.policy.name, text, never)


def never_errors(prover: Prover, unit: BoundPolicy) -> Property:
    """Return whether some request makes an expression fail so that Fail and Ignore differ.

    Only the type of a validation's value matters here, so a denial by another validation cannot hide its failure.
    """
    boolean_checks = tuple(Validation(f"type({each.expression}) == bool") for each in unit.policy.validations)
    one, other = (
        replace(unit, policy=replace(unit.policy, failure_policy=each, validations=boolean_checks))
        for each in (FailurePolicy.FAIL, FailurePolicy.IGNORE)
    )
    proof = prover.prove(Pair(one.policy.name, one, other))
    if proof.result is Comparison.SAME:
        return Property("never-errors", unit.policy.name, f"it never errors: {proof.text}", proof, is_warning=False)
    if proof.witnesses:
        return Property("errors", unit.policy.name, "a request makes it err", proof)
    return Property(
        "may-err", unit.policy.name, f"whether it errs is not known: {proof.reason}", proof, is_warning=False
    )


def _redundant(prover: Prover, unit: BoundPolicy, units: Sequence[BoundPolicy]) -> Iterator[Property]:
    """Yield a property for each other policy that denies everything that this policy denies."""
    for other in units:
        if other is unit or other.policy.match_constraints is None or not _may_imply(other, unit):
            continue
        sides = UnitPair(unit.policy.name, (unit,), (other,))
        proof = prover.prove_sides(sides, comparisons=_IMPLIED)
        if proof.result in _IMPLIED:
            text = f"{other.policy.name} refuses all that it refuses: {proof.text}"
            yield Property("dead-policy", unit.policy.name, text, proof)


def _may_imply(other: BoundPolicy, unit: BoundPolicy) -> bool:
    """Return whether two policies have a resource in common, so that one may imply the other."""
    mine = {name for rule in unit.rules for name in rule.resources}
    return any(name in mine or name == "*" for rule in other.rules for name in rule.resources)


def _with_validations(unit: BoundPolicy, expression: str) -> BoundPolicy:
    """Return the policy with a single validation, and without audit annotations."""
    policy = replace(unit.policy, validations=(Validation(expression),), audit_annotations=())
    return replace(unit, policy=policy)


def _same(
    prover: Prover, current: tuple[BoundPolicy, ...], other: BoundPolicy, kind: GroupVersionKind | None = None
) -> Proof:
    """Return the claim that policies decide like another one. The search ends once a request shows that they do not."""
    sides = UnitPair(other.policy.name, current, (other,), kind)
    return prover.prove_sides(sides, comparisons=frozenset({Comparison.SAME}))


def _contradictions(prover: Prover, units: Sequence[BoundPolicy]) -> Iterator[Property]:
    """Yield pairs of policies that together allow nothing, by the kinds that both match."""
    denying = [unit for unit in units if all("Deny" in each.validation_actions for each in unit.bindings)]
    kinds = {unit.policy.name: kinds_of([unit], prover.discovery) for unit in denying}
    for one, other in combinations(denying, 2):
        shared = [kind for kind in kinds[one.policy.name] if kind in kinds[other.policy.name]]
        for kind in shared[:_MOST_KINDS]:
            nothing = _with_validations(one, _NEVER)
            together = _same(prover, (one, other), nothing, kind)
            if together.result is not Comparison.SAME:
                continue
            # A policy that alone denies everything is reported by itself.
            alone = (_same(prover, (each,), _with_validations(each, _NEVER), kind) for each in (one, other))
            if all(each.result is not Comparison.SAME for each in alone):
                text = f"with {other.policy.name} it lets nothing of {kind.kind} pass: {together.text}"
                yield Property("contradiction", one.policy.name, text, together)
