"""How cases are written: the form of `replay` itself, and those of other tools."""
