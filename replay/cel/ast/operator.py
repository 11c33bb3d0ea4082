"""Names of operators in the tree (`common/operators` of cel-go)."""

from __future__ import annotations

from typing import Final

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
OR_VALUE_EAGERLY: Final = "__orValueCompat__"
"""`orValue` as a function, as Kyverno defines it: for any value, and the other value is always evaluated."""
