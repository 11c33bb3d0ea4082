"""What is true of the policies of one set by themselves: what they can never do, and what makes another one needless.

The answers have the form of proofs: a property holds within a bound, or a request shows that it does not, or it is not known.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from replay.kube.admissionregistration import FailurePolicy, ManifestSet, MatchCondition, Validation
from replay.prove.claim import Proof, Result
from replay.prove.normal.match import canonical
from replay.prove.prover import Prover
from replay.prove.unit import Pair, Unit, units_of

_NEVER = "false"
_ALWAYS = "true"


@dataclass(frozen=True, slots=True)
class Property:
    """Something about a policy; `proof` is the claim from which it follows."""

    name: str
    policy: str
    text: str
    proof: Proof
    is_warning: bool = True


def properties_of(prover: Prover, manifests: ManifestSet) -> Iterator[Property]:
    """All that is worth telling about the validating policies of a set."""
    units = [unit for unit in units_of(manifests).values() if unit.bindings]
    for unit in units:
        yield from _alone(prover, unit)
    for unit in units:
        yield from _beside(prover, unit, units)


def _alone(prover: Prover, unit: Unit) -> Iterator[Property]:
    """What one policy does whatever is asked."""
    name = unit.policy.name
    yield never_errors(prover, unit)
    denies = _prove(prover, unit, _with_validations(unit, _ALWAYS))
    if denies.result is Result.SAME:
        yield Property("never-denies", name, f"it never denies anything: {denies.text}", denies)
    everything = _prove(prover, unit, _with_validations(unit, _NEVER))
    if everything.result is Result.SAME and denies.result is not Result.SAME:
        yield Property("denies-everything", name, f"it denies all that it matches: {everything.text}", everything)
    for index, condition in enumerate(unit.policy.match_conditions):
        only = MatchCondition(condition.name, condition.expression)
        asked = replace(
            unit,
            policy=replace(
                unit.policy,
                match_conditions=(only,),
                failure_policy=FailurePolicy.IGNORE,
                validations=(Validation(_NEVER),),
                audit_annotations=(),
                variables=unit.policy.variables,
            ),
        )
        never = _prove(prover, asked, _with_validations(asked, _ALWAYS))
        if never.result is Result.SAME:
            text = f"its match condition `{condition.name or index}` is never true: {never.text}"
            yield Property("condition-never-true", name, text, never)


def never_errors(prover: Prover, unit: Unit) -> Property:
    """Whether some request makes an expression of a policy fail where that counts: then Fail and Ignore differ.

    A validation is asked for the type of its value alone, so that no denial by another one hides that it fails.
    """
    asked = tuple(Validation(f"type({each.expression}) == bool") for each in unit.policy.validations)
    one, other = (
        replace(unit, policy=replace(unit.policy, failure_policy=each, validations=asked))
        for each in (FailurePolicy.FAIL, FailurePolicy.IGNORE)
    )
    proof = _prove(prover, one, other)
    if proof.result is Result.SAME:
        return Property("never-errors", unit.policy.name, f"it never errors: {proof.text}", proof, is_warning=False)
    if proof.witnesses:
        return Property("errors", unit.policy.name, "a request makes it err", proof)
    return Property(
        "may-err", unit.policy.name, f"whether it errs is not known: {proof.reason}", proof, is_warning=False
    )


def _beside(prover: Prover, unit: Unit, units: Sequence[Unit]) -> Iterator[Property]:
    """Another policy that refuses whatever this one does."""
    for other in units:
        if other is unit or other.policy.match_constraints is None or not _may_imply(other, unit):
            continue
        proof = prover.prove(Pair(unit.policy.name, unit, other))
        if proof.result in {Result.SAME, Result.STRICTER}:
            text = f"{other.policy.name} refuses all that it refuses: {proof.text}"
            yield Property("dead-policy", unit.policy.name, text, proof)


def _may_imply(other: Unit, unit: Unit) -> bool:
    """Whether it is worth asking: the rules have a resource in common."""
    mine = {name for rule in unit.rules for name in rule.resources}
    return any(name in mine or name == "*" for rule in other.rules for name in rule.resources)


def _with_validations(unit: Unit, expression: str) -> Unit:
    """The same policy with one validation, and without errors of its own."""
    policy = replace(unit.policy, validations=(Validation(expression),), audit_annotations=())
    return replace(unit, policy=policy)


def _prove(prover: Prover, one: Unit, other: Unit) -> Proof:
    return prover.prove(Pair(one.policy.name, one, other))


def contradictions(prover: Prover, manifests: ManifestSet) -> Iterator[Property]:
    """Pairs of policies with the same match of which one refuses whatever the other lets pass."""
    units = [unit for unit in units_of(manifests).values() if unit.bindings]
    for index, one in enumerate(units):
        for other in units[index + 1 :]:
            both = _both(one, other)
            if both is None:
                continue
            proof = _prove(prover, both, _with_validations(both, _NEVER))
            alone = (_prove(prover, each, _with_validations(each, _NEVER)) for each in (one, other))
            if proof.result is Result.SAME and all(each.result is not Result.SAME for each in alone):
                text = f"with {other.policy.name} it lets nothing pass: {proof.text}"
                yield Property("contradiction", one.policy.name, text, proof)


def _bound(unit: Unit) -> set[object]:
    """What the bindings of a policy say, names apart."""
    return {
        (canonical(each.match_resources), canonical(each.param_ref), each.validation_actions) for each in unit.bindings
    }


def _both(one: Unit, other: Unit) -> Unit | None:
    """Two policies as one, where they match and fail alike and have no variables of one name."""
    first, second = one.policy, other.policy
    alike = (
        first.match_constraints == second.match_constraints
        and first.match_conditions == second.match_conditions
        and first.failure_policy == second.failure_policy
        and first.param_kind == second.param_kind
        and _bound(one) == _bound(other)
        and all("Deny" in each.validation_actions for each in one.bindings)
    )
    if not alike or {each.name for each in first.variables} & {each.name for each in second.variables}:
        return None
    policy = replace(
        first,
        variables=(*first.variables, *second.variables),
        validations=(*first.validations, *second.validations),
    )
    return replace(one, policy=policy)
