"""Which overloads of a function fit the types of its arguments, and what the call's type is (`checker.resolveOverload`)."""

from __future__ import annotations

from collections.abc import Sequence

from replay.cel.declare.scope import CandidateOverload, Declarations, Signatures
from replay.cel.declare.unification import Substitutions, is_dyn, is_exact
from replay.cel.value.types import DYN, Kind, Type, type_param

Resolution = tuple[tuple[str, ...], Type | None]
"""The overloads that fit, in order of declaration, and the type of the call; no type if none fits."""


class OverloadResolver:
    """Tries the overloads in order; all that fit are kept, the first decides the type unless others give another one."""

    def __init__(self, declarations: Declarations, substitutions: Substitutions) -> None:
        """Bind type variables in the substitutions of one expression."""
        self._cache = declarations.resolution_cache
        self._substitutions = substitutions
        self._type_variables = 0

    def new_type_variable(self) -> Type:
        """A type parameter that nothing else is called; messages may show its number."""
        self._type_variables += 1
        return type_param(f"_var{self._type_variables - 1}")

    def resolve(self, signatures: Signatures, types: Sequence[Type], *, member: bool) -> Resolution:
        """The overloads of a call style that fit; the receiver of a member is the first of the types.

        Without free parameters in the arguments the answer is the same for every expression, and remembered.
        """
        if any(type_.parametric for type_ in types):
            return self._match(signatures, types, member=member)
        key = (signatures.name, member, tuple(types))
        match = self._cache.get(key)
        if match is not None:
            ids, result, used = match
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
        """The signature with fresh type variables for its parameters."""
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
