"""Proofs about two sets: each changed policy, and for each kind what all policies decide together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from replay.admission.chain import Chain
from replay.cellib.environment import ExpressionKind
from replay.cellib.expression import CompiledExpression, ExpressionCompiler
from replay.cellib.policy import PATCH_KINDS, compiler_of
from replay.cellib.version import KubernetesVersion
from replay.errors import UNFORESEEN
from replay.json import JSON
from replay.kube.admissionregistration import (
    MUTATING_POLICY,
    VALIDATING_POLICY,
    ManifestSet,
    MutatingAdmissionPolicy,
    ValidatingAdmissionPolicy,
)
from replay.kube.attributes import Operation
from replay.kube.gvk import GroupVersionKind
from replay.prove.claim import UNBOUNDED, Comparison, EnforcementLevel, Proof, Witness
from replay.prove.context import context_of, kinds_of
from replay.prove.normal import canonical, normal_form
from replay.prove.prover import Prover, proving
from replay.prove.request import OneAnswer, SymbolicRequest
from replay.prove.unit import BoundPolicy, UnitPair, pairs_of

if TYPE_CHECKING:
    from replay.prove.prover import Prover


# Claims about mutating policies: equal programs make equal patches, otherwise requests are tried.
# Formulas do not cover patches. If no request shows a difference, the claim is unknown.

NOTHING_PROVED = "nothing shows another patch, and of patches nothing is proved where the programs differ"


def prove_mutating(prover: Prover, current: ManifestSet, candidate: ManifestSet) -> Iterator[tuple[str, Proof]]:
    """Yield a claim for each changed mutating policy, by name."""
    before, after = (_single_policy_sets(each) for each in (current, candidate))
    for name in sorted(before.keys() | after.keys()):
        sides = before.get(name, ManifestSet()), after.get(name, ManifestSet())
        if sides[0] != sides[1]:
            yield name, _prove(prover, name, *sides)


def _single_policy_sets(manifests: ManifestSet) -> dict[str, ManifestSet]:
    """Return a set for each mutating policy with its bindings, by name."""
    bound = manifests.bound_policies(MutatingAdmissionPolicy)
    return {policy.name: ManifestSet((policy, *bindings)) for policy, bindings in bound}


def _prove(prover: Prover, name: str, current: ManifestSet, candidate: ManifestSet) -> Proof:
    settings = prover.settings
    is_same = _form(prover, current) == _form(prover, candidate)
    witness = _hunt(prover, name, current, candidate, settings.attacks if is_same else settings.tries * 2)
    if witness is not None:
        # No patch is stricter than another, so a difference counts both ways.
        return Proof(Comparison.BOTH, UNBOUNDED, (witness,), "the patches differ")
    return Proof(Comparison.SAME) if is_same else Proof(Comparison.UNKNOWN, reason=NOTHING_PROVED)


def _form(prover: Prover, manifests: ManifestSet) -> object:
    """Return the normal form of a set with one policy, without names."""
    policies = manifests.of(MutatingAdmissionPolicy)
    if not policies:
        return None
    policy = policies[0]
    compiler, conditions, mutations = _compiled(prover, policy)
    variable_numbers: dict[str, object] = {}

    def variable(name: str) -> tuple[object, ...] | None:
        compiled = compiler.variables.get(name)
        if compiled is None or compiled.program is None:
            return None
        if name not in variable_numbers:
            variable_numbers[name] = None  # one that reads itself stands for itself
            variable_numbers[name] = normal_form(compiled.program.ast, variable).root
        number = variable_numbers[name]
        return number if isinstance(number, tuple) else None

    def form(each: CompiledExpression) -> object:
        return ("error", each.expression) if each.program is None else normal_form(each.program.ast, variable).root

    bindings = frozenset((canonical(each.match_resources), canonical(each.param_ref)) for each in manifests.bindings)
    return (
        policy.failure_policy,
        policy.reinvocation_policy,
        canonical(policy.match_constraints),
        canonical(policy.param_kind),
        frozenset(form(each) for each in conditions),
        tuple((each.kind, form(each)) for each in mutations),
        bindings,
    )


def _compiled(
    prover: Prover, policy: MutatingAdmissionPolicy
) -> tuple[ExpressionCompiler, list[CompiledExpression], list[CompiledExpression]]:
    compiler = compiler_of(policy, prover.settings.version)
    conditions = [compiler.compile(ExpressionKind.MATCH_CONDITION, each.expression) for each in policy.match_conditions]
    mutations = [compiler.compile(PATCH_KINDS[each.patch_type], each.expression) for each in policy.mutations]
    return compiler, conditions, mutations


def _hunt(prover: Prover, name: str, current: ManifestSet, candidate: ManifestSet, count: int) -> Witness | None:
    """Return a request that the two sets change differently, or that only one of them denies, or None."""
    units = [_as_validating(each) for each in (current, candidate) if each.of(MutatingAdmissionPolicy)]
    context = context_of(units, (), prover.discovery, prover.skeletons, prover.settings.version)
    for manifests in (current, candidate):
        for policy in manifests.of(MutatingAdmissionPolicy):
            compiler, _, mutations = _compiled(prover, policy)
            for each in (*mutations, *compiler.variables.values()):
                for path in each.footprint:
                    context.interest.add_path(path)
    chain = Chain(
        (current, candidate),
        prover.settings.version,
        context.discovery,
        prover.skeletons.schemas,
        authorizer=OneAnswer,
    )
    changing = {Operation.CREATE, Operation.UPDATE}
    context.targets = [each for each in context.targets if each.operation in changing]
    if not context.targets:
        return None
    for request in context.generator(f"{name} patches").requests(count):
        difference = _compare(chain, request)
        if difference is not None:
            return difference
    return None


def _as_validating(manifests: ManifestSet) -> BoundPolicy:
    """Return a validating policy with the match criteria and variables of a mutating policy."""
    policy = manifests.of(MutatingAdmissionPolicy)[0]
    return BoundPolicy(
        ValidatingAdmissionPolicy(
            name=policy.name,
            static=policy.static,
            failure_policy=policy.failure_policy,
            match_constraints=policy.match_constraints,
            param_kind=policy.param_kind,
            match_conditions=policy.match_conditions,
            variables=policy.variables,
        ),
        (),
    )


def _compare(chain: Chain, request: SymbolicRequest) -> Witness | None:
    attributes, lister = request.attributes(), request.lister()
    try:
        decisions = chain.decide(attributes, attributes, lister)
    except UNFORESEEN:
        return None
    if any(each.undetermined for each in decisions):
        return None
    patches: list[JSON] = [list(each.patch) for each in decisions]
    levels = [EnforcementLevel.DENIED if each.denials else EnforcementLevel.ADMITTED for each in decisions]
    if patches[0] == patches[1] and levels[0] == levels[1]:
        return None
    messages = [tuple(denial.message for denial in each.denials) for each in decisions]
    shown = {"current": patches[0], "candidate": patches[1]}
    return replace(Witness(request, levels[0], levels[1], messages[0], messages[1]), patches=shown)


_MOST_KINDS = 20


class PolicyProof(Struct, frozen=True):
    """Claim about one policy. `new_name` is set if it has another name in the candidate."""

    kind: str
    name: str
    proof: Proof
    new_name: str = ""
    is_added: bool = False
    is_removed: bool = False
    is_changed: bool = True


class KindProof(Struct, frozen=True):
    """Claim about the requests of one kind, decided by all validating policies of a set together."""

    kind: GroupVersionKind
    proof: Proof


class SetProof(Struct, frozen=True):
    """Claims about two sets: policy by policy, and by kind for kinds that a changed policy matches."""

    policies: tuple[PolicyProof, ...]
    kinds: tuple[KindProof, ...]


def prove_sets(current: ManifestSet, candidate: ManifestSet, version: KubernetesVersion) -> SetProof:
    """Return all claims about two sets."""
    with proving(version) as prover:
        policies = tuple(prove_policies(prover, current, candidate))
        return SetProof(policies, tuple(prove_kinds(prover, current, candidate, policies)))


def prove_policies(prover: Prover, current: ManifestSet, candidate: ManifestSet) -> Iterator[PolicyProof]:
    """Yield a claim for each validating policy, and for each changed mutating policy, by kind and name."""
    for pair in pairs_of(current, candidate):
        if not pair.is_changed:
            yield PolicyProof(VALIDATING_POLICY, pair.name, Proof(Comparison.SAME), is_changed=False)
            continue
        proof = prover.prove(pair)
        yield PolicyProof(
            VALIDATING_POLICY,
            pair.name,
            proof,
            pair.new_name,
            is_added=pair.current is None,
            is_removed=pair.candidate is None,
        )
    yield from (PolicyProof(MUTATING_POLICY, *each) for each in prove_mutating(prover, current, candidate))


def prove_kinds(
    prover: Prover, current: ManifestSet, candidate: ManifestSet, proofs: Sequence[PolicyProof]
) -> Iterator[KindProof]:
    """Yield a claim for each kind that a changed validating policy matches. `proofs` are the claims about the policies.

    For more than `_MOST_KINDS` kinds no formulas are built. Requests and the claims about policies must suffice.
    """
    pairs = pairs_of(current, candidate)
    proofs_by_name = {each.name: each.proof for each in proofs if each.kind == VALIDATING_POLICY}
    kinds_by_name = {pair.name: kinds_of(pair.sides.units, prover.discovery) for pair in pairs}
    kinds = dict.fromkeys(kind for pair in pairs if pair.is_changed for kind in kinds_by_name[pair.name])
    for kind in kinds:
        here = [pair for pair in pairs if kind in kinds_by_name[pair.name]]
        sides = UnitPair(
            f"{kind.kind} {kind.group}",
            tuple(pair.current for pair in here if pair.current is not None),
            tuple(pair.candidate for pair in here if pair.candidate is not None),
            kind,
        )
        claims = [proofs_by_name[pair.name] for pair in here if pair.is_changed]
        yield KindProof(kind, prover.prove_sides(sides, claims, by_trying=len(kinds) > _MOST_KINDS))
