"""Code for calls: operators and common functions inline, all others through their implementations."""

from __future__ import annotations

import re
from collections.abc import Callable

from replay.cel.ast import operator
from replay.cel.ast.tree import Call, Const, Expr, Ident, ListExpr, Select
from replay.cel.compiled.emitter import Code, Emitter, NotCompiledError
from replay.cel.compiled.fastpath import LONG, MAX_COST, call, remembering, searcher, with_trait
from replay.cel.declare.cost import REGEX_FACTOR, STRING_FACTOR, scaled
from replay.cel.release import Release
from replay.cel.value.types import Kind
from replay.cel.value.values import Value

_LONG_TEXT = scaled(LONG, STRING_FACTOR) + 1
"""The cost of one pass over the longest text that compiled code looks at."""

_SCALARS = frozenset({Kind.BOOL, Kind.INT, Kind.STRING})
"""Result types that may be part of a new object, where it matters whether a container came from an input."""

_PLAIN = _SCALARS | {Kind.BYTES, Kind.DOUBLE, Kind.DURATION, Kind.NULL, Kind.TIMESTAMP, Kind.UINT}
"""Types whose values do not change when they pass through Go."""

_SMALL = 2**53
"""Smaller ints are exact as doubles, so comparing them with a number out of range needs no guard."""


def emit_call(emitter: Emitter, node: Call) -> Code:
    """Return the code of a call."""
    operands = node.args if node.target is None else (node.target, *node.args)
    writer = _WRITERS.get((node.function, len(operands)))
    emitter.charge(1)
    if writer is not None:
        return writer(emitter, node, operands)
    return _function(emitter, node, operands)


Operands = tuple[Expr, ...]


def _logic(emitter: Emitter, node: Call, operands: Operands) -> Code:
    """Return `&&` or `||`. The right side stays guarded by the left one."""
    word = "and" if node.function == operator.LOGICAL_AND else "or"
    left = emitter.truth(emitter.emit(operands[0]))
    # The right side may need statements. They must run only where the left side does not decide: they could raise, and
    # then the whole expression would go to the strict engine for nothing.
    lines, right = emitter.block(lambda: Code(emitter.truth(emitter.emit(operands[1])), "bool"))
    if not lines:
        return Code(f"({left} {word} {right.text})", "bool")
    name = emitter.temporary()
    emitter.line(f"{name} = {left}")
    emitter.line(f"if {'' if word == 'and' else 'not '}{name}:")
    emitter.lines += lines
    emitter.line(f"    {name} = {right.text}")
    return Code(name, "bool", atom=True)


def _conditional(emitter: Emitter, node: Call, operands: Operands) -> Code:  # noqa: ARG001
    condition = emitter.truth(emitter.emit(operands[0]))
    lines, truthy = emitter.block(lambda: emitter.emit(operands[1]))
    other_lines, falsy = emitter.block(lambda: emitter.emit(operands[2]))
    kind = truthy.kind if truthy.kind == falsy.kind else "json"
    # An optional is its bare value here. Beside a plain branch nobody could tell later which of the two it was.
    if kind == "json" and "optional" in (truthy.kind, falsy.kind):
        raise NotCompiledError("one branch is an optional")
    if not lines and not other_lines:
        return Code(f"({truthy.text} if {condition} else {falsy.text})", kind)
    name = emitter.temporary()
    emitter.line(f"if {condition}:")
    emitter.lines += lines
    emitter.line(f"    {name} = {truthy.text}")
    emitter.line("else:")
    emitter.lines += other_lines
    emitter.line(f"    {name} = {falsy.text}")
    return Code(name, kind, atom=True)


def _not(emitter: Emitter, node: Call, operands: Operands) -> Code:  # noqa: ARG001
    return Code(f"(not {emitter.truth(emitter.emit(operands[0]))})", "bool")


