"""Defaults of built-in kinds: the rules in the server's code, and the place where they and the schemas' defaults are applied."""
