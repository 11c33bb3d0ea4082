"""Stores that are filled while a log grows."""
