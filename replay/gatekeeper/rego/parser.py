"""Parser of Rego v0 and v1: rules, bodies and expressions (`opa/v1/ast/parser.go`). `TermParser` parses terms."""

from __future__ import annotations

from replay.gatekeeper.rego.ast import (
    ArrayTerm,
    Call,
    Every,
    Head,
    Import,
    Infix,
    Literal_,
    Membership,
    Module,
    NegatedBody,
    ObjectTerm,
    Ref,
    Rule,
    Scalar,
    SetTerm,
    SomeDeclaration,
    SomeIn,
    Term,
    Var,
    With,
)
from replay.gatekeeper.rego.lexer import RegoError, UnsupportedRegoError, tokens
from replay.gatekeeper.rego.term_parser import RESERVED, TermParser

_FUTURE = frozenset({"in", "every", "contains", "if", "not"})


def parse_module(text: str, *, is_v1: bool = False, file: str = "template") -> Module:
    """Parse a module. Raises RegoError."""
    try:
        return _ModuleParser(text, file, is_v1=is_v1).module()
    except RecursionError:
        raise UnsupportedRegoError(1, "the text is nested too deeply", file) from None


class _ModuleParser(TermParser):
    """Parser of a file."""

    def __init__(self, text: str, file: str, *, is_v1: bool) -> None:
        """Start at the first token. Rego v1 has all keywords without an import."""
        super().__init__(tokens(text, file), file)
        # `not { ... }` is the only keyword that always needs an import by its name.
        self.keywords = set(_FUTURE - {"not"}) if is_v1 else set()
        self.is_v1 = is_v1

    def module(self) -> Module:
        """Return the parsed module."""
        if not self.accept_word("package"):
            raise self.error("package expected")
        package = self._path()
        imports: list[Import] = []
        rules: list[Rule] = []
        while self.kind != "end":
            self.accept(";")
            if self.is_word("import") and self.peek().kind == "name":
                if found := self._import():
                    imports.append(found)
            elif self.kind != "end":
                rules += self._rules()
        return Module(package, tuple(imports), tuple(rules))

    def _path(self) -> tuple[str, ...]:
        """Return a dotted path, whose later parts can be in brackets."""
        parts = [self.name()]
        while True:
            if self.kind == "." and not self.token.is_spaced:
                self.next()
                parts.append(self.name())
            elif self.kind == "[" and not self.token.is_spaced:
                self.next()
                parts.append(self.expect("string").text)
                self.expect("]")
            else:
                return tuple(parts)

    def _import(self) -> Import | None:
        line = self.token.line
        self.next()
        path = self._path()
        alias = self.name() if self.accept_word("as") else path[-1]
        if path[:2] == ("future", "keywords"):
            unknown = set(path[2:]) - _FUTURE
            if unknown or len(path) > 3:
                raise self.error(f"unexpected keyword, must be one of {sorted(_FUTURE)}", line)
            # An import of `not` imports all keywords.
            self.keywords |= _FUTURE if "not" in path else set(path[2:]) or _FUTURE - {"not"}
            if "every" in self.keywords:
                self.keywords.add("in")
            return Import(path, alias, line)
        if path == ("rego", "v1"):
            self.keywords |= _FUTURE - {"not"}
            self.is_v1 = True
            return Import(path, alias, line)
        if alias in RESERVED or (self.is_v1 and alias in _FUTURE):
            raise self.error(f"unexpected import path, must not end with a keyword, got: {alias}", line)
        if path[0] not in ("data", "input", "rego"):
            raise self.error(
                f"unexpected import path, must begin with one of: {{data, future, input, rego}}, got: {path[0]}", line
            )
        return Import(path, alias, line)

    def _rules(self) -> list[Rule]:
        if self.is_word("default") and self.peek().kind == "name":
            self.next()
            head = self._head()
            if head.key is not None:
                raise UnsupportedRegoError(head.line, "default rules with a part in brackets", self.file)
            value = head.value or Scalar(value=True, line=head.line)
            if kind := _illegal_default(value):
                raise self.error(f"illegal default rule (value cannot contain {kind})", head.line)
            own = Head(head.name, head.line, head.arguments, None, value, is_assigned=head.is_assigned)
            return [Rule(own, (), is_default=True)]
        head = self._head()
        line = self.token.line
        is_next_rule = self.starts_reference() and (head.value is not None or head.is_set)
        has_if = "if" in self.keywords and not is_next_rule and self.accept_word("if")
        if has_if:
            body = self._braced_body() if self.kind == "{" and self._is_body() else (self.literal(),)
            rule = Rule(head, body)
        elif self.kind == "{":
            if self.is_v1:
                raise self.error("`if` keyword is required before rule body", line)
            rule = Rule(head, self._braced_body())
        else:
            if self.is_v1 and head.value is None and not head.is_set:
                raise self.error(
                    "`if` keyword is required before rule body"
                    if head.arguments is not None
                    else "var cannot be used for rule name",
                    head.line,
                )
            if head.value is None and head.key is None and head.arguments is None:
                raise self.error("var cannot be used for rule name", head.line)
            rule = Rule(head, (Literal_(Scalar(value=True, line=head.line), head.line),))
        line = self.token.line
        rule = Rule(rule.head, rule.body, otherwise=self._else_rules(head))
        is_constant = isinstance(head.key, Scalar)
        if rule.otherwise is not None and head.key is not None and not (is_constant and self.is_v1 and not head.is_set):
            where = "multi-value rules" if head.is_set or is_constant else "rules with variables in head"
            raise self.error(f"else keyword cannot be used on {where}", line)
        if rule.otherwise is not None and not has_if and head.arguments is None and len(head.name) == 2:
            raise self.error("else keyword cannot be used on multi-value rules", line)
        if rule.otherwise is not None and isinstance(head.key, Scalar):
            own = Head((*head.name, head.key.value), head.line, None, None, head.value, is_assigned=head.is_assigned)
            return [Rule(own, rule.body, otherwise=rule.otherwise)]
        found = [rule]
        while not self.is_v1 and self.kind == "{" and rule.otherwise is None:
            found.append(
                Rule(
                    Head(
                        head.name, self.token.line, head.arguments, head.key, head.value, head.is_set, head.is_assigned
                    ),
                    self._braced_body(),
                )
            )
        return found

    def _is_body(self) -> bool:
        """Return whether a brace opens a body, and not an object or set that is the only expression."""
        place = self.place
        try:
            self._braced_body()
        except UnsupportedRegoError:
            raise
        except RegoError:
            return False
        finally:
            is_end = self.kind in ("end", "name", "{") or self.is_word("else")
            self.place = place
        return is_end

    def _else_rules(self, head: Head) -> Rule | None:
        if not (self.is_word("else") and self.peek().kind in ("=", ":=", "{", "name")):
            return None
        line = self.token.line
        self.next()
        value: Term | None = None
        if self.kind in ("=", ":="):
            self.next()
            value = self.expression()
        body: tuple[Literal_, ...] = (Literal_(Scalar(value=True, line=line), line),)
        if "if" in self.keywords and self.accept_word("if"):
            body = self._braced_body() if self.kind == "{" and self._is_body() else (self.literal(),)
        elif self.kind == "{":
            body = self._braced_body()
        own = Head(head.name, line, head.arguments, None, value or Scalar(value=True, line=line))
        return Rule(own, body, otherwise=self._else_rules(head))

    def _head(self) -> Head:
        line = self.token.line
        if (self.token.text in RESERVED or self.token.text in self.keywords) and not self.starts_reference():
            raise self.error(f"{self.token.text} keyword cannot be used for rule name")
        name = [self.name()]
        key: Term | None = None
        arguments: tuple[Term, ...] | None = None
        # White space can stand before the first part after the name.
        while self.kind in (".", "[") and (not self.token.is_spaced or (len(name) == 1 and key is None)):
            if key is not None:
                raise UnsupportedRegoError(line, "rule heads with a part after a variable", self.file)
            if self.next().kind == ".":
                name.append(self.name())
            else:
                key = self.expression()
                self.expect("]")
                is_more = self.kind in ("[", ".", "(") and not self.token.is_spaced
                is_set = "contains" in self.keywords and self.is_word("contains")
                if (is_more or is_set) and isinstance(key, Scalar) and isinstance(key.value, str):
                    name.append(key.value)
                    key = None
        if self.kind == "(" and (not self.token.is_spaced or (len(name) == 1 and key is None)):
            self.next()
            arguments = tuple(self.terms_until(")")) or None  # without arguments it is a rule like any other
        if arguments is None and "contains" in self.keywords and self.accept_word("contains"):
            if key is not None:
                raise UnsupportedRegoError(line, "rule heads with `contains` after a variable", self.file)
            return Head(tuple(name), line, None, self.expression(), None, is_set=True)
        value: Term | None = None
        is_assigned = self.kind == ":="
        if self.kind in ("=", ":="):
            self.next()
            value = self.expression()
        is_bare = key is None and arguments is None and value is None
        if not self.is_v1 and len(name) == 2 and is_bare and not self.is_word("if"):
            key = Scalar(name.pop(), line)  # `p.x` is `p["x"]`
        # `p[x]` defines a set in Rego v0, and an object with the value true in v1.
        is_set = key is not None and value is None and not self.is_v1
        if key is not None and value is None and not is_set:
            value = Scalar(value=True, line=line)
        if is_set and "if" in self.keywords and self.is_word("if"):
            is_set, value = False, Scalar(value=True, line=line)
        return Head(tuple(name), line, arguments, key, value, is_set, is_assigned)

    def _braced_body(self) -> tuple[Literal_, ...]:
        self.expect("{")
        body = self.body("}")
        self.expect("}")
        if not body:
            raise self.error("found empty body")
        return body

    def body(self, end: str) -> tuple[Literal_, ...]:
        """Return the literals up to a closing token, which is not consumed."""
        found: list[Literal_] = []
        while self.kind != end:
            found.append(self.literal())
            if self.kind == end:
                break
            if self.accept(";"):
                if self.kind == end:
                    raise self.error(f"unexpected {end} token")
            elif self.token.line == self.last_line:
                raise self.error(f"unexpected {self.token.kind} token: expected \\n or ; or {end}")
        return tuple(found)

    def literal(self) -> Literal_:
        """Return one literal with its modifiers."""
        line = self.token.line
        expression: Term | SomeDeclaration | SomeIn | Every | NegatedBody
        if self.starts_reference():
            self.reference_start = self.token
            return Literal_(self.statement(), line, modifiers=self._modifiers())
        is_negated = self.accept_word("not")
        if is_negated and self.kind == "{" and "not" in self.keywords:
            return Literal_(NegatedBody(self._braced_body()), line, modifiers=self._modifiers())
        if not is_negated and self.is_word("some"):
            expression = self._some()
        elif not is_negated and "every" in self.keywords and self.is_word("every") and self.peek().kind == "name":
            expression = self._every()
        else:
            expression = self.statement()
        return Literal_(expression, line, is_negated, self._modifiers())

    def statement(self) -> Term:
        """Return a term, or two terms joined by `=` or `:=`."""
        line = self.token.line
        left = self.expression()
        if self.kind in ("=", ":="):
            operator = self.next().kind
            right = self.expression()
            if operator == ":=" and not isinstance(left, Var | ArrayTerm | ObjectTerm):
                raise self.error(
                    "cannot assign to "
                    + ("call" if isinstance(left, (Call, Infix)) else "ref" if isinstance(left, Ref) else "term"),
                    line,
                    "rego_compile_error",
                )
            return Infix(operator, left, right, line)
        return left

    def _modifiers(self) -> tuple[With, ...]:
        found: list[With] = []
        while self.is_word("with") and not self.starts_reference():
            self.next()
            target = self.term()
            if not self.accept_word("as"):
                raise self.error("expected as keyword")
            found.append(With(target, self.expression()))
        return tuple(found)

    def _some(self) -> SomeDeclaration | SomeIn:
        self.next()
        first = self._some_term()
        others: list[Term] = []
        while self.accept(","):
            others.append(self._some_term())
        if isinstance(first, Membership) and not others:  # in parentheses
            return SomeIn(first.key, first.value, first.collection)
        if "in" in self.keywords and not self.starts_reference() and self.accept_word("in"):
            if len(others) > 1:
                raise self.error("illegal number of variables before `in`")
            collection = self.expression()
            return SomeIn(first, others[0], collection) if others else SomeIn(None, first, collection)
        names = []
        for term in (first, *others):
            if not isinstance(term, Var):
                raise self.error("expected var")
            names.append(term.name)
        return SomeDeclaration(tuple(names))

    def _some_term(self) -> Term:
        return self.relation()

    def _every(self) -> Every:
        self.next()
        first = self.name()
        second = self.name() if self.accept(",") else None
        if self.starts_reference() or not self.accept_word("in"):
            raise self.error("expected in keyword")
        collection = self.expression()
        body = self._braced_body()
        return Every(first, second, collection, body) if second is not None else Every(None, first, collection, body)


def _illegal_default(term: Term) -> str | None:
    """Return the kind of the first part that the value of a default rule cannot have (`validateDefaultRuleValue`)."""
    match term:
        case Var():
            return "ref" if term.name in ("input", "data") else "var"
        case Ref():
            return "ref"
        case Call() | Infix() | Membership():
            return "call"
        case ArrayTerm() | SetTerm():
            return next(filter(None, map(_illegal_default, term.items)), None)
        case ObjectTerm():
            parts = [part for entry in term.entries for part in entry]
            return next(filter(None, map(_illegal_default, parts)), None)
    return None
