"""Facts about texts and lists of texts: compatible predicates, and properties of constants."""

from __future__ import annotations

from collections.abc import Iterator

from replay.prove.symbolic.node import JsonNode, Root
from replay.prove.symbolic.term import (
    BOOL,
    INT,
    REAL,
    Term,
    apply,
    at_most,
    conj,
    disj,
    equal,
    implies,
    integer,
    less,
    negated,
    rational,
)
from replay.prove.symbolic.text_language import TextPredicate, combinations, is_regular, name_of, quantity_of

_MOST_PREDICATES = 14
_MOST_LENGTHS = 6
_LONGEST = 300


_AMOUNTS = ("0", "1", "2", "100m", "500m", "900m", "1500m", "64Mi", "500Mi", "1Gi", "3Gi", "10Gi", "64Gi", "1Ti")


def hint_amounts(root: Root) -> None:
    """Add hints that quantities are usual ones, or close to those of the policies."""
    written = [text for text in root.texts.literals if quantity_of(text) is not None]
    around = [other for text in written for other in _neighbours(text)]
    literals = [root.texts.literal(text) for text in dict.fromkeys([*_AMOUNTS, *written, *around])]
    for term in root.amounts:
        if term.op == "var":
            root.hints.append(disj(*(root.texts.same(term, literal) for literal in literals)))


def _neighbours(text: str) -> Iterator[str]:
    digits = text.rstrip("numkKMGTPEi")
    if digits.isdigit():
        for other in (int(digits) + 1, int(digits) - 1, int(digits) * 10):
            if other >= 0:
                yield f"{other}{text[len(digits) :]}"


def text_facts(root: Root) -> Iterator[Term]:
    """Yield facts about all texts that formulas read."""
    yield from _length_facts(root)
    yield from _facts_of_results(root)
    yield from _facts_of_constants(root)
    for term, predicates in root.texts.predicates.items():
        yield from _facts_of_text(root, term, tuple(predicates))
        yield at_most(integer(0), term)
    for term in root.measured:
        empty = root.texts.same(term, root.texts.literal(""))
        length = apply("length", (term,), INT)
        yield implies(empty, equal(length, integer(0)))
        yield implies(equal(length, integer(0)), empty)
    for node, terms in root.sought.items():
        for term in terms:
            yield from _facts_of_membership(root, node, term)


def _length_facts(root: Root) -> Iterator[Term]:
    """Yield facts about lengths of texts, also above the numbers that expressions name."""
    texts = root.texts
    limits = sorted({limit for number in root.numbers for limit in (number - 1, number) if 0 <= limit <= _LONGEST})
    for term in root.measured:
        if any(not predicate.is_equality for predicate in texts.predicates.get(term, ())):
            length = apply("length", (term,), INT)
            for limit in limits[:_MOST_LENGTHS]:
                is_longer, more = texts.holds(TextPredicate("longer", number=limit), term), less(integer(limit), length)
                yield conj(implies(is_longer, more), implies(more, is_longer))


def _facts_of_results(root: Root) -> Iterator[Term]:
    """Yield facts that turn a predicate of a function's result into one of its argument."""
    texts, pairs_done = root.texts, set[tuple[Term, TextPredicate]]()
    while True:
        # Each round may ask about further texts, so it is repeated until no question is left.
        _share_questions(root)
        questions = [
            (term, predicate)
            for term, predicates in texts.predicates.items()
            if term in texts.derived
            for predicate in predicates
            if (term, predicate) not in pairs_done and is_regular(predicate)
        ]
        if not questions:
            return
        for term, predicate in questions:
            pairs_done.add((term, predicate))
            function, argument = texts.derived[term]
            answer, predicate_before = atom_of(root, predicate, term), texts.holds(predicate.after(function), argument)
            yield conj(implies(answer, predicate_before), implies(predicate_before, answer))


def _share_questions(root: Root) -> None:
    """Copy predicates of a text to the texts that it is compared with, if they are few."""
    predicates_by_text = root.texts.predicates
    for pair in root.texts.compared:
        for one, other in (pair, reversed(pair)):
            if any(each in root.texts.derived for each in pair):
                for predicate in tuple(predicates_by_text.get(one, ()))[:_MOST_PREDICATES]:
                    predicates_by_text.setdefault(other, {})[predicate] = None


def _facts_of_constants(root: Root) -> Iterator[Term]:
    """Yield the values of text functions for constants."""
    predicates = {
        predicate
        for asked_predicates in root.texts.predicates.values()
        for predicate in asked_predicates
        if not predicate.is_equality
    }
    for text, number in sorted(root.texts.literals.items(), key=lambda each: each[1]):
        term = integer(number)
        for predicate in sorted(predicates, key=lambda each: (each.kind, each.text)):
            answer = predicate.holds(text)
            if answer is not None:
                fact = apply(name_of(predicate), (term,), BOOL)
                yield fact if answer else negated(fact)
        if root.amounts:
            amount = quantity_of(text)
            is_quantity = apply("is quantity", (term,), BOOL)
            yield is_quantity if amount is not None else negated(is_quantity)
            if amount is not None:
                yield equal(apply("amount", (term,), REAL), rational(amount))
        if root.measured:
            yield equal(apply("length", (term,), INT), integer(len(text)))


def _facts_of_text(root: Root, term: Term, predicates: tuple[TextPredicate, ...]) -> Iterator[Term]:
    """Yield the combinations of answers that a text can give, as far as they can be found."""
    regular = [predicate for predicate in predicates if is_regular(predicate)]
    for group in _groups(regular):
        possible_answers = combinations(tuple(group))
        # If every combination is possible, there is nothing to say.
        if possible_answers is None or len(possible_answers.samples) == 2 ** len(group):
            continue
        atoms = [atom_of(root, predicate, term) for predicate in group]
        yield disj(
            *(
                conj(*(atom if answer else negated(atom) for atom, answer in zip(atoms, answers, strict=True)))
                for answers, _ in possible_answers.samples
            )
        )


def _groups(predicates: list[TextPredicate]) -> Iterator[list[TextPredicate]]:
    """Yield all predicates together if they are few.

    Otherwise yield some of them without equalities. The facts about constants cover equalities.
    """
    if len(predicates) <= _MOST_PREDICATES:
        if predicates:
            yield predicates
        return
    others = [each for each in predicates if not each.is_equality]
    if others:
        yield others[:_MOST_PREDICATES]


def atom_of(root: Root, predicate: TextPredicate, term: Term) -> Term:
    """Return a predicate of a text as a formula."""
    if predicate.is_equality:
        return equal(term, root.texts.literal(predicate.text))
    return apply(name_of(predicate), (term,), BOOL)


def _facts_of_membership(root: Root, node: JsonNode, term: Term) -> Iterator[Term]:
    """Yield that a present item is in the list, and that a member of a short list is one of its items."""
    inside = apply(f"in {node.name}", (term,), BOOL)
    holds = []
    for index, item in node.items.items():
        here = conj(less(integer(index), node.size), item.is_kind("string"), root.texts.same(item.text, term))
        holds.append(here)
        yield implies(conj(node.is_kind("list"), here), inside)
    bound = root.bounds.items
    if len(node.items) >= bound and all(index in node.items for index in range(bound)):
        short = at_most(node.size, integer(bound))
        yield implies(conj(node.is_kind("list"), short, inside), disj(*holds))
    yield implies(equal(node.size, integer(0)), negated(inside))
