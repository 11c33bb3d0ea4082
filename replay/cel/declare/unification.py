"""Assignability of types and bindings of type parameters (`checker/types.go` of cel-go).

They decide which overloads of a function fit the types of its arguments, and the type of the call
(`checker.resolveOverload`).
"""

from __future__ import annotations

from collections.abc import Sequence

from replay.cel.declare.scope import CandidateOverload, Declarations, Signatures
from replay.cel.value.types import DYN, Kind, Type, type_param

_DYNAMIC = frozenset({Kind.DYN, Kind.ANY})
_WILDCARD = frozenset({Kind.DYN, Kind.ANY, Kind.ERROR})
_PARAMETRIC = frozenset({Kind.OPAQUE, Kind.LIST, Kind.MAP})
_NULLABLE = frozenset({Kind.OPAQUE, Kind.STRUCT, Kind.DURATION, Kind.TIMESTAMP, Kind.WRAPPER})
_SCALAR = frozenset(
    {
        *(Kind.BOOL, Kind.BYTES, Kind.DOUBLE, Kind.INT, Kind.STRING, Kind.UINT, Kind.WRAPPER),
        *(Kind.DURATION, Kind.TIMESTAMP, Kind.STRUCT),
    }
)


def is_dyn(type_: Type) -> bool:
    """Return whether a type accepts anything at check time."""
    return type_.kind in _DYNAMIC


def is_dyn_or_error(type_: Type) -> bool:
    """Return whether checking continues without looking at the type."""
    return type_.kind in _WILDCARD


def unwrap_optional(type_: Type) -> tuple[Type, bool]:
    """Return `T` and True for `optional_type(T)`, otherwise the type and False."""
    if type_.kind is Kind.OPAQUE and type_.name == "optional_type":
        return type_.parameters[0], True
    return type_, False


def _unwrap(type_: Type) -> Type:
    return type_.parameters[0] if type_.kind is Kind.WRAPPER else type_


def is_exact(left: Type, right: Type) -> bool:
    """Return whether two types are the same. A wrapper equals the type it wraps, because it has the same kind."""
    return left.kind is not Kind.UNKNOWN and (left == right or _unwrap(left) == _unwrap(right))


def is_equivalent(left: Type, right: Type) -> bool:
    """Return whether two types are the same except for the names of type parameters."""
    left, right = _unwrap(left), _unwrap(right)
    if left.kind is not right.kind or len(left.parameters) != len(right.parameters):
        return False
    if left.kind is not Kind.TYPE_PARAM and left.name != right.name:
        return False
    return all(is_equivalent(one, other) for one, other in zip(left.parameters, right.parameters, strict=True))


def is_equal_or_less_specific(left: Type, right: Type) -> bool:
    """Return whether the first type accepts at least what the second does. `dyn` and parameters accept anything."""
    if left.kind in _DYNAMIC or left.kind is Kind.TYPE_PARAM:
        return True
    if right.kind in _DYNAMIC or right.kind is Kind.TYPE_PARAM:
        return False
    left, right = _unwrap(left), _unwrap(right)
    if left.kind is not right.kind:
        return False
    if left.kind in _PARAMETRIC:
        return (
            left.name == right.name
            and len(left.parameters) == len(right.parameters)
            and all(map(is_equal_or_less_specific, left.parameters, right.parameters))
        )
    return left.kind is Kind.TYPE or left == right


def most_general(left: Type, right: Type) -> Type:
    """Return the more general of two types that are known to fit."""
    return left if is_equal_or_less_specific(left, right) else right


