"""Evaluation order of a body: a literal follows all literals that bind its variables.

The rule is `reorderBodyForSafety` in `opa/v1/ast/compile.go`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from replay.gatekeeper.rego.ast import (
    ArrayTerm,
    Call,
    Comprehension,
    Every,
    Infix,
    Literal_,
    Membership,
    NegatedBody,
    ObjectTerm,
    Ref,
    Rule,
    Scalar,
    SetTerm,
    SomeIn,
    TemplateString,
    Term,
    Var,
)
from replay.gatekeeper.rego.lexer import RegoError, UnsupportedRegoError
from replay.gatekeeper.rego.scope import variables_of

Bound = frozenset[str]


def ordered(body: tuple[Literal_, ...], bound: Bound, file: str, arities: Any) -> tuple[tuple[Literal_, ...], Bound]:
    """Return the literals in evaluation order, and all bound variables. Raises RegoError for an unsafe variable."""
    outside = frozenset(name for literal in body for name in outer_variables(literal)) | bound
    left = list(body)
    found: list[Literal_] = []
    while left:
        waiting = []
        # As in OPA (`reorderBodyForSafety`), each pass takes every literal whose variables are bound, as written.
        for literal in left:
            outputs = binds(literal, bound, outside, arities)
            if outputs is None:
                waiting.append(literal)
            else:
                found.append(literal)
                bound |= outputs
        if len(waiting) == len(left):
            raise _unsafe(waiting, bound, file)
        left = waiting
    return tuple(found), bound


def _unsafe(waiting: list[Literal_], bound: Bound, file: str) -> RegoError:
    for literal in waiting:
        if undeclared := undeclared_in_template(literal, bound):
            return RegoError(literal.line, f"var {undeclared} is undeclared", "rego_compile_error", file)
        for with_ in literal.modifiers:
            if replaced_path(with_.target) is None:
                return unsupported_with(with_.target, file)  # its value is the name of a function, not a variable
    literal = waiting[0]
    names = [name for name in all_variables(literal) if name not in bound]
    name = names[0].split("#")[0] if names else "_"
    return RegoError(
        literal.line, f"var {'_' if name.startswith('$') else name} is unsafe", "rego_unsafe_var_error", file
    )


def unsupported_with(target: Term, file: str) -> UnsupportedRegoError:
    """Return the error for a `with` whose target is not supported."""
    line = getattr(target, "line", 1)
    return UnsupportedRegoError(line, "`with` on something other than input or data.inventory", file)


def replaced_path(target: Term) -> tuple[str, list[Any]] | None:
    """Return the root and the path that a `with` replaces, or None if its target is not supported."""
    if not isinstance(target, Ref) or not isinstance(target.head, Var):
        return None
    path = [operand.value for operand in target.operands if isinstance(operand, Scalar)]
    root = target.head.name
    is_known = root == "input" or (root == "data" and path[:1] == ["inventory"])
    return (root, path) if is_known and len(path) == len(target.operands) else None


def binds(literal: Literal_, bound: Bound, outside: Bound, arities: Any) -> Bound | None:
    """Return the variables that a literal binds, or None if it needs an unbound one."""
    expression: Any = literal.expression
    for with_ in literal.modifiers:
        if needs(with_.value, bound, outside) is None:
            return None
    match expression:
        case NegatedBody():
            return _closed(literal, bound, outside)
        case Every():
            if needs(expression.collection, bound, outside) is None:
                return None
            own = {expression.value} | ({expression.key} if expression.key else set())
            free = {name for inner in expression.body for name in all_variables(inner)} - own
            return None if (free & outside) - bound else frozenset()
        case SomeIn():
            outputs = needs(expression.collection, bound, outside)
            if outputs is None:
                return None
            for part in (expression.key, expression.value):
                if part is not None:
                    more = _pattern(part, bound | outputs, outside)
                    if more is None:
                        return None
                    outputs |= more
            return outputs
        case Infix(operator="=") if not literal.is_negated:
            return _unified(expression.left, expression.right, bound, outside)
        case Call() if not literal.is_negated and arities(expression) == len(expression.arguments) - 1:
            call = Call(expression.function, expression.arguments[:-1], expression.line)
            return _unified(call, expression.arguments[-1], bound, outside)
    if literal.is_negated:
        # OPA evaluates the calls in it before it, so they can bind variables. The rest cannot.
        calls = [call for part in _parts(expression) for call in _calls(part)]
        early = _in_any_order(calls, bound, outside)
        if early is None or needs(expression, bound | early, outside) != frozenset():
            return None
        return early
    return needs(expression, bound, outside)


def undeclared_in_template(node: Any, bound: Bound) -> str | None:
    """Return the first unbound variable inside an expression of a template string, or None.

    Such an expression cannot bind variables. One that is only a variable is unsafe, as elsewhere.
    """
    if isinstance(node, TemplateString):
        names = [name for part in node.parts if not isinstance(part, Var) for name in outer_variables(part)]
        shown = ["_" if name.startswith("$") else name.split("#")[0] for name in names if name not in bound]
        return shown[0] if shown else None
    if isinstance(node, Comprehension | NegatedBody | Every):
        return None
    parts = node if isinstance(node, tuple) else ()
    if isinstance(node, msgspec.Struct):
        parts = tuple(getattr(node, name) for name in node.__struct_fields__)
    return next((found for part in parts if (found := undeclared_in_template(part, bound))), None)


def _closed(literal: Literal_, bound: Bound, outside: Bound) -> Bound | None:
    free = frozenset(all_variables(literal)) & outside
    return None if free - bound else frozenset()


def needs(term: Any, bound: Bound, outside: Bound) -> Bound | None:
    """Return the variables that evaluating a term binds, or None if it needs an unbound one.

    Operands of references can bind variables.
    """
    match term:
        case Scalar() | str():
            return frozenset()
        case Var():
            return frozenset() if term.name in bound else None
        case Ref():
            outputs: Bound | None = frozenset()
            if not (isinstance(term.head, Var) and term.head.name in ("input", "data")):
                outputs = needs(term.head, bound, outside)
            for operand in term.operands:
                if outputs is None:
                    return None
                more = _pattern(operand, bound | outputs, outside)
                outputs = None if more is None else outputs | more
            return outputs
        case Comprehension():
            free = frozenset(all_variables(term)) & outside
            return None if free - bound else frozenset()
        case TemplateString():
            return frozenset() if _all(term.parts, bound, outside) == frozenset() else None
        case Infix(operator="="):
            return _unified(term.left, term.right, bound, outside)
    return _all(_parts(term), bound, outside)


def _parts(term: Any) -> Sequence[Term]:
    match term:
        case Call():
            return term.arguments
        case Infix():
            return (term.left, term.right)
        case Membership():
            return (term.collection, term.value) if term.key is None else (term.collection, term.key, term.value)
        case ArrayTerm() | SetTerm():
            return term.items
        case ObjectTerm():
            return [part for entry in term.entries for part in entry]
        case Ref():
            return term.operands
    return ()


def _calls(term: Term) -> Iterator[Term]:
    """Yield the outermost calls in a term."""
    if _is_call(term):
        yield term
    else:
        for part in _parts(term):
            yield from _calls(part)


def _is_call(term: Term) -> bool:
    return isinstance(term, Call | Infix | Membership)


def _all(parts: Any, bound: Bound, outside: Bound) -> Bound | None:
    # OPA evaluates the calls among them first (`expandExpr`).
    first = _in_any_order([part for part in parts if _is_call(part)], bound, outside)
    if first is None:
        return None
    second = _in_any_order([part for part in parts if not _is_call(part)], bound | first, outside)
    return None if second is None else first | second


def _in_any_order(left: list[Any], bound: Bound, outside: Bound) -> Bound | None:
    found: Bound = frozenset()
    while left:
        waiting = []
        for part in left:
            outputs = needs(part, bound | found, outside)
            if outputs is None:
                waiting.append(part)
            else:
                found |= outputs
        if len(waiting) == len(left):
            return None
        left = waiting
    return found


def _pattern(term: Term, bound: Bound, outside: Bound) -> Bound | None:
    """Return the variables that a pattern binds for a known value, or None if it needs an unbound one."""
    match term:
        case Var():
            return frozenset() if term.name in bound else frozenset({term.name})
        case ArrayTerm():
            return _patterns(term.items, bound, outside)
        case ObjectTerm():
            keys = _all([key for key, _ in term.entries], bound, outside)
            values = _patterns(tuple(value for _, value in term.entries), bound, outside)
            return None if keys is None or values is None else keys | values
    return needs(term, bound, outside)


def _patterns(items: tuple[Term, ...], bound: Bound, outside: Bound) -> Bound | None:
    found: Bound = frozenset()
    for item in items:
        more = _pattern(item, bound | found, outside)
        if more is None:
            return None
        found |= more
    return found


def _unified(left: Term, right: Term, bound: Bound, outside: Bound) -> Bound | None:
    for one, other in ((right, left), (left, right)):
        outputs = needs(one, bound, outside)
        if outputs is not None and not (frozenset(variables_of(one)) - bound - outputs):
            more = _pattern(other, bound | outputs, outside)
            if more is not None:
                return outputs | more
    pairs = _pairs(left, right)
    if pairs is None:
        return None
    found: Bound = frozenset()
    for one, other in pairs:
        more = _unified(one, other, bound | found, outside)
        if more is None:
            return None
        found |= more
    return found


def _pairs(left: Term, right: Term) -> list[tuple[Term, Term]] | None:
    """Return the corresponding parts of two patterns of the same form, or None."""
    if isinstance(left, ArrayTerm) and isinstance(right, ArrayTerm) and len(left.items) == len(right.items):
        return list(zip(left.items, right.items, strict=True))
    if isinstance(left, ObjectTerm) and isinstance(right, ObjectTerm) and len(left.entries) == len(right.entries):
        theirs = {key.value: value for key, value in right.entries if isinstance(key, Scalar)}
        if all(isinstance(key, Scalar) and key.value in theirs for key, _ in left.entries):
            return [(value, theirs[key.value]) for key, value in left.entries if isinstance(key, Scalar)]
    return None


def outer_variables(literal: Any) -> list[str]:
    """Return the variables of a literal or term outside of comprehensions and nested bodies."""
    found: list[str] = []
    _collect(literal, found, into_closures=False)
    return found


def all_variables(node: Any) -> list[str]:
    """Return all variables in a literal or term."""
    found: list[str] = []
    _collect(node, found, into_closures=True)
    return found


def _collect(node: Any, found: list[str], *, into_closures: bool) -> None:
    if isinstance(node, Var):
        if "#" in node.name or node.name.startswith("$"):
            found.append(node.name)
    elif isinstance(node, tuple):
        for part in node:
            _collect(part, found, into_closures=into_closures)
    elif isinstance(node, Comprehension | NegatedBody) and not into_closures:
        return
    elif isinstance(node, Every) and not into_closures:
        _collect(node.collection, found, into_closures=into_closures)
    elif isinstance(node, Call):
        _collect(node.arguments, found, into_closures=into_closures)
    elif isinstance(node, msgspec.Struct) and not isinstance(node, Scalar):
        for name in node.__struct_fields__:
            _collect(getattr(node, name), found, into_closures=into_closures)


def indexed_order(rules: Sequence[Rule]) -> list[Rule]:
    """Return the rules of one name in the order of OPA's index (`opa/v1/ast/index.go`).

    The order decides which rule a conflict names. Rules without an indexed reference come first. The others are ordered
    reference by reference: rules without the reference, with any value, with a constant.
    """
    indexes = [_index(rule) for rule in rules]
    counts = Counter(ref for index in indexes for ref in index)
    places = {ref: place for place, ref in enumerate(dict.fromkeys(ref for index in indexes for ref in index))}
    refs = sorted(counts, key=lambda ref: (-counts[ref], places[ref]))
    keys = {
        id(rule): (tuple(index.get(ref, 0) for ref in refs) if index else ())
        for rule, index in zip(rules, indexes, strict=True)
    }
    return sorted(rules, key=lambda rule: keys[id(rule)])


def _index(rule: Rule) -> dict[tuple[Any, ...], int]:
    """Return the references to `input` that a body needs: 1 with any value, 2 with a constant."""
    found: dict[tuple[Any, ...], int] = {}
    for literal in rule.body:
        expression: Any = literal.expression
        if literal.is_negated or literal.modifiers:
            continue
        if isinstance(expression, Infix) and expression.operator in ("=", "=="):
            for one, other in ((expression.left, expression.right), (expression.right, expression.left)):
                if (ref := _indexable(one)) is not None and isinstance(other, Scalar | Var):
                    found[ref] = max(found.get(ref, 0), 2 if isinstance(other, Scalar) else 1)
                    break
        elif (ref := _indexable(expression)) is not None:
            found.setdefault(ref, 1)
        elif isinstance(expression, Call | Infix | Membership):
            for each in _direct_references(expression):
                found.setdefault(each, 1)
    return found


def _direct_references(term: Any) -> Iterator[tuple[Any, ...]]:
    parts: Any = (
        term.arguments
        if isinstance(term, Call)
        else (term.left, term.right)
        if isinstance(term, Infix)
        else (term.value, term.collection)
    )
    for part in parts:
        if (ref := _indexable(part)) is not None:
            yield ref
        elif isinstance(part, Call | Infix):
            yield from _direct_references(part)


def _indexable(term: Any) -> tuple[Any, ...] | None:
    if not isinstance(term, Ref) or not isinstance(term.head, Var) or term.head.name != "input":
        return None
    operands = [operand.value for operand in term.operands if isinstance(operand, Scalar)]
    return tuple(operands) if len(operands) == len(term.operands) else None
