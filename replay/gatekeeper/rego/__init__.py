"""Rego: parser, compiler to Python, builtins."""
