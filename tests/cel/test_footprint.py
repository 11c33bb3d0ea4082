"""What an expression may read of its input."""

from __future__ import annotations

import pytest

from replay.cel.ast.footprint import LazyMap, Places, Reads, footprint_of, trace_of
from replay.cel.declare.library import Library, VariableDecl
from replay.cel.env import Env
from replay.cel.value.types import DYN
from tests.support.cel_env import ENV, checked

READ = [
    ("a constant reads nothing", "1 + 2 > 2", set()),
    ("a variable", "a", {"a"}),
    ("a path", "a.b.c", {"a.b.c"}),
    ("a variable with a dotted name", "c.d.e", {"c.d.e"}),
    ("two paths", "a.b == b.c", {"a.b", "b.c"}),
    ("a field by name in brackets", "a['b'].c", {"a.b.c"}),
    ("a key that is no identifier is quoted", "a['x/y'].c", {'a["x/y"].c'}),
    ("an element", "a[0].b", {"a[].b"}),
    ("an element by a computed index", "a.l[b.i].c", {"a.l[].c", "b.i"}),
    ("a field by a computed name", "a[b]", {"a[]", "b"}),
    ("whether there is a field", "has(a.b)", {"a.b?"}),
    ("presence and value", "has(a.b) ? a.b.c : 1", {"a.b?", "a.b.c"}),
    ("how many elements", "size(a.l) > 1", {"a.l[]?"}),
    ("whether there is a key", "'k' in a.m", {"a.m.k?"}),
    ("membership in a list", "a.b in [1, b]", {"a.b", "b"}),
    ("a branch without use of its fields", "(a.x ? a.y : b).c", {"a.x", "a.y.c", "b.c"}),
    ("optional fields", "a.?b.c.orValue(1)", {"a.b.c"}),
    ("an optional element", "a.l[?0].hasValue()", {"a.l[]?"}),
    ("a fold over elements", "a.l.all(x, x.n > b.n)", {"a.l[].n", "b.n"}),
    ("a fold that reads no element asks how many there are", "a.l.all(x, true)", {"a.l[]?"}),
    ("a fold in a fold", "a.l.exists(x, x.m.exists(y, y.n == x.n))", {"a.l[].m[].n", "a.l[].n"}),
    ("a mapped list is read where its elements are", "a.l.map(x, x.n)", {"a.l[].n"}),
    ("a filtered list keeps its elements", "a.l.filter(x, x.n > 0).all(y, y.m)", {"a.l[].n", "a.l[].m", "a.l[]?"}),
    ("deeply nested folds", f"{'a.l.map(x, ' * 30}x{')' * 30}", {"a.l[]"}),
    ("a loop variable hides a variable", "a.l.all(b, b.n)", {"a.l[].n"}),
    ("entries of a list literal", "[a.b, b][0]", {"a.b", "b"}),
    ("keys and values of a map literal", "{a.k: a.v}", {"a.k", "a.v"}),
    ("an element of a list literal of which a field is read", "[a.b, b][0].c", {"a.b.c", "b.c", "a.b?", "b?"}),
    ("an entry of a map literal by name", "{'k': a.v, 'o': b}.k.c", {"a.v.c", "a.v?", "b?"}),
    (
        "an entry of a map literal by a computed name",
        "{'k': a.v, 'o': b.v}[b.k].c",
        {"a.v.c", "b.v.c", "a.v?", "b.v?", "b.k"},
    ),
    ("elements of a list literal in a fold", "[a, b].all(x, x.n)", {"a.n", "b.n", "a?", "b?"}),
    ("the first of what a fold kept", "a.l.filter(x, x.n > 0)[0].m", {"a.l[].n", "a.l[].m", "a.l[]?"}),
    ("a whole that is compared with null", "a.b == null ? a.c : b.c", {"a.b?", "a.c", "b.c"}),
    ("an element that is compared with null", "a.l[0] != null", {"a.l[]"}),
    ("an optional whose value is read in part", "optional.of(a).value().b", {"a.b"}),
    ("joined lists stay where they are", "(a.l + b.l).all(x, x.n)", {"a.l[].n", "b.l[].n"}),
]


@pytest.mark.parametrize(("text", "paths"), [row[1:] for row in READ], ids=[row[0] for row in READ])
def test_paths(text: str, paths: set[str]) -> None:
    assert footprint_of(checked(text)) == paths


LAZY = Env([*ENV.libraries[2:], Library("lazy", variables=(VariableDecl("vars", DYN, is_lazy=True),))])
ENTRIES = {
    "x": Reads(frozenset({"b.seen"}), Places(frozenset({"a.x"}))),
    "y": Reads(frozenset({"a.computed"}), Places()),
}
READ_LAZILY = [
    ("an entry is where it comes from", "vars.x.n", {"a.x.n", "b.seen"}),
    ("an entry that is computed", "vars.y.n", {"a.computed"}),
    ("an entry by name in brackets", "vars['x']", {"a.x", "b.seen"}),
    ("any entry", "vars[b.key]", {"a.x", "b.seen", "a.computed", "vars[]", "b.key"}),
    ("no such entry", "vars.z", {"vars.z"}),
]


@pytest.mark.parametrize(("text", "paths"), [row[1:] for row in READ_LAZILY], ids=[row[0] for row in READ_LAZILY])
def test_entries_of_a_lazy_map(text: str, paths: set[str]) -> None:
    ast = LAZY.compile(text)
    assert trace_of(ast, LazyMap("vars", ENTRIES)).footprint == paths  # type: ignore[arg-type]
