"""Difference of two policies: formulas for both, and the solver's answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import Struct

from replay.kube.schema import Schema
from replay.matching.matcher import Matcher
from replay.matching.rules import EquivalentResourceMapper
from replay.prove.claim import ClaimBound, EnforcementLevel
from replay.prove.context import ProofContext
from replay.prove.request import SymbolicRequest
from replay.prove.search.generator import NAMESPACE_KIND
from replay.prove.symbolic.decode import Decoder, wanted_terms
from replay.prove.symbolic.node import Bounds, Root
from replay.prove.symbolic.policy_model import OrderError, PolicyModel, UnmodelledError
from replay.prove.symbolic.request_model import ModelTarget, RequestModel
from replay.prove.symbolic.solver import Satisfiability, Solver, SolverValue
from replay.prove.symbolic.term import FALSE, Term, conj, disj, negated, walk
from replay.prove.symbolic.text_fact import hint_amounts, text_facts

_LEVELS = (EnforcementLevel.AUDITED, EnforcementLevel.WARNED, EnforcementLevel.DENIED)
_MOST_RUNS = 6
_MOST_CHECKED = 6


class Formulas(Struct, frozen=True):
    """Formulas of two sides over one symbolic request."""

    model: RequestModel
    facts: Sequence[Term]
    stricter: Term
    looser: Term

    @property
    def bound(self) -> ClaimBound:
        """Bound within which the formulas cover all requests."""
        bounds = self.model.root.bounds
        return ClaimBound(bounds.items if bounds.used_items else None, bounds.keys if bounds.used_keys else None)


Build = Callable[[RequestModel, Matcher], tuple[Sequence[PolicyModel], Sequence[PolicyModel]]]
"""Function that returns the policies of both sides over a request."""


def formulas_of(  # noqa: PLR0913 - what it depends on
    context: ProofContext,
    build: Build,
    targets: Sequence[ModelTarget],
    schema: Schema | None,
    bounds: tuple[int, int],
    *,
    is_struct: bool | None,
) -> Formulas:
    """Return the formulas, rebuilt until every requested map key is known from the start. Raises UnmodelledError.

    Loops over maps go through the known keys, so a key that is found late requires another build.
    """
    mentioned: dict[str, dict[str, None]] = {}
    for _ in range(_MOST_RUNS):
        key_counts = {name: len(keys) for name, keys in mentioned.items()}
        root = Root(Bounds(*bounds), mentioned)
        model = RequestModel(
            root,
            targets,
            schema,
            _metadata(context),
            is_struct=is_struct,
            is_served=bool(schema) and bool(is_struct),
        )
        current, candidate = build(model, Matcher(EquivalentResourceMapper(context.discovery)))
        stricter, looser = _differences(current, candidate)
        hint_amounts(root)
        facts = list(dict.fromkeys([*root.facts, *text_facts(root)]))
        if key_counts == {name: len(keys) for name, keys in mentioned.items()}:
            if root.depends_on_order:
                raise OrderError("what is made of the keys of a map depends on their order")
            return Formulas(model, facts, stricter, looser)
    raise UnmodelledError("the keys of maps that are looked for lead to ever more keys")


def _metadata(context: ProofContext) -> Schema | None:
    """Return the schema of the metadata of any object."""
    schema = context.skeletons.schemas.for_kind(NAMESPACE_KIND)
    return None if schema is None else schema.fields.get("metadata")


def _differences(current: Sequence[PolicyModel], candidate: Sequence[PolicyModel]) -> tuple[Term, Term]:
    """Return where the candidate is stricter, and where it is less strict."""
    levels = [
        (disj(*(each.at_least(level) for each in current)), disj(*(each.at_least(level) for each in candidate)))
        for level in _LEVELS
    ]
    stricter = disj(*(conj(new, negated(old)) for old, new in levels))
    looser = disj(*(conj(old, negated(new)) for old, new in levels))
    return stricter, looser


def solutions(  # noqa: PLR0913 - what it depends on
    solver: Solver,
    formulas: Formulas,
    condition: Term,
    context: ProofContext,
    *,
    base: Callable[[int], SymbolicRequest],
    most: int,
) -> Iterator[SymbolicRequest | Satisfiability]:
    """Yield requests for different solutions, then the answer that ended the search."""
    if condition is FALSE:
        yield Satisfiability.UNSATISFIABLE
        return
    blocked: list[Term] = []
    used = set(walk([*formulas.facts, condition]))
    terms = [each for each in wanted_terms(formulas.model) if each in used]
    hints = list(dict.fromkeys(formulas.model.root.hints))
    for _ in range(most):
        solution = solver.solve([*formulas.facts, condition, *blocked, *hints], terms)
        # Hints only make solutions easier to read as requests. If they exclude all, they are dropped.
        if hints and solution.answer is not Satisfiability.SATISFIABLE:
            hints = []
            solution = solver.solve([*formulas.facts, condition, *blocked], terms)
        if solution.answer is not Satisfiability.SATISFIABLE:
            # Once solutions are blocked, a refusal says only that there is no other one.
            yield solution.answer if not blocked else Satisfiability.UNKNOWN
            return
        decoder = Decoder(formulas.model, solution.values, context.skeletons.schemas, context.params)
        yield decoder.request(base(decoder.target()))
        blocked.append(negated(conj(*_shape(solution.values))))
    yield Satisfiability.UNKNOWN


def is_consistent(solver: Solver, formulas: Formulas) -> bool:
    """Return whether the facts allow a request to each target. Contradictory facts would prove anything."""
    model = formulas.model
    targets = range(min(len(model.targets), _MOST_CHECKED))
    return all(
        solver.solve([*formulas.facts, model.is_target(index)], []).answer is Satisfiability.SATISFIABLE
        for index in targets
    )


def _shape(values: Mapping[Term, SolverValue]) -> Iterator[Term]:
    """Yield what distinguishes a solution: its target, and the answers about its texts."""
    for term, value in values.items():
        if (term.op == "apply" and isinstance(value, bool)) or (
            term.op == "var" and isinstance(value, bool) and str(term.value).startswith("has ")
        ):
            yield term if value else negated(term)
