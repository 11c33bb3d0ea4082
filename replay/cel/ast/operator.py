"""The names under which operators stand in the tree (`common/operators` of cel-go)."""

from __future__ import annotations

from typing import Final

from replay.cel.syntax import lexer

CONDITIONAL: Final = "_?_:_"
LOGICAL_AND: Final = "_&&_"
LOGICAL_OR: Final = "_||_"
LOGICAL_NOT: Final = "!_"
EQUALS: Final = "_==_"
NOT_EQUALS: Final = "_!=_"
LESS: Final = "_<_"
LESS_EQUALS: Final = "_<=_"
GREATER: Final = "_>_"
GREATER_EQUALS: Final = "_>=_"
ADD: Final = "_+_"
SUBTRACT: Final = "_-_"
MULTIPLY: Final = "_*_"
DIVIDE: Final = "_/_"
MODULO: Final = "_%_"
NEGATE: Final = "-_"
INDEX: Final = "_[_]"
OPT_INDEX: Final = "_[?_]"
OPT_SELECT: Final = "_?._"
IN: Final = "@in"
NOT_STRICTLY_FALSE: Final = "@not_strictly_false"

BINARY: Final = {
    lexer.LESS: (LESS, 1),
    lexer.LESS_EQUALS: (LESS_EQUALS, 1),
    lexer.GREATER_EQUALS: (GREATER_EQUALS, 1),
    lexer.GREATER: (GREATER, 1),
    lexer.EQUALS: (EQUALS, 1),
    lexer.NOT_EQUALS: (NOT_EQUALS, 1),
    lexer.IN: (IN, 1),
    lexer.PLUS: (ADD, 2),
    lexer.MINUS: (SUBTRACT, 2),
    lexer.STAR: (MULTIPLY, 3),
    lexer.SLASH: (DIVIDE, 3),
    lexer.PERCENT: (MODULO, 3),
}
"""Function and binding strength by token; all of them group to the left."""
