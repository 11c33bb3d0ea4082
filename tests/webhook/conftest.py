"""A server of admission webhooks."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest

from tests.webhook.server import serving

Answer = Callable[[dict[str, Any]], tuple[int, bytes]]
Served = Callable[[Answer], AbstractContextManager[tuple[str, list[dict[str, Any]]]]]


@pytest.fixture
def served() -> Served:
    """`served(answer)` answers requests with `answer(request)` for as long as the `with` statement lasts."""
    return lambda answer: serving(lambda review: answer(review["request"]))
