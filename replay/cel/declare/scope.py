"""The meaning of names at check time: declarations of the environment and variables of the enclosing comprehensions.

Names resolve as in cel-go (`checker/env.go`, `common/containers`): first variables of comprehensions, then, from the
container outwards, declared variables, types and struct types.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from typing import NamedTuple

from replay.cel.declare.library import Function, Library, Overload, VariableDecl
from replay.cel.declare.wellknown import WELL_KNOWN_TYPES
from replay.cel.value.types import Kind, Type, struct_type, type_type

_NO_FIELDS: Mapping[str, Type] = {}


class CandidateOverload(NamedTuple):
    """An overload as the checker tries it, with the names of its type parameters."""

    id: str
    args: tuple[Type, ...]
    result: Type
    parameters: tuple[str, ...]


class Signatures(NamedTuple):
    """The overloads of a function by call style, in the order of declaration."""

    name: str
    of_globals: tuple[CandidateOverload, ...]
    of_members: tuple[CandidateOverload, ...]


class Resolved(NamedTuple):
    """A declared name and its type.

    `disambiguated` means that a variable of a comprehension hides the name at the place of use.
    """

    name: str
    type: Type
    disambiguated: bool = False


class Declarations:
    """Everything that is declared outside of an expression, built once and used for many expressions.

    Functions of the same name are merged in the order of the libraries. `container` is the namespace in which names are
    resolved.
    """

    def __init__(
        self,
        libraries: Iterable[Library],
        variables: Iterable[VariableDecl] = (),
        *,
        container: str = "",
    ) -> None:
        """Index the libraries by name."""
        libraries = tuple(libraries)
        self.container = container
        self.resolution_cache: dict[tuple[str, bool, tuple[Type, ...]], tuple[tuple[str, ...], Type, int]] = {}
        self._variables = {decl.name: decl.type for library in libraries for decl in library.variables}
        self._variables.update({decl.name: decl.type for decl in variables})
        self.constants = {decl.name: decl.value for each in libraries for decl in each.variables if decl.is_constant}
        """The names that stand for a value."""
        self.lazy_map = next((decl.name for each in libraries for decl in each.variables if decl.is_lazy), "")
        self._types = {type_.name: type_ for library in libraries for type_ in library.types}
        self._aliases = {name: type_ for library in libraries for name, type_ in library.aliases.items()}
        self._structs = [library.struct_fields for library in libraries if library.struct_fields]
        valued = [library.struct_fields for library in libraries if not library.has_struct_types]
        self._values = {name for fields in valued for name in fields}
        self._signatures = _signatures(libraries)
        self._namespaces = {name.partition(".")[0] for name in self._signatures if "." in name}
        dotted = [*self._variables, *self._types, *(name for fields in self._structs for name in fields)]
        self._qualified_roots = {name.partition(".")[0] for name in dotted if "." in name}

    def with_variables(
        self, variables: Mapping[str, Type], structs: Iterable[Mapping[str, Mapping[str, Type]]]
    ) -> Declarations:
        """Return a copy whose added variables and struct types take precedence over others of the same name."""
        extended = copy(self)
        extended._variables = {**self._variables, **variables}  # noqa: SLF001 - of its own class
        extended._structs = [*structs, *self._structs]  # noqa: SLF001
        roots = {name.partition(".")[0] for name in variables if "." in name}
        extended._qualified_roots = self._qualified_roots | roots  # noqa: SLF001
        return extended

    def candidate_names(self, name: str) -> Sequence[str]:
        """Return the full names that a name may stand for, innermost namespace first. A leading dot means the root."""
        if name.startswith("."):
            return (name[1:],)
        if not self.container:
            return (name,)
        parts = self.container.split(".")
        return [".".join([*parts[:count], name]) for count in range(len(parts), 0, -1)] + [name]

    def may_be_qualified(self, root: str) -> bool:
        """Return whether any declared name could begin with this part and a dot."""
        return bool(self.container) or root.removeprefix(".") in self._qualified_roots

    def may_be_namespace(self, root: str) -> bool:
        """Return whether any function name begins with this part and a dot."""
        return bool(self.container) or root.removeprefix(".") in self._namespaces

    def function(self, name: str) -> Signatures | None:
        """Return the function that a name stands for, or None if there is none."""
        signature = self._signatures.get(name)
        if signature is not None and not self.container:
            return signature
        for candidate in self.candidate_names(name):
            signature = self._signatures.get(candidate)
            if signature is not None:
                return signature
        return None

    def name(self, name: str) -> Resolved | None:
        """Return the variable or type that a name stands for outside of comprehensions, or None if there is none."""
        for candidate in self.candidate_names(name):
            type_ = self._variables.get(candidate)
            if type_ is not None:
                return Resolved(candidate, type_)
            resolved = self._type(candidate)
            if resolved is not None:
                return resolved
        return None

    def type_name(self, name: str) -> Resolved | None:
        """Return the type that a name stands for where a message is built, or None if there is none."""
        for candidate in self.candidate_names(name):
            resolved = self._type(candidate)
            if resolved is not None:
                return resolved
        return None

    def _type(self, name: str) -> Resolved | None:
        type_ = self._types.get(name)
        if type_ is not None:
            return Resolved(name, type_type(type_))
        alias = self._aliases.get(name)
        if alias is not None:
            return Resolved(name, type_type(alias))
        if name in self._values:
            return Resolved(name, struct_type(name))
        if self.fields(name) is not None:
            return Resolved(name, type_type(WELL_KNOWN_TYPES.get(name) or struct_type(name)))
        return None

    def fields(self, struct: str) -> Mapping[str, Type] | None:
        """Return the fields of a struct type, or None if there is no such type."""
        for structs in self._structs:
            fields = structs.get(struct)
            if fields is not None:
                return fields
        return _NO_FIELDS if struct in self._aliases else None


def _signatures(libraries: Iterable[Library]) -> dict[str, Signatures]:
    merged: dict[str, dict[str, Overload]] = {}
    for library in libraries:
        for function in library.functions:
            _merge(merged.setdefault(function.name, {}), function)
    return {
        name: Signatures(
            name,
            tuple([_candidate(overload) for overload in overloads.values() if not overload.member]),
            tuple([_candidate(overload) for overload in overloads.values() if overload.member]),
        )
        for name, overloads in merged.items()
    }


def _merge(overloads: dict[str, Overload], function: Function) -> None:
    """Add a function's overloads. A repeated overload id replaces the earlier one in place."""
    for overload in function.overloads:
        overloads[overload.id] = overload


def _candidate(overload: Overload) -> CandidateOverload:
    names = sorted(_parameter_names((overload.result, *overload.args)))
    return CandidateOverload(overload.id, overload.args, overload.result, tuple(names))


def _parameter_names(types: Iterable[Type]) -> set[str]:
    names: set[str] = set()
    for type_ in types:
        if type_.kind is Kind.TYPE_PARAM:
            names.add(type_.name)
        elif type_.parametric:
            names |= _parameter_names(type_.parameters)
    return names
