"""Room on the interpreter's stack for what the server's limits allow: expressions 250 levels deep, more with macros."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

_FRAMES = 20_000

T = TypeVar("T")


def with_deep_stack(action: Callable[[], T]) -> T:
    """Return the action's result; run it again with a deeper stack if it needs one.

    Normal expressions are unaffected. The recursion limit is restored afterwards.
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
            # Begun near the limit, it cannot be put back from here; it stays as high as it is then.
            with suppress(RecursionError):
                sys.setrecursionlimit(limit)
