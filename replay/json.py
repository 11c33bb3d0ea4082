"""Decoded JSON."""

from typing import Any

JSON = Any
"""A decoded JSON value: dict, list, str, int, float, bool or None."""