def _equality(emitter: Emitter, node: Call, operands: Operands) -> Code:
    if any(map(emitter.is_optional, operands)):
        raise NotCompiledError("optionals are compared")
    negated = node.function == operator.NOT_EQUALS
    type_test = _type_test(emitter, operands, negated=negated)
    if type_test is not None:
        return type_test
    left, right = emitter.emit(operands[0]), emitter.emit(operands[1])
    if "optional" in (left.kind, right.kind):
        raise NotCompiledError("optionals are compared")
    literal = operands[1] if isinstance(operands[1], Const) else operands[0]
    if isinstance(literal, Const):
        other = left if literal is operands[1] else right
        text = _equals_literal(emitter, literal, other, negated=negated)
        if text is not None:
            return Code(text, "bool")
    # `same` leaves for texts and lists beyond `LONG`, so one pass over such a text bounds the cost.
    emitter.charge(_LONG_TEXT)
    text = f"{emitter.use('same')}({left.text}, {right.text})"
    return Code(f"(not {text})" if negated else text, "bool")


def _type_test(emitter: Emitter, operands: Operands, *, negated: bool) -> Code | None:
    """Return the code of `type(x) == T`, or None if the operands have another form."""
    for type_call, name in (operands, operands[::-1]):
        reference = emitter.ast.reference_map.get(name.id)
        if not (isinstance(type_call, Call) and type_call.function == "type" and isinstance(name, Ident) and reference):
            continue
        if emitter.static_kind(name) is not Kind.TYPE or emitter.is_optional(type_call.args[0]):
            continue
        emitter.charge(2)
        value = emitter.emit(type_call.args[0])
        comparison = "!=" if negated else "=="
        return Code(f"({emitter.use('kind_of')}({value.text}) {comparison} {reference.name!r})", "bool")
    return None


def _equals_literal(  # noqa: C901, PLR0911 - one branch a type
    emitter: Emitter, literal: Const, other: Code, *, negated: bool
) -> str | None:
    """Return a comparison with a literal, or None if none is known.

    A container is unequal to a literal, but if it is of a built-in kind the comparison is an error.
    """
    value = literal.value
    if other.atom and not other.text.isidentifier():
        raise NotCompiledError("two literals are compared")
    # `is` for null and bool: in Python 1 == True and 0 == False, which CEL tells apart.
    if value is None:
        return f"({other.text} is {'not ' if negated else ''}None)"
    if type(value) is bool and other.kind == "bool":
        return f"({other.text} is {(value is not negated)!r})"
    if type(value) is str and other.kind == "str":
        return f"({other.text} {'!=' if negated else '=='} {value!r})"
    if type(value) is int and other.kind == "int":
        return f"({other.text} {'!=' if negated else '=='} {value!r})"
    if other.kind != "json" or type(value) not in (str, bool, int):
        return None
    emitter.charge(scaled(len(value), STRING_FACTOR) if isinstance(value, str) else 1)
    first, again = emitter.atom(other)
    if type(value) is bool:
        test = f"{first} is {value!r}"
    elif type(value) is str:
        test = f"{first} == {value!r}"
    elif abs(value) < _SMALL:
        # The value may be a double, which equals an int of the same number. A bool equals none.
        test = f"{first} == {value!r} and {emitter.builtin('type')}({again}) is not {emitter.builtin('bool')}"
    else:
        return None
    if negated:
        # An error is not equal either.
        return f"(not ({test}))"
    # A container may be of a built-in kind, whose comparison with a scalar is an error that the strict engine words.
    is_scalar = f"{emitter.builtin('type')}({again}) in {emitter.use('SCALARS')}"
    return f"(True if {test} else False if {is_scalar} else {emitter.use('leave')}())"


def _ordering(emitter: Emitter, node: Call, operands: Operands) -> Code:
    left, right = emitter.emit(operands[0]), emitter.emit(operands[1])
    sign = node.function.strip("_")
    if left.kind == right.kind == "int":
        return Code(f"({left.text} {sign} {right.text})", "bool")
    numbers = [operand.value for operand in operands if isinstance(operand, Const) and type(operand.value) is int]
    if numbers and abs(numbers[0]) < _SMALL and "json" in (left.kind, right.kind):
        literal_first = right.kind == "json"
        first, again = emitter.atom(right if literal_first else left)
        comparison = f"{left.text} {sign} {again}" if literal_first else f"{again} {sign} {right.text}"
        guard = f"{emitter.use('is_number')}({first})"
        return Code(f"({comparison} if {guard} else {emitter.use('leave')}())", "bool")
    emitter.charge(_LONG_TEXT)
    return Code(f"({emitter.use('order')}({left.text}, {right.text}) {sign} 0)", "bool")


