"""Parts of an environment: function declarations with implementation and cost, types, variables, macros.

A `Library` is a plain value. The core knows no library by name. Kubernetes' libraries are in `replay.cellib`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct, field

from replay.cel.declare.estimate import CallEstimator, Range
from replay.cel.declare.macros import Macro
from replay.cel.value.types import Type
from replay.cel.value.values import Value

Args = tuple[Value, ...]
"""The receiver (of a member) and the arguments."""

Implementation = Callable[..., Value]
"""Takes the receiver (for a member) and the arguments as Python values; raises `EvalError` when it fails."""

CallCost = Callable[[tuple[Value, ...], Value], int]
"""Run-time cost of a finished call from its arguments (receiver first) and result, in cost units (cel-go `CallCost`)."""


class Overload(Struct, frozen=True):
    """One signature of a function (cel-go `decls.OverloadDecl`).

    `args` include the receiver of a member. `implementation` may be None for a declaration without a body (the core
    implements operators and control flow itself). `cost` None means the standard cost of 1. It also holds where the overload
    is chosen only at run time, unlike `cost_by_id`, which goes before it where the checker chose (cel-go
    `OverloadCostTracker`). A `non_strict` overload is called with unknowns and errors as arguments too. `estimate` is what a call may
    cost before it runs, None what standard CEL says, which is 1 for what it does not know.
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
    """A function name with its overloads, in the order in which they were declared.

    A `singleton` implements all overloads at once and is called without the check of argument types that guards each
    overload's own implementation; if it names an `operand_trait` (`replay.cel.value.traits`) and the first argument lacks it, the
    call fails with `no such overload: name`. `type_guards` False drops that check for the overloads' implementations too.
    """

    name: str
    overloads: tuple[Overload, ...]
    singleton: Implementation | None = None
    operand_trait: str = ""
    type_guards: bool = True


class VariableDecl(Struct, frozen=True):
    """A variable and its type, or with `is_constant` a name for a value, such as that of an enumeration.

    `is_lazy`: a map whose entries are computed when they are first read; compiled code asks for each by name.
    """

    name: str
    type: Type
    value: Value = None
    is_constant: bool = False
    is_lazy: bool = False


class Messages(Struct, frozen=True):
    """The message types that expressions can build.

    `is_built` tells their names, `new` makes a value, or an `EvalError`, from the name of one and the fields. Where `reads_fields`
    says so, a field of what the checker knows to be such a message is read with `ObjectValue.field`: unset ones are no error.
    """

    is_built: Callable[[str], bool]
    new: Callable[[str, Mapping[str, Value]], Value]
    reads_fields: Callable[[str], bool]


class Library(Struct, frozen=True):
    """A named set of declarations (cel-go `cel.Library`).

    `types` are the names usable as type values or in message construction; `struct_fields` declares, by type name, the
    fields of struct types. `messages` are those that expressions can build. `optional_syntax` lets `?` mark selections, elements and
    entries. `equality` is what `==` of two values of a type may cost, by its name. `aliases` are further names of types, which have no fields; they yield to everything declared otherwise. Without
    `has_struct_types` the name of a struct is found, but as a value of it, so that no message can be made.
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
