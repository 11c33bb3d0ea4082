"""Random expressions over a random object, for the tests that compare engines."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

FIELDS = ("a", "b", "l", "m", "s")
_SCALAR = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from([2**53 + 1, -(2**63), 2**63 - 1]),
    st.sampled_from([0.5, 1.0, -0.0, 1e300]),
    st.sampled_from(["", "a", "x1", "ab/c", "é"]),
)
JSON = st.recursive(
    _SCALAR,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(FIELDS), inner, max_size=3)),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.sampled_from(FIELDS), JSON, min_size=2, max_size=5)


@st.composite
def expressions(draw: Any, depth: int = 4) -> str:
    """An expression over `object` and `oldObject`; many are refused by the checker, and that is fine."""
    return _Writer(draw).any(depth)


class _Writer:
    """Writes expressions of a wanted type, from what has been drawn."""

    def __init__(self, draw: Any) -> None:
        self._draw = draw
        self._names: list[str] = []

    def _one(self, *choices: str) -> str:
        return str(self._draw(st.sampled_from(choices)))

    def any(self, depth: int) -> str:
        return {"bool": self.truth, "int": self.number, "text": self.text, "list": self.items, "dyn": self.dyn}[
            self._one("bool", "bool", "bool", "int", "text", "list", "dyn")
        ](depth)

    def dyn(self, depth: int) -> str:
        root = self._one("object", "oldObject", *self._names, *self._names)
        for _ in range(self._draw(st.integers(0, 2 if depth else 1))):
            root += self._one(".a", ".b", ".l", ".m", ".s", "[0]", "['a']", ".?a.orValue(1)", "[?1].orValue('x')")
        return root

    def number(self, depth: int) -> str:
        if depth <= 0:
            return self._one("0", "1", "-2", "9223372036854775807")
        form = self._one("literal", "size", "sum", "dyn", "conditional", "negative")
        if form == "size":
            return f"size({(self._one('text', 'list') == 'text' and self.text(depth - 1)) or self.items(depth - 1)})"
        if form == "sum":
            return f"({self.number(depth - 1)} {self._one('+', '-', '*', '/', '%')} {self.number(depth - 1)})"
        if form == "dyn":
            return f"int({self.dyn(depth - 1)})"
        if form == "conditional":
            return f"({self.truth(depth - 1)} ? {self.number(depth - 1)} : {self.number(depth - 1)})"
        return f"-({self.number(depth - 1)})" if form == "negative" else self.number(0)

    def text(self, depth: int) -> str:
        if depth <= 0:
            return self._one("''", "'a'", "'x1'", "'é'")
        form = self._one("literal", "join", "string", "lower", "replace")
        if form == "join":
            return f"({self.text(depth - 1)} + {self.text(depth - 1)})"
        if form == "string":
            return f"string({self.dyn(depth - 1)})"
        if form == "lower":
            return f"{self.text(depth - 1)}.lowerAscii()"
        return f"{self.text(depth - 1)}.replace('a', 'b')" if form == "replace" else self.text(0)

    def items(self, depth: int) -> str:
        form = self._one("literal", "map", "filter", "texts", "concat")
        if depth <= 0 or form == "literal":
            return self._one("[1, 2]", "['a', 'b']", "[]", "object.l", "oldObject.m")
        if form == "concat":
            return f"({self.items(depth - 1)} + {self.items(depth - 1)})"
        over = self.items(depth - 1)
        return self._fold(
            f"{over}.{'map' if form == 'map' else 'filter'}", self.any if form == "map" else self.truth, depth
        )

    def _fold(self, head: str, body: Any, depth: int) -> str:
        name = f"v{len(self._names)}"
        self._names.append(name)
        inner = body(depth - 1)
        self._names.pop()
        return f"{head}({name}, {inner})"

    def truth(self, depth: int) -> str:  # noqa: C901, PLR0911 - one form a return
        if depth <= 0:
            return self._one("true", "false", "object.a == 1", "has(object.b)", "object.s == 'a'")
        form = self._one(
            "logic", "logic", "not", "equal", "order", "in", "text", "fold", "fold", "has", "type", "match"
        )
        if form == "logic":
            return f"({self.truth(depth - 1)} {self._one('&&', '||')} {self.truth(depth - 1)})"
        if form == "not":
            return f"!{self.truth(depth - 1)}"
        if form == "equal":
            return f"({self.any(depth - 1)} {self._one('==', '!=')} {self.any(depth - 1)})"
        if form == "order":
            sign = self._one("<", "<=", ">", ">=")
            return f"({self.dyn(depth - 1)} {sign} {self._one(self.number(0), self.text(0), self.dyn(0))})"
        if form == "in":
            container = self._one("['a', 'x1']", "[1, 2]", self.dyn(depth - 1), self.items(depth - 1))
            return f"({self.dyn(depth - 1)} in {container})"
        if form == "text":
            test = self._one("startsWith", "endsWith", "contains")
            return f"{self.dyn(depth - 1)}.{test}({self._one(self.text(0), self.text(depth - 1))})"
        if form == "fold":
            macro = self._one("all", "exists", "exists_one")
            return self._fold(f"{self._one(self.dyn(depth - 1), self.items(depth - 1))}.{macro}", self.truth, depth)
        if form == "has":
            return f"has({self._one('object', 'oldObject', 'object.m', *self._names)}.{self._one(*FIELDS)})"
        if form == "type":
            return f"type({self.dyn(depth - 1)}) == {self._one('int', 'string', 'map', 'double', 'null_type')}"
        return f"{self.dyn(depth - 1)}.matches('{self._one('^a', '[0-9]$', 'x.')}')"
