"""Gives every node a type and every name and call a meaning, or finds what is wrong (cel-go `checker/checker.go`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from msgspec.structs import replace

from replay.cel.ast import operator
from replay.cel.ast.issues import Issues
from replay.cel.ast.tree import (
    Ast,
    Call,
    Comprehension,
    Const,
    Expr,
    Ident,
    ListExpr,
    MapEntry,
    MapExpr,
    Reference,
    Select,
    StructExpr,
    StructField,
)
from replay.cel.ast.walk import with_deep_stack
from replay.cel.check.diagnostics import Diagnostics
from replay.cel.declare.scope import CandidateOverload, Declarations, Resolved, Signatures
from replay.cel.declare.unification import (
    OverloadResolver,
    Substitutions,
    is_dyn,
    is_dyn_or_error,
    is_exact,
    most_general,
    unwrap_optional,
)
from replay.cel.declare.wellknown import WELL_KNOWN_MESSAGES, WELL_KNOWN_TYPES
from replay.cel.release import NEWEST_RELEASE, Release
from replay.cel.value.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DYN,
    ERROR,
    INT,
    NULL,
    STRING,
    UINT,
    UNSPECIFIED,
    Kind,
    Type,
    list_type,
    map_type,
    optional_type,
)
from replay.cel.value.values import Uint, Value

_LITERAL_TYPES: Final[dict[type, Type]] = {
    bool: BOOL,
    int: INT,
    Uint: UINT,
    float: DOUBLE,
    str: STRING,
    bytes: BYTES,
    type(None): NULL,
}


def literal_type(value: Value) -> Type:
    """Return the type of a literal's value."""
    return _LITERAL_TYPES[type(value)]


_UNCHECKED: Final = frozenset({Kind.DYN, Kind.ERROR, Kind.TYPE_PARAM})
"""Ranges that may turn out to be anything."""


def _loop_types(range_type: Type, *, two: bool, release: Release) -> tuple[Type, Type] | None:
    """Return the types of the loop variables (the second one counts only if `two`), or None if there are no elements."""
    if range_type.kind is Kind.LIST:
        element = range_type.parameters[0]
        return (INT, element) if two else (element, element)
    if range_type.kind is Kind.MAP:
        key, value = range_type.parameters
        return key, value
    if range_type.kind in _UNCHECKED:
        # cel-go 0.22, the first with a second variable, gives it no type here.
        return DYN, DYN if release >= Release.V0_23 else UNSPECIFIED
    return None


def check(
    ast: Ast,
    declarations: Declarations,
    release: Release = NEWEST_RELEASE,
    diagnostics: type[Diagnostics] = Diagnostics,
) -> Ast | Issues:
    """Return the expression with `type_map` and `reference_map` filled in, or everything that is wrong with it."""
    return with_deep_stack(lambda: _check(ast, declarations, release, diagnostics))


def _check(ast: Ast, declarations: Declarations, release: Release, diagnostics: type[Diagnostics]) -> Ast | Issues:
    issues = Issues(ast.source)
    checker = _Checker(declarations, diagnostics(issues, ast.positions, release), release)
    expr = checker.check(ast.expr)
    if issues:
        return issues
    substitute = checker.substitutions.substitute
    types = {id_: substitute(type_, to_dyn=True) if type_.parametric else type_ for id_, type_ in checker.types.items()}
    return replace(ast, expr=expr, type_map=types, reference_map=checker.references)


