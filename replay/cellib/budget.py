"""Remaining cost budget, usually as a lower bound."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self


class Remaining(int):
    """Lower bound of the remaining budget, with a way to the exact figure."""

    exact: Callable[[], int]

    def __new__(cls, least: int, exact: Callable[[], int]) -> Self:
        """`exact` is called when the difference matters."""
        budget = super().__new__(cls, least)
        budget.exact = exact
        return budget
