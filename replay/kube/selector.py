"""Selectors in a query string (`k8s.io/apimachinery/pkg/fields`, `k8s.io/apimachinery/pkg/labels`), and the fields they may name."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from replay.go.format import parse_int
from replay.json import JSON
from replay.kube.names import label_value, qualified_name

_TERM = re.compile(r"!=|==|=")
_SPECIAL = frozenset("=!(),><")
_SPACE = frozenset(" \t\r\n")
_OPERATORS = frozenset(["in", "notin", "=", "==", "!=", ">", "<"])
_TOKENS = frozenset([")", ",", "!", "==", "=", ">", "<", "!=", "("])
_END = "\0"


class SelectorError(ValueError):
    """A text is not a selector. The server then treats the request as having none."""


class Requirement(Struct, frozen=True):
    """One term of a selector.

    `operator` is one of `=`, `==`, `!=`, `in`, `notin`, `exists`, `!`, `>`, `<`. Values are sorted.
    """

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether an object with these labels or fields meets the term (`labels.Requirement.Matches`)."""
        value = labels.get(self.key)
        match self.operator:
            case "=" | "==" | "in":
                return value in self.values
            case "!=" | "notin":
                return value not in self.values
            case "exists":
                return value is not None
            case "!":
                return value is None
        number, bound = parse_int(value or ""), parse_int(self.values[0])
        if number is None or bound is None:
            return False
        return number > bound if self.operator == ">" else number < bound


def parse_field_selector(text: str) -> tuple[Requirement, ...]:
    """Return the terms of a field selector (`fields.ParseSelector`), sorted as texts. `==` becomes `=`.

    Raise SelectorError.
    """
    terms = (_field_term(term) for term in sorted(_split_terms(text)) if term)
    # A term with neither field nor value selects everything.
    return tuple(term for term in terms if term.key or term.values != ("",))


def exact_match(requirements: Sequence[Requirement], field: str) -> str | None:
    """Return the value that a field must have, or None if the selector does not say (`RequiresExactMatch`)."""
    return next((each.values[0] for each in requirements if each.key == field and each.operator == "="), None)


def _split_terms(text: str) -> list[str]:
    """Return the terms between commas. A comma after a backslash belongs to its term."""
    return re.findall(r"(?:\\.|\\$|[^\\,])+", text, re.DOTALL)


def _field_term(term: str) -> Requirement:
    match = _TERM.search(term)
    if match is None:
        raise SelectorError(f"can't understand '{term}'")
    operator = "!=" if match[0] == "!=" else "="
    return Requirement(term[: match.start()], operator, (_unescaped(term[match.end() :]),))


def _unescaped(value: str) -> str:
    r"""Remove the backslashes before `\`, `,` and `=` (`UnescapeValue`)."""
    if not re.fullmatch(r"(?:\\[\\,=]|[^\\,=])*", value, re.DOTALL):
        raise SelectorError(f"invalid field selector value '{value}'")
    return re.sub(r"\\(.)", r"\1", value, flags=re.DOTALL)


def parse_label_selector(text: str) -> tuple[Requirement, ...]:
    """Return the requirements of a label selector (`labels.Parse`), sorted by key. Raise SelectorError."""
    return tuple(sorted(_LabelParser(text).parse(), key=lambda each: each.key))


