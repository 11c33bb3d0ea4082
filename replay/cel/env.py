"""The environment of expressions: its declarations, and how a text becomes a program (cel-go `cel.Env`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy

from replay.cel.ast.issues import Issues
from replay.cel.ast.source import Source
from replay.cel.ast.tree import Ast
from replay.cel.ast.walk import with_deep_stack
from replay.cel.check import checker
from replay.cel.check.validators import AstValidator, validate
from replay.cel.declare.declarations import standard_library
from replay.cel.declare.dispatcher import Dispatcher
from replay.cel.declare.library import Library
from replay.cel.declare.macros import macro_table
from replay.cel.declare.scope import Declarations
from replay.cel.declare.wellknown import WELL_KNOWN_BUILDER, WELL_KNOWN_LIBRARY
from replay.cel.program import Program
from replay.cel.release import NEWEST_RELEASE, Release
from replay.cel.strict.planner import Planner
from replay.cel.syntax import parser
from replay.cel.value.types import Type
from replay.cel.value.values import EvalError, Value


class Env:
    """Libraries on top of standard CEL, built once and used for many expressions.

    `container` is the namespace in which names are resolved. `validators` refuse checked expressions for reasons other
    than their types. `limit` is the cost at which an evaluation is cancelled, None for no limit. `release` is the
    cel-go release that is reproduced.
    """

    def __init__(
        self,
        libraries: Sequence[Library],
        container: str = "",
        *,
        validators: Sequence[AstValidator] = (),
        limit: int | None = None,
        release: Release = NEWEST_RELEASE,
    ) -> None:
        """Index the libraries. Standard CEL and the well-known messages are always among them."""
        self._validators = tuple(validators)
        self.release = release
        self.libraries = (standard_library(release), WELL_KNOWN_LIBRARY, *libraries)
        self.declarations = Declarations(self.libraries, container=container)
        self._limit = limit
        self._macros = macro_table(macro for library in self.libraries for macro in library.macros)
        # Messages are no types as values: the server's registry does not have them (`reference to undefined type`).
        self._types = {declared.name for library in self.libraries for declared in library.types}
        self._optional_syntax = any(library.optional_syntax for library in libraries)
        self._messages = [library.messages for library in libraries if library.messages is not None]
        self._messages.append(WELL_KNOWN_BUILDER)
        self.dispatcher = Dispatcher(self.libraries, release)

    def with_variables(self, variables: Mapping[str, Type], structs: Iterable[Mapping[str, Mapping[str, Type]]]) -> Env:
        """Return a copy for checking, whose added variables and struct types take precedence over others of the same name."""
        extended = copy(self)
        extended.declarations = self.declarations.with_variables(variables, structs)
        return extended

    def parse(self, text: str) -> Ast | Issues:
        """Return the syntax tree of a text, or what is wrong with it."""
        return parser.parse(Source(text), self._macros, optional_syntax=self._optional_syntax, release=self.release)

    def check(self, ast: Ast) -> Ast | Issues:
        """Return the tree with types and references, or what the checker or the validators find wrong."""
        checked = checker.check(ast, self.declarations, self.release)
        if isinstance(checked, Issues):
            return checked
        return validate(checked, self._validators, self.release) or checked

    def compile(self, text: str) -> Ast | Issues:
        """Parse and check a text."""
        ast = self.parse(text)
        return ast if isinstance(ast, Issues) else self.check(ast)

    def program(self, ast: Ast) -> Program:
        """Plan a tree. Raises `PlanError` if a constant part of it fails."""
        step = with_deep_stack(lambda: Planner(ast, self.dispatcher, self).plan(ast.expr))
        return Program(ast, step, self.dispatcher, self, self._limit)

    @property
    def lazy_map(self) -> str:
        """The variable whose entries are computed when they are first read, empty if there is none."""
        return self.declarations.lazy_map

    def has_type(self, name: str) -> bool:
        """Return whether a name is a type value."""
        return name in self._types

    def has_field_access(self, type_name: str) -> bool:
        """Return whether fields of this type are read from a message that the expression built."""
        return any(messages.reads_fields(type_name) for messages in self._messages)

    def is_built(self, type_name: str) -> bool:
        """Return whether values of this type are messages that expressions build."""
        return any(messages.is_built(type_name) for messages in self._messages)

    def new_object(self, type_name: str, fields: Mapping[str, Value]) -> Value:
        """Return the value of `TypeName{...}`, built by the library that declares the message."""
        for messages in self._messages:
            if messages.is_built(type_name):
                return messages.new(type_name, fields)
        return EvalError(f"unknown type '{type_name}'")

    def candidate_names(self, name: str) -> tuple[str, ...]:
        """Return the full names that a name may stand for in the container."""
        return tuple(self.declarations.candidate_names(name))

    def struct_name(self, name: str) -> str | None:
        """Return the full name of a message type, or None if there is no such type."""
        type_ = self.declarations.type_name(name)
        return None if type_ is None else type_.name
