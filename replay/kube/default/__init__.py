"""Defaults of built-in kinds: the rules that only code states, and their place among those of the schemas."""