_ARITHMETIC = {
    operator.ADD: "add",
    operator.SUBTRACT: "subtract",
    operator.MULTIPLY: "multiply",
    operator.DIVIDE: "divide",
    operator.MODULO: "modulo",
}


def _arithmetic(emitter: Emitter, node: Call, operands: Operands) -> Code:
    left, right = emitter.emit(operands[0]), emitter.emit(operands[1])
    sign = node.function.strip("_")
    # Division and remainder have errors for zero and round otherwise than Python's: their helpers know.
    if left.kind == right.kind == "int" and sign in "+-*":
        return Code(f"{emitter.use('in_range')}({left.text} {sign} {right.text})", "int")
    emitter.charge(_LONG_TEXT)
    kinds = {left.kind, right.kind}
    kind = "json"
    if node.function == operator.ADD and kinds & {"str", "list"}:
        kind = "str" if "str" in kinds else "list"
    return Code(f"{emitter.use(_ARITHMETIC[node.function])}({left.text}, {right.text})", kind)


def _index(emitter: Emitter, node: Call, operands: Operands) -> Code:
    container = emitter.emit(operands[0])
    optional = node.function != operator.INDEX or emitter.is_optional(operands[0])
    key = operands[1]
    if optional:
        return Code(f"{emitter.use('part')}({container.text}, {emitter.emit(key).text})", "optional")
    # A missing key raises KeyError, a list or a text under a text key TypeError: both go to the strict engine.
    if isinstance(key, Const) and isinstance(key.value, str):
        return Code(f"{container.text}[{key.value!r}]")
    return Code(f"{emitter.use('index')}({container.text}, {emitter.emit(key).text})")


def _membership_code(emitter: Emitter, node: Call, operands: Operands) -> Code:  # noqa: ARG001
    element = emitter.emit(operands[0])
    container = operands[1]
    if isinstance(container, ListExpr) and not container.optional_indices:
        values = [item.value for item in container.elements if isinstance(item, Const)]
        if len(values) == len(container.elements) and all(type(value) is str for value in values):
            # Texts equal nothing but texts, so a set answers. A set of numbers would mix 1, 1.0 and true.
            texts = emitter.refer("texts", frozenset(values))
            if element.kind == "str":
                return Code(f"({element.text} in {texts})", "bool")
            first, again = emitter.atom(element)
            return Code(
                f"({again} in {texts} if {emitter.is_type(first, 'str')} else {emitter.use('leave')}())", "bool"
            )
    emitter.charge(LONG)
    return Code(f"{emitter.use('member')}({element.text}, {emitter.emit(container).text})", "bool")


def _size(emitter: Emitter, node: Call, operands: Operands) -> Code:  # noqa: ARG001
    value = emitter.emit(operands[0])
    if value.kind not in ("json", "str", "list", "dict"):
        raise NotCompiledError("it asks for the size of something unusual")
    return Code(f"{emitter.builtin('len')}({value.text})", "int")


def _text_test(method: Callable[[str, str], bool], helper: str) -> Callable[[Emitter, Call, Operands], Code]:
    def write(emitter: Emitter, node: Call, operands: Operands) -> Code:
        text, part = emitter.emit(operands[0]), operands[1]
        # Until cel-go 0.26 the cost is that of the text, so its length matters, which the helper looks at.
        by_text = emitter.dispatcher.release < Release.V0_29
        if by_text or not (isinstance(part, Const) and isinstance(part.value, str)):
            emitter.charge(_LONG_TEXT)
            return Code(f"{emitter.use(helper)}({text.text}, {emitter.emit(part).text})", "bool")
        emitter.charge(scaled(len(part.value), STRING_FACTOR))
        name = node.function.lower()
        emitter.globals[name] = method
        return Code(f"{name}({text.text}, {part.value!r})", "bool")

    return write


def _contains(emitter: Emitter, node: Call, operands: Operands) -> Code:  # noqa: ARG001
    part = operands[1]
    length = (
        scaled(len(part.value), STRING_FACTOR)
        if isinstance(part, Const) and isinstance(part.value, str)
        else _LONG_TEXT
    )
    emitter.charge(_LONG_TEXT * (length + 1))
    text, other = emitter.emit(operands[0]), emitter.emit(part)
    return Code(f"{emitter.use('contains')}({text.text}, {other.text})", "bool")


