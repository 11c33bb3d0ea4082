"""How strongly binary operators bind."""

from __future__ import annotations

from typing import Final

from replay.cel.ast import operator
from replay.cel.syntax import lexer

BINARY: Final = {
    lexer.LESS: (operator.LESS, 1),
    lexer.LESS_EQUALS: (operator.LESS_EQUALS, 1),
    lexer.GREATER_EQUALS: (operator.GREATER_EQUALS, 1),
    lexer.GREATER: (operator.GREATER, 1),
    lexer.EQUALS: (operator.EQUALS, 1),
    lexer.NOT_EQUALS: (operator.NOT_EQUALS, 1),
    lexer.IN: (operator.IN, 1),
    lexer.PLUS: (operator.ADD, 2),
    lexer.MINUS: (operator.SUBTRACT, 2),
    lexer.STAR: (operator.MULTIPLY, 3),
    lexer.SLASH: (operator.DIVIDE, 3),
    lexer.PERCENT: (operator.MODULO, 3),
}
"""Function and binding strength by token; all of them group to the left."""