class _Checker:
    """Checks one tree."""

    def __init__(self, declarations: Declarations, diagnostics: Diagnostics, release: Release) -> None:
        self.declarations = declarations
        self.release = release
        self.diagnostics = diagnostics
        self.substitutions = Substitutions()
        self.overloads = OverloadResolver(declarations, self.substitutions)
        self.types: dict[int, Type] = {}
        self.references: dict[int, Reference] = {}
        self.scopes: list[dict[str, Type]] = []

    def check(self, node: Expr) -> Expr:
        """Return the node with its names resolved. Its type is in `types`."""
        earlier_type = self.types.get(node.id) if self.release < Release.V0_22 else None
        checked = _CHECKS[type(node)](self, node)
        if earlier_type is not None and not is_exact(earlier_type, self.types[node.id]):
            # Macros use one node twice until cel-go 0.20, and it has to have one type.
            self.diagnostics.incompatible_type(node, earlier_type, self.types[node.id])
            self.types[node.id] = earlier_type
        return checked

    def local(self, name: str) -> Type | None:
        """Return the type of a variable of an enclosing comprehension, or None if there is none."""
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        return None

    def literal(self, node: Const) -> Expr:
        self.types[node.id] = literal_type(node.value)
        return node

    def ident(self, node: Ident) -> Expr:
        resolved = self.simple_name(node.name)
        if resolved is None:
            self.types[node.id] = ERROR
            self.diagnostics.undeclared_reference(node, self.declarations.container, node.name)
            return node
        return self.resolved(node, resolved)

    def simple_name(self, name: str) -> Resolved | None:
        local = self.local(name.removeprefix(".")) if self.scopes else None
        if local is not None and not name.startswith("."):
            return Resolved(name, local)
        declaration = self.declarations.name(name)
        return declaration if declaration is None or local is None else declaration._replace(disambiguated=True)

    def resolved(self, node: Expr, resolved: Resolved) -> Expr:
        name = f".{resolved.name}" if resolved.disambiguated else resolved.name
        self.types[node.id] = resolved.type
        constants = self.declarations.constants
        if resolved.name in constants:
            self.references[node.id] = Reference(name, value=constants[resolved.name], is_constant=True)
        else:
            self.references[node.id] = Reference(name)
        return node if isinstance(node, Ident) and node.name == name else Ident(node.id, name)

    def select(self, node: Select) -> Expr:
        resolved = None if node.test_only else self.qualified_name(node)
        if resolved is not None:
            return self.resolved(node, resolved)
        operand = self.check(node.operand)
        type_ = self.field_type(node, operand.id, node.field, optional=False)
        self.types[node.id] = BOOL if node.test_only else self.substitutions.substitute(type_, to_dyn=False)
        return node if operand is node.operand else Select(node.id, operand, node.field, node.test_only)

    def qualified_name(self, node: Select) -> Resolved | None:
        """Return `a.b.c` as one declared name, unless `a` is a variable of a comprehension."""
        names: list[str] = []
        current: Expr = node
        while isinstance(current, Select) and not current.test_only:
            names.append(current.field)
            current = current.operand
        if not isinstance(current, Ident) or not self.declarations.may_be_qualified(current.name):
            return None
        local = self.local(current.name.removeprefix(".")) if self.scopes else None
        if local is not None and not current.name.startswith("."):
            return None
        declaration = self.declarations.name(".".join([current.name, *reversed(names)]))
        return declaration if declaration is None or local is None else declaration._replace(disambiguated=True)

    def optional_select(self, node: Call) -> Expr:
        operand, field = node.args
        assert isinstance(field, Const)
        checked = self.check(operand)
        type_ = self.field_type(node, checked.id, field.value, optional=True)
        self.types[node.id] = self.substitutions.substitute(type_, to_dyn=False)
        self.references[node.id] = Reference(overload_ids=("select_optional_field",))
        return node if checked is operand else Call(node.id, node.function, (checked, field))

    def field_type(self, node: Expr, operand: int, field: str, *, optional: bool) -> Type:
        """Return the type of a field of a checked operand. It is optional if the operand or the selection is."""
        target, is_optional = unwrap_optional(self.substitutions.substitute(self.types[operand], to_dyn=False))
        result = ERROR
        if target.kind is Kind.MAP:
            result = target.parameters[1]
        elif target.kind is Kind.STRUCT:
            result = self.struct_field(node, target.name, field)
        elif target.kind is Kind.TYPE_PARAM:
            # Bound to dyn, so that nothing later decides for a type to which the field does not belong.
            self.substitutions.is_assignable(DYN, target)
            result = DYN
        else:
            if not is_dyn_or_error(target):
                self.diagnostics.type_does_not_support_field_selection(node, target)
            result = DYN
        return optional_type(result) if optional or is_optional else result

    def struct_field(self, node: Expr, struct: str, field: str) -> Type:
        fields = self.declarations.fields(struct)
        if fields is None:
            self.diagnostics.unexpected_failed_resolution(node, struct)
            return ERROR
        type_ = fields.get(field)
        if type_ is None:
            self.diagnostics.undefined_field(node, field)
            return ERROR
        return type_

    def call(self, node: Call) -> Expr:
        if node.function == operator.OPT_SELECT:
            return self.optional_select(node)
        args = self.check_all(node.args)
        if node.target is not None:
            return self.member_call(node, node.target, args)
        signatures = self.declarations.function(node.function)
        if signatures is None:
            return self.undeclared_function(node)
        self.resolve(node, signatures, None, args)
        if args is node.args and signatures.name == node.function:
            return node
        return Call(node.id, signatures.name, args)

    def member_call(self, node: Call, target: Expr, args: tuple[Expr, ...]) -> Expr:
        """Resolve `a.b.c(x)`: a function named `a.b.c`, or a function `c` of the value of `a.b`."""
        prefix = self.namespace(target)
        namespaced = None if prefix is None else self.declarations.function(f"{prefix}.{node.function}")
        if namespaced is not None:
            self.resolve(node, namespaced, None, args)
            return Call(node.id, namespaced.name, args)
        checked = self.check(target)
        signatures = self.declarations.function(node.function)
        if signatures is None:
            return self.undeclared_function(node)
        self.resolve(node, signatures, checked, args)
        return node if checked is target and args is node.args else Call(node.id, node.function, args, checked)

    def namespace(self, target: Expr) -> str | None:
        """Return a receiver as a name, if any function name could begin with it."""
        fields: list[str] = []
        while isinstance(target, Select) and not target.test_only:
            fields.append(target.field)
            target = target.operand
        if not isinstance(target, Ident) or not self.declarations.may_be_namespace(target.name):
            return None
        return ".".join([target.name, *reversed(fields)])

    def undeclared_function(self, node: Call) -> Expr:
        self.types[node.id] = ERROR
        self.diagnostics.undeclared_reference(node, self.declarations.container, node.function)
        return node

    def check_all(self, nodes: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """Return the checked nodes, or the same tuple if none of them changed."""
        checked = [self.check(node) for node in nodes]
        for old, after in zip(nodes, checked, strict=True):
            if old is not after:
                return tuple(checked)
        return nodes

    def resolve(self, node: Call, signatures: Signatures, target: Expr | None, args: Sequence[Expr]) -> None:
        """Find the overloads that fit and give the call its type. The first that fits decides it."""
        types = [self.types[arg.id] for arg in args]
        if target is not None:
            types.insert(0, self.types[target.id])
        if signatures.name in (operator.LOGICAL_AND, operator.LOGICAL_OR):
            self.resolve_logical(node, signatures.of_globals[0], args, types)
            return
        ids, result = self.overloads.resolve(signatures, types, member=target is not None)
        if result is None:
            shown = [self.substitutions.substitute(type_, to_dyn=True) for type_ in types]
            self.diagnostics.no_matching_overload(node, signatures.name, shown, member=target is not None)
            self.types[node.id] = ERROR
            return
        self.types[node.id] = result
        self.references[node.id] = Reference(overload_ids=ids)

    def resolve_logical(self, node: Call, overload: CandidateOverload, args: Sequence[Expr], types: list[Type]) -> None:
        """Report each operand of `&&` and `||` that is not a bool at its own position."""
        is_wrong = False
        for arg, type_ in zip(args, types, strict=True):
            if type_ is not BOOL and not self.substitutions.is_assignable(type_, BOOL):
                self.diagnostics.type_mismatch(arg, BOOL, type_)
                is_wrong = True
        self.types[node.id] = ERROR if is_wrong else BOOL
        if not is_wrong:
            self.references[node.id] = Reference(overload_ids=(overload.id,))

    def list(self, node: ListExpr) -> Expr:
        elements = self.check_all(node.elements)
        joined: Type | None = None
        for index, element in enumerate(elements):
            type_ = self.types[element.id]
            if index in node.optional_indices:
                type_ = self.unwrapped(element, type_)
            joined = self.join(joined, type_)
        self.types[node.id] = list_type(joined if joined is not None else self.overloads.new_type_variable())
        return node if elements is node.elements else ListExpr(node.id, elements, node.optional_indices)

    def map(self, node: MapExpr) -> Expr:
        key_type: Type | None = None
        value_type: Type | None = None
        entries: list[MapEntry] = []
        for entry in node.entries:
            key = self.check(entry.key)
            key_type = self.join(key_type, self.types[key.id])
            value = self.check(entry.value)
            type_ = self.types[value.id]
            if entry.optional:
                type_ = self.unwrapped(value, type_)
            value_type = self.join(value_type, type_)
            entries.append(MapEntry(entry.id, key, value, entry.optional))
        if key_type is None:
            key_type, value_type = self.overloads.new_type_variable(), self.overloads.new_type_variable()
        self.types[node.id] = map_type(key_type, UNSPECIFIED if value_type is None else value_type)
        return MapExpr(node.id, tuple(entries))

    def unwrapped(self, node: Expr, type_: Type) -> Type:
        """Return the type inside an element, value or field marked with `?`."""
        inner, is_optional = unwrap_optional(type_)
        if not is_optional and not is_dyn(inner):
            self.diagnostics.type_mismatch(node, optional_type(inner), inner)
        return inner

    def join(self, previous: Type | None, current: Type) -> Type | None:
        """Return the type of the elements so far together with one more, `dyn` if they do not fit.

        Validators may refuse `dyn` elements. The type is None until an element has one. Elements without a type leave
        it None.
        """
        if previous is None:
            return None if current is UNSPECIFIED else current
        if self.substitutions.is_assignable(previous, current):
            return most_general(previous, current)
        return DYN

    def struct(self, node: StructExpr) -> Expr:
        resolved = self.message_name(node.type_name)
        if resolved is None:
            self.diagnostics.undeclared_reference(node, self.declarations.container, node.type_name)
            self.types[node.id] = ERROR
            return node
        self.references[node.id] = Reference(resolved.name)
        if resolved.type.kind is not Kind.TYPE:
            self.diagnostics.not_a_type(node, resolved.type.name)
            self.types[node.id] = ERROR
            return StructExpr(
                node.id, resolved.name, tuple([self.field(field, resolved.name) for field in node.fields])
            )
        type_ = resolved.type.parameters[0]
        struct = WELL_KNOWN_MESSAGES.get(type_.kind, resolved.name)
        if struct == resolved.name and type_.kind is not Kind.STRUCT and type_ != WELL_KNOWN_TYPES.get(struct):
            self.diagnostics.not_a_message_type(node, type_)
            type_ = ERROR
        self.types[node.id] = type_
        fields = tuple([self.field(field, struct) for field in node.fields])
        return StructExpr(node.id, resolved.name, fields)

    def message_name(self, name: str) -> Resolved | None:
        """Return the meaning of a name where a message is built: only a type, but any name up to cel-go 0.26."""
        return self.simple_name(name) if self.release < Release.V0_29 else self.declarations.type_name(name)

    def field(self, node: StructField, struct: str) -> StructField:
        value = self.check(node.value)
        expected = self.struct_field(node, struct, node.field)
        type_ = self.types[value.id]
        if node.optional:
            type_ = self.unwrapped(value, type_)
        if not self.substitutions.is_assignable(expected, type_):
            self.diagnostics.field_type_mismatch(node, node.field, expected, type_)
        return StructField(node.id, node.field, value, node.optional)

    def comprehension(self, node: Comprehension) -> Expr:
        iter_range = self.check(node.iter_range)
        accu_init = self.check(node.accu_init)
        range_type = self.substitutions.substitute(self.types[iter_range.id], to_dyn=False)
        accu_type = self.types[accu_init.id]
        self.scopes.append({node.accu_var: accu_type})
        self.scopes.append(self.loop_variables(node, iter_range, range_type))
        condition = self.check(node.loop_condition)
        self.assert_type(condition, BOOL)
        step = self.check(node.loop_step)
        self.assert_type(step, accu_type)
        self.scopes.pop()
        result = self.check(node.result)
        self.scopes.pop()
        self.types[node.id] = self.substitutions.substitute(self.types[result.id], to_dyn=False)
        return Comprehension(
            node.id, iter_range, node.iter_var, node.iter_var2, node.accu_var, accu_init, condition, step, result
        )

    def loop_variables(self, node: Comprehension, iter_range: Expr, range_type: Type) -> dict[str, Type]:
        if range_type.kind in _UNCHECKED:
            self.substitutions.is_assignable(DYN, range_type)
        types = _loop_types(range_type, two=bool(node.iter_var2), release=self.release)
        if types is None:
            self.diagnostics.not_a_comprehension_range(iter_range, range_type)
            types = ERROR, ERROR if self.release >= Release.V0_23 else UNSPECIFIED
        return {node.iter_var: types[0], node.iter_var2: types[1]} if node.iter_var2 else {node.iter_var: types[0]}

    def assert_type(self, node: Expr, type_: Type) -> None:
        if not self.substitutions.is_assignable(type_, self.types[node.id]):
            self.diagnostics.type_mismatch(node, type_, self.types[node.id])


_CHECKS: Final[dict[type[Expr], Callable[[_Checker, Any], Expr]]] = {
    Const: _Checker.literal,
    Ident: _Checker.ident,
    Select: _Checker.select,
    Call: _Checker.call,
    ListExpr: _Checker.list,
    MapExpr: _Checker.map,
    StructExpr: _Checker.struct,
    Comprehension: _Checker.comprehension,
}
