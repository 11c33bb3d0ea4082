"""Binding strength of binary operators, and an upper bound for the depth of an expression, from its tokens alone."""

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
"""Function and binding strength by token. All of these operators group to the left."""


_MAX_TOKENS = 240

_OPENING: Final = frozenset((lexer.LPAREN, lexer.LBRACKET, lexer.LBRACE))
_CLOSING: Final = frozenset((lexer.RPAREN, lexer.RBRACKET, lexer.RBRACE))
_LOGICAL: Final = frozenset((lexer.LOGICAL_AND, lexer.LOGICAL_OR))
_DEEPENING: Final = frozenset((*BINARY, lexer.DOT, lexer.QUESTIONMARK))
_OPERAND_ENDS: Final = frozenset((*_CLOSING, lexer.IDENTIFIER, lexer.ESC_IDENTIFIER, lexer.STRING, lexer.BYTES))
"""Tokens after which a bracket opens an index. After other tokens it opens a list."""


def is_shallow(kinds: list[int]) -> bool:
    """Return whether no limit on depth can be exceeded, judging by an upper bound of the depth at every token.

    Chains get deeper by one for every operator, field and index. They end at a comma, a closing bracket and at `&&` and
    `||`, which are balanced.
    """
    if len(kinds) <= _MAX_TOKENS:
        return True
    levels = [0]
    ternaries = 0
    bound = 0
    previous = lexer.EOF
    for kind in kinds:
        if kind in _DEEPENING or (kind == lexer.LBRACKET and previous in _OPERAND_ENDS):
            levels[-1] += 1
            bound += 1
            ternaries += kind == lexer.QUESTIONMARK
        if kind in _OPENING:
            levels.append(1)
            bound += 1
        elif kind in _CLOSING:
            bound -= levels.pop() if len(levels) > 1 else 0
        elif kind == lexer.COMMA or (kind in _LOGICAL and not ternaries):
            bound -= levels[-1] - 1
            levels[-1] = 1
        if bound > _MAX_TOKENS:
            return False
        previous = kind
    return True
