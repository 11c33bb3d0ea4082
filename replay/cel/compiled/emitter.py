"""Writer of compiled code: pieces of code, the lines of a function so far, its names, and the bound on its cost."""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from msgspec import Struct

from replay.cel.ast.tree import Ast, Expr
from replay.cel.compiled import fastpath
from replay.cel.declare.dispatcher import Dispatcher
from replay.cel.value.types import Kind
from replay.cel.value.values import Value


class NotCompiledError(Exception):
    """Expression that only the strict engine can evaluate. `str()` is the reason."""


class Code(Struct, frozen=True):
    """A Python expression: its text, its Python type as far as known, and whether it is just a name or literal.

    `kind` is `bool`, `int` (in range), `str`, `list`, `dict`, `object`, `optional` (a value or `ABSENT`) or `json`
    (anything).
    """

    text: str
    kind: str = "json"
    atom: bool = False


_MAX_NODES = 2_000

_BUILTINS = {"len": len, "type": type, "dict": dict, "list": list, "str": str, "int": int, "float": float, "bool": bool}


class MessageProvider(Protocol):
    """Facts about messages and lazy maps for compiled code."""

    @property
    def lazy_map(self) -> str:
        """The variable whose entries are computed when they are first read, empty if there is none."""

    def is_built(self, type_name: str) -> bool:
        """Return whether values of this type are messages that expressions build."""

    def new_object(self, type_name: str, fields: Mapping[str, Value]) -> Value:
        """Return the value of `TypeName{...}`, an `EvalError` if the type cannot be built."""


NodeWriters = Mapping[type[Expr], Callable[["Emitter", Any], Code]]
"""Functions that write the code of a node, by its class."""


class Emitter:
    """Writes the function of one expression."""

    def __init__(self, ast: Ast, dispatcher: Dispatcher, messages: MessageProvider, writers: NodeWriters) -> None:
        """`writers` write nodes. `messages` are those of the environment."""
        self._writers = writers
        self.ast = ast
        self.dispatcher = dispatcher
        self.messages = messages
        self.lines: list[str] = []
        self.globals: dict[str, Any] = {"__builtins__": {}}
        self.units = 0
        self.has_loops = False
        self.in_object = False
        self.scope: dict[str, Code] = {}
        self.roots: dict[str, str] = {}
        self._indent = 1
        self._count = 0
        self._nodes = 0

    def emit(self, node: Expr) -> Code:
        """Return the code of a node. Statements that it needs are added to the current block."""
        self._nodes += 1
        if self._nodes > _MAX_NODES:
            raise NotCompiledError("it is too long")
        writer = self._writers.get(type(node))
        if writer is None:
            raise NotCompiledError(f"no code for {type(node).__name__}")
        return writer(self, node)

    def charge(self, units: int) -> None:
        """Add to the cost bound of the current block."""
        self.units += units

    def use(self, name: str) -> str:
        """Make a helper of `fastpath` available and return its name."""
        self.globals[name] = getattr(fastpath, name)
        return name

    def refer(self, prefix: str, value: Any) -> str:
        """Return a new global name for a value."""
        self._count += 1
        name = f"{prefix}_{self._count}"
        self.globals[name] = value
        return name

    def builtin(self, name: str) -> str:
        """Make one of the few builtins that compiled code uses available and return its name."""
        self.globals[name] = _BUILTINS[name]
        return name

    def temporary(self, prefix: str = "t") -> str:
        """Return a fresh local name. An author's name becomes its prefix if it is plain."""
        self._count += 1
        plain = re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,30}", prefix) and not keyword.iskeyword(prefix)
        return f"{prefix if plain else 'x'}_{self._count}"

    def atom(self, code: Code) -> tuple[str, str]:
        """Return `(first, again)`: a text that evaluates and names the value, and a text that repeats it."""
        if code.atom:
            return code.text, code.text
        name = self.temporary()
        return f"({name} := {code.text})", name

    def line(self, text: str) -> None:
        """Add a statement."""
        self.lines.append("    " * self._indent + text)

    def block(self, write: Callable[[], Code]) -> tuple[list[str], Code]:
        """Return the statements and the result of code that is written one level deeper."""
        outer, self.lines = self.lines, []
        self._indent += 1
        try:
            code = write()
            return self.lines, code
        finally:
            self._indent -= 1
            self.lines = outer

    def truth(self, code: Code) -> str:
        """Return the code as a bool."""
        if code.kind == "bool":
            return code.text
        if code.kind != "json":
            raise NotCompiledError("a condition is no bool")
        return f"{self.use('truth')}({code.text})"

    def is_type(self, name: str, python_type: str) -> str:
        """Return a test for an exact Python type."""
        return f"{self.builtin('type')}({name}) is {self.builtin(python_type)}"

    def static_kind(self, node: Expr) -> Kind:
        """Return the kind of a node's checked type."""
        return self.ast.type_map[node.id].kind

    def is_optional(self, node: Expr) -> bool:
        """Return whether a node's checked type is an optional."""
        return self.ast.type_map[node.id].name == "optional_type"