def _matches(emitter: Emitter, node: Call, operands: Operands) -> Code:
    pattern = operands[1]
    # A pattern that is computed may be wrong, which is an error with a text; a literal was checked while planning.
    if not (isinstance(pattern, Const) and isinstance(pattern.value, str)):
        return _function(emitter, node, operands)
    emitter.charge(_LONG_TEXT * scaled(len(pattern.value), REGEX_FACTOR))
    text = emitter.emit(operands[0])
    return Code(f"{emitter.refer('matches', searcher(pattern.value))}({text.text})", "bool")


def _dyn(emitter: Emitter, node: Call, operands: Operands) -> Code:  # noqa: ARG001
    return emitter.emit(operands[0])


def _or_value(emitter: Emitter, node: Call, operands: Operands) -> Code:
    optional = emitter.emit(operands[0])
    lines, other = emitter.block(lambda: emitter.emit(operands[1]))
    if optional.kind != "optional" or (other.kind == "optional") != (node.function == "or"):
        raise NotCompiledError("it is no plain optional")
    kind = "optional" if node.function == "or" else "json"
    absent = emitter.use("ABSENT")
    if not lines:
        first, again = emitter.atom(optional)
        return Code(f"({again} if {first} is not {absent} else {other.text})", kind)
    name = emitter.temporary()
    emitter.line(f"{name} = {optional.text}")
    emitter.line(f"if {name} is {absent}:")
    emitter.lines += lines
    emitter.line(f"    {name} = {other.text}")
    return Code(name, kind, atom=True)


def _or_value_eagerly(emitter: Emitter, node: Call, operands: Operands) -> Code:  # noqa: ARG001
    """Return `orValue` as a function, which always evaluates the other value."""
    optional, other = emitter.emit(operands[0]), emitter.emit(operands[1])
    if optional.kind != "optional" or other.kind == "optional":
        raise NotCompiledError("it is no plain optional")
    text = other.text
    # The other value is evaluated first and always, as the arguments of a function are: it may raise.
    if not (other.atom or text in ("[]", "{}")):
        text = emitter.temporary()
        emitter.line(f"{text} = {other.text}")
    first, again = emitter.atom(optional)
    return Code(f"({again} if {first} is not {emitter.use('ABSENT')} else {text})")


def _has_value(emitter: Emitter, node: Call, operands: Operands) -> Code:  # noqa: ARG001
    return Code(f"({_optional(emitter, operands[0])} is not {emitter.use('ABSENT')})", "bool")


def _value(emitter: Emitter, node: Call, operands: Operands) -> Code:
    if emitter.is_optional(node):
        raise NotCompiledError("an optional holds an optional")
    return Code(f"{emitter.use('present')}({_optional(emitter, operands[0])})")


def _optional(emitter: Emitter, node: Expr) -> str:
    code = emitter.emit(node)
    if code.kind != "optional":
        raise NotCompiledError("it is no plain optional")
    return code.text


def _optional_of(emitter: Emitter, node: Call, operands: Operands) -> Code:
    value = emitter.emit(operands[0])
    if value.kind == "optional" or isinstance(operands[0], Const):
        raise NotCompiledError("an optional holds an optional, or a literal")
    _require_plain(emitter, operands[0], emitter.static_kind(operands[0]))
    if node.function == "optional.ofNonZeroValue":
        return Code(f"{emitter.use('non_zero')}({value.text})", "optional")
    return Code(value.text, "optional")


def _require_plain(emitter: Emitter, node: Expr, kind: Kind) -> None:
    """Raise `NotCompiledError` unless the value certainly comes back unchanged from an optional.

    Up to cel-go 0.26 not every value does.
    """
    if emitter.dispatcher.release < Release.V0_29 and kind not in _PLAIN and not isinstance(node, Ident | Select):
        raise NotCompiledError("an optional may hold what is not JSON")


def _optional_none(emitter: Emitter, node: Call, operands: Operands) -> Code:  # noqa: ARG001
    return Code(emitter.use("ABSENT"), "optional", atom=True)


