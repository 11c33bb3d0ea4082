"""Formulas as a text for a solver, and the values that it answers with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction

from msgspec import Struct

from replay.prove.symbolic.term import Term, constant_text, walk

SolverValue = bool | int | Fraction


class Script(Struct, frozen=True):
    """SMT-LIB text; `names` are the requested terms by their name in the text."""

    text: str
    names: Mapping[str, Term]


def script_of(assertions: Iterable[Term], terms: Iterable[Term]) -> Script:
    """Return several formulas as one script that requests the values of `terms`."""
    asserted, asserted_terms = list(assertions), list(terms)
    lines: list[str] = []
    shown: dict[int, str] = {}
    names: dict[str, Term] = {}
    functions: set[str] = set()
    for term in walk([*asserted, *asserted_terms]):
        shown[term.serial] = _shown(term, shown, lines, functions)
    for term in asserted_terms:
        if term.op == "const":
            continue
        name = f"w{term.serial}"
        lines.append(f"(declare-const {name} {term.sort})")
        lines.append(f"(assert (= {name} {shown[term.serial]}))")
        names[name] = term
    lines += [f"(assert {shown[term.serial]})" for term in asserted]
    return Script("\n".join(lines), names)


def _shown(term: Term, shown: Mapping[int, str], lines: list[str], functions: set[str]) -> str:
    if term.op == "const":
        return constant_text(term)
    name = f"t{term.serial}"
    if term.op == "var":
        lines.append(f"(declare-const {name} {term.sort})")
        return name
    operator = term.op
    if term.op == "apply":
        sorts = " ".join(arg.sort for arg in term.args)
        operator = f"|{term.value}|"
        if operator not in functions:
            functions.add(operator)
            lines.append(f"(declare-fun {operator} ({sorts}) {term.sort})")
        if not term.args:
            return operator
    body = f"({operator} {' '.join(shown[arg.serial] for arg in term.args)})"
    lines.append(f"(define-fun {name} () {term.sort} {body})")
    return name
