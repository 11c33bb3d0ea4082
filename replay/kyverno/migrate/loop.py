"""`foreach` of validating rules as CEL: some element of a list violates (see `replay.kyverno.rules.validate`).

Kyverno stops at the first element that violates or cannot be evaluated. Both deny if `failurePolicy` is Fail.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace

from replay.kyverno.migrate.condition import Outcome, Variables, conditions_outcome, path_fields
from replay.kyverno.migrate.formula import FALSE, TRUE, Formula, UnsaidError, all_of, any_of, negated
from replay.kyverno.migrate.object_pattern import fits_patterns
from replay.kyverno.migrate.place import Place, Type
from replay.kyverno.rules.errors import JMESPathError
from replay.kyverno.rules.go_value import as_map
from replay.kyverno.rules.jmespath.syntax import Kind, parse

_READ: Final = frozenset({"list", "preconditions", "deny", "pattern", "anyPattern"})
_ELEMENT: Final = "element"


def loops_outcome(loops: Sequence[Mapping[str, Any]], variables: Variables) -> Outcome:
    """Return when some element violates, and when evaluating one fails. Both may be true at once. Raises UnsaidError."""
    outcomes = [each for loop in loops for each in _loop(loop, variables)]
    return Outcome(any_of(*(each.holds for each in outcomes)), any_of(*(each.errs for each in outcomes)))


def _loop(loop: Mapping[str, Any], variables: Variables) -> list[Outcome]:
    if unread := sorted(loop.keys() - _READ):
        raise UnsaidError(f"its foreach has `{unread[0]}`")
    return [_list(each, loop, variables) for each in _lists(str(loop.get("list") or ""), variables)]


def _list(place: Place, loop: Mapping[str, Any], variables: Variables) -> Outcome:
    if place.type is not Type.LIST:
        raise UnsaidError(f"{place.path} is no list")
    element = place.item(_ELEMENT)
    if element.type is not Type.OBJECT:
        raise UnsaidError(f"{place.path} is no list of objects")
    own = replace(variables, element=element)
    met = Outcome(TRUE)
    if loop.get("preconditions") is not None:
        met = conditions_outcome(loop["preconditions"], own)
    # An element whose preconditions cannot be evaluated is skipped.
    is_asked = all_of(negated(met.errs), met.holds)
    violates = _violation(loop, element, own)
    return Outcome(_some(place, all_of(is_asked, violates.holds)), _some(place, all_of(is_asked, violates.errs)))


def _violation(loop: Mapping[str, Any], element: Place, variables: Variables) -> Outcome:
    if loop.get("deny") is not None:
        return conditions_outcome(as_map(loop["deny"]).get("conditions"), variables)
    patterns = [loop["pattern"]] if loop.get("pattern") is not None else loop.get("anyPattern")
    if not isinstance(patterns, list) or not patterns:
        raise UnsaidError("its foreach has neither pattern nor conditions")
    return Outcome(negated(fits_patterns(element, patterns)))


def _some(place: Place, condition: Formula) -> Formula:
    return FALSE if condition == FALSE else Formula(f"{place.default('[]')}.exists({_ELEMENT}, {condition.text})")


def _lists(expression: str, variables: Variables) -> list[Place]:
    """Return the lists of an expression: one path, or several fields of one path. Absent lists have no elements."""
    try:
        node = parse(expression)
    except JMESPathError:
        raise UnsaidError(f"`{expression}` is no JMESPath") from None
    is_flattened = node.kind is Kind.PROJECTION and node.children[0].kind is Kind.FLATTEN
    if is_flattened and node.children[1].kind is Kind.IDENTITY:
        node = node.children[0].children[0]
    if is_flattened and node.kind is Kind.SUBEXPRESSION and node.children[1].kind is Kind.LIST:
        parent, names = node.children
        fields = path_fields(parent, expression)
        return [_place([*fields, *path_fields(each, expression)], expression, variables) for each in names.children]
    return [_place(path_fields(node, expression), expression, variables)]


def _place(fields: Sequence[str], expression: str, variables: Variables) -> Place:
    if tuple(fields[:2]) != ("request", "object") or len(fields) == 2:
        raise UnsaidError(f"`{expression}` is no list of the object")
    root = variables.reading.object
    place = Place(root, root, variables.schemas)
    for field in fields[2:]:
        place = place.field(field)
    return place
