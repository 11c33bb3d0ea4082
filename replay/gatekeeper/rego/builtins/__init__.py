"""The builtins of Rego."""
