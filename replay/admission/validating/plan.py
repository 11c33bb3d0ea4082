"""Plans of the policies that requests of a class may match.

They are grouped by the inputs that show that they decide nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Protocol

from replay.admission.alike import AlikeResults, PlainBindings, Projection, projection
from replay.admission.decision import Decision
from replay.admission.hooks import PlannedHook
from replay.admission.validating.evaluation import SharedEvaluation
from replay.admission.validating.policy_decision import NO_DECISION, ValidateResult
from replay.admission.validating.validator import Validator
from replay.kube.admissionregistration import ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding
from replay.kube.attributes import Attributes
from replay.matching.matcher import Match

Planned = PlannedHook[ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding, Validator]

GroupResults = tuple[tuple[int, ValidateResult], ...]
"""Results of policies by their position in a group, without empty ones."""

_BY_MESSAGES: GroupResults = ((-1, NO_DECISION),)
"""The marker for results that depend on the inputs of messages."""

MOST_DECISIONS = 1024
"""Number of cached decisions of a plan."""
MOST_RESULTS = 32768
"""Number of cached projections in total, each of at most `projection.LONGEST` bytes."""


class AlikePolicies:
    """Policies with equal matches and equal reads. One projection of the input determines the result."""

    def __init__(self, match: Match, validators: tuple[Validator, ...]) -> None:
        """`validators` all have the same `footprint_without_messages`."""
        self.match = match
        self.validators = validators
        self.projection = projection(validators[0].footprint_without_messages)
        """The projection of the inputs that are read, None if they cannot be projected."""
        self.has_messages = any(each.has_messages for each in validators)

    @cached_property
    def projection_with_messages(self) -> Projection | None:
        """The projection for results with evaluated messages."""
        return projection(frozenset[str]().union(*(each.footprint for each in self.validators)))

    def may_read_messages(self, results: GroupResults, shared: SharedEvaluation) -> bool:
        """Return whether messages may have influenced results: as texts of denials, or by their cost."""
        return self.has_messages and (bool(results) or shared.most > min(each.affordable for each in self.validators))


class ValidationPlan:
    """Hooks of a set for a class of requests. Hooks that certainly match are grouped by equal reads."""

    def __init__(self, hooks: Sequence[Planned], groups: AlikeGroups) -> None:
        """Plan the hooks that may match. `groups` are shared by all plans."""
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
        """Each group with the indices of its hooks."""
        self.decisions: AlikeResults[Decision] = AlikeResults(MOST_DECISIONS)
        """Decisions by the results of hooks and their indices, if all hooks certainly match."""


class PolicyRequest(Protocol):
    """Request for groups of policies."""

    @property
    def attributes(self) -> Attributes:
        """Return the request's attributes."""
        ...

    @property
    def plain(self) -> PlainBindings:
        """Return the bindings from which projections are made."""
        ...

    def shared(self, match: Match, /) -> SharedEvaluation:
        """Return the expressions for a match, evaluated once."""
        ...

    def result(self, validator: Validator, match: Match, /) -> ValidateResult:
        """Return the result of a policy."""
        ...


class AlikeGroups:
    """Groups of all plans, shared if equal, and their results. Of alike requests only the first is evaluated."""

    def __init__(self) -> None:
        """Start without groups."""
        self._groups: dict[tuple[Match, tuple[Validator, ...]], AlikePolicies] = {}
        self._results: AlikeResults[GroupResults] = AlikeResults(MOST_RESULTS)

    def of(self, match: Match, validators: tuple[Validator, ...]) -> AlikePolicies:
        """Return the group of some policies."""
        key = (match, validators)
        if key not in self._groups:
            self._groups[key] = AlikePolicies(match, validators)
        return self._groups[key]

    def results(self, group: AlikePolicies, request: PolicyRequest) -> GroupResults:
        """Return the results of a group's policies.

        INVARIANT: a result without messages depends on messages neither by their texts nor by their cost.
        """
        match, attributes, by_messages, earlier = group.match, request.attributes, False, None
        is_as_sent = match.resource == attributes.resource and match.kind == attributes.kind
        project = group.projection if is_as_sent else None
        projected = None if project is None else project(request.plain)
        if projected is not None:
            earlier = self._results.get((group, by_messages, projected))
        # The result depends on what messages read, so this belongs to the key.
        if earlier is _BY_MESSAGES:
            by_messages, project = True, group.projection_with_messages
            projected = None if project is None else project(request.plain)
            earlier = None if projected is None else self._results.get((group, by_messages, projected))
        if earlier is not None:
            return earlier
        shared = request.shared(match)
        answers = enumerate([request.result(each, match) for each in group.validators])
        results = tuple([(place, result) for place, result in answers if result is not NO_DECISION])
        # From now on the key includes what messages read.
        if projected is not None and not by_messages and group.may_read_messages(results, shared):
            self._results.remember((group, by_messages, projected), _BY_MESSAGES)
            by_messages, project = True, group.projection_with_messages
            projected = None if project is None else project(request.plain)
        if projected is not None:
            self._results.remember((group, by_messages, projected), results)
        return results
