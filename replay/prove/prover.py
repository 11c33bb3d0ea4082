"""Claims about changed policies: a search finds requests, formulas exclude them, more requests test the claim."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from msgspec import Struct

from replay.admission.inputs import BUDGET as MATCH_CONDITIONS_BUDGET
from replay.admission.validating.evaluation import RUNTIME_BUDGET
from replay.cel.ast import operator
from replay.cel.ast.tree import Call
from replay.cel.ast.walk import descendants
from replay.cel.declare.cost import Range
from replay.cellib.environment import PER_CALL_LIMIT
from replay.cellib.expression import CompiledExpression
from replay.cellib.version import NEWEST, KubernetesVersion
from replay.distribution import install_command
from replay.errors import UNFORESEEN
from replay.kube.admissionregistration import FailurePolicy
from replay.kube.discovery import Discovery, builtin_discovery
from replay.kube.schema import Schema
from replay.matching.matcher import Matcher
from replay.matching.rules import EquivalentResourceMapper
from replay.prove.claim import UNBOUNDED, ClaimBound, Comparison, Proof, Witness
from replay.prove.context import ProofContext, context_of
from replay.prove.normal import NormalPolicy, match_alike, normal_policy
from replay.prove.request import SymbolicRequest, Target
from replay.prove.search.generator import settled
from replay.prove.search.hunt import Direction, ProofState, WitnessSearch, hunt
from replay.prove.search.skeleton import ValidSkeletons, builtin_skeletons
from replay.prove.search.target import CustomResources, worlds_of
from replay.prove.symbolic import term
from replay.prove.symbolic.difference import Formulas, formulas_of, is_consistent, solutions
from replay.prove.symbolic.policy_model import (
    OrderError,
    PolicyModel,
    UnmodelledError,
    require_covered,
    resources_seen_as,
)
from replay.prove.symbolic.request_model import ModelTarget, RequestModel
from replay.prove.symbolic.solver import Satisfiability, Solver, is_available
from replay.prove.unit import BoundPolicy, CompiledUnit, Pair, UnitPair
from replay.prove.witness import minimal, witness_of

ANY = 3 * 1024 * 1024
"""Limit for the size of any value: the API server reads no larger body (`MaxRequestBodyBytes`)."""
_SIZES = (ANY, 1_000_000, 300_000, 100_000, 30_000, 10_000, 3_000, 1_000, 300, 100, 30)
_GROWING = frozenset({"join", "format", "replace", "flatten", "lists.range", "quote"})
"""Functions whose result can be much larger than their arguments. If a variable calls one, no size is certain."""


def affordable_size(units: Sequence[BoundPolicy], compiled: Sequence[CompiledUnit]) -> int | None:
    """Return the largest size of texts, lists and maps for which no expression exceeds its budget, or None.

    It uses the cost estimates before evaluation (cel-go `checker/cost.go`). The limits per expression and per policy
    are those of `apiserver/pkg/apis/cel/config.go`.
    """
    every = tuple(zip((unit.policy.failure_policy for unit in units), compiled, strict=True))
    return next((size for size in _SIZES if all(_is_affordable(unit, size, policy) for policy, unit in every)), None)


def _is_affordable(unit: CompiledUnit, size: int, policy: FailurePolicy) -> bool:
    variables = tuple(unit.compiler.variables.values())
    nodes = [node for each in variables if each.program is not None for node in descendants(each.program.ast.expr)]
    calls = [node for node in nodes if isinstance(node, Call)]
    if any(call.function in _GROWING for call in calls):
        return False
    # A variable may hold some lists or texts one behind the other, and be joined to others in turn.
    assumed = Range(0, min(size, ANY) * 2 ** sum(call.function == operator.ADD for call in calls))
    # With Fail a message that cannot be paid for denies what is denied anyway.
    messages = unit.messages if policy is FailurePolicy.IGNORE else ()
    evaluated = (*variables, *unit.validations, *messages, *unit.audit_annotations)
    costs, conditions = _costs(evaluated, assumed), _costs(unit.match_conditions, assumed)
    return (
        all(cost <= PER_CALL_LIMIT for cost in (*costs, *conditions))
        and sum(costs) <= RUNTIME_BUDGET
        and sum(conditions) <= MATCH_CONDITIONS_BUDGET
    )


def _costs(expressions: Sequence[CompiledExpression], assumed: Range) -> list[int]:
    return [each.program.estimated_cost(assumed).most for each in expressions if each.program is not None]


_MOST_KINDS = 14
_MOST_SOLUTIONS = 4
_MOST_KINDS_TRIED = 8
_MOST_OPEN = 3
_MOST_WORLDS = 14
UNBOUND = "no binding names it, so that it decides nothing"
NO_SOLVER = f"z3 is not installed ({install_command('prove')}), and trying requests shows no difference"


class Settings(Struct, frozen=True):
    """Limits of a proof: bounds for lists and maps, numbers of requests to try, seconds per question to the solver."""

    items: int = 2
    keys: int = 2
    tries: int = 400
    attacks: int = 1500
    seconds: float = 10.0
    version: KubernetesVersion = NEWEST


@contextmanager
def proving(version: KubernetesVersion) -> Iterator[Prover]:
    """Provide a prover for a version, and end its solver afterwards."""
    prover = Prover(Settings(version=version))
    try:
        yield prover
    finally:
        prover.close()


class Prover:
    """Prover for pairs of policies. It holds the solver's process."""

    def __init__(
        self,
        settings: Settings | None = None,
        discovery: Discovery | None = None,
        skeletons: ValidSkeletons | None = None,
    ) -> None:
        """Prepare a prover. Without arguments it knows only the API of Kubernetes 1.37."""
        self.settings = settings or Settings()
        self.discovery = discovery or builtin_discovery()
        self.skeletons = skeletons or builtin_skeletons()
        self.solver = Solver(self.settings.seconds)

    def close(self) -> None:
        """End the solver's process."""
        self.solver.close()

    def prove(self, pair: Pair) -> Proof:
        """Return the claim about one pair."""
        if not any(unit.bindings or unit.policy.match_constraints is None for unit in pair.sides.units):
            return Proof(Comparison.SAME, reason=UNBOUND)
        return self.prove_sides(pair.sides)

    def prove_sides(
        self,
        sides: UnitPair,
        kind_proofs: Iterable[Proof] | None = None,
        *,
        by_trying: bool = False,
        comparisons: frozenset[Comparison] = frozenset(Comparison),
    ) -> Proof:
        """Return the claim about what two sides decide together.

        `by_trying` omits formulas. The search ends once a request shows that the claim is none of `comparisons`.
        `kind_proofs` are claims about each single difference: what all of them exclude is excluded for the whole,
        because the strictest of stricter decisions is stricter.
        """
        term.forget()
        context = self._context(sides)
        state = ProofState()
        one, other = (self._normal(side) for side in (sides.current, sides.candidate))
        # Equal normal forms decide alike, which needs no formulas. Only costs can still differ.
        is_same = one.keys() == other.keys()
        if is_same:
            state.stricter.is_excluded = state.looser.is_excluded = True
        else:
            if kind_proofs is not None:
                state.exclude(kind_proofs)
            state.take(hunt(context, self.settings.tries, f"{sides.name} tries"))
            if not state.may_be(comparisons):
                return self._claim(context, state)
            if by_trying:
                state.leave_open("there are too many kinds to make formulas for each")
            elif state.is_open:
                self._exclude(sides, context, state)
        if any(each.is_excluded for each in (state.stricter, state.looser)):
            # The same expressions as written cost the same on every request.
            if one != other:
                state.bound = state.bound.merge(_cost_bound(context))
            # More requests test the exclusion. A request that refutes it overrides it.
            count = self.settings.tries if is_same else self.settings.attacks
            state.take(hunt(context, count, f"{sides.name} attack"))
        return self._claim(context, state)

    def _context(self, sides: UnitPair, world: CustomResources | None = None) -> ProofContext:
        judged = (sides.current, sides.candidate)
        context = context_of(sides.units, judged, self.discovery, self.skeletons, self.settings.version, world=world)
        if sides.kind is not None:
            context.targets = [each for each in context.targets if each.kind == sides.kind]
        return context

    def _normal(self, side: Iterable[BoundPolicy]) -> dict[NormalPolicy, set[Any]]:
        """Return the normal forms of policies, each with its written forms, which determine costs."""
        policies_by_form: dict[NormalPolicy, set[Any]] = {}
        for unit in side:
            form = normal_policy(unit, self.settings.version)
            policies_by_form.setdefault(form, set()).add(form.written)
        return policies_by_form

    def _exclude(self, sides: UnitPair, context: ProofContext, state: ProofState) -> None:
        """Ask the solver about the directions that trying left open."""
        if not is_available():
            state.leave_open(NO_SOLVER)
            return
        try:
            require_covered(sides.units)
            # Policies that match alike see each request alike, whichever versions a custom resource has.
            worlds = () if match_alike(sides.units) else tuple(self._worlds(sides))
            if not worlds:
                _Search(self, sides, context).run(state)
            else:
                self._exclude_in([self._context(sides, world) for world in (None, *worlds)], sides, state)
        except UnmodelledError as error:
            state.leave_open(str(error))
        except UNFORESEEN as error:
            state.leave_open(f"formulas cannot be made of it ({type(error).__name__})")

    def _worlds(self, sides: UnitPair) -> Iterator[CustomResources]:
        worlds = tuple(worlds_of(self.discovery, [rule for unit in sides.units for rule in unit.rules]))
        if len(worlds) > _MOST_WORLDS:
            raise UnmodelledError("rules differ, and tell many versions of custom resources apart")
        yield from worlds

    def _exclude_in(self, contexts: Iterable[ProofContext], sides: UnitPair, state: ProofState) -> None:
        """Exclude directions for built-in kinds and for custom kinds.

        Rules can distinguish several possible worlds of custom resources. A direction is excluded only if every world
        excludes it.
        """
        results = []
        for index, context in enumerate(contexts):
            context.targets = [each for each in context.targets if self._is_custom(each) == bool(index)]
            if not context.targets:
                continue
            here = state.for_part()
            here.take(hunt(context, self.settings.tries // 4, f"{sides.name} {index}"))
            if here.is_open:
                _Search(self, sides, context).run(here)
            results.append(here)
        state.meet(results)

    def _is_custom(self, target: Target) -> bool:
        return all(each.resource.group != target.resource.group for each in self.discovery if not each.custom)

    def _claim(self, context: ProofContext, state: ProofState) -> Proof:
        witnesses = tuple(
            self._witness(context, direction.witness)
            for direction in (state.stricter, state.looser)
            if direction.witness is not None
        )
        stricter, looser = state.stricter, state.looser
        # A request that shows a difference is one without any bound. Only exclusions have bounds.
        bound = state.bound if stricter.is_excluded or looser.is_excluded else UNBOUNDED
        if stricter.witness is not None and looser.witness is not None:
            return Proof(Comparison.BOTH, UNBOUNDED, witnesses)
        if stricter.is_excluded and looser.is_excluded:
            return Proof(Comparison.SAME, bound)
        if stricter.witness is not None and looser.is_excluded:
            return Proof(Comparison.STRICTER, bound, witnesses)
        if looser.witness is not None and stricter.is_excluded:
            return Proof(Comparison.LOOSER, bound, witnesses)
        return Proof(Comparison.UNKNOWN, UNBOUNDED, witnesses, _reason(stricter, looser))

    def _witness(self, context: ProofContext, request: SymbolicRequest) -> Witness:
        levels = context.judge.levels(request)
        skeletons, params = self.skeletons, context.params

        def shows(smaller: SymbolicRequest) -> SymbolicRequest | None:
            candidate = settled(smaller, skeletons, params)
            return candidate if candidate is not None and context.judge.levels(candidate) == levels else None

        least = context.generator("least").least(request.target)
        small = minimal(request, shows, least)
        return witness_of(context, small, least)


def _cost_bound(context: ProofContext) -> ClaimBound:
    """Return the bound within which no evaluation exceeds its cost budget."""
    size = affordable_size(context.units, context.compiled)
    return ClaimBound(within_cost=True) if size is None else ClaimBound(sizes=None if size >= ANY else size)


def _reason(stricter: Direction, looser: Direction) -> str:
    parts = []
    for name, direction in (("denies more", stricter), ("denies less", looser)):
        if direction.witness is not None:
            parts.append(f"it {name} somewhere")
        elif not direction.is_excluded:
            parts.append(f"whether it {name} is open ({direction.reason or 'nothing shows it'})")
    return "; ".join(parts)


class _Search:
    """Solver's part of one proof."""

    def __init__(self, prover: Prover, sides: UnitPair, context: ProofContext) -> None:
        self._prover = prover
        self._sides = sides
        self._context = context
        self._generator = context.generator("base")
        builtin = {each.resource.group for each in prover.discovery if not each.custom}
        self._builtin = builtin
        self._matcher = Matcher(EquivalentResourceMapper(context.discovery))
        self._targets = [self._model_target(target) for target in context.targets]

    def _model_target(self, target: Target) -> ModelTarget:
        """Return the target for formulas. It is open if its resource is custom or is matched in another version.

        All policies must match it in the same version.
        """
        constraints = (unit.policy.match_constraints for unit in self._context.units)
        met = resources_seen_as(self._matcher, (each for each in constraints if each is not None), target)
        if len(met) > 1:
            raise UnmodelledError(f"{target} is met in different versions")
        is_converted = bool(met) and met != {target.resource}
        return ModelTarget(target, is_converted or target.resource.group not in self._builtin)

    def run(self, state: ProofState) -> None:
        """Search all targets together without types, then kind by kind."""
        if not self._targets:
            state.leave_open("no resource that is known is matched")
            return
        groups = list(self._by_kind())
        # With more kinds only some are asked, which can find a request but exclude nothing.
        covers = len(groups) <= _MOST_KINDS
        try:
            formulas = self._formulas(self._targets, None, is_struct=None)
        except OrderError:  # what may be a map where nothing is known of the types may be a list by its type
            if not covers:
                raise
        else:
            # Without types the formulas allow more than real requests, so what they exclude is excluded for every kind.
            self._ask(state, [formulas], excludes=True, most=1 if covers else _MOST_SOLUTIONS)
        if not state.is_open:
            return
        typed = (self._formulas(*group) for group in groups[: _MOST_KINDS if covers else _MOST_KINDS_TRIED])
        self._ask(state, typed, excludes=covers, most=_MOST_SOLUTIONS)

    def _by_kind(self) -> Iterator[tuple[Sequence[ModelTarget], Schema | None, bool | None]]:
        kinds = dict.fromkeys(each.target.kind for each in self._targets)
        for kind in kinds:
            targets = [each for each in self._targets if each.target.kind == kind]
            is_open = any(each.is_open for each in targets)
            is_struct = None if is_open and kind.group in self._builtin else kind.group in self._builtin
            schema = self._prover.skeletons.schemas.for_kind(kind) if is_struct else None
            yield targets, schema, is_struct

    def _formulas(self, targets: Sequence[ModelTarget], schema: Schema | None, is_struct: bool | None) -> Formulas:
        settings = self._prover.settings
        return formulas_of(
            self._context, self._build, targets, schema, (settings.items, settings.keys), is_struct=is_struct
        )

    def _build(self, model: RequestModel, matcher: Matcher) -> tuple[list[PolicyModel], list[PolicyModel]]:
        compiled = iter(self._context.compiled)
        current, candidate = (
            [PolicyModel(unit, next(compiled), model, matcher, self._context.discovery) for unit in side]
            for side in (self._sides.current, self._sides.candidate)
        )
        return current, candidate

    def _ask(self, state: ProofState, every: object, *, excludes: bool, most: int) -> None:
        """Ask about both directions of the formulas. A direction that no formulas allow is excluded."""
        formulas_list = list(every)  # type: ignore[call-overload]  # formulas, one after another
        for direction, pick in ((state.stricter, _stricter), (state.looser, _looser)):
            if direction.witness is not None or direction.is_excluded:
                continue
            answers = []
            for formulas in formulas_list:
                answers.append(self._ask_one(state, direction, formulas, pick(formulas), most))
                # Each question may take its whole time limit, so that a few open ones end the search.
                open_kinds = sum(answer is Satisfiability.UNKNOWN for answer in answers)
                if direction.witness is not None or open_kinds >= _MOST_OPEN:
                    break
            if (
                direction.witness is None
                and excludes
                and all(answer is Satisfiability.UNSATISFIABLE for answer in answers)
            ):
                # Contradictory facts would exclude everything, so some request must satisfy the facts.
                if not all(is_consistent(self._prover.solver, formulas) for formulas in formulas_list):
                    direction.reason = "what is known of requests excludes itself"
                    continue
                direction.is_excluded = True
                for formulas in formulas_list:
                    state.bound = state.bound.merge(formulas.bound)

    def _ask_one(
        self, state: ProofState, direction: Direction, formulas: Formulas, comparison: term.Term, most: int
    ) -> Satisfiability:
        targets = [each.target for each in formulas.model.targets]
        answer = Satisfiability.UNKNOWN

        def base(index: int) -> SymbolicRequest:
            return self._generator.least(targets[index])

        for each in solutions(self._prover.solver, formulas, comparison, self._context, base=base, most=most):
            if isinstance(each, Satisfiability):
                answer = each
                continue
            self._try(state, each)
            if direction.witness is not None:
                break
        if answer is Satisfiability.UNKNOWN and direction.witness is None:
            direction.reason = "no solution of the formulas is a request that shows it"
        return answer

    def _try(self, state: ProofState, request: SymbolicRequest) -> None:
        """Try a solution and changes of it."""
        search = WitnessSearch()
        candidate = self._generator.settled(request)
        if candidate is None:
            return
        search.take(candidate, *self._context.judge.levels(candidate))
        for _ in range(20):
            if search.is_complete:
                break
            changed = self._generator.varied(candidate, 1)
            if changed is not None:
                search.take(changed, *self._context.judge.levels(changed))
        state.take(search)


def _stricter(formulas: Formulas) -> term.Term:
    return formulas.stricter


def _looser(formulas: Formulas) -> term.Term:
    return formulas.looser
