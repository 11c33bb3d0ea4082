"""Fields, keys and indices of symbolic values (`replay.cel.strict.attribute`, `replay.cel.strict.attribute`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from replay.prove.symbolic.node import LARGEST, JsonNode
from replay.prove.symbolic.term import (
    FALSE,
    INT,
    TRUE,
    Term,
    apply,
    arithmetic,
    at_most,
    choose,
    conj,
    disj,
    equal,
    implies,
    integer,
    less,
    negated,
    total,
)
from replay.prove.symbolic.text_function import TextFunction
from replay.prove.symbolic.text_language import TextPredicate
from replay.prove.symbolic.unknown import ValueFactory
from replay.prove.symbolic.value import (
    ERROR,
    NULL,
    Bool,
    Double,
    Err,
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
    ValueCase,
    known,
    value_of,
)

Guarded = tuple[Term, SymbolicValue]


def spread(value: SymbolicValue) -> Iterator[tuple[Term, ValueCase]]:
    """Yield the cases of a value, with a JSON value split by kind."""
    for guard, case in value.cases:
        if not isinstance(case, Json):
            yield guard, case
            continue
        for kind in case.node.allowed:
            here = conj(guard, case.node.is_kind(kind))
            if here is not FALSE:
                yield here, _value_of_kind(case.node, kind)


def _value_of_kind(node: JsonNode, kind: str) -> ValueCase:  # noqa: PLR0911 - one case a kind
    match kind:
        case "null":
            return NULL
        case "bool":
            return Bool(node.truth)
        case "int":
            return Int(node.integer)
        case "double":
            return Double(node.double)
        case "string":
            return Str(node.text)
        case "list":
            return JsonList(node)
    return JsonMap(node)


def joined(pairs: Iterator[Guarded] | list[Guarded]) -> SymbolicValue:
    """Return a value that equals each of some values where its guard holds."""
    return value_of((conj(guard, inner), case) for guard, value in pairs for inner, case in value.cases)


Looked = tuple[Term, SymbolicValue, Term]
"""Result of a selection: when the part is present, its value, and when the selection is an error."""


def _look_up_field(case: ValueCase, field: str) -> Looked:
    """Look up a field of a case (`lookup`). Scalars have no fields, and lists are an error."""
    if isinstance(case, JsonMap):
        present, child = case.node.part(field)
        return present, known(Json(child)), FALSE
    if isinstance(case, MapOf):
        # The last of equal keys counts.
        entry_value = next((value for key, value in reversed(case.entries) if key == field), None)
        return (FALSE, known(ERROR), FALSE) if entry_value is None else (TRUE, entry_value, FALSE)
    if isinstance(case, JsonList | ListOf | Pieces | Err):
        return FALSE, known(ERROR), TRUE
    return FALSE, known(ERROR), FALSE


def select_field(make: ValueFactory, operand: SymbolicValue, field: str) -> SymbolicValue:
    """Return the value of `operand.field`."""
    pairs: list[Guarded] = []
    for guard, case in spread(operand):
        if isinstance(case, SymbolicOptional):
            pairs.append((guard, _within(case, lambda inner: _optional(inner, lambda c: _look_up_field(c, field)))))
        elif isinstance(case, Opaque):
            pairs.append((guard, make.result(f"select {field}", (known(case),), None)))
        else:
            present, value, _ = _look_up_field(case, field)
            pairs += [(conj(guard, present), value), (conj(guard, negated(present)), known(ERROR))]
    return joined(pairs)


def has_field(make: ValueFactory, operand: SymbolicValue, field: str) -> SymbolicValue:
    """Return the value of `has(operand.field)`."""
    pairs: list[Guarded] = []
    for guard, case in spread(operand):
        if isinstance(case, SymbolicOptional | Opaque):
            flag = make.flag("has", field, known(case))
            failed = make.flag("has fails", field, known(case))
            pairs += [(conj(guard, failed), known(ERROR)), (conj(guard, negated(failed)), known(Bool(flag)))]
            continue
        present, _, failed = _look_up_field(case, field)
        pairs += [(conj(guard, failed), known(ERROR)), (conj(guard, negated(failed)), known(Bool(present)))]
    return joined(pairs)


def _within(optional: SymbolicOptional, follow: Callable[[SymbolicValue], SymbolicValue]) -> SymbolicValue:
    """Apply a selection to an optional. None stays none."""
    followed = follow(optional.value)
    # An absent optional has no value. The null is not read.
    nothing = known(SymbolicOptional(FALSE, known(NULL)))
    return joined([(optional.present, followed), (negated(optional.present), nothing)])


def _optional(value: SymbolicValue, look_up: Callable[[ValueCase], Looked]) -> SymbolicValue:
    """Return a part as an optional."""
    pairs: list[Guarded] = []
    for guard, case in spread(value):
        present, part, failed = look_up(case)
        pairs += [
            (conj(guard, failed), known(ERROR)),
            (conj(guard, negated(failed)), known(SymbolicOptional(present, part))),
        ]
    return joined(pairs)


def index_value(make: ValueFactory, operand: SymbolicValue, key: SymbolicValue, *, optional: bool) -> SymbolicValue:
    """Return the value of `operand[key]`, `operand[?key]` or `operand.?key`. Neither operand is an error."""
    pairs: list[Guarded] = []
    for key_guard, key_case in spread(key):
        for guard, case in spread(operand):
            here = conj(guard, key_guard)
            if here is not FALSE:
                pairs.append((here, _index_case(make, case, key_case, optional=optional)))
    return joined(pairs)


def _index_case(make: ValueFactory, case: ValueCase, key: ValueCase, *, optional: bool) -> SymbolicValue:
    if isinstance(case, SymbolicOptional):
        return _within(case, lambda inner: _optional(inner, lambda each: _look_up(make, each, key)))
    if isinstance(case, Opaque):
        return make.result("index", (known(case), known(key), optional), None)
    present, part, failed = _look_up(make, case, key)
    if optional:
        return joined([(failed, known(ERROR)), (negated(failed), known(SymbolicOptional(present, part)))])
    return joined([(present, part), (negated(present), known(ERROR))])


def _look_up(make: ValueFactory, case: ValueCase, key: ValueCase) -> Looked:
    """Look up a part by a key that may be computed."""
    if isinstance(case, JsonMap | MapOf):
        return _look_up_entry(make, case, key)
    if isinstance(case, JsonList | ListOf):
        return _look_up_item(make, case, key)
    if isinstance(case, Pieces):
        return _look_up_piece(make, case, key)
    if isinstance(case, Err):
        return FALSE, known(ERROR), TRUE
    return FALSE, known(ERROR), FALSE


def _unknown_part(make: ValueFactory, case: ValueCase, key: ValueCase) -> Looked:
    name = ("part", known(case), known(key))
    part = make.result("part", name, None, may_fail=False)
    return make.flag("part is there", name), part, make.flag("part fails", name)


def _look_up_entry(make: ValueFactory, case: JsonMap | MapOf, key: ValueCase) -> Looked:
    if not isinstance(key, Str):
        return _unknown_part(make, case, key)
    return look_up_text(make, case, key.term)


def look_up_text(make: ValueFactory, case: JsonMap | MapOf, key: Term) -> Looked:
    """Look up an entry of a map by a text."""
    if key.op == "ite":
        return _merged(key.args[0], look_up_text(make, case, key.args[1]), look_up_text(make, case, key.args[2]))
    text = make.root.texts.text_of(key)
    if text is not None:
        return _look_up_field(case, text)
    if isinstance(case, MapOf):
        entries = [(make.root.texts.same(key, make.root.texts.literal(name)), value) for name, value in case.entries]
        return disj(*(where for where, _ in entries)), joined(list(entries)), FALSE
    for present, name, child in case.node.fresh:
        if name is key:
            return present, known(Json(child)), FALSE
    return _unknown_part(make, case, Str(key))


def _merged(condition: Term, one: Looked, other: Looked) -> Looked:
    otherwise = negated(condition)
    return (
        disj(conj(condition, one[0]), conj(otherwise, other[0])),
        joined([(condition, one[1]), (otherwise, other[1])]),
        disj(conj(condition, one[2]), conj(otherwise, other[2])),
    )


def _look_up_item(make: ValueFactory, case: JsonList | ListOf, key: ValueCase) -> Looked:
    if isinstance(key, Str | Bool | Null):
        return FALSE, known(ERROR), TRUE
    if not isinstance(key, Int) or key.term.op != "const":
        return _unknown_part(make, case, key)
    index = key.term.value
    assert isinstance(index, int)
    if index < 0:
        return FALSE, known(ERROR), FALSE
    if isinstance(case, JsonList):
        there = less(integer(index), case.node.size)
        return there, known(Json(case.node.item(index))), FALSE
    if not case.is_ordered:
        make.root.depends_on_order = True
    pairs: list[Guarded] = []
    for position, (there, item) in enumerate(case.items):
        # The index of an item is the number of present items before it.
        rank = total(guard for guard, _ in case.items[:position])
        pairs.append((conj(there, equal(rank, integer(index))), item))
    return disj(*(where for where, _ in pairs)), joined(pairs), FALSE


_MOST_PIECES = 5


def count_of(make: ValueFactory, pieces: Pieces) -> Term:
    """Return the number of pieces: one more than there are separators."""
    root = make.root
    if pieces.term.op == "ite":
        condition, *branches = pieces.term.args
        one, other = (count_of(make, Pieces(each, pieces.separator)) for each in branches)
        return choose(condition, one, other)
    text = root.texts.text_of(pieces.term)
    if text is not None:
        return integer(text.count(pieces.separator) + 1)
    count = apply(f"pieces {ord(pieces.separator)}", (pieces.term,), INT)
    root.facts += [at_most(integer(1), count), at_most(count, integer(LARGEST))]
    for number in range(1, _MOST_PIECES):
        there = root.texts.holds(TextPredicate("pieces", pieces.separator, number), pieces.term)
        more = less(integer(number), count)
        root.facts.append(conj(implies(there, more), implies(more, there)))
    return count


def piece(make: ValueFactory, pieces: Pieces, number: int) -> SymbolicValue:
    """Return a piece by its index, negative from the end. If it does not exist, the result is meaningless."""
    function = TextFunction("piece", pieces.separator, number)
    return known(Str(make.root.texts.result(function, pieces.term)))


def _look_up_piece(make: ValueFactory, pieces: Pieces, key: ValueCase) -> Looked:
    """Look up a piece by a constant index, or by one counted from the end."""
    count = count_of(make, pieces)
    if isinstance(key, Int) and key.term.op == "const" and isinstance(key.term.value, int):
        number = key.term.value
        if 0 <= number < _MOST_PIECES:
            return less(integer(number), count), piece(make, pieces, number), FALSE
        if number < 0:
            return FALSE, known(ERROR), FALSE
    for number in range(1, _MOST_PIECES):
        # Equal terms are one object, so identity recognises an index that is counted from the end.
        if isinstance(key, Int) and key.term is arithmetic("-", count, integer(number)):
            return at_most(integer(number), count), piece(make, pieces, -number), FALSE
    return _unknown_part(make, pieces, key)


def size_of(case: ValueCase) -> Term | None:
    """Return the number of items or entries, or None for other values or if it is not modelled."""
    if isinstance(case, JsonList | JsonMap):
        return case.node.size
    if isinstance(case, ListOf):
        return total(guard for guard, _ in case.items)
    if isinstance(case, MapOf):
        return integer(len({key for key, _ in case.entries}))
    return None


def is_empty(case: ValueCase) -> Term:
    """Return the formula that a container is empty."""
    size = size_of(case)
    return FALSE if size is None else at_most(size, integer(0))
