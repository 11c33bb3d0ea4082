"""Parser of Rego terms: membership, relations, `|`, `&`, sums, products (`opa/v1/ast/parser.go`, `parseTermInfixCall`)."""

from __future__ import annotations

from replay.gatekeeper.rego.ast import (
    ArrayTerm,
    Call,
    Comprehension,
    Infix,
    Literal_,
    Membership,
    ObjectTerm,
    Ref,
    Scalar,
    SetTerm,
    TemplateString,
    Term,
    Var,
)
from replay.gatekeeper.rego.builtins.operand import scalar_type
from replay.gatekeeper.rego.lexer import RegoError, Token, UnsupportedRegoError, tokens
from replay.gatekeeper.rego.value import number_of

_LEVELS = (frozenset({"|"}), frozenset({"&"}), frozenset({"+", "-"}), frozenset({"*", "/", "%"}))
_RELATIONS = frozenset({"==", "!=", "<", "<=", ">", ">="})
_CONSTANTS = {"true": True, "false": False, "null": None}
RESERVED = frozenset({"as", "default", "else", "import", "package", "not", "with", "null", "true", "false", "some"})
_DEPTH = 60
"""Most terms inside each other. They fit the usual stack of Python, so that no answer depends on its limit."""


class TermParser:
    """Parser of terms."""

    def __init__(self, found: list[Token], file: str) -> None:
        """Start at the first token. Newline tokens are dropped, because each token has its line."""
        self.file = file
        self.all = _without_newlines(found)
        self.place = 0
        self.keywords: set[str] = set()
        self.reference_start: Token | None = None
        """Last token that is the first part of a reference that starts a literal. There it can be a keyword."""
        # Arrays, sets and objects by their place, with the place after them: backtracking would read them again.
        self._read: dict[int, tuple[Term, int]] = {}
        self._wildcards = 0
        self._depth = 0
        # Backtracking re-reads tokens. The limit stops nested texts for which that grows exponentially.
        self._steps = 100 * len(self.all) + 10_000

    @property
    def token(self) -> Token:
        """Next token."""
        return self.all[self.place]

    @property
    def kind(self) -> str:
        """Kind of the next token."""
        return self.all[self.place].kind

    @property
    def last_line(self) -> int:
        """Line of the previous token."""
        return self.all[self.place - 1].line

    def peek(self) -> Token:
        """Return the token after the next one."""
        return self.all[min(self.place + 1, len(self.all) - 1)]

    def next(self) -> Token:
        """Consume the next token."""
        self._steps -= 1
        if self._steps < 0:
            raise UnsupportedRegoError(self.token.line, "the text is nested too deeply", self.file)
        token = self.all[self.place]
        self.place = min(self.place + 1, len(self.all) - 1)
        return token

    def accept(self, kind: str) -> bool:
        """Consume the next token if it has this kind. Return whether it had."""
        if self.kind != kind:
            return False
        self.next()
        return True

    def is_word(self, word: str) -> bool:
        """Return whether the next token is this word."""
        token = self.token
        return token.kind == "name" and token.text == word

    def accept_word(self, word: str) -> bool:
        """Consume a word if it is next. Return whether it was."""
        if not self.is_word(word):
            return False
        self.next()
        return True

    def starts_reference(self) -> bool:
        """Return whether a name is the first part of a reference. Then it can also be a keyword."""
        return self.kind == "name" and self.peek().kind in (".", "[") and not self.peek().is_spaced

    def expect(self, kind: str) -> Token:
        """Consume a token of this kind. Raises RegoError for another."""
        if self.kind != kind:
            raise self.error(f"unexpected {_described(self.token)} token: expected {kind}")
        return self.next()

    def name(self) -> str:
        """Consume a name."""
        return self.expect("name").text

    def error(self, message: str, line: int | None = None, code: str = "rego_parse_error") -> RegoError:
        """Return the error at the next token, or on a line."""
        return RegoError(self.token.line if line is None else line, message, code, self.file)

    def expression(self) -> Term:
        """Return a term with operators, including `key, value in collection`."""
        return self._membership(with_key=True)

    def item(self) -> Term:
        """Return a term with operators in a list of terms, where a comma separates terms."""
        return self._membership(with_key=False)

    def _membership(self, *, with_key: bool) -> Term:
        line = self.token.line
        left = self.relation()
        if "in" not in self.keywords:
            return left
        if with_key and self.kind == ",":
            place, depth = self.place, self._depth
            self.next()
            try:
                value = self.relation()
            except UnsupportedRegoError:
                raise
            except RegoError:
                self.place, self._depth = place, depth
                return left
            if not self.accept_word("in"):
                self.place = place
                return left
            left = Membership(left, value, self.relation(), line)
        while not self.starts_reference() and self.accept_word("in"):
            left = Membership(None, left, self.relation(), line)
        return left

    def relation(self) -> Term:
        """Return a term without `in`."""
        self._deepen(self.token.line)
        left = self._operation(0)
        while self.kind in _RELATIONS:
            token = self.next()
            left = Infix(token.kind, left, self._operation(0), token.line)
        self._depth -= 1
        return left

    def _deepen(self, line: int) -> None:
        self._depth += 1
        if self._depth > _DEPTH:
            raise UnsupportedRegoError(line, "the expression is nested too deeply", self.file)

    def _operation(self, level: int) -> Term:
        if level == len(_LEVELS):
            return self.term()
        left = self._operation(level + 1)
        while self.kind in _LEVELS[level]:
            token = self.next()
            left = Infix(token.kind, left, self._operation(level + 1), token.line)
        return left

    def term(self) -> Term:
        """Return a term without operators, with its fields, brackets and arguments."""
        token = self.token
        line = token.line
        match token.kind:
            case "number":
                self.next()
                return Scalar(number_of(token.text), line)
            case "string":
                self.next()
                return self._finished(Scalar(token.text, line))
            case "template":
                self.next()
                return TemplateString(
                    tuple(part if isinstance(part, str) else self._embedded(part) for part in token.parts), line
                )
            case "[" | "{":
                place = self.place
                if place not in self._read:
                    self.next()
                    found = self._array(line) if token.kind == "[" else self._braces(line)
                    self._read[place] = found, self.place
                found, self.place = self._read[place]
                return self._finished(found)
            case "(":
                self.next()
                inner = self.expression()
                self.expect(")")
                if isinstance(inner, Ref) and self.kind in (".", "[") and not self.token.is_spaced:
                    raise self.error("illegal ref (head cannot be ref)", line)
                return self._finished(inner)
            case "name":
                return self._named(token)
            case "-" if self.peek().kind == "name":
                self.next()
                return Infix("-", Scalar(0, line), self.term(), line)
            case "-" if self.peek().kind == "number":
                self.next()
                return Scalar(number_of(f"-{self.next().text}"), line)
        if (token.kind, self.peek().kind) in ((".", "number"), ("-", ".")):
            raise UnsupportedRegoError(line, "a number that starts with its point", self.file)
        raise self.error(f"unexpected {_described(token)} token")

    def _embedded(self, part: object) -> Term:
        assert isinstance(part, tuple)
        text, line = part
        outer = self.all, self.place, self._read
        self.all, self.place, self._read = _without_newlines(tokens(text, self.file, line)), 0, {}
        try:
            found = self.expression()
            if self.is_word("with"):
                raise UnsupportedRegoError(self.token.line, "`with` in a template string", self.file)
            if self.kind != "end":
                raise self.error("expected } to end template string expression")
        finally:
            self.all, self.place, self._read = outer
        return found

    def _named(self, token: Token) -> Term:
        line = token.line
        is_name = token is self.reference_start
        if token.text in _CONSTANTS and not is_name:
            self.next()
            return self._finished(Scalar(_CONSTANTS[token.text], line))
        is_keyword = token.text in RESERVED or (token.text in self.keywords and token.text not in ("contains", "not"))
        if is_keyword and not is_name:
            raise self.error(f"unexpected {token.text} keyword")
        self.next()
        if token.text == "set" and self.kind == "(" and self.peek().kind == ")":
            self.next()
            self.next()
            return self._finished(SetTerm((), line))
        return self._finished(self.var(token.text, line))

    def var(self, name: str, line: int) -> Var:
        """Return a variable. Each wildcard is a new one."""
        if name == "_":
            self._wildcards += 1
            return Var(f"$wild{self._wildcards}", line)
        return Var(name, line)

    def _finished(self, head: Term) -> Term:
        line = self.token.line
        operands: list[Term] = []
        while not self.token.is_spaced:
            if self.kind == ".":
                self.next()
                if self.kind != "name" or self.token.is_spaced:
                    raise self.error("unexpected token: expected identifier")
                token = self.next()
                operands.append(Scalar(token.text, token.line))
            elif self.kind == "[":
                self.next()
                operands.append(self.expression())
                self.expect("]")
            elif self.kind == "(" and isinstance(head, (Var, Ref)):
                self.next()
                function = Ref(head, tuple(operands), head.line) if operands else head
                head = Call(function, tuple(self.terms_until(")")), head.line)
                operands = []
            else:
                break
        if operands and isinstance(head, Scalar):
            raise self.error(f"illegal ref (head cannot be {scalar_type(head.value)})", head.line)
        return Ref(head, tuple(operands), getattr(head, "line", line)) if operands else head

    def terms_until(self, end: str) -> list[Term]:
        """Return the comma-separated terms before a closing token, and consume the token."""
        found: list[Term] = []
        while not self.accept(end):
            found.append(self.item())
            if self.kind != end:
                self.expect(",")
        return found

    def _array(self, line: int) -> Term:
        if self.accept("]"):
            return ArrayTerm((), line)
        if comprehension := self._comprehension("]", line):
            return comprehension
        return ArrayTerm(tuple(self.terms_until("]")), line)

    def _braces(self, line: int) -> Term:
        if self.accept("}"):
            return ObjectTerm((), line)
        if comprehension := self._comprehension("}", line):
            return comprehension
        first = self.item()
        if not self.accept(":"):
            if self.kind == ",":
                self.next()
                return SetTerm((first, *self.terms_until("}")), line)
            self.expect("}")
            return SetTerm((first,), line)
        entries = [(first, self.item())]
        while not self.accept("}"):
            self.expect(",")
            if self.accept("}"):
                break
            key = self.item()
            self.expect(":")
            entries.append((key, self.item()))
        return ObjectTerm(tuple(entries), line)

    def _comprehension(self, end: str, line: int) -> Comprehension | None:
        """Return a comprehension if there is one here, otherwise None. It consists of head, bar and body."""
        place, depth = self.place, self._depth
        key: Term | None = None
        self._deepen(line)
        try:
            # Not from level 0, where `|` is an operator: here it ends the head.
            value = self._operation(1)
            if end == "}" and self.accept(":"):
                key, value = value, self._operation(1)
            if self.accept("|") and (body := self.body(end)):
                self.expect(end)
                self._depth = depth
                return Comprehension(
                    "array" if end == "]" else "set" if key is None else "object", key, value, body, line
                )
        except UnsupportedRegoError:
            raise
        except RegoError:
            pass
        self.place, self._depth = place, depth
        return None

    def body(self, end: str) -> tuple[Literal_, ...]:
        """Return the literals of a body up to a closing token."""
        raise NotImplementedError


def _without_newlines(found: list[Token]) -> list[Token]:
    return [token for token in found if token.kind != "newline"]


def _described(token: Token) -> str:
    return {"end": "eof", "name": "identifier", "{": "{"}.get(token.kind, token.kind)
