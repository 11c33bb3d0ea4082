"""How the expressions of a validating policy are evaluated: on the budgets of the policy, or together with those of others."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from replay.admission.inputs import Evaluations, Inputs, KindEvaluation, evaluations
from replay.admission.match_conditions import BUDGET as MATCH_CONDITIONS_BUDGET
from replay.cellib.composition import Evaluation
from replay.cellib.expression import ExpressionCompiler

RUNTIME_BUDGET = 10_000_000
"""Cost units for all validations of a policy, binding and parameter (`apis/cel.RuntimeCELCostBudget`)."""


class PolicyEvaluation(Protocol):
    """The expressions of a policy for one input; messages are paid with what the validations left."""

    @property
    def inputs(self) -> Inputs:
        """Return the expressions' inputs."""
        ...

    def conditions(self) -> KindEvaluation:
        """The match conditions."""
        ...

    def validations(self) -> KindEvaluation:
        """The validations."""
        ...

    def messages(self, budget: int) -> KindEvaluation:
        """The message expressions."""
        ...

    def annotations(self) -> KindEvaluation:
        """The audit annotations."""
        ...


class OwnEvaluation(NamedTuple):
    """The expressions of a policy as if there were no other one: each kind on its budget."""

    compiler: ExpressionCompiler
    inputs: Inputs

    def conditions(self) -> Evaluation | Evaluations:
        """The match conditions."""
        return evaluations(self.compiler, self.inputs, MATCH_CONDITIONS_BUDGET, matching=True)

    def validations(self) -> Evaluation | Evaluations:
        """The validations."""
        return evaluations(self.compiler, self.inputs, RUNTIME_BUDGET)

    def messages(self, budget: int) -> Evaluation | Evaluations:
        """The message expressions."""
        return evaluations(self.compiler, self.inputs, budget)

    def annotations(self) -> Evaluation | Evaluations:
        """The audit annotations."""
        return evaluations(self.compiler, self.inputs, RUNTIME_BUDGET)