def _function(emitter: Emitter, node: Call, operands: Operands) -> Code:
    """Return a call through the implementation that the strict engine would choose."""
    ids = emitter.ast.reference_map[node.id].overload_ids
    overload_id = ids[0] if len(ids) == 1 else ""
    binding = emitter.dispatcher.find(overload_id) or emitter.dispatcher.find(node.function)
    # A non-strict function takes errors as arguments, which compiled code does not have. Inside a new object the strict
    # engine must know which containers a call made.
    if binding is None or binding.non_strict or (emitter.in_object and emitter.static_kind(node) not in _SCALARS):
        raise NotCompiledError(f"`{node.function}` is for the strict engine")
    costs = emitter.dispatcher.costs
    cost = costs.get(overload_id) or costs.get(node.function)
    standard = emitter.dispatcher.standard_costs.get(overload_id)
    if cost is None and standard is not None:
        cost = lambda args, result: standard(args)  # noqa: ARG005, E731 - the shape of a declared cost
    emitter.charge(MAX_COST)
    codes = [emitter.emit(operand) for operand in operands]
    if any(code.kind in ("optional", "object") for code in codes):
        raise NotCompiledError(f"an optional is an argument of `{node.function}`")
    body = with_trait(binding.implementation, binding.trait) if binding.trait else binding.implementation
    # `quantity("1Gi")` and its kind stand in many policies and never change.
    if codes and all(isinstance(operand, Const) and type(operand.value) is str for operand in operands):
        constant = _constant_text(body, cost, operands)
        if constant is not None:
            return constant
    name = re.sub(r"\W", "", node.function) or "operator"
    arguments = [code.text for code in codes]
    if len(codes) == 1 or (codes and binding.of_texts):
        text = f"{emitter.refer(name, remembering(body, cost))}({', '.join(arguments)})"
    else:
        charged = emitter.refer("cost", cost) if cost is not None else "None"
        text = f"{emitter.use('call')}({', '.join([emitter.refer(name, body), charged, *arguments])})"
    if emitter.is_optional(node):
        _require_plain(emitter, node, emitter.ast.type_map[node.id].parameters[0].kind)
        return Code(f"{emitter.use('from_optional')}({text})", "optional")
    return Code(text)


def _constant_text(body: Callable[..., Value], cost: Callable[..., int] | None, operands: Operands) -> Code | None:
    """Return the text that a function makes of texts known in advance, or None if it makes something else."""
    try:
        value = call(body, cost, *(operand.value for operand in operands if isinstance(operand, Const)))
    except Exception:  # noqa: BLE001 - the same call at run time leaves it to the strict engine
        return None
    return Code(repr(value), "str", atom=True) if type(value) is str else None


Writer = Callable[["Emitter", Call, Operands], Code]

_WRITERS: dict[tuple[str, int], Writer] = {
    (operator.LOGICAL_AND, 2): _logic,
    (operator.LOGICAL_OR, 2): _logic,
    (operator.CONDITIONAL, 3): _conditional,
    (operator.LOGICAL_NOT, 1): _not,
    (operator.EQUALS, 2): _equality,
    (operator.NOT_EQUALS, 2): _equality,
    (operator.LESS, 2): _ordering,
    (operator.LESS_EQUALS, 2): _ordering,
    (operator.GREATER, 2): _ordering,
    (operator.GREATER_EQUALS, 2): _ordering,
    (operator.ADD, 2): _arithmetic,
    (operator.SUBTRACT, 2): _arithmetic,
    (operator.MULTIPLY, 2): _arithmetic,
    (operator.DIVIDE, 2): _arithmetic,
    (operator.MODULO, 2): _arithmetic,
    (operator.INDEX, 2): _index,
    (operator.OPT_INDEX, 2): _index,
    (operator.OPT_SELECT, 2): _index,
    (operator.IN, 2): _membership_code,
    ("size", 1): _size,
    ("startsWith", 2): _text_test(str.startswith, "starts_with"),
    ("endsWith", 2): _text_test(str.endswith, "ends_with"),
    ("contains", 2): _contains,
    ("matches", 2): _matches,
    ("dyn", 1): _dyn,
    ("or", 2): _or_value,
    ("orValue", 2): _or_value,
    (operator.OR_VALUE_EAGERLY, 2): _or_value_eagerly,
    ("hasValue", 1): _has_value,
    ("value", 1): _value,
    ("optional.of", 1): _optional_of,
    ("optional.ofNonZeroValue", 1): _optional_of,
    ("optional.none", 0): _optional_none,
}
