"""All functions of Kyverno's JMESPath (`pkg/engine/jmespath/functions.go` `GetFunctions`)."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from replay.go.encoding import decode_pem
from replay.go.url import URLError, parse_url
from replay.json import JSON
from replay.kyverno.rules.go_value import equal, is_false, known
from replay.kyverno.rules.image import ImageDefaults, ImageError, image_info
from replay.kyverno.rules.jmespath.arithmetic import ARITHMETIC, Clock, time_functions
from replay.kyverno.rules.jmespath.standard import STANDARD, STRING, ExpressionReference, Function, call
from replay.kyverno.rules.jmespath.syntax import Kind, Node, parse
from replay.kyverno.rules.jmespath.text import TEXT
from replay.kyverno.rules.response import JMESPathError, NotFoundError, UndeterminedError

# Evaluation of JMESPath (github.com/kyverno/go-jmespath `interpreter.go`).
# An expression becomes one Python function of the current value. In Kyverno's dialect a missing key raises NotFoundError. Most
# operators then continue with null, but a path and an index do not.

Step = Callable[[Any], Any]
_FALLS_BACK = frozenset({Kind.FILTER, Kind.FLATTEN, Kind.VALUES})
"""Nodes that are null if their left side fails."""


class Query:
    """Compiled expression."""

    def __init__(self, step: Step) -> None:
        """`step` computes the value from the current value."""
        self._step = step

    def search(self, data: JSON) -> JSON:
        """Return the value of the expression for `data`. Raises JMESPathError, GoPanicError and UndeterminedError."""
        try:
            return known(self._step(data))
        except RecursionError:
            raise JMESPathError("the expression is nested too deep") from None


class Library:
    """Functions that expressions can call, and a cache of expressions compiled with them."""

    def __init__(self, functions: Mapping[str, Function]) -> None:
        """`functions` maps names to functions."""
        self._functions = functions
        self.query = lru_cache(maxsize=4096)(self._compiled)

    def _compiled(self, expression: str) -> Query:
        try:
            return Query(_Planner(self._functions).plan(parse(expression)))
        except RecursionError:
            raise JMESPathError("the expression is nested too deep") from None


def _or_null(step: Step) -> Step:
    """Return the step with null instead of an error for a missing key."""

    def run(value: Any) -> Any:
        try:
            return step(value)
        except NotFoundError:
            return None

    return run


def _field(name: str) -> Step:
    def run(value: Any) -> Any:
        if type(value) is dict:
            if name not in value:
                raise NotFoundError(name)
            return known(value[name])
        known(value)
        return None

    return run


def _index(index: int) -> Step:
    def run(value: Any) -> Any:
        if not isinstance(value, list) or not -len(value) <= index < len(value):
            return None
        return known(value[index])

    return run


def _slice(parts: Sequence[int | None]) -> Step:
    start, stop, step = parts

    def run(value: Any) -> Any:
        if not isinstance(value, list):
            return None
        if step == 0:
            raise JMESPathError("Invalid slice, step cannot be 0")
        return list(value[slice(start, stop, step)])

    return run


def _flattened(value: Any) -> Any:
    if not isinstance(value, list):
        return None
    flat: list[Any] = []
    for item in value:
        if isinstance(item, list):
            flat += item
        else:
            flat.append(item)
    return flat


class _Planner:
    """Compiler of nodes into functions."""

    def __init__(self, functions: Mapping[str, Function]) -> None:
        self._functions = functions

    def plan(self, node: Node) -> Step:
        """Return the function that computes a node."""
        match node.kind:
            case Kind.FIELD:
                return _field(node.value)
            case Kind.SUBEXPRESSION | Kind.INDEX_EXPRESSION:
                left, right = map(self.plan, node.children)
                return lambda value: right(left(value))
            case Kind.IDENTITY | Kind.CURRENT:
                return lambda value: value
            case Kind.LITERAL:
                literal = node.value
                return lambda _: literal
            case Kind.INDEX:
                return _index(node.value)
            case Kind.SLICE:
                return _slice(node.value)
            case Kind.FUNCTION:
                return self._call(node)
            case Kind.EXPREF:
                reference = ExpressionReference(self.plan(node.children[0]))
                return lambda _: reference
            case Kind.COMPARATOR:
                return self._comparison(node)
            case Kind.OR | Kind.AND | Kind.NOT | Kind.PIPE:
                return self._logic(node)
            case Kind.HASH | Kind.LIST:
                return self._selection(node)
            case Kind.PAIR:
                return self.plan(node.children[0])
            case Kind.PROJECTION | Kind.FILTER | Kind.FLATTEN | Kind.VALUES:
                return self._projection(node)
        raise JMESPathError(f"Unknown AST node: {node.kind.value}")

    def _call(self, node: Node) -> Step:
        if not isinstance(node.value, str):
            return _raising("invalid node value type")
        name, arguments = node.value, [_or_null(self.plan(child)) for child in node.children]
        function = self._functions.get(name)
        if function is None:

            def unknown(value: Any) -> Any:
                # Errors of the arguments come before that of the unknown function.
                for argument in arguments:
                    argument(value)
                raise JMESPathError(f"unknown function: {name}")

            return unknown
        return lambda value: call(function, [argument(value) for argument in arguments])

    def _comparison(self, node: Node) -> Step:
        left, right = (_or_null(self.plan(child)) for child in node.children)
        if node.value in ("tEQ", "tNE"):
            wanted = node.value == "tEQ"
            return lambda value: equal(left(value), right(value)) is wanted
        operator = node.value

        def run(value: Any) -> Any:
            one, other = left(value), right(value)
            if type(one) is not float or type(other) is not float:
                return None
            return {"tGT": one > other, "tGTE": one >= other, "tLT": one < other, "tLTE": one <= other}[operator]

        return run

    def _logic(self, node: Node) -> Step:
        left = _or_null(self.plan(node.children[0]))
        if node.kind is Kind.NOT:
            return lambda value: is_false(left(value))
        # The right side of `&&` may miss its key, that of `||` and of a pipe may not.
        right = self.plan(node.children[1])
        right = right if node.kind is Kind.AND else _or_null(right)
        if node.kind is Kind.PIPE:
            return lambda value: right(left(value))
        stops_at_false = node.kind is Kind.AND

        def run(value: Any) -> Any:
            matched = left(value)
            return matched if is_false(matched) is stops_at_false else right(value)

        return run

    def _selection(self, node: Node) -> Step:
        steps = [_or_null(self.plan(child)) for child in node.children]
        if node.kind is Kind.LIST:
            return lambda value: None if known(value) is None else [step(value) for step in steps]
        keys = [child.value for child in node.children]
        return lambda value: (
            None if known(value) is None else {key: step(value) for key, step in zip(keys, steps, strict=True)}
        )

    def _projection(self, node: Node) -> Step:
        """Return the step that evaluates an expression for each item of a list. Null results are omitted."""
        left = self.plan(node.children[0])
        left = _or_null_always(left) if node.kind in _FALLS_BACK else _or_null(left)
        if node.kind is Kind.FLATTEN:
            return lambda value: _flattened(left(value))
        each = _or_null(self.plan(node.children[1]))
        if node.kind is Kind.VALUES:
            return lambda value: _values(left(value), each)
        if node.kind is Kind.PROJECTION:

            def project(value: Any) -> Any:
                items = left(value)
                return [kept for item in items if (kept := each(item)) is not None] if isinstance(items, list) else None

            return project
        condition = _or_null(self.plan(node.children[2]))

        def select(value: Any) -> Any:
            items = left(value)
            if not isinstance(items, list):
                return None
            return [kept for item in items if not is_false(condition(item)) and (kept := each(item)) is not None]

        return select


def _values(value: Any, each: Step) -> Any:
    """Return the results for an object's values, in the order of the object.

    A Go map of at most eight entries begins at a random one and goes on in the order of insertion. The first entry is
    the most probable beginning. The library first creates as many nulls as there are values, and evaluates `each` for
    them too.
    """
    if type(value) is not dict:
        return None
    # The library appends the values to a list that already has one null for each of them.
    items = [*[None] * len(value), *map(known, value.values())]
    return [kept for item in items if (kept := each(item)) is not None]


def _or_null_always(step: Step) -> Step:
    def run(value: Any) -> Any:
        try:
            return step(value)
        except JMESPathError:
            return None

    return run


def _raising(message: str) -> Step:
    def run(_: Any) -> Any:
        raise JMESPathError(message)

    return run


def kyverno_library(clock: Clock, images: ImageDefaults) -> Library:
    """Return Kyverno's library. `clock` raises UndeterminedError if the time is unknown."""

    def normalize(image: str) -> str:
        try:
            return str(image_info(image, images))
        except ImageError as error:
            raise JMESPathError(f"JMESPath function 'image_normalize': {error}") from None

    functions = (
        *STANDARD,
        *ARITHMETIC,
        *TEXT,
        *time_functions(clock),
        Function("image_normalize", ((STRING,),), normalize),
        Function("is_external_url", ((STRING,),), _is_external_url),
        Function("random", ((STRING,),), _random),
        Function("x509_decode", ((STRING,),), _x509_decode),
    )
    return Library({function.name: function for function in functions})


def _is_external_url(text: str) -> bool:
    """Return whether a URL has an address that is neither loopback nor private. Host names are not resolved."""
    try:
        host = parse_url(text).hostname
    except URLError as error:
        raise JMESPathError(str(error)) from None
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        raise UndeterminedError("is_external_url: replay does not look up host names") from None
    mapped = getattr(address, "ipv4_mapped", None) or address
    private = ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7")
    is_private = any(
        mapped.version == network.version and mapped in network for network in map(ipaddress.ip_network, private)
    )
    return not (mapped.is_loopback or is_private)


def _random(pattern: str) -> str:
    if not pattern:
        raise JMESPathError("no pattern provided")
    raise UndeterminedError("random: the result is random")


def _x509_decode(text: str) -> JSON:
    block = decode_pem(text.encode("utf-8", "surrogateescape"))
    if block is None:
        raise JMESPathError("failed to decode PEM block")
    if block.type not in ("CERTIFICATE", "CERTIFICATE REQUEST"):
        raise JMESPathError("PEM block neither contains a CERTIFICATE or CERTIFICATE REQUEST")
    raise UndeterminedError("x509_decode: replay does not decode certificates")
