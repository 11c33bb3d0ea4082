"""The policies of a set that requests of a class may concern, put together by what tells that nothing comes of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import takewhile
from typing import NamedTuple

from replay.admission.hooks import PlannedHook
from replay.admission.validating.shared_evaluation import SharedEvaluation
from replay.admission.validating.validator import Validator
from replay.cellib.expression import CompiledExpression
from replay.kube.admissionregistration import ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding
from replay.matching.matcher import Match

Planned = PlannedHook[ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding, Validator]


class _Premise(NamedTuple):
    """What several policies say alike: match conditions, and the operands of `||` with which each validation begins.

    Where the conditions are true or false, and one operand of each validation is true, nothing comes of the validations of any
    of these policies: those behind it are not evaluated.
    """

    match: Match
    conditions: tuple[CompiledExpression, ...]
    operands: tuple[tuple[CompiledExpression, ...], ...]

    def holds(self, shared: SharedEvaluation) -> bool:
        """Whether it is so for an input."""
        for condition in self.conditions:
            if type(shared[condition].value) is not bool:
                return False
        return all(any(shared[each].value is True for each in operands) for operands in self.operands)

    def affordable(self, validators: Sequence[Validator]) -> int:
        """What one operand may cost at most, so that the budgets and limits of all policies cover them."""
        longest = max(map(len, self.operands), default=1)
        return min(each.affordable for each in validators) // longest - 1


class ValidationPlan:
    """The hooks of a set for a class of requests, in their order."""

    def __init__(self, hooks: Sequence[Planned]) -> None:
        """`hooks` are those that may match."""
        self._hooks = hooks
        certain = [planned for planned in hooks if planned.match is not None]
        uses = Counter(each for planned in certain for operands in _operands(planned) for each in operands)
        members: dict[_Premise, list[int]] = {}
        for index, planned in enumerate(hooks):
            premise = _premise(planned, uses)
            if premise is not None:
                members.setdefault(premise, []).append(index)
        self._premises: list[tuple[_Premise, int]] = []
        self._numbers = [-1] * len(hooks)
        """By hook which premise is its own, -1 for none."""
        for premise, indices in members.items():
            if len(indices) > 1:
                for index in indices:
                    self._numbers[index] = len(self._premises)
                affordable = premise.affordable([hooks[index].hook.evaluator for index in indices])
                self._premises.append((premise, affordable))

    @cached_property
    def kinds(self) -> frozenset[object]:
        """As which kinds the hooks certainly match; None among them for a hook of which that is not known."""
        return frozenset(planned.match and planned.match.kind for planned in self._hooks)

    @cached_property
    def footprint(self) -> frozenset[str]:
        """All that the expressions of these policies may read."""
        return frozenset[str]().union(*(planned.hook.evaluator.footprint for planned in self._hooks))

    def hooks(self, shared: Callable[[Match], SharedEvaluation]) -> Iterator[tuple[Planned, bool]]:
        """The hooks of which something may come, and whether their validations are known to be true.

        `shared` has the expressions for a match.
        """
        if not self._premises:
            return ((planned, False) for planned in self._hooks)
        holding = []
        for premise, affordable in self._premises:
            evaluation = shared(premise.match)
            holding.append(premise.holds(evaluation) and evaluation.most <= affordable)
        holding.append(False)  # those without a premise
        return (
            (planned, holding[number])
            for planned, number in zip(self._hooks, self._numbers, strict=True)
            if not holding[number] or planned.hook.policy.audit_annotations
        )


def _operands(planned: Planned) -> Iterator[tuple[CompiledExpression, ...]]:
    """The operands of each validation, or the validation itself."""
    for validation in planned.hook.evaluator.validations:
        yield validation.disjuncts or (validation,)


def _premise(planned: Planned, uses: Counter[CompiledExpression]) -> _Premise | None:
    """The operands that stand in other validations too; None where they do not tell what comes of a policy."""
    validator = planned.hook.evaluator
    if planned.match is None:
        return None
    operands = tuple(tuple(takewhile(lambda each: uses[each] > 1, those)) for those in _operands(planned))
    return _Premise(planned.match, validator.match_conditions, operands) if all(operands) else None