class _LabelParser:
    """Parser whose tokens are a text and whether it is an identifier. `in` and `notin` can be either."""

    def __init__(self, text: str) -> None:
        self._tokens = _tokens(text)
        self._at = 0

    def parse(self) -> list[Requirement]:
        """Parse a selector: [ requirement { "," requirement } ]."""
        requirements: list[Requirement] = []
        if self._look() == (_END, False):
            return requirements
        while True:
            requirements.append(self._requirement())
            token = self._next()
            if token == (_END, False):
                return requirements
            following = self._look()
            if token != (",", False) or not (following[1] or following == ("!", False)):
                raise SelectorError(f"found '{token[0]}', expected: ',' or 'end of string'")

    def _requirement(self) -> Requirement:
        """Parse a requirement: "!" key | key [ operator values ]."""
        absent = self._look() == ("!", False)
        if absent:
            self._next()
        key, is_identifier = self._next()
        if not is_identifier or qualified_name(key):
            raise SelectorError(f"found '{key}', expected: identifier")
        if absent or self._look() in ((_END, False), (",", False)):
            if self._look() not in ((_END, False), (",", False)):
                raise SelectorError("an operator after '!'")
            return Requirement(key, "!" if absent else "exists")
        operator = self._next()[0]
        if operator not in _OPERATORS:
            raise SelectorError(f"found '{operator}', expected an operator")
        values = self._set() if operator in ("in", "notin") else self._exact()
        return _checked(Requirement(key, operator, tuple(sorted(values))))

    def _set(self) -> set[str]:
        """Parse a set: "(" [ value ] { "," [ value ] } ")"."""
        if self._next() != ("(", False):
            raise SelectorError("expected: '('")
        values: set[str] = set()
        if self._look() == (")", False):
            self._next()
            return {""}
        while True:
            text, is_identifier = self._next()
            following = self._look()
            if is_identifier:
                values.add(text)
                if following not in ((",", False), (")", False)):
                    raise SelectorError(f"found '{following[0]}', expected: ',' or ')'")
            elif text == ",":
                if not values or following in ((",", False), (")", False)):
                    values.add("")
            else:
                raise SelectorError(f"found '{text}', expected: ',', or identifier")
            if following == (")", False):
                self._next()
                return values

    def _exact(self) -> set[str]:
        if self._look() in ((_END, False), (",", False)):
            return {""}
        text, is_identifier = self._next()
        if not is_identifier:
            raise SelectorError(f"found '{text}', expected: identifier")
        return {text}

    def _look(self) -> tuple[str, bool]:
        return self._tokens[self._at]

    def _next(self) -> tuple[str, bool]:
        token = self._tokens[self._at]
        self._at = min(self._at + 1, len(self._tokens) - 1)
        return token


def _checked(requirement: Requirement) -> Requirement:
    """Return a requirement after the checks of `NewRequirement`: label values, and integers in comparisons."""
    if any(label_value(value) for value in requirement.values):
        raise SelectorError(f"`{requirement.key}`: no label value")
    if requirement.operator in ("<", ">") and not all(map(_is_int64, requirement.values)):
        raise SelectorError(f"`{requirement.key}`: for 'Gt', 'Lt' operators, the value must be an integer")
    return requirement


def _is_int64(text: str) -> bool:
    return parse_int(text) is not None


def _tokens(text: str) -> list[tuple[str, bool]]:
    """Return the tokens, each with whether it is an identifier, and an end token. A zero byte ends the text."""
    tokens: list[tuple[str, bool]] = []
    text, at = text.partition(_END)[0], 0
    while at < len(text):
        if text[at] in _SPACE:
            at += 1
        elif text[at] in _SPECIAL:
            token = text[at : at + 2] if text[at : at + 2] in _TOKENS else text[at]
            tokens.append((token, False))
            at += len(token)
        else:
            end = at
            while end < len(text) and text[end] not in _SPECIAL and text[end] not in _SPACE:
                end += 1
            tokens.append((text[at:end], True))
            at = end
    return [*tokens, (_END, False)]


_POD = {
    "spec.nodeName": "",
    "spec.restartPolicy": "Always",
    "spec.schedulerName": "default-scheduler",
    "spec.serviceAccountName": "default",
    "spec.hostNetwork": "false",
    "status.phase": "Pending",
    "status.podIP": "",
    "status.nominatedNodeName": "",
}
_INVOLVED = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
SELECTABLE: Mapping[tuple[str, str], Mapping[str, str]] = {
    ("", "pods"): _POD,
    ("", "namespaces"): {"status.phase": "Active"},
    ("", "nodes"): {"spec.unschedulable": "false"},
    ("", "secrets"): {"type": "Opaque"},
    ("", "events"): {"reason": "", "type": "", **{f"involvedObject.{name}": "" for name in _INVOLVED}},
    ("", "replicationcontrollers"): {"status.replicas": "0"},
    ("apps", "replicasets"): {"status.replicas": "0"},
    ("certificates.k8s.io", "certificatesigningrequests"): {"spec.signerName": ""},
}
"""The selectable fields by group and resource, each with its value in an object that lacks it."""


def field_text(value: JSON, default: str) -> str:
    """Return the text of a field that a selector compares."""
    if value is None:
        return default
    return str(value).lower() if isinstance(value, bool) else str(value)
