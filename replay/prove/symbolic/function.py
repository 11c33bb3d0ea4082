"""Modelled functions: text predicates, numbers, sizes, lists, sets (cel-go `ext/sets.go`), optionals, types."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from replay.cel.ast import operator
from replay.prove.symbolic.equality import membership, order
from replay.prove.symbolic.fold import as_list
from replay.prove.symbolic.node import LARGEST
from replay.prove.symbolic.selection import Guarded, count_of, joined, size_of, spread
from replay.prove.symbolic.term import (
    BOOL,
    FALSE,
    INT,
    TRUE,
    Term,
    apply,
    arithmetic,
    as_real,
    at_most,
    choose,
    conj,
    disj,
    implies,
    integer,
    less,
    negated,
    rational,
    variable,
)
from replay.prove.symbolic.text_function import TextFunction
from replay.prove.symbolic.text_language import TextPredicate
from replay.prove.symbolic.text_result import QUANTITIES, TEXTS, Followed
from replay.prove.symbolic.unknown import ValueFactory
from replay.prove.symbolic.value import (
    ERROR,
    FAILED,
    NULL,
    Bool,
    Double,
    Int,
    Json,
    JsonList,
    JsonMap,
    ListOf,
    MapOf,
    Null,
    Opaque,
    Pieces,
    Str,
    SymbolicOptional,
    SymbolicValue,
    TypeOf,
    ValueCase,
    decided,
    known,
    value_of,
)


def _items(make: ValueFactory, one: ListOf, other: ListOf) -> list[tuple[Term, Term]]:
    """Return for each item of a list where it is present, and where it is in another list."""
    return [(there, membership(make, item, known(other))[0]) for there, item in one.items]


def _contains(make: ValueFactory, one: ListOf, other: ListOf) -> Term:
    return conj(*(implies(there, presence) for there, presence in _items(make, other, one)))


def _intersects(make: ValueFactory, one: ListOf, other: ListOf) -> Term:
    return disj(*(conj(there, presence) for there, presence in _items(make, one, other)))


def _equivalent(make: ValueFactory, one: ListOf, other: ListOf) -> Term:
    return conj(_contains(make, one, other), _contains(make, other, one))


def _over_lists(answer: Callable[[ValueFactory, ListOf, ListOf], Term]) -> Followed:
    def followed(make: ValueFactory, arguments: list[SymbolicValue]) -> SymbolicValue | None:
        pairs: list[Guarded] = []
        for guard, case in spread(arguments[0]):
            for other_guard, other in spread(arguments[1]):
                one, two = as_list(case), as_list(other)
                if one is None or two is None:
                    return None
                pairs.append((conj(guard, other_guard), known(Bool(answer(make, one, two)))))
        return joined(pairs)

    return followed


_SETS: Mapping[tuple[str, int], Followed] = {
    ("sets.contains", 2): _over_lists(_contains),
    ("sets.intersects", 2): _over_lists(_intersects),
    ("sets.equivalent", 2): _over_lists(_equivalent),
}
"""Functions on sets, by name and number of operands."""


_LIMIT = 2**63


def _predicate(kind: str, make: ValueFactory, arguments: list[SymbolicValue]) -> SymbolicValue | None:
    """Model a predicate of a text and a constant. For two unknown texts it is an unknown function."""
    pairs: list[Guarded] = []
    for guard, case in spread(arguments[0]):
        for other_guard, other in spread(arguments[1]):
            here = conj(guard, other_guard)
            # A case that cannot occur must not leave the whole call without a model.
            if here is FALSE:
                continue
            if not isinstance(case, Str) or not isinstance(other, Str):
                if isinstance(case, Opaque | SymbolicOptional) or isinstance(other, Opaque | SymbolicOptional):
                    return None
                pairs.append((here, FAILED))
            else:
                pairs.append((here, _asked(kind, make, case.term, other.term)))
    return joined(pairs)


def _asked(kind: str, make: ValueFactory, term: Term, constant: Term) -> SymbolicValue:
    texts = make.root.texts
    text = texts.text_of(constant)
    if text is None:
        name = f"{kind} of two"
        answer = known(Bool(apply(name, (term, constant), BOOL)))
        if kind != "matches":
            return answer
        # A computed text may be no pattern, which is an error.
        failed = apply("no pattern", (constant,), BOOL)
        return joined([(failed, FAILED), (negated(failed), answer)])
    if kind == "matches" and not _is_pattern(text):
        return FAILED
    if text == "" and kind in {"startsWith", "endsWith", "contains"}:
        return known(Bool(TRUE))
    return known(Bool(texts.holds(TextPredicate(kind, text), term)))


def _is_pattern(text: str) -> bool:
    from replay.cel.value.regexp import check_pattern  # noqa: PLC0415
    from replay.cel.value.values import EvalError  # noqa: PLC0415

    try:
        check_pattern(text)
    except EvalError:
        return False
    return True


def _ordered(orders: tuple[bool, bool, bool], make: ValueFactory, arguments: list[SymbolicValue]) -> SymbolicValue:
    """Model `<`, `<=`, `>` or `>=`. `orders` says whether less, equal and greater are true."""
    answers = order(make, *arguments)
    holds = disj(*(answer for answer, want in zip(answers, orders, strict=True) if want))
    fails = disj(*(answer for answer, want in zip(answers, orders, strict=True) if not want))
    return decided(holds, fails)


def _size(make: ValueFactory, arguments: list[SymbolicValue]) -> SymbolicValue | None:
    pairs: list[Guarded] = []
    for guard, case in spread(arguments[0]):
        if isinstance(case, Opaque | SymbolicOptional):
            return None
        if isinstance(case, Str):
            pairs.append((guard, known(Int(_length(make, case.term)))))
            continue
        if isinstance(case, Pieces):
            pairs.append((guard, known(Int(count_of(make, case)))))
            continue
        size = size_of(case)
        pairs.append((guard, FAILED if size is None else known(Int(size))))
    return joined(pairs)


def _length(make: ValueFactory, term: Term) -> Term:
    texts = make.root.texts
    if term.op == "ite":
        return choose(term.args[0], _length(make, term.args[1]), _length(make, term.args[2]))
    text = texts.text_of(term)
    if text is not None:
        return integer(len(text))
    length = apply("length", (term,), INT)
    make.root.facts += [at_most(integer(0), length), at_most(length, integer(LARGEST))]
    make.root.measured[term] = None
    return length


def _arithmetic(op: str, make: ValueFactory, arguments: list[SymbolicValue]) -> SymbolicValue | None:
    pairs: list[Guarded] = []
    for guard, case in spread(arguments[0]):
        for other_guard, other in spread(arguments[1]):
            here = conj(guard, other_guard)
            # As above, such a case must not leave the whole call without a model.
            if here is FALSE:
                continue
            result = _calculated(op, make, case, other)
            if result is None:
                return None
            pairs.append((here, result))
    return joined(pairs)


def _calculated(op: str, make: ValueFactory, one: ValueCase, other: ValueCase) -> SymbolicValue | None:  # noqa: PLR0911
    if isinstance(one, Int) and isinstance(other, Int):
        if op in {"/", "%"}:
            return _divided(op, one.term, other.term)
        # Solvers do not decide products of two unknown numbers.
        if op == "*" and one.term.op != "const" and other.term.op != "const":
            return None
        return _within_range(arithmetic(op, one.term, other.term))
    if op == "+" and isinstance(one, Str) and isinstance(other, Str):
        return known(Str(_concatenated(make, one.term, other.term)))
    if op == "+" and isinstance(one, JsonList | ListOf) and isinstance(other, JsonList | ListOf):
        first, second = as_list(one), as_list(other)
        assert first is not None
        assert second is not None
        return known(ListOf((*first.items, *second.items), first.is_ordered and second.is_ordered))
    scalars = (Bool, Str, Int, Null, JsonMap, MapOf, JsonList, ListOf)
    # An operator has no overload for values of two kinds.
    if isinstance(one, scalars) and isinstance(other, scalars) and type(one) is not type(other):
        return FAILED
    if isinstance(one, Bool | Null | JsonMap | MapOf):
        return FAILED
    if (
        # A double with another kind has no overload either. Arithmetic of two doubles is not modelled.
        isinstance(one, Double) != isinstance(other, Double)
        and not isinstance(one, Opaque)
        and not isinstance(other, Opaque)
    ):
        return FAILED
    return None


def _divided(op: str, one: Term, other: Term) -> SymbolicValue | None:
    """Return the quotient or remainder by a positive constant, rounded towards zero as in Go.

    Solvers round down, so negative dividends are negated twice. Other divisors are not modelled.
    """
    if other.op != "const" or not isinstance(other.value, int) or other.value < 0:
        return None
    if other.value == 0:
        return FAILED
    up = arithmetic("div", one, other)
    down = arithmetic("-", integer(0), arithmetic("div", arithmetic("-", integer(0), one), other))
    quotient = choose(less(one, integer(0)), down, up)
    return known(Int(quotient if op == "/" else arithmetic("-", one, arithmetic("*", quotient, other))))


def _within_range(term: Term) -> SymbolicValue:
    inside = conj(at_most(integer(-_LIMIT), term), at_most(term, integer(_LIMIT - 1)))
    return value_of([(inside, Int(term)), (negated(inside), ERROR)])


def _concatenated(make: ValueFactory, one: Term, other: Term) -> Term:
    texts = make.root.texts
    first, second = texts.text_of(one), texts.text_of(other)
    if first is not None and second is not None:
        return texts.literal(first + second)
    if first == "" or second == "":
        return other if first == "" else one
    if first is not None:
        return texts.result(TextFunction("prepend", first), other)
    if second is not None:
        return texts.result(TextFunction("append", second), one)
    return make.text_result("+", one, other)


def _string(make: ValueFactory, arguments: list[SymbolicValue]) -> SymbolicValue | None:
    """Model `string(x)`. A string is itself. Other kinds give an unknown function."""
    pairs: list[Guarded] = []
    for guard, case in spread(arguments[0]):
        if isinstance(case, Str):
            pairs.append((guard, known(case)))
        elif isinstance(case, Null | JsonList | JsonMap | ListOf | MapOf | Pieces):
            pairs.append((guard, FAILED))
        elif isinstance(case, Opaque | SymbolicOptional):
            return None
        elif isinstance(case, Int):
            pairs.append((guard, known(Str(make.root.texts.numeral(case.term)))))
        else:
            name = make.name_of(("string", known(case)))
            pairs.append((guard, known(Str(variable(f"text {name}", INT)))))
    return joined(pairs)


def _int(make: ValueFactory, arguments: list[SymbolicValue]) -> SymbolicValue | None:
    pairs: list[Guarded] = []
    for guard, case in spread(arguments[0]):
        if isinstance(case, Int):
            pairs.append((guard, known(case)))
        elif isinstance(case, Str):
            failed = apply("no int", (case.term,), BOOL)
            value = make.integer(apply("int of text", (case.term,), INT))
            pairs += [(conj(guard, failed), FAILED), (conj(guard, negated(failed)), known(value))]
        elif isinstance(case, Double):
            pairs.append((guard, _whole(make, case.term)))
        elif isinstance(case, Null | Bool | JsonList | JsonMap | ListOf | MapOf):
            pairs.append((guard, FAILED))
        else:
            return None
    return joined(pairs)


def _whole(make: ValueFactory, double: Term) -> SymbolicValue:
    """Model `int(double)`: rounded towards zero, and an error beyond 64 bits."""
    term = make.integer(apply("int of double", (double,), INT)).term
    failed, zero = apply("double beyond int", (double,), BOOL), rational(0)
    above, below = as_real(term), as_real(arithmetic("+", term, integer(1)))
    up = conj(at_most(above, double), less(double, below))
    down = conj(at_most(double, above), less(as_real(arithmetic("-", term, integer(1))), double))
    make.root.facts.append(disj(failed, choose(less(double, zero), down, up)))
    return value_of([(failed, ERROR), (negated(failed), Int(term))])


def _dyn(make: ValueFactory, arguments: list[SymbolicValue]) -> SymbolicValue:  # noqa: ARG001 - one signature for all functions
    return arguments[0]


_TYPE_NAMES: Mapping[type, str] = {
    Null: "null_type",
    Bool: "bool",
    Int: "int",
    Double: "double",
    Str: "string",
    JsonList: "list",
    ListOf: "list",
    Pieces: "list",
    JsonMap: "map",
    MapOf: "map",
    TypeOf: "type",
}


def _type(make: ValueFactory, arguments: list[SymbolicValue]) -> SymbolicValue | None:  # noqa: ARG001
    pairs: list[Guarded] = []
    for guard, case in spread(arguments[0]):
        name = _TYPE_NAMES.get(type(case))
        if name is None:
            return None
        pairs.append((guard, known(TypeOf(name))))
    return joined(pairs)


def _has_value(make: ValueFactory, arguments: list[SymbolicValue]) -> SymbolicValue | None:  # noqa: ARG001
    return _map_optional(arguments[0], lambda optional: known(Bool(optional.present)))


def _value(make: ValueFactory, arguments: list[SymbolicValue]) -> SymbolicValue | None:  # noqa: ARG001
    return _map_optional(
        arguments[0], lambda optional: joined([(optional.present, optional.value), (negated(optional.present), FAILED)])
    )


def _map_optional(value: SymbolicValue, answer: Callable[[SymbolicOptional], SymbolicValue]) -> SymbolicValue | None:
    pairs: list[Guarded] = []
    for guard, case in value.cases:
        if isinstance(case, SymbolicOptional):
            pairs.append((guard, answer(case)))
        elif isinstance(case, Opaque | Json):
            return None
        else:
            pairs.append((guard, FAILED))
    return joined(pairs)


def _optional_of(make: ValueFactory, arguments: list[SymbolicValue]) -> SymbolicValue:  # noqa: ARG001
    return known(SymbolicOptional(TRUE, arguments[0]))


def _optional_none(make: ValueFactory, arguments: list[SymbolicValue]) -> SymbolicValue:  # noqa: ARG001
    return known(SymbolicOptional(FALSE, known(NULL)))


_COMPARISONS: Mapping[str, tuple[bool, bool, bool]] = {
    operator.LESS: (True, False, False),
    operator.LESS_EQUALS: (True, True, False),
    operator.GREATER: (False, False, True),
    operator.GREATER_EQUALS: (False, True, True),
}

FUNCTIONS: Mapping[tuple[str, int], Followed] = {
    **{(name, 2): partial(_predicate, name) for name in ("startsWith", "endsWith", "contains", "matches")},
    **{(name, 2): partial(_ordered, orders_true) for name, orders_true in _COMPARISONS.items()},
    **{
        (name, 2): partial(_arithmetic, op)
        for name, op in (("_+_", "+"), ("_-_", "-"), ("_*_", "*"), ("_/_", "/"), ("_%_", "%"))
    },
    **TEXTS,
    **_SETS,
    ("size", 1): _size,
    ("string", 1): _string,
    ("int", 1): _int,
    ("dyn", 1): _dyn,
    ("type", 1): _type,
    ("hasValue", 1): _has_value,
    ("value", 1): _value,
    ("optional.of", 1): _optional_of,
    ("optional.none", 0): _optional_none,
    **QUANTITIES,
}
"""Modelled functions by name and number of operands, including the receiver. A result of None means not modelled."""
