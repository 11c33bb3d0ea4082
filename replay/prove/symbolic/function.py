"""The functions that are followed: text predicates, numbers, sizes, lists, optionals, quantities, types."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from replay.cel.ast import operator
from replay.prove.symbolic.equality import order
from replay.prove.symbolic.fold import as_list
from replay.prove.symbolic.selection import Guarded, joined, size_of, spread
from replay.prove.symbolic.term import (
    BOOL,
    FALSE,
    INT,
    REAL,
    TRUE,
    Term,
    apply,
    arithmetic,
    at_most,
    boolean,
    choose,
    conj,
    disj,
    equal,
    integer,
    less,
    negated,
    rational,
    variable,
)
from replay.prove.symbolic.text.exact import quantity_of
from replay.prove.symbolic.text.language import Predicate
from replay.prove.symbolic.unknown import Maker
from replay.prove.symbolic.value import (
    ERROR,
    FAILED,
    NULL,
    Bool,
    Case,
    Double,
    Int,
    Json,
    JsonList,
    JsonMap,
    ListOf,
    MapOf,
    Null,
    Opaque,
    Optional,
    Str,
    TypeOf,
    Value,
    decided,
    known,
    value_of,
)

Followed = Callable[[Maker, list[Value]], Value | None]
_LIMIT = 2**63
_QUANTITY = "quantity"


def _predicate(kind: str, make: Maker, arguments: list[Value]) -> Value | None:
    """A predicate of a text and a constant text; with another text an unknown function of both."""
    pairs: list[Guarded] = []
    for guard, case in spread(arguments[0]):
        for other_guard, other in spread(arguments[1]):
            here = conj(guard, other_guard)
            if here is FALSE:
                continue
            if not isinstance(case, Str) or not isinstance(other, Str):
                if isinstance(case, Opaque | Optional) or isinstance(other, Opaque | Optional):
                    return None
                pairs.append((here, FAILED))
            else:
                pairs.append((here, _asked(kind, make, case.term, other.term)))
    return joined(pairs)


def _asked(kind: str, make: Maker, term: Term, constant: Term) -> Value:
    texts = make.root.texts
    text = texts.text_of(constant)
    if text is None:
        name = f"{kind} of two"
        answer = known(Bool(apply(name, (term, constant), BOOL)))
        if kind != "matches":
            return answer
        failed = apply("no pattern", (constant,), BOOL)
        return joined([(failed, FAILED), (negated(failed), answer)])
    if kind == "matches" and not _is_pattern(text):
        return FAILED
    if text == "" and kind in {"startsWith", "endsWith", "contains"}:
        return known(Bool(TRUE))
    return known(Bool(texts.holds(Predicate(kind, text), term)))


def _is_pattern(text: str) -> bool:
    from replay.cel.value.regexp import check_pattern  # noqa: PLC0415
    from replay.cel.value.values import EvalError  # noqa: PLC0415

    try:
        check_pattern(text)
    except EvalError:
        return False
    return True


def _ordered(wanted: tuple[bool, bool, bool], make: Maker, arguments: list[Value]) -> Value:
    """`<` and its like; `wanted` says whether less, equal and greater are true."""
    answers = order(make, *arguments)
    holds = disj(*(answer for answer, want in zip(answers, wanted, strict=True) if want))
    fails = disj(*(answer for answer, want in zip(answers, wanted, strict=True) if not want))
    return decided(holds, fails)


def _size(make: Maker, arguments: list[Value]) -> Value | None:
    pairs: list[Guarded] = []
    for guard, case in spread(arguments[0]):
        if isinstance(case, Opaque | Optional):
            return None
        if isinstance(case, Str):
            pairs.append((guard, known(Int(_length(make, case.term)))))
            continue
        size = size_of(case)
        pairs.append((guard, FAILED if size is None else known(Int(size))))
    return joined(pairs)


def _length(make: Maker, term: Term) -> Term:
    texts = make.root.texts
    if term.op == "ite":
        return choose(term.args[0], _length(make, term.args[1]), _length(make, term.args[2]))
    text = texts.text_of(term)
    if text is not None:
        return integer(len(text))
    length = apply("length", (term,), INT)
    make.root.facts.append(at_most(integer(0), length))
    make.root.measured[term] = None
    return length


def _arithmetic(op: str, make: Maker, arguments: list[Value]) -> Value | None:
    pairs: list[Guarded] = []
    for guard, case in spread(arguments[0]):
        for other_guard, other in spread(arguments[1]):
            here = conj(guard, other_guard)
            if here is FALSE:
                continue
            found = _calculated(op, make, case, other)
            if found is None:
                return None
            pairs.append((here, found))
    return joined(pairs)


def _calculated(op: str, make: Maker, one: Case, other: Case) -> Value | None:  # noqa: PLR0911
    if isinstance(one, Int) and isinstance(other, Int):
        if op == "*" and one.term.op != "const" and other.term.op != "const":
            return None
        return _within_range(arithmetic(op, one.term, other.term))
    if op == "+" and isinstance(one, Str) and isinstance(other, Str):
        return known(Str(_concatenated(make, one.term, other.term)))
    if op == "+" and isinstance(one, JsonList | ListOf) and isinstance(other, JsonList | ListOf):
        first, second = as_list(one), as_list(other)
        assert first is not None
        assert second is not None
        return known(ListOf((*first.items, *second.items)))
    scalars = (Bool, Str, Int, Null, JsonMap, MapOf, JsonList, ListOf)
    if isinstance(one, scalars) and isinstance(other, scalars) and type(one) is not type(other):
        return FAILED
    if isinstance(one, Bool | Null | JsonMap | MapOf):
        return FAILED
    if (
        isinstance(one, Double) != isinstance(other, Double)
        and not isinstance(one, Opaque)
        and not isinstance(other, Opaque)
    ):
        return FAILED
    return None


def _within_range(term: Term) -> Value:
    inside = conj(at_most(integer(-_LIMIT), term), at_most(term, integer(_LIMIT - 1)))
    return value_of([(inside, Int(term)), (negated(inside), ERROR)])


def _concatenated(make: Maker, one: Term, other: Term) -> Term:
    texts = make.root.texts
    first, second = texts.text_of(one), texts.text_of(other)
    if first is not None and second is not None:
        return texts.literal(first + second)
    if first == "" or second == "":
        return other if first == "" else one
    return make.text_result("+", one, other)


def _text_function(name: str, make: Maker, arguments: list[Value]) -> Value | None:
    """A function from a text to a text that never fails."""
    pairs: list[Guarded] = []
    for guard, case in spread(arguments[0]):
        if isinstance(case, Opaque | Optional):
            return None
        pairs.append((guard, known(Str(make.text_result(name, case.term))) if isinstance(case, Str) else FAILED))
    return joined(pairs)


def _string(make: Maker, arguments: list[Value]) -> Value | None:
    """`string(x)`: a text is itself; of other kinds an unknown function."""
    pairs: list[Guarded] = []
    for guard, case in spread(arguments[0]):
        if isinstance(case, Str):
            pairs.append((guard, known(case)))
        elif isinstance(case, Null | JsonList | JsonMap | ListOf | MapOf):
            pairs.append((guard, FAILED))
        elif isinstance(case, Opaque | Optional):
            return None
        elif isinstance(case, Int):
            pairs.append((guard, known(Str(make.text_result("int", case.term)))))
        else:
            name = make.name_of(("string", known(case)))
            pairs.append((guard, known(Str(variable(f"text {name}", INT)))))
    return joined(pairs)


def _int(make: Maker, arguments: list[Value]) -> Value | None:
    pairs: list[Guarded] = []
    for guard, case in spread(arguments[0]):
        if isinstance(case, Int):
            pairs.append((guard, known(case)))
        elif isinstance(case, Str):
            failed = apply("no int", (case.term,), BOOL)
            value = make.integer(apply("int of text", (case.term,), INT))
            pairs += [(conj(guard, failed), FAILED), (conj(guard, negated(failed)), known(value))]
        elif isinstance(case, Null | Bool | JsonList | JsonMap | ListOf | MapOf):
            pairs.append((guard, FAILED))
        else:
            return None
    return joined(pairs)


def _dyn(make: Maker, arguments: list[Value]) -> Value:  # noqa: ARG001 - one signature for all functions
    return arguments[0]


_TYPE_NAMES: Mapping[type, str] = {
    Null: "null_type",
    Bool: "bool",
    Int: "int",
    Double: "double",
    Str: "string",
    JsonList: "list",
    ListOf: "list",
    JsonMap: "map",
    MapOf: "map",
    TypeOf: "type",
}


def _type(make: Maker, arguments: list[Value]) -> Value | None:  # noqa: ARG001
    pairs: list[Guarded] = []
    for guard, case in spread(arguments[0]):
        name = _TYPE_NAMES.get(type(case))
        if name is None:
            return None
        pairs.append((guard, known(TypeOf(name))))
    return joined(pairs)


def _has_value(make: Maker, arguments: list[Value]) -> Value | None:  # noqa: ARG001
    return _of_optional(arguments[0], lambda optional: known(Bool(optional.present)))


def _value(make: Maker, arguments: list[Value]) -> Value | None:  # noqa: ARG001
    return _of_optional(
        arguments[0], lambda optional: joined([(optional.present, optional.value), (negated(optional.present), FAILED)])
    )


def _of_optional(value: Value, answer: Callable[[Optional], Value]) -> Value | None:
    pairs: list[Guarded] = []
    for guard, case in value.cases:
        if isinstance(case, Optional):
            pairs.append((guard, answer(case)))
        elif isinstance(case, Opaque | Json):
            return None
        else:
            pairs.append((guard, FAILED))
    return joined(pairs)


def _optional_of(make: Maker, arguments: list[Value]) -> Value:  # noqa: ARG001
    return known(Optional(TRUE, arguments[0]))


def _optional_none(make: Maker, arguments: list[Value]) -> Value:  # noqa: ARG001
    return known(Optional(FALSE, known(NULL)))


def _quantity(make: Maker, arguments: list[Value]) -> Value | None:
    pairs: list[Guarded] = []
    for guard, case in spread(arguments[0]):
        if isinstance(case, Opaque):
            return None
        if not isinstance(case, Str):
            pairs.append((guard, FAILED))
            continue
        valid = _is_quantity_term(make, case.term)
        pairs += [
            (conj(guard, valid), known(Opaque(_QUANTITY, (case.term,)))),
            (conj(guard, negated(valid)), FAILED),
        ]
    return joined(pairs)


def _is_quantity(make: Maker, arguments: list[Value]) -> Value | None:
    pairs: list[Guarded] = []
    for guard, case in spread(arguments[0]):
        if isinstance(case, Opaque | Optional):
            return None
        pairs.append((guard, known(Bool(_is_quantity_term(make, case.term))) if isinstance(case, Str) else FAILED))
    return joined(pairs)


def _is_quantity_term(make: Maker, term: Term) -> Term:
    text = make.root.texts.text_of(term)
    if text is not None:
        return boolean(quantity_of(text) is not None)
    if term.op == "ite":
        return choose(term.args[0], _is_quantity_term(make, term.args[1]), _is_quantity_term(make, term.args[2]))
    make.root.amounts[term] = None
    return apply("is quantity", (term,), BOOL)


def _amount(make: Maker, term: Term) -> Term:
    if term.op == "ite":
        return choose(term.args[0], _amount(make, term.args[1]), _amount(make, term.args[2]))
    text = make.root.texts.text_of(term)
    amount = None if text is None else quantity_of(text)
    if amount is not None:
        return rational(amount)
    make.root.amounts[term] = None
    return apply("amount", (term,), REAL)


def _compare_quantities(answer: Callable[[Term, Term], Value], make: Maker, arguments: list[Value]) -> Value | None:
    pairs: list[Guarded] = []
    for guard, case in arguments[0].cases:
        for other_guard, other in arguments[1].cases:
            here = conj(guard, other_guard)
            amounts = [_amount_of(make, each) for each in (case, other)]
            if amounts[0] is None or amounts[1] is None:
                return None
            pairs.append((here, answer(amounts[0], amounts[1])))
    return joined(pairs)


def _amount_of(make: Maker, case: Case) -> Term | None:
    if not isinstance(case, Opaque) or case.kind != _QUANTITY:
        return None
    term = case.made_of[0]
    assert isinstance(term, Term)
    return _amount(make, term)


def _compared(one: Term, other: Term) -> Value:
    return known(Int(choose(less(one, other), integer(-1), choose(equal(one, other), integer(0), integer(1)))))


_COMPARISONS: Mapping[str, tuple[bool, bool, bool]] = {
    operator.LESS: (True, False, False),
    operator.LESS_EQUALS: (True, True, False),
    operator.GREATER: (False, False, True),
    operator.GREATER_EQUALS: (False, True, True),
}

FUNCTIONS: Mapping[tuple[str, int], Followed] = {
    **{(name, 2): partial(_predicate, name) for name in ("startsWith", "endsWith", "contains", "matches")},
    **{(name, 2): partial(_ordered, wanted) for name, wanted in _COMPARISONS.items()},
    **{(name, 2): partial(_arithmetic, op) for name, op in (("_+_", "+"), ("_-_", "-"), ("_*_", "*"))},
    **{(name, 1): partial(_text_function, name) for name in ("lowerAscii", "upperAscii", "trim")},
    ("size", 1): _size,
    ("string", 1): _string,
    ("int", 1): _int,
    ("dyn", 1): _dyn,
    ("type", 1): _type,
    ("hasValue", 1): _has_value,
    ("value", 1): _value,
    ("optional.of", 1): _optional_of,
    ("optional.none", 0): _optional_none,
    ("quantity", 1): _quantity,
    ("isQuantity", 1): _is_quantity,
    ("isGreaterThan", 2): partial(_compare_quantities, lambda one, other: known(Bool(less(other, one)))),
    ("isLessThan", 2): partial(_compare_quantities, lambda one, other: known(Bool(less(one, other)))),
    ("compareTo", 2): partial(_compare_quantities, _compared),
}
"""By name and number of operands, the receiver among them; None as a result: not followed after all."""
