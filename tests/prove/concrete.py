"""Formulas evaluated for one request that is known: what the symbolic values say of it, to hold against the evaluator."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from replay.prove.symbolic.node import KINDS, JsonNode, Root
from replay.prove.symbolic.term import Term, walk
from replay.prove.symbolic.text_language import name_of, quantity_of

ABSENT = object()


class Assignment:
    """The values of a root's constants for known bindings; None is what formulas leave open."""

    def __init__(self, root: Root, bindings: Mapping[str, Any], flags: Mapping[str, Any]) -> None:
        """`flags` are values of other constants, by name."""
        self._root = root
        self._numbers: dict[str, int] = dict(root.texts.literals)
        self._texts = {number: text for text, number in self._numbers.items()}
        self._predicates = {name_of(each): each for asked in root.texts.predicates.values() for each in asked}
        self._functions = {f"text of {name_of(each)}": each for each, _ in root.texts.derived.values()}
        self._lists: dict[str, Any] = {}
        self._vars: dict[str, Any] = dict(flags)
        for name, node in list(root.nodes.items()):
            if node.path and "*" not in str(node.path):
                self._assign(name, node, _at(bindings, node.path))

    def number(self, text: str) -> int:
        """The number of a text."""
        if text not in self._numbers:
            self._numbers[text] = 10_000 + len(self._numbers)
            self._texts[self._numbers[text]] = text
        return self._numbers[text]

    def _assign(self, name: str, node: JsonNode, value: Any) -> None:  # noqa: C901 - one case a kind
        here = self._vars
        if value is ABSENT:
            return
        kind = _kind(value)
        here[f"kind {name}"] = KINDS.index(kind)
        if kind == "bool":
            here[f"bool {name}"] = value
        elif kind == "int":
            here[f"int {name}"] = value
        elif kind == "double":
            here[f"double {name}"] = Fraction(value)
        elif kind == "string":
            here[f"text {name}"] = self.number(value)
        elif kind in {"list", "map"}:
            here[f"size {name}"] = len(value)
            self._lists[f"in {name}"] = value
        if kind == "map":
            for key in node.parts:
                here[f"has {name}.{key}"] = key in value
            others = [key for key in value if key not in node.parts]
            for index, (_, _, child) in enumerate(node.fresh):
                here[f"has {name}[key {index}]"] = index < len(others)
                if index < len(others):
                    here[f"text of {name}[key {index}]"] = self.number(others[index])
                    self._below(child, value[others[index]])

    def _below(self, node: JsonNode, value: Any) -> None:
        self._assign(node.name, node, value)
        if isinstance(value, dict):
            for key, (_, child) in node.parts.items():
                self._below(child, value.get(key, ABSENT))
        if isinstance(value, list):
            for index, child in node.items.items():
                self._below(child, value[index] if index < len(value) else ABSENT)

    def evaluate(self, root: Term) -> Any:
        """The value of a term, None where it depends on what is open."""
        known: dict[int, Any] = {}
        for term in walk([root]):
            known[term.serial] = self._one(term, [known[arg.serial] for arg in term.args])
        return known[root.serial]

    def _one(self, term: Term, args: list[Any]) -> Any:  # noqa: PLR0911, C901, PLR0912
        match term.op:
            case "const":
                return term.value
            case "var":
                return self._vars.get(str(term.value))
            case "and":
                return False if False in args else None if None in args else True
            case "or":
                return True if True in args else None if None in args else False
            case "ite":
                return None if args[0] is None else args[1] if args[0] else args[2]
        if None in args:
            return None
        match term.op:
            case "not":
                return not args[0]
            case "=":
                return args[0] == args[1]
            case "<":
                return args[0] < args[1]
            case "+":
                return args[0] + args[1]
            case "-":
                return args[0] - args[1]
            case "*":
                return args[0] * args[1]
            case "div":
                return args[0] // args[1]
            case "to_real":
                return Fraction(args[0])
        return self._applied(str(term.value), args)

    def _applied(self, name: str, args: list[Any]) -> Any:  # noqa: PLR0911 - one case a kind
        text = self._texts.get(args[0]) if args else None
        if name in self._lists and text is not None:
            return text in self._lists[name]
        if text is None:
            return None
        if name in self._predicates:
            return self._predicates[name].holds(text)
        if name in self._functions:
            return self.number(self._functions[name].apply(text))
        if name.startswith("pieces "):
            return text.count(chr(int(name.removeprefix("pieces ")))) + 1
        match name:
            case "length":
                return len(text)
            case "is quantity":
                return quantity_of(text) is not None
            case "amount":
                return quantity_of(text)
        return None


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "int"
    if isinstance(value, float):
        return "double"
    if isinstance(value, str):
        return "string"
    return "list" if isinstance(value, list) else "map"


def _at(bindings: Mapping[str, Any], path: tuple[str | int, ...]) -> Any:
    value: Any = bindings
    for key in path:
        if isinstance(value, Mapping):
            value = value.get(key, ABSENT)
        else:
            value = value[key] if isinstance(value, list) and type(key) is int and key < len(value) else ABSENT
    return value
