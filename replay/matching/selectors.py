"""Label selectors (`k8s.io/apimachinery/pkg/labels` and `metav1.LabelSelectorAsSelector`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct

from replay.go.format import aggregate
from replay.kube.admissionregistration import LabelSelector, LabelSelectorRequirement
from replay.kube.attributes import Missing
from replay.kube.names import label_value, qualified_name

Labels = Mapping[str, str | Missing]
"""Labels by key. A label that is `Missing` may have any value or be absent."""


class MatchSelectorError(Exception):
    """A selector is invalid. `str()` is the server's text."""


class Selector(Struct, frozen=True):
    """A valid selector. It matches labels that meet every requirement, and everything without requirements."""

    requirements: tuple[Callable[[Labels], bool | Missing], ...] = ()

    @property
    def is_empty(self) -> bool:
        """Return whether the selector has no requirement and so matches everything."""
        return not self.requirements

    def matches(self, labels: Labels) -> bool | Missing:
        """Return whether all requirements are met, or the first unknown label if the result depends on it."""
        unknown: Missing | None = None
        for requirement in self.requirements:
            met = requirement(labels)
            if met is False:
                return False
            if met is not True:
                unknown = unknown or met
        return unknown or True


EVERYTHING = Selector()


def selector_from_label_selector(label_selector: LabelSelector) -> Selector:
    """Return the selector of a `metav1.LabelSelector`. Raise `MatchSelectorError`.

    Of several errors the server reports the first that it meets. It walks `matchLabels` in random order, here they are
    sorted.
    """
    if not label_selector.match_labels and not label_selector.match_expressions:
        return EVERYTHING
    requirements = [_requirement(key, "=", (value,)) for key, value in sorted(label_selector.match_labels.items())]
    requirements += [_requirement_from_expression(expression) for expression in label_selector.match_expressions]
    return Selector(tuple(requirements))


def _requirement_from_expression(expression: LabelSelectorRequirement) -> Callable[[Labels], bool | Missing]:
    """Return the requirement of one of `matchExpressions`."""
    operator = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}.get(expression.operator)
    if operator is None:
        raise MatchSelectorError(f'"{expression.operator}" is not a valid label selector operator')
    return _requirement(expression.key, operator, expression.values)


def _requirement(key: str, operator: str, values: tuple[str, ...]) -> Callable[[Labels], bool | Missing]:
    """Return a requirement after the checks of `labels.NewRequirement`."""
    meets = _meets(key, operator, values)

    def decide(labels: Labels) -> bool | Missing:
        value = labels.get(key)
        return value if isinstance(value, Missing) else meets(value)

    return decide


def _meets(key: str, operator: str, values: tuple[str, ...]) -> Callable[[str | None], bool]:
    """Return a check of a label's value, which is None if the label is absent. Raise `MatchSelectorError`."""
    errors = _key_errors(key) + _operator_errors(operator, values) + _value_errors(key, values)
    if errors:
        raise MatchSelectorError(aggregate(errors))
    accepted = frozenset(values)
    if operator in ("=", "in"):
        # None stands for an absent label, which is in no set (`Requirement.Matches`).
        return lambda value: value in accepted
    if operator == "notin":
        # An absent label satisfies `notin`, as in `Requirement.Matches`.
        return lambda value: value not in accepted
    if operator == "exists":
        return lambda value: value is not None
    return lambda value: value is None


def _operator_errors(operator: str, values: tuple[str, ...]) -> list[str]:
    """Return the problem with the number of values of an operator, if any."""
    if operator in ("in", "notin") and not values:
        return ["values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty"]
    if operator in ("exists", "!") and values:
        shown = ",".join(f'"{value}"' for value in values)
        return [f"values: Invalid value: [{shown}]: values set must be empty for exists and does not exist"]
    return []


def _key_errors(key: str) -> list[str]:
    """Return the problems of a label key."""
    problems = qualified_name(key)
    return [f'key: Invalid value: "{key}": {"; ".join(problems)}'] if problems else []


def _value_errors(key: str, values: tuple[str, ...]) -> list[str]:
    """Return the problems of label values."""
    found = ((index, value, label_value(value)) for index, value in enumerate(values))
    return [
        f'values[{index}][{key}]: Invalid value: "{value}": {"; ".join(problems)}'
        for index, value, problems in found
        if problems
    ]
