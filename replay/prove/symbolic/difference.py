"""Whether two policies can differ: formulas for both, and what a solver says of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from replay.kube.schema import Schema
from replay.matching.equivalence import EquivalentResourceMapper
from replay.matching.matcher import Matcher
from replay.prove.claim import Bound, Level
from replay.prove.context import Context
from replay.prove.normal.match import match_alike
from replay.prove.request import Request
from replay.prove.symbolic.decode import Decoder, wanted_terms
from replay.prove.symbolic.node import Bounds, Root
from replay.prove.symbolic.policy_model import PolicyModel, UnmodelledError
from replay.prove.symbolic.request_model import ModelTarget, RequestModel
from replay.prove.symbolic.solving.smtlib import Value
from replay.prove.symbolic.solving.solver import Answer, Solver
from replay.prove.symbolic.term import FALSE, Term, conj, disj, negated, walk
from replay.prove.symbolic.text_fact import hint_amounts, text_facts

_LEVELS = (Level.AUDITED, Level.WARNED, Level.DENIED)
_MOST_RUNS = 6
_MOST_CHECKED = 6


@dataclass(frozen=True, slots=True)
class Formulas:
    """Two policies over one symbolic request."""

    model: RequestModel
    facts: Sequence[Term]
    stricter: Term
    looser: Term
    current: PolicyModel | None
    candidate: PolicyModel | None

    @property
    def bound(self) -> Bound:
        """Within what the formulas say all that there is."""
        bounds = self.model.root.bounds
        return Bound(
            bounds.items if bounds.used_items else None, bounds.keys if bounds.used_keys else None, within_cost=True
        )


Build = Callable[[RequestModel, Matcher], tuple[PolicyModel | None, PolicyModel | None]]


def formulas_of(  # noqa: PLR0913 - what it depends on
    context: Context,
    build: Build,
    targets: Sequence[ModelTarget],
    schema: Schema | None,
    bounds: tuple[int, int],
    *,
    is_struct: bool | None,
) -> Formulas:
    """The formulas, made again until every key that is asked for of any map is known from the start.

    Raises `UnmodelledError`.
    """
    mentioned: dict[str, dict[str, None]] = {}
    for _ in range(_MOST_RUNS):
        before = {name: len(keys) for name, keys in mentioned.items()}
        root = Root(Bounds(*bounds), mentioned)
        model = RequestModel(
            root,
            targets,
            schema,
            is_struct=is_struct,
            is_served=bool(schema) and bool(is_struct),
            is_alike=match_alike(context.units),
        )
        current, candidate = build(model, Matcher(EquivalentResourceMapper(context.discovery)))
        stricter, looser = _differences(current, candidate)
        hint_amounts(root)
        facts = list(dict.fromkeys([*root.facts, *text_facts(root)]))
        if before == {name: len(keys) for name, keys in mentioned.items()}:
            return Formulas(model, facts, stricter, looser, current, candidate)
    raise UnmodelledError("the keys of maps that are looked for lead to ever more keys")


def _differences(current: PolicyModel | None, candidate: PolicyModel | None) -> tuple[Term, Term]:
    levels = [
        (
            FALSE if current is None else current.at_least(level),
            FALSE if candidate is None else candidate.at_least(level),
        )
        for level in _LEVELS
    ]
    stricter = disj(*(conj(new, negated(old)) for old, new in levels))
    looser = disj(*(conj(old, negated(new)) for old, new in levels))
    return stricter, looser


def solutions(
    solver: Solver, formulas: Formulas, wanted: Term, base: Callable[[int], Request], most: int
) -> Iterator[Request | Answer]:
    """Requests that solutions stand for, different ones; ends with the answer that ended the search."""
    if wanted is FALSE:
        yield Answer.UNSATISFIABLE
        return
    blocked: list[Term] = []
    used = set(walk([*formulas.facts, wanted]))
    terms = [each for each in wanted_terms(formulas.model) if each in used]
    hints = list(dict.fromkeys(formulas.model.root.hints))
    for _ in range(most):
        solution = solver.solve([*formulas.facts, wanted, *blocked, *hints], terms)
        if hints and solution.answer is not Answer.SATISFIABLE:
            hints = []
            solution = solver.solve([*formulas.facts, wanted, *blocked], terms)
        if solution.answer is not Answer.SATISFIABLE:
            yield solution.answer if not blocked else Answer.UNKNOWN
            return
        decoder = Decoder(formulas.model, solution.values)
        yield decoder.request(base(decoder.target()))
        blocked.append(negated(conj(*_shape(solution.values))))
    yield Answer.UNKNOWN


def is_consistent(solver: Solver, formulas: Formulas) -> bool:
    """Whether there are requests to each target at all: facts that exclude one another would prove anything."""
    model = formulas.model
    targets = range(min(len(model.targets), _MOST_CHECKED))
    return all(
        solver.solve([*formulas.facts, model.is_target(index)], []).answer is Answer.SATISFIABLE for index in targets
    )


def _shape(values: Mapping[Term, Value]) -> Iterator[Term]:
    """What makes a solution the one that it is: its target, and which answers texts give."""
    for term, value in values.items():
        if (term.op == "apply" and isinstance(value, bool)) or (
            term.op == "var" and isinstance(value, bool) and str(term.value).startswith("has ")
        ):
            yield term if value else negated(term)
