"""Finds the implementation of a call: one overload, one function for all, or a choice by argument types at run time.

The rules are those of cel-go's `FunctionDecl.Bindings`: an overload's own implementation is guarded by its argument
types. A function with several implementations gets a dispatcher that tries them in the order of declaration.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from replay.cel.declare.cost import CallCosts, CallEstimator, Estimates, Range, standard_costs
from replay.cel.declare.library import Function, Implementation, Library, Overload
from replay.cel.declare.stdlib import IMPLEMENTATIONS, SINGLETONS, UNGUARDED
from replay.cel.release import NEWEST_RELEASE, Release
from replay.cel.value.equality import every_element, find, is_list, is_map, map_keys
from replay.cel.value.text import type_name
from replay.cel.value.types import BOOL, DOUBLE, STRING, Kind, Type
from replay.cel.value.values import EvalError, Unknown, Value

_DYNAMIC = frozenset({Kind.DYN, Kind.ANY, Kind.TYPE_PARAM})
_PLAIN = {str: STRING, bool: BOOL, float: DOUBLE}
"""Types whose values all have one declared type."""


def is_assignable(declared: Type, value: Value) -> bool:
    """Return whether a value may be an argument of a declared type. Only the first entry of a list or map is checked."""
    if _PLAIN.get(type(value)) is declared or declared.kind in _DYNAMIC:
        return True
    if declared.kind is Kind.WRAPPER:
        return value is None or is_assignable(declared.parameters[0], value)
    if declared.name != type_name(value):
        return False
    if declared.kind is Kind.LIST and is_list(value):
        return all(is_assignable(declared.parameters[0], element) for element in _first_value(every_element(value)))
    if declared.kind is Kind.MAP and is_map(value):
        key_type, value_type = declared.parameters
        return all(
            is_assignable(key_type, key) and is_assignable(value_type, find(value, key)[1])
            for key in _first_value(map_keys(value))
        )
    return True


def _first_value(values: Iterable[Value]) -> list[Value]:
    for value in values:
        return [value]
    return []


def no_such_overload(function: str, args: Sequence[Value]) -> EvalError | Unknown:
    """Return the error that names the types of the arguments. An error or unknown among them wins."""
    unknown: Unknown | None = None
    for arg in args:
        if isinstance(arg, EvalError):
            return arg
        if isinstance(arg, Unknown):
            unknown = arg.merge(unknown)
    if unknown is not None:
        return unknown
    return EvalError(f"no such overload: {function}({', '.join(type_name(arg) for arg in args)})")


class OverloadBinding(Struct, frozen=True):
    """Implementation of a call.

    `eager` calls evaluate every argument first. `of_texts` means that all arguments are strings.
    """

    implementation: Implementation
    trait: str = ""
    non_strict: bool = False
    eager: bool = True
    of_texts: bool = False


def _accepts(overload: Overload, args: Sequence[Value], *, guards: bool) -> bool:
    if len(args) != len(overload.args):
        return False
    for declared, arg in zip(overload.args, args, strict=True):
        if isinstance(arg, EvalError | Unknown):
            if not overload.non_strict:
                return False
        elif guards and not is_assignable(declared, arg):
            return False
    return True


def _guarded(function: str, overload: Overload, body: Implementation, *, guards: bool) -> Implementation:
    def call(*args: Value) -> Value:
        if not _accepts(overload, args, guards=guards):
            return no_such_overload(function, args)
        return body(*args)

    return call


def _choosing(function: str, bound: Sequence[tuple[Overload, Implementation]], *, guards: bool) -> Implementation:
    def call(*args: Value) -> Value:
        for overload, body in bound:
            if _accepts(overload, args, guards=guards):
                return body(*args)
        return no_such_overload(function, args)

    return call


class Dispatcher:
    """Bindings by overload id and by function name, and the costs that libraries declare."""

    def __init__(self, libraries: Sequence[Library], release: Release = NEWEST_RELEASE) -> None:
        """Later libraries add overloads to the functions of earlier ones, or replace their implementation."""
        self.release = release
        self.standard_costs = standard_costs(release)
        self._bindings = {name: OverloadBinding(one.implementation, one.trait) for name, one in SINGLETONS.items()}
        costs = {}
        for function in merged_functions(libraries):
            self._bind(function)
            for overload in reversed(function.overloads):
                if overload.cost is not None:
                    costs[overload.id] = costs[function.name] = overload.cost
                if overload.cost_by_id is not None:
                    costs[overload.id] = overload.cost_by_id
        self.costs: CallCosts = costs
        self.estimates = _estimates(libraries)

    def find(self, name: str) -> OverloadBinding | None:
        """Return the binding of an overload id or function name, or None if there is none."""
        return self._bindings.get(name)

    def _bind(self, function: Function) -> None:
        name = function.name
        single = SINGLETONS.get(name)
        if function.singleton is not None:
            self._bindings[name] = OverloadBinding(function.singleton, function.operand_trait, eager=True)
            return
        if single is not None:
            self._bindings[name] = OverloadBinding(single.implementation, single.trait)
            return
        guards = function.type_guards and name not in UNGUARDED
        bound = [(o, body) for o in function.overloads if (body := o.implementation or IMPLEMENTATIONS.get(o.id))]
        for overload, body in bound:
            guarded = _guarded(name, overload, body, guards=guards)
            eager = 1 <= len(overload.args) <= 2
            of_texts = all(declared is STRING for declared in overload.args)
            binding = OverloadBinding(guarded, non_strict=overload.non_strict, eager=eager, of_texts=of_texts)
            self._bindings[overload.id] = binding
        if len(bound) == 1:
            self._bindings.setdefault(name, self._bindings[bound[0][0].id])
        elif bound:
            choosing = _choosing(name, bound, guards=guards)
            non_strict = any(overload.non_strict for overload, _ in bound)
            self._bindings[name] = OverloadBinding(choosing, non_strict=non_strict, eager=False)


def _estimates(libraries: Iterable[Library]) -> Estimates:
    """Return the cost estimates of calls that the libraries declare."""
    calls: dict[str, CallEstimator] = {}
    equality: dict[str, Range] = {}
    for library in libraries:
        equality.update(library.equality)
        for function in library.functions:
            calls.update({each.id: each.estimate for each in function.overloads if each.estimate is not None})
    return Estimates(calls, equality)


def merged_functions(libraries: Sequence[Library]) -> list[Function]:
    """Return the functions of all libraries, each name once, with all overloads in the order of declaration."""
    merged: dict[str, Function] = {}
    for library in libraries:
        for function in library.functions:
            earlier = merged.get(function.name)
            merged[function.name] = function if earlier is None else _merge(earlier, function)
    return list(merged.values())


def _merge(earlier: Function, added: Function) -> Function:
    overloads = {overload.id: overload for overload in earlier.overloads}
    for overload in added.overloads:
        if overload.id not in overloads or overload.implementation is not None:
            overloads[overload.id] = overload
    return Function(
        earlier.name,
        tuple(overloads.values()),
        added.singleton or earlier.singleton,
        added.operand_trait or earlier.operand_trait,
        earlier.type_guards or added.type_guards,
    )
