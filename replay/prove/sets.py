"""Proofs about two sets: each changed policy, and for each kind what all policies decide together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from replay.admission.chain import Chain
from replay.cellib.environment import ExpressionKind
from replay.cellib.expression import CompiledExpression, ExpressionCompiler
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

_KIND_OF_PATCH = {
    "ApplyConfiguration": ExpressionKind.APPLY_CONFIGURATION,
    "JSONPatch": ExpressionKind.JSON_PATCH,
}
NOTHING_PROVED = "nothing shows another patch, and of patches nothing is proved where the programs differ"


def prove_mutating(prover: Prover, current: ManifestSet, candidate: ManifestSet) -> Iterator[tuple[str, Proof]]:
    """Yield a claim for each changed mutating policy, by name."""
    current_policies = {each.name: each for each in current.mutating_policies}
    candidate_policies = {each.name: each for each in candidate.mutating_policies}
    for name in sorted(current_policies.keys() | candidate_policies.keys()):
        sides = [
            _single_policy_set(sets, policies.get(name))
            for sets, policies in ((current, current_policies), (candidate, candidate_policies))
        ]
        if sides[0] != sides[1]:
            yield name, _prove(prover, name, sides[0], sides[1])


def _single_policy_set(manifests: ManifestSet, policy: MutatingAdmissionPolicy | None) -> ManifestSet:
    """Return a set with one policy and its bindings."""
    if policy is None:
        return ManifestSet()
    bindings = tuple(each for each in manifests.mutating_bindings if each.policy_name == policy.name)
    return ManifestSet(mutating_policies=(policy,), mutating_bindings=bindings)


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
    if not manifests.mutating_policies:
        return None
    policy = manifests.mutating_policies[0]
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

    bindings = frozenset(
        (canonical(each.match_resources), canonical(each.param_ref)) for each in manifests.mutating_bindings
    )
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
    compiler = ExpressionCompiler(prover.settings.version, has_params=policy.param_kind is not None)
    for each in policy.variables:
        compiler.declare_variable(each.name, each.expression)
    conditions = [compiler.compile(ExpressionKind.MATCH_CONDITION, each.expression) for each in policy.match_conditions]
    mutations = [compiler.compile(_KIND_OF_PATCH[each.patch_type], each.expression) for each in policy.mutations]
    return compiler, conditions, mutations


def _hunt(prover: Prover, name: str, current: ManifestSet, candidate: ManifestSet, count: int) -> Witness | None:
    """Return a request that the two sets change differently, or that only one of them denies, or None."""
    units = [_as_validating(each) for each in (current, candidate) if each.mutating_policies]
    context = context_of(units, (), prover.discovery, prover.skeletons, prover.settings.version)
    for manifests in (current, candidate):
        for policy in manifests.mutating_policies:
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
    policy = manifests.mutating_policies[0]
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
