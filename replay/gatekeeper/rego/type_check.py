"""Type checker: refuses terms whose types cannot fit (`opa/v1/ast/check.go`, `env.go`).

As OPA does, it takes nested calls, and references in operands, out of an expression into variables of their own before
it infers types. Bodies of `every` and of `not { }` are checked for their references alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from itertools import count
from typing import Any

from replay.gatekeeper.rego.ast import (
    ArrayTerm,
    Call,
    Comprehension,
    Literal_,
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
from replay.gatekeeper.rego.flatten import Expression, Flattener, Path
from replay.gatekeeper.rego.lexer import RegoError
from replay.gatekeeper.rego.order import Bound, all_variables, ordered
from replay.gatekeeper.rego.type import (
    ANY,
    STRING,
    Type,
    arguments_text,
    array_of,
    fits,
    function_of,
    is_unknown,
    keys_of,
    object_of,
    rank,
    scalar_type,
    selected,
    set_of,
    signatures,
    text,
    union,
    values_of,
)


class _Scope:
    """Types of variables of a body and of the bodies around it."""

    def __init__(self, outer: _Scope | None = None) -> None:
        self.types: dict[str, Type | None] = {}
        self.outer = outer

    def get(self, name: str) -> Type | None:
        if name in self.types:
            return self.types[name]
        return None if self.outer is None else self.outer.get(name)


class _Node:
    """Rules below a path, by the next part of it."""

    def __init__(self) -> None:
        self.type: Type | None = None
        self.children: dict[Any, _Node] = {}

    def at(self, path: Sequence[Any]) -> _Node:
        node = self
        for part in path:
            node = node.children.setdefault(part, _Node())
        return node

    def extent(self) -> Type:
        """Return the type of all values at and below this path."""
        if self.type is not None:
            return self.type
        return object_of({key: node.extent() for key, node in self.children.items()}, (STRING, ANY))


def _merged(one: Type | None, other: Type | None) -> Type | None:
    """Return the type of a rule with two definitions (`mergeTypes`)."""
    if one is None or other is None:
        return other if one is None else one
    if one.kind == other.kind == "object" and not one.fields and not other.fields and one.is_open and other.is_open:
        return object_of({}, (union(one.key, other.key), _merged(one.of, other.of)))
    if one.kind == other.kind == "set":
        return set_of(union(one.of, other.of))
    return union(one, other)


class TypeChecker:
    """Checker of rules in an order in which each follows those that it uses. `arity` is the number of arguments."""

    def __init__(self, arity: Callable[[Call], int | None]) -> None:
        """Start without types."""
        self.errors: list[RegoError] = []
        self._arity = arity
        self._rules = _Node()
        self._fresh = count()
        self._file = ""
        self._comprehensions: dict[int, Type | None] = {}
        """Types of the comprehensions that were checked, by identity."""

    def rule(self, path: Path, rule: Rule, file: str) -> None:
        """Check a rule with its `else`, and keep its type."""
        self._file = file
        each: Rule | None = rule
        while each is not None:
            self._clause(path, each)
            each = each.otherwise

    def _clause(self, path: Path, rule: Rule) -> None:
        head, scope, before = rule.head, _Scope(), len(self.errors)
        heads = [term for term in (head.key, head.value) if term is not None]
        terms = self._body(rule.body, heads, frozenset(all_variables(head.arguments or ())), scope)
        for name in all_variables(head.arguments or ()):
            if scope.get(name) is None:
                scope.types[name] = ANY
        value = self._type(terms[-1], scope) if head.value is not None else scalar_type(True)
        key = self._type(terms[0], scope) if head.key is not None else None
        where: tuple[Any, ...] = path
        if head.key is not None and not head.is_set and isinstance(head.key, Scalar):
            where, key = (*path, head.key.value), None
        node = self._rules.at(where)
        if len(self.errors) > before:
            node.type = ANY
            return
        found = value
        if head.arguments is not None:
            found = function_of((self._type(argument, scope) for argument in head.arguments), value)
        elif head.is_set:
            found = None if key is None else set_of(key)
        elif key is not None:
            found = None if value is None else object_of({}, (key, value))
        if found is not None:
            node.type = _merged(node.type, found)

    def _body(self, body: Sequence[Literal_], heads: Sequence[Term], bound: Bound, scope: _Scope) -> list[Term]:
        """Check a body, and return terms that are evaluated after it without their calls."""
        flattener = Flattener(self._fresh)
        for literal in ordered(tuple(body), bound, self._file, self._arity)[0]:
            flattener.literal(literal)
        results: list[Any] = []
        for term in heads:
            found = flattener.side(term)
            if not isinstance(found, Scalar | Var):
                variable = Var(f"#t{next(self._fresh)}", found.line)
                flattener.equal(variable, found, found.line)
                found = variable
            results.append(found)
        known = bound | frozenset(all_variables(tuple(body)))
        for expression in flattener.found:
            self._expression(expression, known, scope)
        return results

    def _expression(self, expression: Expression, bound: Bound, scope: _Scope) -> None:
        before = len(self.errors)
        for operand in expression.operands:
            self._parts(operand, bound, scope)
        for reference in expression.references:
            self._reference(reference, scope)
        has_errors = len(self.errors) > before
        if expression.operator == "=":
            self._equality(expression, scope, has_errors=has_errors)
        elif expression.operator is not None:
            self._call(expression, scope, has_errors=has_errors)

    def _parts(self, term: Any, bound: Bound, scope: _Scope) -> None:
        """Check the references and comprehensions in a term."""
        match term:
            case Ref():
                self._reference(term, scope)
            case Comprehension():
                before = len(self.errors)
                inner = _Scope(scope)
                heads = [part for part in (term.key, term.value) if part is not None]
                types = [self._type(each, inner) for each in self._body(term.body, heads, bound, inner)]
                found: Type | None = None
                if len(self.errors) == before:
                    of = types[-1]
                    found = (
                        object_of({}, (types[0], of))
                        if term.kind == "object"
                        else set_of(of)
                        if term.kind == "set"
                        else array_of((), of)
                    )
                self._comprehensions[id(term)] = found
            case ArrayTerm() | SetTerm():
                for item in term.items:
                    self._parts(item, bound, scope)
            case ObjectTerm():
                for entry in term.entries:
                    for part in entry:
                        self._parts(part, bound, scope)

    def _equality(self, expression: Expression, scope: _Scope, *, has_errors: bool) -> None:
        left, right = expression.operands
        types = self._type(left, scope), self._type(right, scope)
        if self._both(left, types[0], right, types[1], scope):
            return
        if not (has_errors and any(map(is_unknown, types))):
            self._add_error(expression.line, f"match error\n\tleft  : {text(types[0])}\n\tright : {text(types[1])}")

    def _call(self, expression: Expression, scope: _Scope, *, has_errors: bool) -> None:
        operator, operands = expression.operator, expression.operands
        if isinstance(operator, str):
            name, signature = operator, signatures()[operator]
            function = signature.type
            wanted = signature.text
            if name == "print":
                return
        else:
            name = "data." + ".".join(operator or ())
            known = self._rules.at(operator or ()).type
            if known is None or known == ANY:
                return
            function = known
            if function.kind != "function":
                self._add_error(expression.line, f"undefined function {name}")
                return
            wanted = arguments_text((*function.parts, function.of))
        expected = [*function.parts, *([] if function.of is None else [function.of])]
        have = [self._type(operand, scope) for operand in operands]
        for operand, own, want in zip(operands, have, expected, strict=False):
            is_fitting = is_unknown(own) or fits(own, want)
            if not is_fitting or not self._one(operand, want, scope):
                shown = [self._type(each, scope) for each in operands] if is_fitting else have
                if not (has_errors and any(map(is_unknown, shown))):
                    given = f"\n\thave: {arguments_text(shown)}\n\twant: {wanted}"
                    self._add_error(expression.line, f"{name}: invalid argument(s){given}")
                return

    def _add_error(self, line: int, message: str) -> None:
        self.errors.append(RegoError(line, message, "rego_type_error", self._file))

    # Unification: a variable without a type gets that of the other side (`unify1`, `unify2`).

    def _both(self, left: Any, one: Type | None, right: Any, other: Type | None, scope: _Scope) -> bool:
        if is_unknown(one) != is_unknown(other):
            return self._one(left, other, scope) if is_unknown(one) else self._one(right, one, scope)
        if not is_unknown(one):
            return fits(one, other)
        for mine, theirs in ((left, right), (right, left)):
            if isinstance(mine, ArrayTerm | ObjectTerm) and isinstance(theirs, Var):
                return self._one(mine, ANY, scope) and self._one(theirs, self._type(mine, scope), scope)
        if isinstance(left, Var) and isinstance(right, Var):
            return self._one(left, ANY, scope) and self._one(right, self._type(left, scope), scope)
        pairs: list[tuple[Any, Any]] = []
        if isinstance(left, ArrayTerm) and isinstance(right, ArrayTerm) and len(left.items) == len(right.items):
            pairs = list(zip(left.items, right.items, strict=True))
        elif isinstance(left, ObjectTerm) and isinstance(right, ObjectTerm) and len(left.entries) == len(right.entries):
            theirs = {key.value: value for key, value in right.entries if isinstance(key, Scalar)}
            pairs = [
                (value, theirs[key.value])
                for key, value in left.entries
                if isinstance(key, Scalar) and key.value in theirs
            ]
        elif isinstance(left, Var) and one is None and other is not None:
            return self._one(left, other, scope)
        elif isinstance(right, Var) and other is None and one is not None:
            return self._one(right, one, scope)
        else:
            return False
        return all(self._both(a, self._type(a, scope), b, self._type(b, scope), scope) for a, b in pairs)

    def _one(self, term: Any, wanted: Type | None, scope: _Scope, *, is_union: bool = False) -> bool:
        if isinstance(term, Var):
            known = scope.get(term.name)
            if is_union:
                scope.types[term.name] = union(known, wanted)
            elif known is not None:
                return fits(known, wanted)
            else:
                scope.types[term.name] = wanted
            return True
        if not isinstance(term, ArrayTerm | ObjectTerm | SetTerm):
            return fits(self._type(term, scope), wanted)
        if wanted is None:
            return False
        if wanted == ANY:
            parts = [part for entry in term.entries for part in entry] if isinstance(term, ObjectTerm) else term.items
            for part in parts:
                self._one(part, ANY, scope, is_union=True)
            return True
        if wanted.kind == "any":
            return True in [self._one(term, part, scope, is_union=True) for part in wanted.parts]
        if isinstance(term, ArrayTerm) and wanted.kind == "array":
            if len(term.items) != len(wanted.parts) and wanted.of is None:
                return False
            return all(
                self._one(item, selected(wanted, place), scope, is_union=is_union)
                for place, item in enumerate(term.items)
            )
        if isinstance(term, SetTerm) and wanted.kind == "set":
            return all(self._one(item, wanted.of, scope, is_union=is_union) for item in term.items)
        if isinstance(term, ObjectTerm) and wanted.kind == "object":
            return self._fields(term, wanted, scope, is_union=is_union)
        return False

    def _fields(self, term: ObjectTerm, wanted: Type, scope: _Scope, *, is_union: bool) -> bool:
        if len(term.entries) != len(wanted.fields) and wanted.of is None:
            return False
        for key, value in term.entries:
            if not isinstance(key, Scalar):
                self._one(value, ANY, scope, is_union=is_union)
                continue
            own = selected(wanted, key.value)
            if own is None or not self._one(value, own, scope, is_union=is_union):
                return False
        return True

    # References (`refChecker`)

    def _reference(self, ref: Ref, scope: _Scope) -> None:
        head, operands = ref.head, ref.operands
        assert isinstance(head, Var)
        found: Type | None
        if head.name == "data":
            node = self._rules
            while operands and node.type is None:
                key = operands[0]
                child = node.children.get(key.value) if isinstance(key, Scalar) else None
                if child is None:
                    if isinstance(key, Var) and scope.get(key.name) is None:
                        scope.types[key.name] = keys_of(node.extent())
                    break
                node, operands = child, operands[1:]
            is_rule = node.type is not None or not operands
            found = node.extent() if is_rule else ANY
            if found.kind == "function":
                self._used(ref, len(ref.operands) - len(operands), found)
                return
        elif head.name == "input":
            found = ANY
        else:
            found = scope.get(head.name)
            if found is None:
                found = scope.types[head.name] = ANY
        self._operands(ref, len(ref.operands) - len(operands), found, scope)

    def _used(self, ref: Ref, place: int, found: Type) -> None:
        name, own = reference_text(ref), reference_text(Ref(ref.head, ref.operands[:place], ref.line))
        details = f"\n\t{name}\n\t{'^' * len(own)}\n\thave: {found}"
        self._add_error(ref.line, f"function {name} used as reference, not called{details}")

    def _operands(self, ref: Ref, start: int, found: Type | None, scope: _Scope) -> None:
        """Check the operands of a reference from one on, for a value of this type."""
        for place in range(start, len(ref.operands)):
            operand: Any = ref.operands[place]
            keys = keys_of(found)
            if found is not None and found.kind == "function":
                self._used(ref, place, found)
                return
            if keys is None:
                shown = reference_text(Ref(ref.head, ref.operands[:place], ref.line))
                self._undefined(ref, f"{'^' * len(shown)}\n\thave: {text(found)}")
                return
            if isinstance(operand, Scalar):
                part = selected(found, operand.value)
                if part is None:
                    self._invalid(ref, place, f"have: {reference_text(operand)}", found)
                    return
                found = part
                continue
            if isinstance(operand, Var):
                known = scope.get(operand.name)
                if known is None:
                    scope.types[operand.name] = keys
                elif not fits(known, keys):
                    self._invalid(ref, place, f"have (type): {known}", found)
                    return
            elif not self._one(operand, keys, scope):
                self._invalid(ref, place, f"have (type): {text(self._type(operand, scope))}", None, keys)
                return
            found = values_of(found)

    def _invalid(self, ref: Ref, place: int, have: str, found: Type | None, keys: Type | None = None) -> None:
        pad = " " * (len(reference_text(Ref(ref.head, ref.operands[:place], ref.line))) + 1)
        names = [reference_text(Scalar(key, 0)) for key in sorted(set(_fields_of(found)), key=rank)]
        want = (
            f"want (one of): [{' '.join(names)}]"
            if names
            else f"want (type): {text(keys_of(found) if keys is None else keys)}"
        )
        self._undefined(ref, f"{pad}^\n\t{pad}{have}\n\t{pad}{want}")

    def _undefined(self, ref: Ref, details: str) -> None:
        shown = reference_text(ref)
        self._add_error(ref.line, f"undefined ref: {shown}\n\t{shown}\n\t{details}")

    # Types of terms (`TypeEnv.GetByValue`)

    def _type(self, term: Any, scope: _Scope) -> Type | None:
        match term:
            case Scalar():
                return scalar_type(term.value)
            case TemplateString():
                return STRING
            case Var():
                return scope.get(term.name)
            case Ref():
                return self._referred(term, scope)
            case ArrayTerm():
                items = [self._type(item, scope) for item in term.items]
                return array_of(items, None if items else ANY)
            case SetTerm():
                member = reduce(union, (self._type(item, scope) for item in term.items), None)
                return set_of(ANY if member is None else member)
            case ObjectTerm():
                fields: dict[Any, Type | None] = {}
                rest: tuple[Type | None, Type | None] | None = None if term.entries else (ANY, ANY)
                for key, value in term.entries:
                    if isinstance(key, Scalar):
                        fields[key.value] = self._type(value, scope)
                    else:
                        rest = (self._type(key, scope), self._type(value, scope))
                return object_of(fields, rest)
            case Comprehension():
                return self._comprehensions.get(id(term))
        return None

    def _referred(self, ref: Ref, scope: _Scope) -> Type | None:
        assert isinstance(ref.head, Var)
        operands = list(ref.operands)
        if ref.head.name == "input":
            return ANY
        if ref.head.name == "data":
            node = self._rules
            while operands and node.type is None and isinstance(operands[0], Scalar):
                child = node.children.get(operands[0].value)
                if child is None:
                    return ANY
                node = child
                del operands[0]
            found: Type | None = node.extent()
        else:
            found = scope.get(ref.head.name)
        for operand in operands:
            found = selected(found, operand.value) if isinstance(operand, Scalar) else values_of(found)
        return found


def _fields_of(found: Type | None) -> Iterator[Any]:
    """Return the known keys of an object, or of the objects in a union."""
    if found is None:
        return
    for key, _ in found.fields:
        yield key
    for part in found.parts if found.kind == "any" else ():
        yield from _fields_of(part)


HOOK = f"""package hooks
violation[found] {{{chr(10) * 13}data.template.violation[r]
  {chr(10) * 2}
  found := {{
    "details": object.get(r, "details", {{}}),
    "msg": r.msg
  }}
}}
"""
"""What Gatekeeper's own module reads of a template, on the same lines (`drivers/rego/rego.go`)."""
