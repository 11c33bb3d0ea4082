"""What calls of the Kubernetes libraries may cost (apiserver `pkg/cel/library/cost.go`, cel-go `ext/lists.go`, `ext/sets.go`)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from replay.cel.ast import operator
from replay.cel.ast.tree import Ast, Const
from replay.cel.check.estimate import (
    ANY_SIZE,
    ONE,
    UNBOUNDED,
    CallEstimate,
    Node,
    Range,
    estimate,
    fixed,
    pattern_estimate,
)
from replay.cel.declare.cost import LIST_COST, STRING_FACTOR
from replay.cel.value.types import Kind
from replay.cel.value.values import Uint

Args = Sequence[Node]
Estimator = Callable[[str, Node | None, Args], CallEstimate | None]

_ADDRESS = Range(4, 16)
"""Bytes of an address."""
_FORMAT_PATTERN = 128
_FORMAT_NAME = 64


def estimated_cost(ast: Ast, assumed: Range = ANY_SIZE) -> Range:
    """The cost of a checked expression of a policy, before it runs; `assumed` is the size of what the input holds."""
    return estimate(ast, call_estimate, assumed)


def call_estimate(function: str, overload: str, target: Node | None, args: Args) -> CallEstimate | None:
    """The estimate of a call, None for those of standard CEL."""
    by_overload = _OVERLOADS.get(overload)
    if by_overload is None and overload.startswith("list_") and overload.endswith(("_sort", "_sortByAssociatedKeys")):
        by_overload = _sort
    if by_overload is not None:
        return by_overload(overload, target, args)
    by_name = _FUNCTIONS.get(function)
    return None if by_name is None else by_name(overload, target, args)


def _fixed(cost: int) -> Estimator:
    return lambda _overload, _target, _args: CallEstimate(fixed(cost))


def _new_list(factor: float, size: Range) -> CallEstimate:
    return CallEstimate(size.scaled(factor).plus(fixed(1 + LIST_COST)), size)


def _number(node: Node, default: int) -> int:
    """The value of a literal int, never negative."""
    value = node.expr.value if isinstance(node.expr, Const) else None
    return default if type(value) is not int or isinstance(value, Uint) else max(value, 0)


def _slice(_overload: str, target: Node | None, args: Args) -> CallEstimate | None:
    if target is None:
        return None
    start, end = _number(args[0], 0), _number(args[1], target.any_size.most)
    return _new_list(1, fixed((end - start) % 2**64))


def _range(_overload: str, _target: Node | None, args: Args) -> CallEstimate:
    return _new_list(1, fixed(_number(args[0], UNBOUNDED)))


def _reverse(_overload: str, target: Node | None, _args: Args) -> CallEstimate | None:
    return None if target is None else _new_list(1, target.any_size)


def _flatten(_overload: str, target: Node | None, args: Args) -> CallEstimate | None:
    depth = _number(args[0], UNBOUNDED) if args else 1
    return None if target is None else _new_list(float(depth), target.any_size)


def _distinct(_overload: str, target: Node | None, _args: Args) -> CallEstimate | None:
    return None if target is None else _new_list(2, target.any_size.times(target.any_size))


def _sort(overload: str, target: Node | None, args: Args) -> CallEstimate | None:
    if target is None:
        return None
    size = (args[0] if args else target).any_size
    of_texts = overload.startswith(("list_string_", "list_bytes_"))
    return _new_list(2 + STRING_FACTOR if of_texts else 2, size.times(size))


def _sets(factor: int) -> Estimator:
    def sets(_overload: str, _target: Node | None, args: Args) -> CallEstimate:
        return CallEstimate(args[0].any_size.times(args[1].any_size).scaled(factor).plus(ONE))

    return sets


def _selector(_overload: str, _target: Node | None, args: Args) -> CallEstimate:
    size = args[0].any_size
    requirements = size.scaled(0.5).scaled(50)
    return CallEstimate(fixed(LIST_COST).plus(size.scaled(STRING_FACTOR)).plus(requirements))


def _comparing(_overload: str, target: Node | None, _args: Args) -> CallEstimate | None:
    """Functions that look at every element of a list, or at a text."""
    if target is None:
        return None
    if not target.type.parameters:
        return CallEstimate(target.any_size.scaled(STRING_FACTOR))
    each = ONE
    if target.type.parameters[0].kind in (Kind.STRING, Kind.BYTES):
        each = each.plus(ANY_SIZE.scaled(STRING_FACTOR))
    return CallEstimate(target.any_size.times(each))


def _includes(overload: str, target: Node | None, args: Args) -> CallEstimate | None:
    if target is None or target.type.parameters:
        return _comparing(overload, target, args)
    return CallEstimate(target.any_size)


def _argument(factor: float, *, sized: bool = False) -> Estimator:
    def argument(_overload: str, _target: Node | None, args: Args) -> CallEstimate | None:
        size = args[0].any_size if args else None
        return None if size is None else CallEstimate(size.scaled(factor), size if sized else None)

    return argument


def _receiver(_overload: str, target: Node | None, _args: Args) -> CallEstimate | None:
    return None if target is None else CallEstimate(target.any_size.scaled(STRING_FACTOR), target.any_size)


def _replace(_overload: str, target: Node | None, args: Args) -> CallEstimate | None:
    if target is None or len(args) < 2:
        return None
    size, old, new = target.any_size, args[0].any_size, args[1].any_size
    count_most, kept_most = _replaced(size.most, old.least, grows=new.most > old.least)
    count_least, kept_least = _replaced(size.least, old.most, grows=old.most > new.least)
    result = Range(count_least, count_most).times(new).plus(Range(kept_least, kept_most))
    return CallEstimate(size.scaled(2 * STRING_FACTOR), result)


def _replaced(size: int, part: int, *, grows: bool) -> tuple[int, int]:
    """How often a part of a length can be replaced in a text, and what is left of the text beside."""
    if part == 0:
        return min(size + 1, UNBOUNDED), size
    if not grows:
        return 0, size
    return min(math.ceil(float(size) / float(part)), UNBOUNDED), 0


def _split(_overload: str, target: Node | None, args: Args) -> CallEstimate | None:
    if target is None:
        return None
    size = target.any_size
    most = size.most
    if len(args) > 1 and isinstance(args[1].expr, Const) and type(args[1].expr.value) is int:
        most = args[1].expr.value % 2**64
    return CallEstimate(size.scaled(2 * STRING_FACTOR), Range(0, most))


def _join(_overload: str, target: Node | None, args: Args) -> CallEstimate | None:
    if target is None:
        return None
    count = target.any_size
    size = count.times(ANY_SIZE) if target.type.parameters else fixed(0)
    if args:
        separators = Range(max(count.least - 1, 0), max(count.most - 1, 0))
        size = size.plus(args[0].any_size.times(separators))
    return CallEstimate(size.scaled(STRING_FACTOR), size)


def _find(_overload: str, target: Node | None, args: Args) -> CallEstimate | None:
    if target is None or not args:
        return None
    return CallEstimate(pattern_estimate(target.any_size, args[0].any_size), Range(0, target.any_size.most))


def _ip(overload: str, _target: Node | None, args: Args) -> CallEstimate | None:
    if overload == "cidr_ip":
        return CallEstimate(ONE)
    return _argument(STRING_FACTOR)(overload, None, args)


def _contains_address(overload: str, _target: Node | None, args: Args) -> CallEstimate | None:
    cost = _ADDRESS.plus(_ADDRESS).scaled(STRING_FACTOR)
    if overload.startswith("cidr_contains_cidr"):
        cost = cost.plus(_ADDRESS.scaled(STRING_FACTOR)).plus(ONE)
    if overload.endswith("_string"):
        cost = cost.plus(args[0].any_size.scaled(STRING_FACTOR))
    return CallEstimate(cost)


def _validate(_overload: str, _target: Node | None, args: Args) -> CallEstimate:
    return CallEstimate(args[0].any_size.scaled(STRING_FACTOR).scaled(_FORMAT_PATTERN * 0.25))


_UNIT_TYPES = frozenset({"net.IP", "net.CIDR", "kubernetes.Quantity", "kubernetes.Semver", "kubernetes.URL"})


def _equals(_overload: str, _target: Node | None, args: Args) -> CallEstimate | None:
    name = args[0].type.name
    if len(args) != 2 or name != args[1].type.name:
        return None
    if name in _UNIT_TYPES or name.startswith("kubernetes.authorization."):
        return CallEstimate(ONE)
    is_format = name == "kubernetes.NamedFormat"
    return CallEstimate(Range(1, _FORMAT_NAME).scaled(STRING_FACTOR)) if is_format else None


_NOMINAL = [
    "serviceAccount",
    "path",
    "group",
    "resource",
    "subresource",
    "namespace",
    "name",
    "allowed",
    "reason",
    "error",
    "errored",
    "masked",
    "prefixLength",
    "family",
    "isUnspecified",
    "isLoopback",
    "isLinkLocalMulticast",
    "isLinkLocalUnicast",
    "isGlobalUnicast",
    "format.named",
    "sign",
    "asInteger",
    "isInteger",
    "asApproximateFloat",
    "isGreaterThan",
    "isLessThan",
    "compareTo",
    "add",
    "sub",
    "major",
    "minor",
    "patch",
    "getScheme",
    "getHostname",
    "getHost",
    "getPort",
    "getEscapedPath",
    "getQuery",
]

_FUNCTIONS: dict[str, Estimator] = {
    **dict.fromkeys(_NOMINAL, _fixed(1)),
    "check": _fixed(350_000),
    **dict.fromkeys(("fieldSelector", "labelSelector"), _selector),
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _comparing),
    "includes": _includes,
    **dict.fromkeys(("url", "jsonpatch.escapeKey"), _argument(STRING_FACTOR, sized=True)),
    **dict.fromkeys(("lowerAscii", "upperAscii", "substring", "trim"), _receiver),
    "replace": _replace,
    "split": _split,
    "join": _join,
    **dict.fromkeys(("find", "findAll"), _find),
    **dict.fromkeys(
        ("cidr", "isIP", "isCIDR", "quantity", "isQuantity", "semver", "isSemver"), _argument(STRING_FACTOR)
    ),
    "ip": _ip,
    "ip.isCanonical": _argument(2 * STRING_FACTOR),
    **dict.fromkeys(("containsIP", "containsCIDR"), _contains_address),
    "validate": _validate,
    operator.EQUALS: _equals,
}

_OVERLOADS: dict[str, Estimator] = {
    "list_slice": _slice,
    "lists_range": _range,
    "list_reverse": _reverse,
    "list_flatten": _flatten,
    "list_flatten_int": _flatten,
    "list_distinct": _distinct,
    "list_sets_contains_list": _sets(1),
    "list_sets_intersects_list": _sets(1),
    "list_sets_equivalent_list": _sets(2),
}
