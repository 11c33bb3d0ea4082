"""Type checker: refuses terms whose types cannot fit (`opa/v1/ast/check.go`, `env.go`, `types/types.go`).

Types come from literals, and from the variables that `=` or `:=` binds to them. Results of calls and rules, `input`,
`data` and mixtures of types are `ANY` here, which fits everything, so OPA refuses a little more. As in OPA, bodies of
`every` and of `not { }` are not checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec
from msgspec import Struct

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
    TemplateString,
    Term,
    Var,
    reference_text,
)
from replay.gatekeeper.rego.builtins.operand import ELEMENTS, OPERANDS, scalar_type
from replay.gatekeeper.rego.lexer import RegoError
from replay.gatekeeper.rego.order import Bound, all_variables, binds, ordered, outer_variables


class Type(Struct, frozen=True):
    """Type of a value. A kind without parts is `any`, `null`, `boolean`, `number` or `string`.

    `items` are the known elements of an array, `fields` the known fields of an object by JSON text of the key. `of` is
    the type of all other elements, or None if there are none. `key` is the type of the other keys of an object.
    """

    kind: str
    items: tuple[Type, ...] = ()
    fields: tuple[tuple[Any, Type], ...] = ()
    key: Type | None = None
    of: Type | None = None
    size: int = 1
    """Number of types that it consists of."""

    def __str__(self) -> str:
        """Return the type as OPA writes it."""
        known = [str(item) for item in self.items] + [f"{key}: {value}" for key, value in self.fields]
        shown = f"<{', '.join(known)}>" if known else ""
        if self.of is not None:
            shown += f"[{self.of}]" if self.key is None else f"[{self.key}: {self.of}]"
        return self.kind + shown


_MAX_SIZE = 1000
"""Limit of ours for the size of a type. Larger ones are `ANY`, because variables can double a type in each literal."""
ANY, BOOLEAN, NUMBER, STRING = Type("any"), Type("boolean"), Type("number"), Type("string")
_RESULTS = {"+": NUMBER, "*": NUMBER, "/": NUMBER, "%": NUMBER, "-": ANY}
_SETS = Type("set", of=ANY)
_BUILTINS = {"+": "plus", "*": "mul", "/": "div", "%": "rem", "&": "and", "|": "or"}
_ARITHMETIC = {"plus": "nn", "mul": "nn", "div": "nn", "rem": "nn", "and": "tt", "or": "tt"}
_ALLOWED = {
    "s": ("string",),
    "n": ("number",),
    "i": ("number",),
    "a": ("array",),
    "o": ("object",),
    "t": ("set",),
    "c": ("array", "set"),
    "v": ("string", "array", "object", "set"),
}
"""Kinds by the letters that builtins are registered with (`builtins.operand`)."""

Types = dict[str, Type]


def _composite(
    kind: str,
    items: tuple[Type, ...] = (),
    fields: tuple[tuple[Any, Type], ...] = (),
    key: Type | None = None,
    of: Type | None = None,
) -> Type:
    parts = [*items, *(value for _, value in fields), *(part for part in (key, of) if part is not None)]
    size = 1 + sum(part.size for part in parts)
    return Type(kind, items, fields, key, of, size) if size <= _MAX_SIZE else ANY


def _common(types: Iterable[Type]) -> Type:
    """Return the one type of all values, or `ANY`."""
    found = set(types)
    return found.pop() if len(found) == 1 else ANY


def fits(one: Type, other: Type) -> bool:
    """Return whether a value can have both types (`unifies`)."""
    if ANY in (one, other):
        return True
    if one.kind != other.kind:
        return False
    if one.kind == "object":
        return _fields_fit(one, other) and _fields_fit(other, one) and _rest_fits(one, other)
    if one.kind == "array":
        count = max(len(one.items), len(other.items))
        pairs = [(_item(one, place), _item(other, place)) for place in range(count)]
        return all(a is not None and b is not None and fits(a, b) for a, b in pairs) and _rest_fits(one, other)
    return _rest_fits(one, other)


def _item(array: Type, place: int) -> Type | None:
    return array.items[place] if place < len(array.items) else array.of


def _rest_fits(one: Type, other: Type) -> bool:
    return one.of is None or other.of is None or fits(one.of, other.of)


def _fields_fit(one: Type, other: Type) -> bool:
    theirs = dict(other.fields)
    for key, value in one.fields:
        if key in theirs:
            if not fits(value, theirs[key]):
                return False
        elif one.of is None and other.of is None:
            return False
    return True


def _keys(collection: Type) -> Type:
    if collection.kind == "array":
        return NUMBER
    if collection.kind == "set":
        return collection.of or ANY
    return _common(
        [*(Type(kind) for (kind, _), _ in _keyed(collection)), *([collection.key] if collection.key else [])]
    )


def _keyed(collection: Type) -> Iterator[tuple[tuple[str, Any], Type]]:
    for key, value in collection.fields:
        yield (scalar_type(key), key), value


def _values(collection: Type) -> Type:
    known = [*collection.items, *(value for _, value in collection.fields)]
    return _common([*known, *([collection.of] if collection.of else [])])


def _selected(collection: Type, key: Any) -> Type | None:
    """Return the type at a constant key, or None if there is none."""
    kind = scalar_type(key)
    if collection.kind == "array":
        return _item(collection, key) if type(key) is int and key >= 0 else None
    if collection.kind == "set":
        of = collection.of or ANY
        return of if fits(of, Type(kind)) else None
    for own, value in _keyed(collection):
        if own == (kind, key):
            return value
    fallback = collection.key is not None and fits(collection.key, Type(kind))
    return collection.of if fallback else None


class TypeChecker:
    """Checker of the rules of a file. `arity` returns the number of a call's arguments."""

    def __init__(self, file: str, arity: Callable[[Call], int | None]) -> None:
        """Start without types."""
        self.file = file
        self.arity = arity
        self._comprehensions: dict[int, Type] = {}
        """Types of the comprehensions that were checked, by identity."""

    def rule(self, rule: Rule) -> None:
        """Check a rule with its `else`. Raises RegoError."""
        each: Rule | None = rule
        while each is not None:
            types: Types = {}
            self._body(each.body, frozenset(all_variables(each.head.arguments or ())), types)
            for term in (each.head.key, each.head.value):
                if term is not None:
                    self._check(term, frozenset(all_variables(each.body)), types)
            each = each.otherwise

    def _body(self, body: Sequence[Literal_], bound: Bound, types: Types) -> Bound:
        outside = frozenset(name for literal in body for name in outer_variables(literal)) | bound
        for literal in ordered(tuple(body), bound, self.file, self.arity)[0]:
            outputs = binds(literal, bound, outside, self.arity) or frozenset()
            self._literal(literal, bound, outputs, types)
            bound |= outputs
        return bound

    def _literal(self, literal: Literal_, bound: Bound, outputs: Bound, types: Types) -> None:
        expression: Any = literal.expression
        for with_ in literal.modifiers:
            self._check(with_.value, bound, types)
        if isinstance(expression, NegatedBody):
            return
        if isinstance(expression, Every):
            self._check(expression.collection, bound, types)
            return
        self._check(expression, bound, types)
        if not (isinstance(expression, Infix) and expression.operator in ("=", "==")):
            return
        left, right = (self._type(side, bound, types) for side in (expression.left, expression.right))
        if not fits(left, right):
            text = f"match error\n\tleft  : {left}\n\tright : {right}"
            raise RegoError(expression.line, text, "rego_type_error", self.file)
        if not literal.is_negated:
            for side, other in ((expression.left, right), (expression.right, left)):
                if isinstance(side, Var) and side.name in outputs:
                    types[side.name] = other

    def _check(self, node: Any, bound: Bound, types: Types) -> None:
        """Check the references and calls in a term."""
        if isinstance(node, Comprehension):
            inner = dict(types)
            bound = self._body(node.body, bound, inner)
            for term in (node.key, node.value):
                if term is not None:
                    self._check(term, bound, inner)
            key = None if node.key is None else self._type(node.key, bound, inner)
            found = _composite(node.kind, key=key, of=self._type(node.value, bound, inner))
            self._comprehensions[id(node)] = found
        elif isinstance(node, tuple):
            for part in node:
                self._check(part, bound, types)
        elif isinstance(node, msgspec.Struct):
            for name in node.__struct_fields__:
                self._check(getattr(node, name), bound, types)
            if isinstance(node, Ref):
                self._reference(node, bound, types)
            elif isinstance(node, Infix) and node.operator in _BUILTINS:
                self._call(_BUILTINS[node.operator], (node.left, node.right), node.line, bound, types)
            elif isinstance(node, Call) and isinstance(node.function, Var):
                self._call(node.function.name, node.arguments, node.line, bound, types)

    def _call(self, name: str, arguments: Sequence[Term], line: int, bound: Bound, types: Types) -> None:
        have = [self._type(argument, bound, types) for argument in arguments]
        elements = ELEMENTS.get(name, "")
        for place, (own, letter) in enumerate(zip(have, _ARITHMETIC.get(name, OPERANDS.get(name, "")), strict=False)):
            is_fitting = own == ANY or own.kind in _ALLOWED.get(letter, (own.kind,))
            if is_fitting and own.kind in ("array", "set") and elements[place : place + 1] in _ALLOWED:
                parts = [*own.items, *([own.of] if own.of else [])]
                is_fitting = all(part == ANY or part.kind in _ALLOWED[elements[place]] for part in parts)
            if not is_fitting:
                text = f"{name}: invalid argument(s): have ({', '.join(map(str, have))})"
                raise RegoError(line, text, "rego_type_error", self.file)

    def _reference(self, ref: Ref, bound: Bound, types: Types) -> Type:
        """Return the type of what a reference refers to. Raises RegoError if there can be nothing."""
        head = found = self._type(ref.head, bound, types)
        for operand in ref.operands:
            if found == ANY:
                return ANY
            if found.kind not in ("array", "set", "object"):
                raise self._undefined(ref, head)
            if isinstance(operand, Scalar):
                part = _selected(found, operand.value)
                if part is None:
                    raise self._undefined(ref, head)
                found = part
            else:
                if not fits(self._type(operand, bound, types), _keys(found)):
                    raise self._undefined(ref, head)
                found = _values(found)
        return found

    def _undefined(self, ref: Ref, head: Type) -> RegoError:
        shown = ref if isinstance(ref.head, Var) else Ref(Var(str(head), ref.line), ref.operands, ref.line)
        return RegoError(ref.line, f"undefined ref: {reference_text(shown)}", "rego_type_error", self.file)

    def _type(self, term: Term, bound: Bound, types: Types) -> Type:
        match term:
            case Scalar():
                return Type(scalar_type(term.value))
            case TemplateString():
                return STRING
            case Var():
                return types.get(term.name, ANY)
            case Ref():
                return self._reference(term, bound, types)
            case Infix():
                return _RESULTS.get(term.operator, _SETS if term.operator in "&|" else BOOLEAN)
            case Membership():
                return BOOLEAN
            case ArrayTerm():
                items = tuple(self._type(item, bound, types) for item in term.items)
                return _composite("array", items=items, of=None if items else ANY)
            case SetTerm():
                return _composite("set", of=_common(self._type(item, bound, types) for item in term.items))
            case ObjectTerm():
                known = {
                    key.value: self._type(value, bound, types) for key, value in term.entries if isinstance(key, Scalar)
                }
                rest = ANY if not known or any(not isinstance(key, Scalar) for key, _ in term.entries) else None
                fields = tuple(sorted(known.items(), key=lambda entry: str(entry[0])))
                return _composite("object", fields=fields, key=rest, of=rest)
            case Comprehension():
                return self._comprehensions.get(id(term), ANY)
        return ANY
