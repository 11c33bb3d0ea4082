"""The claim about one changed policy: what is found by trying, what is excluded by formulas, and what attacks it before it is made."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from replay.cellib.version import NEWEST, KubernetesVersion
from replay.errors import UNFORESEEN
from replay.kube.discovery import Discovery, builtin_discovery
from replay.kube.schema import Schema
from replay.matching.equivalence import EquivalentResourceMapper
from replay.matching.matcher import Match, Matcher
from replay.prove.claim import UNBOUNDED, Bound, Proof, Result, Witness
from replay.prove.context import Context, context_of
from replay.prove.normal.policy import NormalPolicy, normal_policy
from replay.prove.request import Request, Target
from replay.prove.search.generator import settled
from replay.prove.search.hunt import Found, hunt
from replay.prove.search.minimal import minimal
from replay.prove.search.target import attributes_of
from replay.prove.shape.skeleton import Skeletons, builtin_skeletons
from replay.prove.symbolic import term
from replay.prove.symbolic.covered import require_covered
from replay.prove.symbolic.difference import Formulas, formulas_of, is_consistent, solutions
from replay.prove.symbolic.policy_model import PolicyModel, UnmodelledError
from replay.prove.symbolic.request_model import ModelTarget, RequestModel
from replay.prove.symbolic.solving.solver import Answer, Solver, is_available
from replay.prove.unit import Pair
from replay.prove.witness import witness_of

_MOST_KINDS = 14
_MOST_SOLUTIONS = 4
_MOST_KINDS_TRIED = 8
_MOST_OPEN = 3
NO_SOLVER = "z3 is not installed (`pip install replay[prove]`), and trying requests shows no difference"


@dataclass(frozen=True, slots=True)
class Settings:
    """How far a proof goes: the bound on lists and maps, the requests that are tried, and the time of one question."""

    items: int = 2
    keys: int = 2
    tries: int = 400
    attacks: int = 1500
    seconds: float = 10.0
    version: KubernetesVersion = NEWEST


@dataclass(slots=True)
class Direction:
    """What is known of one direction: a request that shows it, or that there is none, or why that is not known."""

    witness: Request | None = None
    is_excluded: bool = False
    reason: str = ""


@dataclass(slots=True)
class _State:
    stricter: Direction = field(default_factory=Direction)
    looser: Direction = field(default_factory=Direction)
    bound: Bound = UNBOUNDED

    def take(self, found: Found) -> None:
        """What was met by trying; it undoes what was excluded."""
        for direction, request in ((self.stricter, found.stricter), (self.looser, found.looser)):
            if request is not None and direction.witness is None:
                if direction.is_excluded:
                    direction.reason = "a request outside the bound shows it"
                direction.witness, direction.is_excluded = request, False

    @property
    def is_open(self) -> bool:
        """Whether anything is left to find out."""
        return any(each.witness is None and not each.is_excluded for each in (self.stricter, self.looser))


class Prover:
    """Proves pairs of policies; holds the solver's process."""

    def __init__(
        self,
        settings: Settings | None = None,
        discovery: Discovery | None = None,
        skeletons: Skeletons | None = None,
    ) -> None:
        """Without arguments: the API of Kubernetes 1.37, alone."""
        self.settings = settings or Settings()
        self.discovery = discovery or builtin_discovery()
        self.skeletons = skeletons or builtin_skeletons()
        self.solver = Solver(self.settings.seconds)

    def close(self) -> None:
        """End the solver's process."""
        self.solver.close()

    def prove(self, pair: Pair) -> Proof:
        """The claim about one pair."""
        term.forget()
        context = context_of(
            pair.units, (pair.current, pair.candidate), self.discovery, self.skeletons, self.settings.version
        )
        state = _State()
        same = self._is_same(pair)
        if same is not None:
            state.stricter.is_excluded = state.looser.is_excluded = True
            state.bound = same
        else:
            found = hunt(context, self.settings.tries, f"{pair.name} tries")
            state.take(found)
            if state.is_open:
                self._exclude(pair, context, state)
        if any(each.is_excluded for each in (state.stricter, state.looser)):
            count = self.settings.attacks if same is None else self.settings.tries
            state.take(hunt(context, count, f"{pair.name} attack"))
        return self._claim(context, state)

    def _is_same(self, pair: Pair) -> Bound | None:
        """Within what both sides are the same program, None where they are not."""
        if pair.current is None or pair.candidate is None:
            return None
        one, other = (normal_policy(unit, self.settings.version) for unit in (pair.current, pair.candidate))
        if one != other:
            return None
        return UNBOUNDED if _cost_the_same(one, other) else Bound(within_cost=True)

    def _exclude(self, pair: Pair, context: Context, state: _State) -> None:
        """Ask the solver about what trying left open."""
        if not is_available():
            for direction in (state.stricter, state.looser):
                direction.reason = NO_SOLVER
            return
        try:
            require_covered(pair.units, context.discovery)
            _Search(self, pair, context).run(state)
        except UnmodelledError as error:
            for direction in (state.stricter, state.looser):
                direction.reason = direction.reason or str(error)
        except UNFORESEEN as error:
            for direction in (state.stricter, state.looser):
                direction.reason = direction.reason or f"formulas cannot be made of it ({type(error).__name__})"

    def _claim(self, context: Context, state: _State) -> Proof:
        witnesses = tuple(
            self._witness(context, direction.witness)
            for direction in (state.stricter, state.looser)
            if direction.witness is not None
        )
        stricter, looser = state.stricter, state.looser
        bound = state.bound if stricter.is_excluded or looser.is_excluded else UNBOUNDED
        if stricter.witness is not None and looser.witness is not None:
            return Proof(Result.BOTH, UNBOUNDED, witnesses)
        if stricter.is_excluded and looser.is_excluded:
            return Proof(Result.SAME, bound)
        if stricter.witness is not None and looser.is_excluded:
            return Proof(Result.STRICTER, bound, witnesses)
        if looser.witness is not None and stricter.is_excluded:
            return Proof(Result.LOOSER, bound, witnesses)
        return Proof(Result.UNKNOWN, UNBOUNDED, witnesses, _reason(stricter, looser))

    def _witness(self, context: Context, request: Request) -> Witness:
        levels = context.judge.levels(request)
        skeletons, params = self.skeletons, context.params

        def shows(smaller: Request) -> Request | None:
            made = settled(smaller, skeletons, params)
            return made if made is not None and context.judge.levels(made) == levels else None

        least = context.generator("least").least(request.target)
        small = minimal(request, shows, least)
        return witness_of(context, small, least)


