"""Functions on lists of cel-go (`ext/lists.go`, version 3): slices, ranges, sorting, flattening."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from replay.cel.ast.factory import ExprFactory
from replay.cel.ast.tree import Call, Comprehension, Const, Expr, Ident, ListExpr, Select
from replay.cel.declare.cost import STRING_FACTOR, UNBOUNDED, AstNode, CallEstimate, CallEstimator, fixed, sizer_size
from replay.cel.declare.library import Args, Function, Implementation, Library, Overload, overloaded
from replay.cel.declare.macros import UNUSED, Macro, MacroError, expand_map, receiver
from replay.cel.release import Release
from replay.cel.value.bounds import Steps, check_elements
from replay.cel.value.equality import compare, elements, is_list, value_equal
from replay.cel.value.text import go_type_name, type_name
from replay.cel.value.traits import ADDER, COMPARER, LISTER, has_trait
from replay.cel.value.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    UINT,
    Type,
    list_type,
    type_param,
)
from replay.cel.value.values import EvalError, PanicError, Uint, Value
from replay.cellib.library.cost import list_building_cost, list_building_estimate
from replay.cellib.version import KubernetesVersion
from replay.go.sort import go_sorted

_MAX_RANGE = 1_000_000
_SORT_INPUT = "@__sortBy_input__"
_COMPARABLE = (INT, UINT, DOUBLE, BOOL, DURATION, TIMESTAMP, STRING, BYTES)
_LIST = list_type(type_param("T"))


def _slice(values: Value, start: int, end: int) -> list[Value]:
    where = f"cannot slice({start}, {end}),"
    if start < 0 or end < 0:
        raise EvalError(f"{where} negative indexes not supported")
    if start > end:
        raise EvalError(f"{where} start index must be less than or equal to end index")
    if len(values) < end:
        raise EvalError(f"{where} list is length {len(values)}")
    check_elements(end - start)
    return [values[index] for index in range(start, end)]


def _flatten(values: Value, depth: Value = 1) -> list[Value]:
    if not is_list(values) or type(depth) is not int:
        raise EvalError(f"no such overload: {type_name(values)}.flatten({type_name(depth)})")
    return _flattened(values, depth, Steps())


def _flatten_once(values: Value) -> list[Value]:
    if not is_list(values):
        raise EvalError(f"no such overload: {type_name(values)}.flatten()")
    return _flattened(values, 1, Steps())


def _flattened(values: Value, depth: int, steps: Steps) -> list[Value]:
    if depth < 0:
        raise EvalError("level must be non-negative")
    flat: list[Value] = []
    for element in steps.each(elements(values)):
        if depth and is_list(element):
            flat.extend(_flattened(element, depth - 1, steps))
        else:
            flat.append(element)
    return flat


def _sort(values: Value) -> Value:
    return _sort_by_keys(values, values)


def _sort_by_keys(values: Value, keys: Value) -> Value:
    items, ranks = list(elements(values)), list(elements(keys))
    if len(items) != len(ranks):
        raise EvalError(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, "
            f"but got {len(items)} and {len(ranks)} elements respectively"
        )
    if not items:
        return values
    # cel-go asks only the first key whether it can be compared (`sortListByAssociatedKeys`).
    if not has_trait(ranks[0], COMPARER):
        raise EvalError("list elements must be comparable")
    kind = type_name(ranks[0])
    # The sort looks at every key once there are two, and so finds one of another type.
    if any(type_name(rank) != kind for rank in ranks):
        raise EvalError("list elements must have the same type")
    steps = Steps()
    return [items[index] for index in go_sorted(len(ranks), lambda i, j: _precedes(ranks[i], ranks[j], steps))]


def _precedes(left: Value, right: Value, steps: Steps) -> bool:
    steps.take(1)
    try:
        return compare(left, right) < 0
    # Go compares with `== types.IntNegOne`, so that an error, as for NaN, means not less.
    except EvalError:
        return False


def _range(size: int) -> list[Value]:
    if size < 0:
        raise EvalError(f"lists.range: size must be non-negative, got {size}")
    if size > _MAX_RANGE:
        raise EvalError(f"lists.range: size {size} exceeds maximum allowed ({_MAX_RANGE})")
    return list(range(size))


class _Uncounted(list[int]):
    """A list that is too long to be built. Its size alone exceeds the cost limit, which ends the evaluation."""

    def __init__(self, size: int) -> None:
        """`size` is the claimed length."""
        super().__init__()
        self._size = size

    def __len__(self) -> int:
        """Return the claimed length."""
        return self._size


def _range_without_limit(size: int) -> list[int]:
    """Implement `lists.range` of cel-go up to 0.26."""
    return list(range(size)) if size <= _MAX_RANGE else _Uncounted(size)


def _reverse(values: Value) -> list[Value]:
    return list(elements(values))[::-1]


def _distinct(values: Value) -> Value:
    unique: list[Value] = []
    steps = Steps()
    for element in elements(values):
        if not any(value_equal(element, element_, steps) is True for element_ in steps.each(unique)):
            unique.append(element)
    return unique


def _output_cost(_args: Args, result: Value) -> int:
    return list_building_cost(sizer_size(result))


def _flatten_cost(args: Args, _result: Value) -> int:
    depth = args[1] if len(args) == 2 else 1
    if type(depth) is not int:
        raise PanicError(f"interface conversion: ref.Val is {go_type_name(depth)}, not types.Int")
    return list_building_cost(sizer_size(args[0]), float(depth))


def _self_compare_cost(values: Value) -> int:
    """Return the cost of comparing every element with every other.

    A value that is not a list crashes the server's count, and this one.
    """
    if not is_list(values):
        method = "Contains" if has_trait(values, ADDER) else "Add"
        raise PanicError(f"interface conversion: {go_type_name(values)} is not traits.Lister: missing method {method}")
    size, factor = len(values), 2.0
    if size and isinstance(next(iter(elements(values))), str | bytes):
        factor += STRING_FACTOR
    return list_building_cost(size * size, factor)


def _first_compare_cost(args: Args, _result: Value) -> int:
    return _self_compare_cost(args[0])


def _keys_compare_cost(args: Args, _result: Value) -> int:
    return _self_compare_cost(args[1])


def _literal_number(node: AstNode, default: int) -> int:
    """Return the value of a literal int, at least 0, or the default."""
    value = node.expr.value if isinstance(node.expr, Const) else None
    return default if type(value) is not int or isinstance(value, Uint) else max(value, 0)


def _slice_estimate(target: AstNode | None, args: Sequence[AstNode]) -> CallEstimate | None:
    if target is None:
        return None
    start, end = _literal_number(args[0], 0), _literal_number(args[1], target.any_size.most)
    # cel-go subtracts unsigned numbers, so an end before the start wraps around.
    return list_building_estimate(1, fixed((end - start) % 2**64))


def _range_estimate(_target: AstNode | None, args: Sequence[AstNode]) -> CallEstimate:
    return list_building_estimate(1, fixed(_literal_number(args[0], UNBOUNDED)))


def _reverse_estimate(target: AstNode | None, _args: Sequence[AstNode]) -> CallEstimate | None:
    return None if target is None else list_building_estimate(1, target.any_size)


def _flatten_estimate(target: AstNode | None, args: Sequence[AstNode]) -> CallEstimate | None:
    depth = _literal_number(args[0], UNBOUNDED) if args else 1
    return None if target is None else list_building_estimate(float(depth), target.any_size)


def _distinct_estimate(target: AstNode | None, _args: Sequence[AstNode]) -> CallEstimate | None:
    return None if target is None else list_building_estimate(2, target.any_size.times(target.any_size))


def _sort_estimate(keys: Type) -> CallEstimator:
    """Return the estimate of sorting by keys of a type: those in the argument, or else the elements themselves."""
    factor = 2 + STRING_FACTOR if keys in (STRING, BYTES) else 2

    def estimate(target: AstNode | None, args: Sequence[AstNode]) -> CallEstimate | None:
        if target is None:
            return None
        size = (args[0] if args else target).any_size
        return list_building_estimate(factor, size.times(size))

    return estimate


def _range_function(body: Implementation) -> Function:
    overload = Overload(
        "lists_range", (INT,), list_type(INT), implementation=body, cost_by_id=_output_cost, estimate=_range_estimate
    )
    return Function("lists.range", (overload,))


def _sort_by(factory: ExprFactory, target: Expr | None, args: tuple[Expr, ...]) -> Expr:
    values = factory.ident(_SORT_INPUT)
    target = receiver(target)
    if not isinstance(target, ListExpr | Select | Ident | Comprehension | Call):
        raise MacroError(
            target, "sortBy can only be applied to a list, identifier, comprehension, call or select expression"
        )
    keys = expand_map(factory, factory.copy(values), args)
    result = factory.member_call("@sortByAssociatedKeys", factory.copy(values), keys)
    # A fold that takes no step only binds the list to a name, so that it is evaluated once.
    nothing = factory.list()
    condition = factory.literal(False)
    return factory.fold(nothing, (UNUSED, ""), _SORT_INPUT, target, condition, values, result)


LIST_EXTENSIONS = Library(
    name="cel.lib.ext.lists",
    functions=(
        overloaded(
            "slice",
            ("list_slice", (_LIST, INT, INT), _LIST, _slice),
            member=True,
            cost_by_id=_output_cost,
            estimate=_slice_estimate,
        ),
        Function(
            "flatten",
            (
                Overload(
                    "list_flatten",
                    (list_type(_LIST),),
                    _LIST,
                    member=True,
                    implementation=_flatten_once,
                    cost_by_id=_flatten_cost,
                    estimate=_flatten_estimate,
                ),
                Overload(
                    "list_flatten_int",
                    (list_type(DYN), INT),
                    list_type(DYN),
                    member=True,
                    implementation=_flatten,
                    cost_by_id=_flatten_cost,
                    estimate=_flatten_estimate,
                ),
            ),
            type_guards=False,
        ),
        Function(
            "sort",
            tuple(
                Overload(
                    f"list_{type_.name}_sort",
                    (list_type(type_),),
                    list_type(type_),
                    member=True,
                    cost_by_id=_first_compare_cost,
                    estimate=_sort_estimate(type_),
                )
                for type_ in _COMPARABLE
            ),
            singleton=_sort,
            operand_trait=LISTER,
        ),
        Function(
            "@sortByAssociatedKeys",
            tuple(
                Overload(
                    f"list_{type_.name}_sortByAssociatedKeys",
                    (_LIST, list_type(type_)),
                    _LIST,
                    member=True,
                    cost_by_id=_keys_compare_cost,
                    estimate=_sort_estimate(type_),
                )
                for type_ in _COMPARABLE
            ),
            singleton=_sort_by_keys,
            operand_trait=LISTER,
        ),
        _range_function(_range),
        overloaded(
            "reverse",
            ("list_reverse", (_LIST,), _LIST, _reverse),
            member=True,
            cost_by_id=_output_cost,
            estimate=_reverse_estimate,
        ),
        overloaded(
            "distinct",
            ("list_distinct", (_LIST,), _LIST, _distinct),
            member=True,
            cost_by_id=_first_compare_cost,
            estimate=_distinct_estimate,
        ),
    ),
    macros=(Macro("sortBy", (2,), _sort_by),),
)
"""`slice`, `flatten`, `sort`, `sortBy`, `lists.range`, `reverse` and `distinct`."""

_WITHOUT_LIMIT = replace(LIST_EXTENSIONS, functions=(*LIST_EXTENSIONS.functions, _range_function(_range_without_limit)))


def list_extensions(server: KubernetesVersion) -> Library:
    """Return the library of a server's cel-go."""
    return LIST_EXTENSIONS if server.cel_go >= Release.V0_29 else _WITHOUT_LIMIT
