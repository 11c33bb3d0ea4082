"""Trees, positions, types, references and findings, compared with those of cel-go (see `data/README.md`)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from replay.cel.ast.issues import Issues
from replay.cel.ast.source import Source
from replay.cel.ast.tree import (
    Ast,
    Call,
    Comprehension,
    Const,
    Expr,
    Ident,
    ListExpr,
    MapExpr,
    Reference,
    Select,
    StructExpr,
)
from replay.cel.check.checker import check, literal_type
from replay.cel.declare.declarations import STANDARD_LIBRARY
from replay.cel.declare.library import Function, Library, Overload, VariableDecl
from replay.cel.declare.macros import macro_table
from replay.cel.declare.scope import Declarations
from replay.cel.declare.wellknown import WELL_KNOWN_LIBRARY
from replay.cel.syntax.parser import parse
from replay.cel.value.types import BOOL, DYN, INT, STRING, list_type, struct_type
from replay.cellib.library.macros import TWO_VARIABLE_COMPREHENSIONS
from replay.cellib.library.optionals import OPTIONALS

LIBRARIES = (STANDARD_LIBRARY, WELL_KNOWN_LIBRARY, OPTIONALS, TWO_VARIABLE_COMPREHENSIONS)
MACROS = macro_table([macro for library in LIBRARIES for macro in library.macros])
DECLARATIONS = Declarations(LIBRARIES, [VariableDecl(name, DYN) for name in ("object", "oldObject", "params")])


def rows(name: str) -> list[Any]:
    text = (Path(__file__).parent / "data" / f"{name}.jsonl").read_text(encoding="utf-8")
    return [pytest.param(row, id=repr(row["expr"])) for row in map(json.loads, text.split("\n")[:-1])]


def parsed(text: str) -> Ast:
    ast = parse(Source(text), MACROS)
    assert isinstance(ast, Ast), ast.to_display_string()
    return ast


def issues_of(text: str, declarations: Declarations = DECLARATIONS) -> str:
    issues = check(parsed(text), declarations)
    assert isinstance(issues, Issues)
    return issues.to_display_string()


def type_of(text: str, declarations: Declarations = DECLARATIONS) -> str:
    ast = check(parsed(text), declarations)
    assert isinstance(ast, Ast), ast.to_display_string()
    return str(ast.type_map[ast.expr.id])


@pytest.mark.parametrize("row", rows("checked"))
def test_what_checks(row: dict[str, str]) -> None:
    ast = parsed(row["expr"])
    checked = check(ast, DECLARATIONS)
    assert isinstance(checked, Ast), checked.to_display_string()
    assert {
        "expr": row["expr"],
        "tree": tree_text(ast.expr),
        "positions": by_id({id_: str(offset) for id_, offset in ast.positions.items()}),
        "checked": tree_text(checked.expr),
        "types": by_id({id_: str(type_) for id_, type_ in checked.type_map.items()}),
        "references": by_id({id_: reference_text(reference) for id_, reference in checked.reference_map.items()}),
    } == row


@pytest.mark.parametrize("row", rows("check_errors"))
def test_what_does_not_check(row: dict[str, str]) -> None:
    assert issues_of(row["expr"]) == row["issues"]


def test_at_most_100_findings_are_kept() -> None:
    shown = issues_of(" + ".join(["a"] * 103))
    assert shown.count("ERROR") == 100
    assert shown.endswith("\n3 more errors were truncated")


NAMESPACED = Declarations(
    [
        STANDARD_LIBRARY,
        Library(
            "names",
            functions=(
                Function("a.b.f", (Overload("a_b_f", (INT,), STRING),)),
                Function("f", (Overload("f_int", (INT,), BOOL), Overload("int_f", (INT,), INT, member=True))),
            ),
            variables=(VariableDecl("a.b.x", INT), VariableDecl("x", STRING), VariableDecl("a", struct_type("A"))),
            struct_fields={"A": {"b": list_type(INT)}, "a.b.M": {"n": INT}},
            aliases={"period": STRING},
        ),
    ],
    container="a.b",
)


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        pytest.param("x", "int", id="the container's name comes before the global one"),
        pytest.param(".x", "string", id="a leading dot asks for the global name"),
        pytest.param("a.b.x", "int", id="a qualified name is one variable"),
        pytest.param("a.b", "list(int)", id="a field where no variable is so called"),
        pytest.param("f(1)", "string", id="the container's function"),
        pytest.param("a.b.f(1)", "string", id="a namespaced function"),
        pytest.param(".f(1)", "bool", id="the global function"),
        pytest.param("M{n: 1}", "a.b.M", id="a message type of the container"),
        pytest.param("[1].map(x, x + 1)", "list(int)", id="a loop variable hides declared ones"),
        pytest.param("[1].map(x, .x + 'a')", "list(string)", id="unless the root is asked for"),
        pytest.param("period", "type(string)", id="a further name of a type"),
    ],
)
def test_names_resolve_from_the_inside_out(text: str, type_: str) -> None:
    assert type_of(text, NAMESPACED) == type_


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("M{m: 1}", "ERROR: <input>:1:4: undefined field 'm'\n | M{m: 1}\n | ...^"),
        (
            "M{n: 'a'}",
            "ERROR: <input>:1:4: expected type of field 'n' is 'int' but provided type is 'string'\n | M{n: 'a'}\n | ...^",
        ),
        ("nope", "ERROR: <input>:1:1: undeclared reference to 'nope' (in container 'a.b')\n | nope\n | ^"),
        ("int{}", "ERROR: <input>:1:4: 'int' is not a message type\n | int{}\n | ...^"),
    ],
)
def test_names_that_do_not_resolve(text: str, message: str) -> None:
    assert issues_of(text, NAMESPACED) == message


def tree_text(node: Expr) -> str:
    return f"({node.id} {_content(node)})"


def _content(node: Expr) -> str:  # noqa: PLR0911 - one form a kind of node
    match node:
        case Const():
            return f"lit {literal_type(node.value)} ?"
        case Ident():
            return f"id {node.name}"
        case Select():
            return f"sel {json.dumps(node.field)} {_flag(node.test_only)} {tree_text(node.operand)}"
        case Call():
            target = "" if node.target is None else tree_text(node.target) + " ."
            return f"call {node.function} {target}{_all(node.args)}"
        case ListExpr():
            return f"list [{' '.join(map(str, sorted(node.optional_indices)))}] {_all(node.elements)}"
        case MapExpr():
            entries = [f"[{e.id} {_flag(e.optional)} {tree_text(e.key)}{tree_text(e.value)}]" for e in node.entries]
            return f"map {''.join(entries)}"
        case StructExpr():
            fields = [f'[{f.id} "{f.field}" {_flag(f.optional)} {tree_text(f.value)}]' for f in node.fields]
            return f"struct {node.type_name} {''.join(fields)}"
        case Comprehension():
            parts = (node.iter_range, node.accu_init, node.loop_condition, node.loop_step, node.result)
            return f"comp {node.iter_var} {node.iter_var2} {node.accu_var} {_all(parts)}"
    return "unspecified"


def _all(nodes: Iterable[Expr]) -> str:
    return "".join(map(tree_text, nodes))


def _flag(value: bool) -> str:
    return "true" if value else "false"


def reference_text(reference: Reference) -> str:
    return f"{reference.name}[{' '.join(reference.overload_ids)}]"


def by_id(values: Mapping[int, str]) -> str:
    return " ".join(f"{id_:05d}:{value}" for id_, value in sorted(values.items()))
