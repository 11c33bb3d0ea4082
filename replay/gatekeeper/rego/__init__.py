"""Rego: parser, compiler to Python, and builtins."""
