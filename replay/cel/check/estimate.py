"""The cost of an expression before it runs: a range, from the tree alone (cel-go `checker/cost.go`).

The size of the input is unknown here, so a fold over the input has no upper bound. The API server limits the rules of
CRDs by this figure. Policies are not limited by it: for them it is a hint.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from replay.cel.ast.tree import Ast, Call, Comprehension, Const, Expr, Ident, ListExpr, MapExpr, Select, StructExpr
from replay.cel.ast.walk import with_deep_stack
from replay.cel.declare.cost import (
    ANY_SIZE,
    LIST_COST,
    MAP_COST,
    ONE,
    STRING_FACTOR,
    STRUCT_COST,
    UNBOUNDED,
    AstNode,
    CallEstimate,
    Estimates,
    Range,
    fixed,
    pattern_estimate,
)
from replay.cel.value.types import DYN, Kind, Type

_FREE = fixed(0)


class EntrySize(NamedTuple):
    """Known facts about the entries of a list or map."""

    container: Kind
    key: Range
    value: Range


class _Local(NamedTuple):
    size: Range | None
    entry: EntrySize | None


def estimate(ast: Ast, estimates: Estimates, assumed: Range = ANY_SIZE) -> Range:
    """Return the cost of a checked expression. Presence tests are free (cel-go `PresenceTestHasCost(false)`).

    On the server, texts, lists and maps of unknown size may have any size. `assumed` is used instead.
    """
    return with_deep_stack(lambda: _CostEstimator(ast, estimates, assumed).cost(ast.expr))


class _CostEstimator:
    """Estimator of one tree. It keeps sizes by node id."""

    def __init__(self, ast: Ast, estimates: Estimates, assumed: Range) -> None:
        self._assumed = assumed
        self._types: Mapping[int, Type] = ast.type_map
        self._references = ast.reference_map
        self._estimates = estimates
        self._sizes: dict[int, Range] = {}
        self._entries: dict[int, EntrySize] = {}
        self._locals: dict[str, list[_Local]] = {}

    def cost(self, node: Expr) -> Range:  # noqa: PLR0911 - one return a node
        """Return the cost of a node with everything below it."""
        match node:
            case Ident():
                return ONE
            case Select():
                return self._select(node)
            case Call():
                return self._call(node)
            case ListExpr():
                return self._list(node)
            case MapExpr():
                return self._map(node)
            case StructExpr():
                total = fixed(STRUCT_COST)
                for item in node.fields:
                    total = total.plus(self.cost(item.value))
                return total
            case Comprehension():
                return self._bind(node) if _is_bind(node) else self._fold(node)
        return _FREE

    def _select(self, node: Select) -> Range:
        cost = self.cost(node.operand)
        kind = self._types.get(node.operand.id, DYN).kind
        charged = not node.test_only and kind in (Kind.MAP, Kind.STRUCT, Kind.TYPE_PARAM)
        return cost.plus(ONE) if charged else cost

    def _list(self, node: ListExpr) -> Range:
        total = fixed(LIST_COST)
        item = Range(UNBOUNDED, 0) if node.elements else _FREE
        for element in node.elements:
            total = total.plus(self.cost(element))
            item = item.union(self._any_size(element))
        self._entries[node.id] = EntrySize(Kind.LIST, ONE, item)
        return total

    def _map(self, node: MapExpr) -> Range:
        total = fixed(MAP_COST)
        key = value = Range(UNBOUNDED, 0) if node.entries else _FREE
        for entry in node.entries:
            total = total.plus(self.cost(entry.key)).plus(self.cost(entry.value))
            key, value = key.union(self._any_size(entry.key)), value.union(self._any_size(entry.value))
        self._entries[node.id] = EntrySize(Kind.MAP, key, value)
        return total

    def _call(self, node: Call) -> Range:
        if node.function == "dyn":
            cost = self.cost(node.args[0]).plus(ONE)
            self._copy_sizes(node, node.args[0])
            return cost
        costs = [self.cost(arg) for arg in node.args]
        args = [self._node(arg) for arg in node.args]
        total, target = _FREE, None
        if node.target is not None:
            total, target = self.cost(node.target), self._node(node.target)
        arguments = _FREE
        for cost in costs:
            arguments = arguments.plus(cost)
        highest, size = Range(UNBOUNDED, 0), None
        for overload in self._references[node.id].overload_ids:
            estimated = self._overload(node, overload, target, args, costs, arguments)
            highest = highest.union(estimated.cost)
            if estimated.size is not None:
                size = estimated.size if size is None else size.union(estimated.size)
            if overload in ("index_list", "index_map") and args:
                entry = self._entry_of(node.args[0])
                size = None if entry is None else entry.value
            size = self._size(node) if size is None else size
        if size is not None:
            self._sizes[node.id] = size
        return total.plus(highest)

    def _overload(  # noqa: PLR0913, PLR0917 - what there is to know about a call
        self,
        node: Call,
        overload: str,
        target: AstNode | None,
        args: list[AstNode],
        costs: list[Range],
        arguments: Range,
    ) -> CallEstimate:
        """Return the estimate of one overload, with the cost of the arguments."""
        if overload in ("logical_and", "logical_or"):
            return CallEstimate(Range(costs[0].least, costs[0].plus(costs[1]).most))
        if overload == "conditional":
            return self._conditional(node, args, costs)
        estimated = self._estimates.of_call(overload, target, args)
        if estimated is None:
            estimated = standard_estimate(overload, target, args) or CallEstimate(ONE)
        if overload in ("add_string", "add_bytes", "add_list") and len(args) == 2:
            joined = _joined(self._entry_of(args[0].expr), self._entry_of(args[1].expr))
            if joined is not None:
                self._entries[node.id] = joined
        return CallEstimate(estimated.cost.plus(arguments), estimated.size)

    def _conditional(self, node: Call, args: list[AstNode], costs: list[Range]) -> CallEstimate:
        joined = _joined(self._entry_of(args[1].expr), self._entry_of(args[2].expr))
        if joined is not None:
            self._entries[node.id] = joined
        return CallEstimate(costs[0].plus(costs[1].union(costs[2])), args[1].any_size.union(args[2].any_size))

    def _fold(self, node: Comprehension) -> Range:
        total = self.cost(node.iter_range).plus(self.cost(node.accu_init))
        self._push(node.accu_var, _Local(self._size(node.accu_init), self._entry_of(node.accu_init)))
        self._push_iteration(node)
        each = self.cost(node.loop_condition).plus(self.cost(node.loop_step))
        self._locals[node.iter_var].pop()
        if node.iter_var2:
            self._locals[node.iter_var2].pop()
        total = total.plus(self.cost(node.result))
        self._locals[node.accu_var].pop()
        count = self._any_size(node.iter_range)
        if isinstance(node.accu_init, Const):
            size = self._size(node.accu_init)
            if size is not None:
                self._sizes[node.id] = size
        elif isinstance(node.accu_init, ListExpr | MapExpr):
            self._sizes[node.id] = count
            entry = self._entry_of(node.loop_step)
            if entry is not None:
                self._entries[node.id] = entry
        return total.plus(count.times(each))

    def _push_iteration(self, node: Comprehension) -> None:
        entry = self._entry_of(node.iter_range)
        container = entry.container if entry is not None else self._types.get(node.iter_range.id, DYN).kind
        key = _Local(entry.key if entry is not None else None, None)
        value = _Local(entry.value if entry is not None else None, None)
        if node.iter_var2:
            self._push(node.iter_var, key)
            self._push(node.iter_var2, value)
        else:
            self._push(node.iter_var, value if container is Kind.LIST else key)

    def _bind(self, node: Comprehension) -> Range:
        total = self.cost(node.iter_range).plus(self.cost(node.accu_init))
        self._push(node.accu_var, _Local(self._size(node.accu_init), self._entry_of(node.accu_init)))
        total = total.plus(self.cost(node.result))
        self._locals[node.accu_var].pop()
        self._copy_sizes(node, node.result)
        return total

    def _push(self, name: str, local: _Local) -> None:
        self._locals.setdefault(name, []).append(local)

    def _local(self, node: Expr) -> _Local | None:
        stack = self._locals.get(node.name) if isinstance(node, Ident) else None
        return stack[-1] if stack else None

    def _node(self, node: Expr) -> AstNode:
        return AstNode(node, self._types.get(node.id, DYN), self._size(node), self._assumed)

    def _any_size(self, node: Expr) -> Range:
        size = self._size(node)
        return self._assumed if size is None else size

    def _size(self, node: Expr) -> Range | None:  # noqa: PLR0911 - one return a node
        if node.id in self._sizes:
            return self._sizes[node.id]
        match node:
            case Const(value=str() | bytes() as text):
                return fixed(len(text))
            case Const():
                return ONE
            case ListExpr():
                return fixed(len(node.elements))
            case MapExpr():
                return fixed(len(node.entries))
        if _is_scalar(self._types.get(node.id, DYN)):
            return ONE
        local = self._local(node)
        return local.size if local is not None else None

    def _entry_of(self, node: Expr) -> EntrySize | None:
        if node.id in self._entries:
            return self._entries[node.id]
        local = self._local(node)
        return local.entry if local is not None else None

    def _copy_sizes(self, to: Expr, source: Expr) -> None:
        size, entry = self._size(source), self._entry_of(source)
        if size is not None:
            self._sizes[to.id] = size
        if entry is not None:
            self._entries[to.id] = entry


def _joined(one: EntrySize | None, other: EntrySize | None) -> EntrySize | None:
    if one is None or other is None:
        return None
    return EntrySize(one.container, one.key.union(other.key), one.value.union(other.value))


def _is_bind(node: Comprehension) -> bool:
    empty = isinstance(node.iter_range, ListExpr) and not node.iter_range.elements
    return empty and isinstance(node.loop_condition, Const) and node.loop_condition.value is False


_SCALARS = frozenset({Kind.BOOL, Kind.DOUBLE, Kind.DURATION, Kind.INT, Kind.TIMESTAMP, Kind.UINT})


def _is_scalar(declared: Type) -> bool:
    if declared.name == "optional_type":
        return _is_scalar(declared.parameters[0])
    return declared.kind in _SCALARS


_ORDER = ("less", "greater", "less_equals", "greater_equals")
_COMPARISONS = frozenset(
    {"equals", "not_equals", *(f"{order}_{kind}" for order in _ORDER for kind in ("string", "bytes"))}
)


def standard_estimate(  # noqa: C901, PLR0911 - one return a function
    overload: str, target: AstNode | None, args: Sequence[AstNode]
) -> CallEstimate | None:
    """Return the estimate of a call of standard CEL, or None if the call costs one."""
    sizes = [arg.any_size for arg in args]
    match overload:
        case "starts_with_string" | "ends_with_string" if len(args) == 1:
            return CallEstimate(sizes[0].scaled(STRING_FACTOR))
        case "string_to_bytes":
            return CallEstimate(sizes[0].scaled(STRING_FACTOR), Range(sizes[0].least, sizes[0].most * 4 % 2**64))
        case "bytes_to_string":
            return CallEstimate(sizes[0].scaled(STRING_FACTOR), Range(sizes[0].least // 4, sizes[0].most))
        case "strings_quote":
            # cel-go does not guard this sum against overflow, so an unbounded text gets a small size.
            size = Range(sizes[0].least + 2, (sizes[0].most * 2 + 2) % 2**64)
            return CallEstimate(sizes[0].scaled(STRING_FACTOR), size)
        case "string_format" if target is not None:
            return CallEstimate(target.any_size.scaled(STRING_FACTOR))
        case "in_list":
            return CallEstimate(sizes[1].scaled(1))
        case "matches" | "matches_string":
            text, pattern = (target.any_size, sizes[0]) if target is not None else (sizes[0], sizes[1])
            return CallEstimate(pattern_estimate(text, pattern))
        case "contains_string" if target is not None:
            return CallEstimate(target.any_size.scaled(STRING_FACTOR).times(sizes[0].scaled(STRING_FACTOR)))
        case "add_list":
            return CallEstimate(ONE, sizes[0].plus(sizes[1]))
        case "add_string" | "add_bytes":
            joined = sizes[0].plus(sizes[1])
            return CallEstimate(joined.scaled(STRING_FACTOR), joined)
    if overload in _COMPARISONS:
        most = min(sizes[0].most, sizes[1].most)
        return CallEstimate(Range(1 if most else 0, most).scaled(STRING_FACTOR))
    return None
