"""Builtins of Rego."""