def _cost_the_same(one: NormalPolicy, other: NormalPolicy) -> bool:
    """Whether every evaluation costs the same: the same texts but for names."""
    return bool(one.written == other.written)


def _reason(stricter: Direction, looser: Direction) -> str:
    parts = []
    for name, direction in (("denies more", stricter), ("denies less", looser)):
        if direction.witness is not None:
            parts.append(f"it {name} somewhere")
        elif not direction.is_excluded:
            parts.append(f"whether it {name} is open ({direction.reason or 'nothing shows it'})")
    return "; ".join(parts)


class _Search:
    """The solver's part of one proof."""

    def __init__(self, prover: Prover, pair: Pair, context: Context) -> None:
        self._prover = prover
        self._pair = pair
        self._context = context
        self._generator = context.generator("base")
        builtin = {each.resource.group for each in prover.discovery if not each.custom}
        self._builtin = builtin
        self._targets = [self._model_target(target) for target in context.targets]

    def _model_target(self, target: Target) -> ModelTarget:
        """Open where the resource is custom, or is matched as another version of itself."""
        matcher = Matcher(EquivalentResourceMapper(self._context.discovery))
        request_class = matcher.request_class(attributes_of(target))
        constraints = [unit.policy.match_constraints for unit in self._context.units]
        results = [matcher.criteria(each).match_rules(request_class, "") for each in constraints if each is not None]
        converted = any(isinstance(each, Match) and each.resource != target.resource for each in results)
        return ModelTarget(target, converted or target.resource.group not in self._builtin)

    def run(self, state: _State) -> None:
        """All targets at once without what is known of their types, then kind by kind."""
        if not self._targets:
            for direction in (state.stricter, state.looser):
                direction.reason = "no resource that is known is matched"
            return
        groups = list(self._by_kind())
        covers = len(groups) <= _MOST_KINDS
        formulas = self._formulas(self._targets, None, is_struct=None)
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

    def _build(self, model: RequestModel, matcher: Matcher) -> tuple[PolicyModel | None, PolicyModel | None]:
        compiled = iter(self._context.compiled)
        sides = (self._pair.current, self._pair.candidate)
        made = [None if unit is None else PolicyModel(unit, next(compiled), model, matcher) for unit in sides]
        return made[0], made[1]

    def _ask(self, state: _State, every: object, *, excludes: bool, most: int) -> None:
        """Both directions of some formulas; one that none of them allows is excluded."""
        formulas_list = list(every)  # type: ignore[call-overload]  # formulas, one after another
        for direction, pick in ((state.stricter, _stricter), (state.looser, _looser)):
            if direction.witness is not None or direction.is_excluded:
                continue
            answers = []
            for formulas in formulas_list:
                answers.append(self._ask_one(state, direction, formulas, pick(formulas), most))
                open_kinds = sum(answer is Answer.UNKNOWN for answer in answers)
                if direction.witness is not None or open_kinds >= _MOST_OPEN:
                    break
            if direction.witness is None and excludes and all(answer is Answer.UNSATISFIABLE for answer in answers):
                if not all(is_consistent(self._prover.solver, formulas) for formulas in formulas_list):
                    direction.reason = "what is known of requests excludes itself"
                    continue
                direction.is_excluded = True
                for formulas in formulas_list:
                    state.bound = state.bound.merge(formulas.bound)

    def _ask_one(self, state: _State, direction: Direction, formulas: Formulas, wanted: term.Term, most: int) -> Answer:
        targets = [each.target for each in formulas.model.targets]
        answer = Answer.UNKNOWN
        for each in solutions(self._prover.solver, formulas, wanted, lambda index: self._base(targets[index]), most):
            if isinstance(each, Answer):
                answer = each
                continue
            self._try(state, each)
            if direction.witness is not None:
                break
        if answer is Answer.UNKNOWN and direction.witness is None:
            direction.reason = "no solution of the formulas is a request that shows it"
        return answer

    def _base(self, target: Target) -> Request:
        return self._generator.least(target)

    def _try(self, state: _State, request: Request) -> None:
        """A solution, and changes of it."""
        found = Found()
        made = self._generator.settled(request)
        if made is None:
            return
        found.take(made, *self._context.judge.levels(made))
        for _ in range(20):
            if found.is_complete:
                break
            changed = self._generator.varied(made, 1)
            if changed is not None:
                found.take(changed, *self._context.judge.levels(changed))
        state.take(found)


def _stricter(formulas: Formulas) -> term.Term:
    return formulas.stricter


def _looser(formulas: Formulas) -> term.Term:
    return formulas.looser


Pick = Callable[[Formulas], term.Term]
