"""Parts of an environment: function declarations with implementation and cost, types, variables, macros.

A `Library` is a plain value. This package knows no library by name. Kubernetes' libraries are in `replay.cellib`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from replay.cel.declare.cost import CallEstimator, Range
from replay.cel.declare.macros import Macro
from replay.cel.value.types import Type
from replay.cel.value.values import Value

Args = tuple[Value, ...]
"""The receiver (of a member function) and the arguments."""

Implementation = Callable[..., Value]
"""Function of the receiver, if any, and the arguments as Python values. Raises `EvalError` if it fails."""

CallCost = Callable[[tuple[Value, ...], Value], int]
"""Run-time cost of a finished call from its arguments (receiver first) and result, in cost units (cel-go `CallCost`).
"""


class Overload(Struct, frozen=True):
    """One signature of a function (cel-go `decls.OverloadDecl`).

    `args` includes the receiver of a member function. `implementation` may be None for a declaration without a body
    (operators and control flow are implemented by the engines). `cost` None means the standard cost of 1. `cost` also
    applies if the overload is chosen only at run time. `cost_by_id` takes precedence over it, but applies only if the
    checker chose the overload (cel-go `OverloadCostTracker`). A `non_strict` overload is also called with unknowns and
    errors as arguments. `estimate` is the possible cost of a call before it runs. None means the estimate of standard
    CEL, which is 1 for unknown functions.
    """

    id: str
    args: tuple[Type, ...]
    result: Type
    member: bool = False
    implementation: Implementation | None = None
    cost: CallCost | None = None
    non_strict: bool = False
    cost_by_id: CallCost | None = None
    estimate: CallEstimator | None = None


class Function(Struct, frozen=True):
    """A function name with its overloads, in the order of declaration.

    A `singleton` implements all overloads at once. It is called without the check of argument types that guards the
    overloads' own implementations. If it names an `operand_trait` (`replay.cel.value.traits`) and the first argument
    lacks it, the call fails with `no such overload: name`. `type_guards` False also drops the check for the overloads'
    implementations.
    """

    name: str
    overloads: tuple[Overload, ...]
    singleton: Implementation | None = None
    operand_trait: str = ""
    type_guards: bool = True


def overloaded(name: str, *rows: tuple[str, Sequence[Type], Type, Implementation], **shared: Any) -> Function:
    """Return a function with an overload for each row of ID, arguments, result and body.

    `shared` are further fields of an `Overload`, which all of them have.
    """
    return Function(
        name,
        tuple(Overload(id_, tuple(args), result, implementation=body, **shared) for id_, args, result, body in rows),
    )


class VariableDecl(Struct, frozen=True):
    """A variable and its type, or with `is_constant` a name for a value, such as one of an enumeration.

    `is_lazy`: a map whose entries are computed when they are first read. Compiled code asks for each entry by name.
    """

    name: str
    type: Type
    value: Value = None
    is_constant: bool = False
    is_lazy: bool = False


class Messages(Struct, frozen=True):
    """The message types that expressions can build.

    `is_built` tells their names. `new` makes a value from the name and the fields of a message, or an `EvalError`. If
    `reads_fields` is true for a type, fields of values that the checker knows to have this type are read with
    `ObjectValue.field`: unset ones are not an error.
    """

    is_built: Callable[[str], bool]
    new: Callable[[str, Mapping[str, Value]], Value]
    reads_fields: Callable[[str], bool]


class Library(Struct, frozen=True):
    """A named set of declarations (cel-go `cel.Library`).

    `types` are the names that can be used as type values or to build messages. `struct_fields` declares, by type name,
    the fields of struct types. `messages` are the messages that expressions can build. `optional_syntax` allows `?`
    before selections, elements and entries. `equality` is the possible cost of `==` of two values of a type, by type
    name. `aliases` are further names of types, without fields. Every other declaration of the same name takes
    precedence. Without `has_struct_types` the name of a struct is declared as a value of that struct instead of a type,
    so that no message can be built.
    """

    name: str
    functions: tuple[Function, ...] = ()
    types: tuple[Type, ...] = ()
    variables: tuple[VariableDecl, ...] = ()
    struct_fields: Mapping[str, Mapping[str, Type]] = field(default_factory=dict)
    macros: tuple[Macro, ...] = ()
    messages: Messages | None = None
    optional_syntax: bool = False
    equality: Mapping[str, Range] = field(default_factory=dict)
    aliases: Mapping[str, Type] = field(default_factory=dict)
    has_struct_types: bool = True