class Substitutions:
    """Bindings of the type parameters of one expression."""

    __slots__ = ("_bound", "_trail")

    def __init__(self) -> None:
        """Start without bindings."""
        self._bound: dict[str, Type] = {}
        self._trail: list[tuple[str, Type | None]] = []

    def is_assignable(self, left: Type, right: Type) -> bool:
        """Return whether the first type fits the second, and bind parameters if it does."""
        self._trail.clear()
        if self._assignable(left, right):
            return True
        self._undo()
        return False

    def is_assignable_list(self, left: Sequence[Type], right: Sequence[Type]) -> bool:
        """Return whether each type fits the one at the same position, and bind parameters if all do."""
        self._trail.clear()
        if self._assignable_list(left, right):
            return True
        self._undo()
        return False

    def substitute(self, type_: Type, *, to_dyn: bool) -> Type:
        """Return the type with bound parameters replaced, and unbound ones replaced by `dyn` if `to_dyn`."""
        if not type_.parametric:
            return type_
        kind = type_.kind
        if kind is Kind.TYPE_PARAM:
            bound = self._bound.get(type_.name)
            if bound is not None:
                return self.substitute(bound, to_dyn=to_dyn)
            return DYN if to_dyn else type_
        parameters = [self.substitute(parameter, to_dyn=to_dyn) for parameter in type_.parameters]
        return Type(kind, type_.name, tuple(parameters))

    def _bind(self, name: str, type_: Type) -> None:
        self._trail.append((name, self._bound.get(name)))
        self._bound[name] = type_

    def _undo(self) -> None:
        while self._trail:
            name, previous = self._trail.pop()
            if previous is None:
                del self._bound[name]
            else:
                self._bound[name] = previous

    def _assignable(self, left: Type, right: Type) -> bool:  # noqa: PLR0911 - one rule after another, as upstream
        if right.kind is Kind.TYPE_PARAM:
            valid, bound = self._valid_substitution(left, right)
            # Otherwise the left type may be a parameter too, and bind the right one.
            if valid or bound:
                return valid
        if left.kind is Kind.TYPE_PARAM:
            return self._valid_substitution(right, left)[0]
        if left.kind in _WILDCARD or right.kind in _WILDCARD:
            return True
        if left.kind is Kind.NULL or right.kind is Kind.NULL:
            other = right if left.kind is Kind.NULL else left
            return other.kind in _NULLABLE or other.kind is Kind.NULL
        if left.kind in _SCALAR:
            return is_exact(left, right)
        if left.kind is not right.kind or left.kind is Kind.UNKNOWN:
            return False
        if left.kind is Kind.TYPE:
            return True
        return left.name == right.name and self._assignable_list(left.parameters, right.parameters)

    def _assignable_list(self, left: Sequence[Type], right: Sequence[Type]) -> bool:
        if len(left) != len(right):
            return False
        return all(map(self._assignable, left, right))

    def _valid_substitution(self, type_: Type, parameter: Type) -> tuple[bool, bool]:
        """Return whether the type may bind the parameter, and whether the parameter is bound already."""
        if type_.kind is Kind.TYPE_PARAM and type_.name == parameter.name:
            return True, True
        bound = self._bound.get(parameter.name)
        if bound is not None:
            if is_exact(type_, bound):
                return True, True
            if not self._assignable(type_, bound):
                return False, True
            general = most_general(type_, bound)
            if self._not_referenced_in(parameter, general):
                self._bind(parameter.name, general)
            return True, True
        if self._not_referenced_in(parameter, type_):
            self._bind(parameter.name, type_)
            return True, False
        return False, False

    def _not_referenced_in(self, parameter: Type, within: Type) -> bool:
        """Return whether a type does not contain the parameter that it is to replace (the occurs check)."""
        if not within.parametric:
            return True
        if within.kind is Kind.TYPE_PARAM:
            if within.name == parameter.name:
                return False
            bound = self._bound.get(within.name)
            return bound is None or self._not_referenced_in(parameter, bound)
        return all(self._not_referenced_in(parameter, inner) for inner in within.parameters)


Resolution = tuple[tuple[str, ...], Type | None]
"""The overloads that fit, in the order of declaration, and the type of the call. There is no type if none fits."""


class OverloadResolver:
    """Tries the overloads in order and keeps all that fit.

    The first one decides the type of the call. If another one has a different type, the type is `dyn`.
    """

    def __init__(self, declarations: Declarations, substitutions: Substitutions) -> None:
        """Bind type variables in the substitutions of one expression."""
        self._cache = declarations.resolution_cache
        self._substitutions = substitutions
        self._type_variables = 0

    def new_type_variable(self) -> Type:
        """Return a type parameter with an unused name. Error messages may show its number."""
        self._type_variables += 1
        return type_param(f"_var{self._type_variables - 1}")

    def resolve(self, signatures: Signatures, types: Sequence[Type], *, member: bool) -> Resolution:
        """Return the overloads of a call style that fit. The receiver of a member function is the first of the types.

        If the arguments have no free parameters, the answer is the same for every expression, and is cached.
        """
        if any(type_.parametric for type_ in types):
            return self._match(signatures, types, member=member)
        key = (signatures.name, member, tuple(types))
        match = self._cache.get(key)
        if match is not None:
            ids, result, used = match
            # Numbers go on as without the cache, because error messages can show them.
            self._type_variables += used
            return ids, result
        variables_before = self._type_variables
        ids, resolution = self._match(signatures, types, member=member)
        if resolution is not None and not resolution.parametric:
            self._cache[key] = (ids, resolution, self._type_variables - variables_before)
        return ids, resolution

    def _match(self, signatures: Signatures, types: Sequence[Type], *, member: bool) -> Resolution:
        ids: list[str] = []
        result: Type | None = None
        for overload in signatures.of_members if member else signatures.of_globals:
            args, declared = self._instantiated(overload)
            if not self._substitutions.is_assignable_list(types, args):
                continue
            ids.append(overload.id)
            type_ = self._substitutions.substitute(declared, to_dyn=False)
            if result is None:
                result = type_
            elif not is_dyn(result) and not is_exact(type_, result):
                result = DYN
        return tuple(ids), result

    def _instantiated(self, overload: CandidateOverload) -> tuple[tuple[Type, ...], Type]:
        """Return the signature with fresh type variables for its parameters."""
        if not overload.parameters:
            return overload.args, overload.result
        fresh = {name: self.new_type_variable() for name in overload.parameters}
        return tuple([_renamed(arg, fresh) for arg in overload.args]), _renamed(overload.result, fresh)


def _renamed(type_: Type, names: dict[str, Type]) -> Type:
    if not type_.parametric:
        return type_
    if type_.kind is Kind.TYPE_PARAM:
        return names[type_.name]
    return Type(type_.kind, type_.name, tuple([_renamed(inner, names) for inner in type_.parameters]))
