"""Defaults of built-in kinds.

The rules are those of the server's code. They and the schemas' defaults are applied in one place.
"""
