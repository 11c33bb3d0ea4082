"""Policies as formulas, and the search for what makes two of them differ."""
