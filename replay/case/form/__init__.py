"""The forms of cases: that of `replay` itself, and those of other tools."""
