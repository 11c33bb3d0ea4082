"""How the code is cut and named: what CONTRIBUTING.md says of files, functions, packages and names holds for all of `replay/`."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
FILES = sorted((ROOT / "replay").rglob("*.py"))
SOURCES = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in FILES}

MOST_LINES = 400
"""Of a file."""
MOST_OF_FUNCTION = 40
"""Lines of the body of a function; what it takes, what it says of itself and what it imports are beside it."""
MOST_MODULES = 20
"""Of a package."""

PARTICIPLES = frozenset(
    {
        *(
            "asked",
            "before",
            "done",
            "found",
            "given",
            "kept",
            "known",
            "made",
            "meant",
            "of",
            "patched",
            "read",
            "seen",
        ),
        *("sent", "taken", "told", "wanted", "whole"),
    }
)
"""Words that say what happened to a value, and not what it is: `found` is an object, an answer, a list of keys.

`left` is the operand beside `right`. Functions may be verbs, and classes say of what they are a value with `of`.
"""

PROPERTIES = frozenset({"property", "cached_property"})
SOURCE = """
import found as told
from found import read
def made(before, *asked, known=1, **of):
    left, (seen, right) = sent = before
    self._kept = {given: whole for given, whole in right}
    self.taken[0] = wanted.patched
    with a as done: pass
    match a:
        case [meant, *asked]: pass
        case {'before': 1, **patched}: pass
    try: (wanted := 1)
    except E as known: pass
    return lambda read: f(found=of)
class whole:
    told: int
    @property
    def sent(self): pass
    def asked(self): pass
"""


def bindings(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Every line that gives a name to a value, with the name."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()) | ast.arg(arg=name):
                yield node.lineno, name
            case ast.alias(asname=str(name)):
                yield node.lineno, name
            case (
                ast.MatchAs(name=str(name))
                | ast.MatchStar(name=str(name))
                | ast.MatchMapping(rest=str(name))
                | ast.ExceptHandler(name=str(name))
            ):
                yield node.lineno, name
            case ast.FunctionDef(name=name, decorator_list=decorators):
                if any(isinstance(each, ast.Name) and each.id in PROPERTIES for each in decorators):
                    yield node.lineno, name


def participles(source: str) -> list[tuple[int, str]]:
    """The bindings of a file that are no nouns, with their lines."""
    return sorted({(line, name) for line, name in bindings(ast.parse(source)) if name.strip("_") in PARTICIPLES})


def body_length(function: ast.FunctionDef) -> int:
    """The lines of what a function does."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    imports = (each for each in body if isinstance(each, ast.Import | ast.ImportFrom))
    length = (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0
    return length - sum((each.end_lineno or 0) - each.lineno + 1 for each in imports)


def test_bindings_are_seen() -> None:
    assert participles(SOURCE) == [
        (2, "told"),
        (4, "asked"),
        (4, "before"),
        (4, "known"),
        (4, "of"),
        (5, "seen"),
        (5, "sent"),
        (6, "_kept"),
        (6, "given"),
        (6, "whole"),
        (8, "done"),
        (10, "asked"),
        (10, "meant"),
        (11, "patched"),
        (12, "wanted"),
        (13, "known"),
        (14, "read"),
        (16, "told"),
        (18, "sent"),
    ]


def test_names_are_nouns() -> None:
    lines = {name: participles(source) for name, source in SOURCES.items()}
    assert {name: each for name, each in lines.items() if each} == {}


def test_files_and_functions_are_short() -> None:
    assert {name: length for name in SOURCES if (length := SOURCES[name].count("\n")) > MOST_LINES} == {}
    functions = (
        (f"{name}:{each.lineno} {each.name}", body_length(each))
        for name, source in SOURCES.items()
        for each in ast.walk(ast.parse(source))
        if isinstance(each, ast.FunctionDef)
    )
    assert {name: length for name, length in functions if length > MOST_OF_FUNCTION} == {}


def test_packages_are_small() -> None:
    folders = {path.parent for path in FILES}
    modules = {str(each.relative_to(ROOT)): len([path for path in FILES if path.parent == each]) for each in folders}
    # `__init__` is one of them.
    assert {folder: count for folder, count in modules.items() if count > MOST_MODULES + 1} == {}
