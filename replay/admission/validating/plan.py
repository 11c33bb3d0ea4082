"""The policies of a set that requests of a class may concern, put together by what tells that nothing comes of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain, takewhile
from typing import NamedTuple, Protocol

from replay.admission.alike.projection import Projection, ProjectionKey, projection
from replay.admission.alike.results import AlikeResults
from replay.admission.decision import Decision
from replay.admission.hooks import PlannedHook
from replay.admission.validating.policy_decision import NO_DECISION, ValidateResult
from replay.admission.validating.shared_evaluation import SharedEvaluation
from replay.admission.validating.validator import Truths, Validator
from replay.cellib.expression import CompiledExpression
from replay.kube.admissionregistration import ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding
from replay.matching.matcher import Match

Operands = tuple[CompiledExpression, ...]
"""Operands of one `||`."""
Planned = PlannedHook[ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding, Validator]

GroupResults = tuple[tuple[int, ValidateResult], ...]
"""Results of policies by their place in a group, without empty ones."""

_BY_MESSAGES: GroupResults = ((-1, NO_DECISION),)
"""Stands for results that depend on what messages read."""

MOST_RESULTS = 32768
"""How many projections are remembered in all, each of `projection.LONGEST` bytes at most."""
MOST_DECISIONS = 1024
"""How many decisions of a plan are remembered."""


class _Premise(NamedTuple):
    """What several policies say alike: match conditions, and the operands of `||` with which each validation begins.

    Where the conditions are true or false, and one operand of each validation is true, nothing comes of the validations of any
    of these policies: those behind it are not evaluated. Where all operands of a validation are false, those behind them decide.
    """

    match: Match
    conditions: tuple[CompiledExpression, ...]
    operands: tuple[Operands, ...]

    def truths(self, shared: SharedEvaluation) -> Truths | None:
        """Which validations are true for an input because of these operands, None where they leave that open.

        All of them where the conditions are not: nothing comes of the policies either way.
        """
        conditions = [shared[each].value for each in self.conditions]
        if any(type(value) is not bool for value in conditions):
            return None
        if False in conditions:
            return (True,) * len(self.operands)
        return _truths([False] * len(self.operands), self.operands, shared)


class _Member(NamedTuple):
    """A policy of a premise, by its number: the operands of each validation that are not those of the premise."""

    premise: int
    operands: tuple[Operands, ...]


def _truths(certain: Sequence[bool], operands: Iterable[Operands], shared: SharedEvaluation) -> Truths | None:
    """Which validations are true, beside those that certainly are; None where no operand is, and one is not false either."""
    truths = []
    for truth, those in zip(certain, operands, strict=True):
        is_open = False
        for each in () if truth else those:
            value = shared[each].value
            if value is True:
                truth, is_open = True, False  # noqa: PLW2901 - no operand behind it is asked
                break
            is_open = is_open or value is not False
        if is_open:
            return None
        truths.append(truth)
    return tuple(truths)


class AlikePolicies:
    """Policies with equal matches and equal reads. One projection of the input gives one result."""

    def __init__(self, match: Match, validators: tuple[Validator, ...]) -> None:
        """All of them have the same `footprint_without_messages`."""
        self.match = match
        self.validators = validators
        self.projection = projection(validators[0].footprint_without_messages)
        """None where what they read has no projection."""
        self.has_messages = any(each.has_messages for each in validators)
        uses = Counter(each for validator in validators for each in set(chain.from_iterable(_operands(validator))))
        places: dict[_Premise, list[int]] = {}
        for index, validator in enumerate(validators):
            premise = _premise(match, validator, uses)
            if premise is not None:
                places.setdefault(premise, []).append(index)
        self._premises: list[tuple[_Premise, int]] = []
        """Each with what one operand may cost at most, so that the budgets and limits of all its policies cover them."""
        self._members: list[_Member | None] = [None] * len(validators)
        for premise, indices in places.items():
            if len(indices) > 1:
                longest = 1
                for index in indices:
                    operands = tuple(_operands(validators[index]))
                    longest = max(longest, *map(len, operands))
                    others = (those[len(alike) :] for those, alike in zip(operands, premise.operands, strict=True))
                    self._members[index] = _Member(len(self._premises), tuple(others))
                affordable = min(validators[index].affordable for index in indices)
                self._premises.append((premise, affordable // longest - 1))

    @cached_property
    def projection_with_messages(self) -> Projection | None:
        """The projection where a message may be evaluated."""
        return projection(frozenset[str]().union(*(each.footprint for each in self.validators)))

    def may_read_messages(self, results: GroupResults, shared: SharedEvaluation) -> bool:
        """Whether messages may have had a part in results: as texts of denials, or by what they cost."""
        return self.has_messages and (bool(results) or shared.most > min(each.affordable for each in self.validators))

    def policies(self, shared: SharedEvaluation) -> Iterator[tuple[int, Validator, Truths | None]]:
        """The policies of which something may come, with which of their validations are true, where that is known."""
        by_premise = [premise.truths(shared) for premise, _ in self._premises]
        for index, (validator, member) in enumerate(zip(self.validators, self._members, strict=True)):
            certain = None if member is None else by_premise[member.premise]
            if member is None or certain is None:
                yield index, validator, None
                continue
            truths = certain if all(certain) else _truths(certain, member.operands, shared)
            is_covered = shared.most <= self._premises[member.premise][1]
            if not is_covered or truths is None or not all(truths) or validator.has_annotations:
                yield index, validator, truths if is_covered else None


class ValidationPlan:
    """Hooks of a set for a class of requests. Hooks that certainly match are grouped with alike ones."""

    def __init__(self, hooks: Sequence[Planned], groups: AlikeGroups) -> None:
        """`hooks` are those that may match; `groups` are those of all plans."""
        self.hooks = hooks
        self.is_certain = all(planned.match is not None for planned in hooks)
        members: dict[tuple[Match, frozenset[str]], list[int]] = {}
        for index, planned in enumerate(hooks):
            if planned.match is not None:
                key = (planned.match, planned.hook.evaluator.footprint_without_messages)
                members.setdefault(key, []).append(index)
        self.groups = tuple(
            (groups.of(match, tuple(hooks[index].hook.evaluator for index in indices)), tuple(indices))
            for (match, _), indices in members.items()
        )
        """Each with the numbers of its hooks."""
        self.decisions: AlikeResults[Decision] = AlikeResults(MOST_DECISIONS)
        """What was decided by the results of hooks, by number, where all hooks certainly match."""

    @cached_property
    def kinds(self) -> frozenset[object]:
        """As which kinds the hooks certainly match; None among them for a hook of which that is not known."""
        return frozenset(planned.match and planned.match.kind for planned in self.hooks)

    @cached_property
    def footprint(self) -> frozenset[str]:
        """All that the expressions of these policies may read."""
        return frozenset[str]().union(*(planned.hook.evaluator.footprint for planned in self.hooks))


class PolicyRequest(Protocol):
    """Request for groups of policies."""

    def projected(self, match: Match, project: Projection | None, /) -> ProjectionKey | None:
        """The projection of what policies read that match so; None where there is none."""
        ...

    def shared(self, match: Match, /) -> SharedEvaluation:
        """The expressions of such policies, evaluated once."""
        ...

    def result(self, validator: Validator, match: Match, truths: Truths | None, /) -> ValidateResult:
        """What a policy comes to; `truths` say which of its validations are true, where that is known."""
        ...


class AlikeGroups:
    """Groups of all plans, shared if equal, and their results. Of alike requests only the first is evaluated."""

    def __init__(self) -> None:
        """No group yet."""
        self._groups: dict[tuple[Match, tuple[Validator, ...]], AlikePolicies] = {}
        self._results: AlikeResults[GroupResults] = AlikeResults(MOST_RESULTS)

    def of(self, match: Match, validators: tuple[Validator, ...]) -> AlikePolicies:
        """The group of some policies."""
        key = (match, validators)
        if key not in self._groups:
            self._groups[key] = AlikePolicies(match, validators)
        return self._groups[key]

    def results(self, group: AlikePolicies, request: PolicyRequest) -> GroupResults:
        """What the policies of a group come to.

        INVARIANT: without messages, a result depends on them neither by their texts nor by what they cost.
        """
        match, by_messages = group.match, False
        projected = request.projected(match, group.projection)
        earlier = None if projected is None else self._results.get((group, by_messages, projected))
        if earlier is _BY_MESSAGES:
            by_messages, projected = True, request.projected(match, group.projection_with_messages)
            earlier = None if projected is None else self._results.get((group, by_messages, projected))
        if earlier is not None:
            return earlier
        shared = request.shared(match)
        policies = ((place, request.result(each, match, truths)) for place, each, truths in group.policies(shared))
        results = tuple((place, result) for place, result in policies if result is not NO_DECISION)
        if projected is not None and not by_messages and group.may_read_messages(results, shared):
            self._results.remember((group, by_messages, projected), _BY_MESSAGES)
            by_messages, projected = True, request.projected(match, group.projection_with_messages)
        if projected is not None:
            self._results.remember((group, by_messages, projected), results)
        return results


def _operands(validator: Validator) -> Iterator[Operands]:
    """The operands of each validation, or the validation itself."""
    for validation in validator.validations:
        yield validation.disjuncts or (validation,)


def _premise(match: Match, validator: Validator, uses: Counter[CompiledExpression]) -> _Premise | None:
    """The operands that other policies have too, by how many have each; None where they do not tell what comes of a policy."""
    operands = tuple(tuple(takewhile(lambda each: uses[each] > 1, those)) for those in _operands(validator))
    return _Premise(match, validator.match_conditions, operands) if all(operands) else None
