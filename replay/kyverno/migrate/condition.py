"""Conditions of `deny` and of preconditions as CEL (see `replay.kyverno.rules.{condition,operator}`).

Only keys that are plain paths can be translated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any

import orjson
from msgspec import Struct

from replay.go.time import DurationError, parse_duration
from replay.json import JSON
from replay.kube.quantity import is_quantity
from replay.kube.schema import Schema
from replay.kyverno.migrate.formula import (
    COMPARISON,
    FALSE,
    TRUE,
    Formula,
    NoEquivalentError,
    Place,
    Type,
    all_of,
    any_of,
    certain,
    compared,
    fits_any_wildcard,
    fits_wildcard,
    literal,
    negated,
)
from replay.kyverno.migrate.match import Reading
from replay.kyverno.migrate.pattern import boolean
from replay.kyverno.rules.condition import operator_named
from replay.kyverno.rules.go_value import sprint, with_floats
from replay.kyverno.rules.jmespath.syntax import Kind, Node, parse
from replay.kyverno.rules.match_pattern import operator_of
from replay.kyverno.rules.response import JMESPathError
from replay.kyverno.rules.substitution import VARIABLES, has_variables
from replay.kyverno.wildcard import has_wildcard

_RELATIONS = {"greaterthan": ">", "greaterthanorequals": ">=", "lessthan": "<", "lessthanorequals": "<="}
_MEMBERSHIP = frozenset({"anyin", "allin", "anynotin", "allnotin", "in", "notin"})
_OPERATIONS = ("CREATE", "UPDATE", "DELETE", "CONNECT")


class Outcome(Struct, frozen=True):
    """Formulas for conditions: when they are true, and when evaluating them fails."""

    holds: Formula
    errs: Formula = FALSE


class Variables(Struct, frozen=True):
    """Context in which variables are translated: how the request is read, the object's schemas, and the `element`.

    `has_namespace` says that all kinds are namespaced. Other requests have no `request.namespace`.
    """

    reading: Reading
    schemas: tuple[Schema, ...]
    has_namespace: bool
    element: Place | None = None


def conditions_outcome(conditions: JSON, variables: Variables) -> Outcome:
    """Return when conditions hold. They are a map with `any` and `all`, or a list. Raises UnsaidError."""
    if not isinstance(conditions, Mapping):
        return _all([_condition(each, variables) for each in conditions or ()])
    outcomes = []
    if conditions.get("any") is not None:
        outcomes.append(_any([_condition(each, variables) for each in conditions["any"]]))
    outcomes.append(_all([_condition(each, variables) for each in conditions.get("all") or ()]))
    holds = all_of(*(each.holds for each in outcomes))
    return Outcome(holds, any_of(*(each.errs for each in outcomes)))


def _any(outcomes: Sequence[Outcome]) -> Outcome:
    """Return the outcome of alternatives, evaluated in order until one holds or fails."""
    return reduce(
        lambda rest, each: Outcome(
            any_of(each.holds, all_of(negated(each.errs), rest.holds)),
            any_of(each.errs, all_of(negated(each.holds), rest.errs)),
        ),
        reversed(outcomes),
        Outcome(FALSE),
    )


def _all(outcomes: Sequence[Outcome]) -> Outcome:
    """Return the outcome of conditions that must all hold, evaluated in order until one does not."""
    return reduce(
        lambda rest, each: Outcome(all_of(each.holds, rest.holds), any_of(each.errs, all_of(each.holds, rest.errs))),
        reversed(outcomes),
        Outcome(TRUE),
    )


class _Key(Struct, frozen=True):
    """Key of a condition: a place in the object with a default, or a text of the request."""

    place: Place | None
    default: JSON = None
    has_default: bool = False
    text: str = ""
    """CEL expression of a text of the request. It is used instead of `place`."""
    choices: tuple[str, ...] = ()
    """All possible values of `text`, if known."""
    items: str = ""
    """Field that is taken from each item of a list."""
    fixed: str | None = None


def _condition(condition: Mapping[str, Any], variables: Variables) -> Outcome:
    value = with_floats(condition.get("value"))
    if has_variables(value):
        raise NoEquivalentError("the value of a condition has variables")
    name = str(condition.get("operator") or "")
    operator = operator_named(name)
    if operator is None:
        raise NoEquivalentError(f"there is no operator `{name}`")
    key = _key(condition.get("key"), variables)
    test = _Test(name, value, lambda one: operator(one, value))
    if key.fixed is not None:
        return Outcome(certain(holds=test.decided(key.fixed)))
    if key.choices:
        fitting = [each for each in key.choices if test.decided(each)]
        rest = [each for each in key.choices if each not in fitting]
        if len(fitting) > len(rest):
            return Outcome(negated(fits_any_wildcard(rest, key.text)))
        return Outcome(fits_any_wildcard(fitting, key.text))
    if key.text:
        return Outcome(test.text(key.text, Type.TEXT))
    assert key.place is not None
    return _place_condition(key, key.place, test)


def _place_condition(key: _Key, place: Place, test: _Test) -> Outcome:
    kind = place.type
    if key.items:
        return Outcome(_items_condition(key.items, place, test))
    if kind is Type.LIST:
        if key.has_default and key.default != []:
            raise NoEquivalentError(f"the default of the list {place.path} is not empty")
        item = place.item("item")
        found = test.items(f"{place.default('[]')}", "item", TRUE, "item", item.type)
        if key.has_default:
            return Outcome(found)
        return Outcome(all_of(place.exists, found), negated(place.exists))
    if kind not in (Type.TEXT, Type.QUANTITY, Type.INTEGER, Type.BOOLEAN):
        raise NoEquivalentError(f"{place.path} is neither text, number, boolean nor a list of these")
    if not key.has_default:
        return Outcome(all_of(place.exists, test.scalar(place.plain, kind)), negated(place.exists))
    default = test.decided(with_floats(key.default))
    if kind is Type.INTEGER:
        if isinstance(key.default, float) and key.default.is_integer():
            return Outcome(test.scalar(place.default(literal(key.default)), kind))
        there = all_of(place.exists, test.scalar(place.plain, kind))
        return Outcome(any_of(there, all_of(negated(place.exists), certain(holds=default))))
    if kind is Type.BOOLEAN:
        # To JMESPath false is as good as nothing.
        return Outcome(boolean(place.default("false"), when_true=test.decided(True), when_false=default))
    if test.decided("") is default:
        shown = literal(key.default) if isinstance(key.default, str) else "''"
        same = not isinstance(key.default, str) or test.decided(key.default) is default
        return Outcome(test.scalar(place.default(shown if same else "''"), kind))
    is_set = compared(place.default("''"), "!=", "''")
    return Outcome(
        any_of(all_of(is_set, test.scalar(place.plain, kind)), all_of(negated(is_set), certain(holds=default)))
    )


def _items_condition(field: str, place: Place, test: _Test) -> Formula:
    """Return a condition about one field of each list item. Items without it are skipped. Without a list it is false."""
    if place.type is not Type.LIST:
        raise NoEquivalentError(f"{place.path} is not a list")
    item = place.item("item")
    own = item.field(field)
    return all_of(place.exists, test.items(place.default("[]"), "item", own.exists, own.plain, own.type))


class _Test(Struct, frozen=True):
    """Operator with its value. `decided` is the result for a known key."""

    name: str
    value: JSON
    decided: Callable[[JSON], bool]

    def scalar(self, text: str, kind: Type) -> Formula:
        """Return when the operator holds for a key of a scalar type."""
        if kind is Type.BOOLEAN:
            return boolean(text, when_true=self.decided(True), when_false=self.decided(False))
        return self._integer(text) if kind is Type.INTEGER else self.text(text, kind)

    def text(self, text: str, kind: Type) -> Formula:
        """Return when the operator holds for a key that is a string."""
        name = self.name.lower()
        if name in ("equal", "equals"):
            return self._equals(text)
        if name in ("notequal", "notequals"):
            return negated(self._equals(text))
        if name in _MEMBERSHIP:
            fits = fits_any_wildcard(self._patterns(), text)
            return negated(fits) if "not" in name else fits
        if kind is Type.QUANTITY and self.name.lower() in _RELATIONS and isinstance(self.value, str):
            _refuse_durations(self.value)
            if operator_named(self.name) is not None and is_quantity(self.value):
                order = f"quantity({text}).compareTo(quantity({literal(self.value)}))"
                return compared(order, _RELATIONS[name], "0")
        raise NoEquivalentError(f"`{self.name}` compares texts by what they look like")

    def _equals(self, text: str) -> Formula:
        if not isinstance(self.value, str):
            raise NoEquivalentError(f"`{self.name}` compares a text with `{sprint(self.value)}`")
        _refuse_durations(self.value)
        if is_quantity(self.value):
            order = compared(f"quantity({text}).compareTo(quantity({literal(self.value)}))", "==", "0")
            return all_of(Formula(f"isQuantity({text})"), order)
        fits = fits_wildcard(self.value, text)
        # What reads as a quantity is compared as one, and is none of these.
        return all_of(negated(Formula(f"isQuantity({text})")), fits) if has_wildcard(self.value) else fits

    def _patterns(self) -> list[str]:
        """Return the values that a membership operator lists."""
        if isinstance(self.value, list):
            if any(isinstance(each, dict | list) or each is None for each in self.value):
                raise NoEquivalentError(f"the value of `{self.name}` is not a list of strings")
            return [sprint(each) for each in self.value]
        if not isinstance(self.value, str) or self.name.lower() in ("in", "notin"):
            raise NoEquivalentError(f"the value of `{self.name}` is not a list")
        try:
            orjson.loads(self.value)
        except orjson.JSONDecodeError:
            if operator_of(self.value) != "-":
                return [self.value]
        raise NoEquivalentError(f"the value of `{self.name}` is read as JSON or as a range")

    def _integer(self, text: str) -> Formula:
        name = self.name.lower()
        if name in _MEMBERSHIP:
            patterns = self._patterns()
            if any(map(has_wildcard, patterns)):
                raise NoEquivalentError(f"the value of `{self.name}` has wildcards for a number")
            found = Formula(f"{text} in {literal([int(each) for each in patterns if _is_whole(each)])}", COMPARISON)
            return negated(found) if "not" in name else found
        number = self.value
        if isinstance(number, str):
            _refuse_durations(number)
            number = float(number) if _is_whole(number) else number
        if not isinstance(number, float) or not number.is_integer():
            raise NoEquivalentError(f"`{self.name}` compares a number with `{sprint(self.value)}`")
        relation = _RELATIONS.get(name) or {"equal": "==", "equals": "==", "notequal": "!=", "notequals": "!="}.get(
            name
        )
        if relation is None:
            raise NoEquivalentError(f"`{self.name}` is not said of numbers")
        return compared(text, relation, literal(number))

    def items(self, items: str, name: str, there: Formula, text: str, kind: Type) -> Formula:
        """Return when the operator holds for a list of strings. `there` says which items count."""
        operator = self.name.lower()
        if operator not in ("anyin", "allin", "anynotin", "allnotin") or kind is not Type.TEXT:
            raise NoEquivalentError(f"`{self.name}` compares a list")
        fits = fits_any_wildcard(self._patterns(), text)
        wanted = negated(fits) if operator in ("anynotin", "allnotin") else fits
        if operator in ("anyin", "anynotin"):
            return Formula(f"{items}.exists({name}, {all_of(there, wanted).text})")
        return Formula(f"{items}.all({name}, {any_of(negated(there), wanted).text})")


def _is_whole(text: str) -> bool:
    return text.removeprefix("-").isdecimal() and str(int(text)) == text


def _refuse_durations(text: str) -> None:
    try:
        parse_duration(text)
    except DurationError:
        return
    if text != "0":
        raise NoEquivalentError(f"`{text}` is compared as a duration")


def _key(written: JSON, variables: Variables) -> _Key:
    """Return the parsed key of a condition, which must be exactly one variable. Raises UnsaidError."""
    if not isinstance(written, str) or not (found := VARIABLES.fullmatch(written)):
        raise NoEquivalentError("the key of a condition is not one variable")
    inner = found[0].removeprefix("{{").removesuffix("}}").strip()
    if "{" in inner or "@" in inner:
        raise NoEquivalentError(f"`{inner}` is not a plain path")
    try:
        return _node_key(parse(inner), inner, variables)
    except JMESPathError:
        raise NoEquivalentError(f"`{inner}` is no JMESPath") from None


def _node_key(node: Node, shown: str, variables: Variables) -> _Key:
    if node.kind is Kind.OR:
        left, right = node.children
        if right.kind is not Kind.LITERAL:
            raise NoEquivalentError(f"`{shown}` has a default that is not a literal")
        key = _node_key(left, shown, variables)
        if key.text or key.fixed is not None:
            return key  # who asks, and for what, is never empty
        if key.has_default or key.items or key.place is None:
            raise NoEquivalentError(f"`{shown}` is not a plain path with a default")
        return _Key(key.place, right.value, has_default=True)
    if node.kind is Kind.PROJECTION and node.children[1].kind is Kind.FIELD:
        left = node.children[0]
        key = _node_key(left.children[0] if left.kind is Kind.FLATTEN else left, shown, variables)
        if key.place is None or key.items:
            raise NoEquivalentError(f"`{shown}` is not a plain path")
        return _Key(key.place, items=node.children[1].value)
    return _path_key(path_fields(node, shown), shown, variables)


def path_fields(node: Node, shown: str) -> list[str]:
    """Return the fields of a plain path. Raises UnsaidError."""
    if node.kind is Kind.FIELD:
        return [str(node.value)]
    if node.kind is Kind.SUBEXPRESSION:
        return [*path_fields(node.children[0], shown), *path_fields(node.children[1], shown)]
    raise NoEquivalentError(f"`{shown}` is not a plain path")


def _path_key(fields: list[str], shown: str, variables: Variables) -> _Key:
    reading = variables.reading
    match fields:
        case ["request", "object", *rest] if rest:
            place = Place(reading.object, reading.object, variables.schemas)
            for field in rest:
                place = place.field(field)
            return _Key(place)
        case ["element", *rest] if rest and variables.element is not None:
            place = variables.element
            for field in rest:
                place = place.field(field)
            return _Key(place)
        case ["request", "operation"]:
            if reading.is_before:
                return _Key(None, fixed="CREATE")
            return _Key(None, text=reading.operation, choices=_OPERATIONS)
        case ["request", "namespace"] if variables.has_namespace:
            return _Key(None, text="request.namespace")
        case ["request", "userInfo", "username"]:
            return _Key(None, text="request.userInfo.username")
    raise NoEquivalentError(
        f"`{shown}` is not read from the object, the operation, the namespace or the name of the user"
    )
