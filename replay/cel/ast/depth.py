"""Room on the interpreter's stack for what the server's limits allow: expressions 250 levels deep, more with macros."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TypeVar

_FRAMES = 20_000

T = TypeVar("T")


def with_room(action: Callable[[], T]) -> T:
    """What the action returns; it is begun anew with room for deeper recursion if it needs that.

    Nothing is changed for expressions of ordinary depth, and the limit is put back in any case.
    """
    try:
        return action()
    except RecursionError:
        limit = sys.getrecursionlimit()
        if limit >= _FRAMES:
            raise  # whoever is around has made room already; each of them trying again would take for ever
        sys.setrecursionlimit(_FRAMES)
        try:
            return action()
        finally:
            sys.setrecursionlimit(limit)
