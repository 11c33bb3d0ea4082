"""Inputs of a policy's expressions: the places in them, the parts that must be known, and `matchConditions`.

Source of the conditions: `k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Protocol, cast

from msgspec import Struct

from replay.cel.value.values import TypedMap
from replay.cellib.activation import Activation
from replay.cellib.composition import Evaluated, Evaluation
from replay.cellib.expression import CompiledExpression, ExpressionCompiler
from replay.go.format import aggregate
from replay.identity import IdentityMap
from replay.json import JSON, FieldPath
from replay.kube.admissionregistration import FailurePolicy
from replay.kube.attributes import Missing, PartialObject
from replay.kube.json_patch import tokens

Place = tuple[str | None, ...]
"""Names that lead from a binding to a part of it."""

ANY = None
"""Marker for any element of a list or any entry of a map."""

_SEGMENT = re.compile(r"""\.?([^.\[\]"]+)|\[(?:("(?:[^"\\]|\\.)*")|)\]""")


def changed_places(name: str, patch: Iterable[JSON]) -> frozenset[Place]:
    """Return the places where a patch changes a binding. A numeric key may be an index, and stands for any."""
    return frozenset([_place_of_pointer(name, operation["path"]) for operation in patch])


@lru_cache(maxsize=4096)
def _place_of_pointer(name: str, path: str) -> Place:
    return (name, *(ANY if key.isdigit() else key for key in tokens(path)))


@lru_cache(maxsize=4096)
def place_of(name: str, part: FieldPath) -> Place:
    """Return a part in the form in which a footprint names it."""
    return (name, *[ANY if isinstance(key, int) else key for key in part])


@lru_cache(maxsize=4096)
def read_places(footprint: frozenset[str], places: frozenset[Place]) -> frozenset[Place]:
    """Return the places that paths of a footprint read: at, above or below a path.

    A path that only tests presence does not read below itself.
    """
    paths = [(segments(path.removesuffix("?")), path.endswith("?")) for path in footprint]
    return frozenset(
        place
        for place in places
        if any(_overlaps(path, place) and not (is_test and len(place) > len(path)) for path, is_test in paths)
    )


def root_of(path: str) -> str:
    """Return the binding of a path in a footprint."""
    return path.rstrip("?").partition(".")[0].partition("[")[0]


@lru_cache(maxsize=4096)
def shown_roots(footprint: frozenset[str]) -> frozenset[str]:
    """Return the bindings that a result may contain, excluding those that are only tested for presence."""
    return frozenset(root_of(path) for path in footprint if not path.endswith("?"))


def _overlaps(one: Place, other: Place) -> bool:
    """Return whether one path equals or continues the other."""
    return all(left == right or left is ANY or right is ANY for left, right in zip(one, other, strict=False))


def segments(path: str) -> Place:
    """Return the names along a path of a footprint: `object.a[]["b.c"]` is `object`, `a`, any, `b.c`."""
    segments = _SEGMENT.findall(path)
    return tuple([name or (json.loads(quoted) if quoted else ANY) for name, quoted in segments])


_NO_VARIABLES: Mapping[str, Any] = {}
_NOTHING: frozenset[str] = frozenset()
_NOWHERE: frozenset[Place] = frozenset()


class Inputs:
    """Bindings of one policy, binding and parameter.

    Match conditions have their own `request`: its resource is the one that was sent.
    """

    __slots__ = (
        "_activation",
        "_activations",
        "_bindings",
        "_match_request",
        "_missing",
        "_partial",
        "_places",
        "is_partial",
    )

    def __init__(self, bindings: Mapping[str, Any], match_request: Any) -> None:
        """`bindings` are those of the validations."""
        self._bindings = bindings
        self._match_request = match_request
        self._partial: dict[str, PartialObject] = {}
        for name, value in bindings.items():
            plain = value.value if type(value) is TypedMap else value
            if type(plain) is PartialObject:
                self._partial[name] = plain
        self.is_partial = bool(self._partial)
        """A flag that an object is only partly known."""
        self._missing: dict[str, tuple[tuple[FieldPath, Missing], ...]] = {}
        self._places = _NOWHERE
        if self._partial:
            self._missing = {name: value.parts for name, value in self._partial.items()}
            missing = self._missing.items()
            self._places = frozenset([place_of(name, part) for name, parts in missing for part, _ in parts])
        self._activations: dict[tuple[bool, frozenset[Place]], Activation] = {}
        self._activation: Activation | None = None

    def with_object(self, value: Any) -> Inputs:
        """Return the inputs of the same request with another object, in the form for CEL."""
        return Inputs({**self._bindings, "object": value}, self._match_request)

    def unread(self) -> Inputs:
        """Return the same inputs without evaluated values, so that a trace is complete."""
        return Inputs(self._bindings, self._match_request)

    def activation(self, footprint: frozenset[str], *, matching: bool = False) -> Activation:
        """Return the activation for expressions that read at most `footprint`. `matching` is for match conditions.

        Unknown parts that none of them reads are removed from a partly known object: the value of the expressions does
        not depend on them.
        """
        has_own_request = matching and self._match_request is not self._bindings["request"]
        # Most inputs are completely known, and one activation then serves all expressions.
        if not self._partial and not has_own_request:
            self._activation = self._activation or Activation(self._bindings)
            return self._activation
        places = read_places(footprint, self._places) if self._places else self._places
        key = (has_own_request, places)
        if key not in self._activations:
            bindings = dict(self._bindings)
            if key[0]:
                bindings["request"] = self._match_request
            for name in self._partial:
                bindings[name] = self._with_missing(name, places)
            self._activations[key] = Activation(bindings)
        return self._activations[key]

    def _with_missing(self, name: str, places: frozenset[Place]) -> Any:
        """Return a partly known binding without missing parts, except at certain places."""
        value = self._partial[name].value
        leaves = []
        for part, leaf in reversed(self._missing[name]):  # in reverse, because a removed list item moves the later ones
            if place_of(name, part) in places:
                leaves.append(leaf)
            else:
                value = _without(value, part)
        rewrapped = PartialObject(value, tuple(reversed(leaves))) if leaves else value
        is_struct = isinstance(self._bindings[name], TypedMap)
        return TypedMap(cast("dict[str, Any]", rewrapped)) if is_struct else rewrapped


class KindEvaluation(Protocol):
    """Evaluates the expressions of one kind."""

    def evaluate(self, compiled: CompiledExpression, /) -> Evaluated:
        """Return the result of the next expression."""
        ...

    def covers(self, limit: int, /) -> bool:
        """Return whether at least `limit` of the budget is certainly left."""
        ...

    @property
    def remaining(self) -> int:
        """Return a lower bound of the remaining budget."""
        ...

    @property
    def computed_variables(self) -> Mapping[str, Any]:
        """The values of the variables that were read."""
        ...


def evaluations(  # noqa: PLR0913 - what an evaluation depends on
    compiler: ExpressionCompiler,
    inputs: Inputs,
    budget: int,
    *,
    matching: bool = False,
    exact: bool = False,
    variables: Mapping[str, Any] = _NO_VARIABLES,
) -> Evaluation | Evaluations:
    """Return the evaluation of the expressions of one kind for one input, with one budget.

    `matching` is for match conditions; `exact` uses only the strict engine. `variables` are values that were computed
    for other inputs before.
    """
    if inputs.is_partial:
        return Evaluations(compiler, inputs, budget, matching=matching, exact=exact, variables=variables)
    activation = inputs.activation(_NOTHING, matching=matching)
    return Evaluation(compiler, activation, budget, exact=exact, variables=variables)


class Evaluations:
    """The evaluation of the expressions of one kind for one input.

    Each activation of a partly known input has its own `Evaluation`. Costs of one are charged to the others only when
    the remaining budget is read.
    """

    __slots__ = ("_budget", "_compiler", "_evaluations", "_exact", "_inputs", "_matching", "_variables")

    def __init__(  # noqa: PLR0913 - as for `evaluations`
        self,
        compiler: ExpressionCompiler,
        inputs: Inputs,
        budget: int,
        *,
        matching: bool = False,
        exact: bool = False,
        variables: Mapping[str, Any] = _NO_VARIABLES,
    ) -> None:
        """Arguments as for `evaluations`."""
        self._variables = variables
        self._exact = exact
        self._compiler = compiler
        self._inputs = inputs
        self._budget = budget
        self._matching = matching
        self._evaluations: IdentityMap[Activation, Evaluation] = IdentityMap()

    def evaluate(self, compiled: CompiledExpression) -> Evaluated:
        """Evaluate the next expression."""
        return self._evaluation(compiled.footprint).evaluate(compiled)

    def covers(self, limit: int) -> bool:
        """Return whether at least `limit` of the budget is certainly left."""
        return self.remaining >= limit

    @property
    def computed_variables(self) -> Mapping[str, Any]:
        """The values of the variables that were read."""
        computed = dict(self._variables)
        for each in self._evaluations.values():
            computed |= each.computed_variables
        return computed

    @property
    def remaining(self) -> int:
        """Return the remaining budget."""
        return self._budget - sum(self._budget - each.remaining for each in self._evaluations.values())

    def _evaluation(self, footprint: frozenset[str]) -> Evaluation:
        """Return the evaluation for expressions with a footprint."""
        activation = self._inputs.activation(footprint, matching=self._matching)
        if activation not in self._evaluations:
            self._evaluations[activation] = Evaluation(
                self._compiler, activation, self._budget, exact=self._exact, variables=self._variables
            )
        return self._evaluations[activation]


def _without(value: JSON, part: FieldPath) -> JSON:
    """Return a copy without a part, copying only what is necessary."""
    head, rest = part[0], part[1:]
    copy = value.copy()
    if rest:
        copy[head] = _without(value[head], rest)
    else:
        del copy[head]
    return copy


BUDGET = 2_500_000
"""Cost units for all match conditions of a policy or webhook on one request."""


class MatchConditionsResult(Struct, frozen=True):
    """The result of all match conditions. `error` denies the request. `unknown` says what the result depends on."""

    matches: bool
    error: str | None = None
    unknown: tuple[Missing, ...] = ()


MATCHES = MatchConditionsResult(matches=True)
SKIPPED = MatchConditionsResult(matches=False)


def match_conditions(
    compiled: Sequence[CompiledExpression], evaluation: KindEvaluation, failure_policy: FailurePolicy
) -> MatchConditionsResult:
    """Evaluate the conditions. A false one skips the policy. Otherwise `failurePolicy` decides about errors.

    The server evaluates all conditions before it reads any result. So exceeding the budget is an error even if an
    earlier condition is false.
    """
    errors: list[str] = []
    unknown: list[Missing] = []
    is_false = False
    for condition in compiled:
        if condition.error:
            errors.append(f"compilation error: {condition.error}")
            continue
        evaluated = evaluation.evaluate(condition)
        if evaluated.out_of_budget:
            return _failed([str(evaluated.error)], failure_policy)
        if evaluated.unknown:
            unknown.extend(evaluated.unknown)
        elif evaluated.error is not None:
            errors.append(f"expression '{condition.expression}' resulted in error: {evaluated.error}")
        elif evaluated.value is False:
            is_false = True
    if is_false:
        return SKIPPED
    if errors and (failure_policy is FailurePolicy.IGNORE or not unknown):
        # an unknown condition may be false, which skips too
        return _failed(errors, failure_policy)
    if unknown:
        return MatchConditionsResult(matches=True, unknown=tuple(dict.fromkeys(unknown)))
    return MATCHES


def _failed(errors: Iterable[str], failure_policy: FailurePolicy) -> MatchConditionsResult:
    """Return the result of errors without a false condition: `Ignore` skips the policy."""
    if failure_policy is FailurePolicy.IGNORE:
        return SKIPPED
    return MatchConditionsResult(matches=False, error=aggregate(errors))
