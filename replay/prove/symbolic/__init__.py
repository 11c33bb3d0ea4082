"""Policies as formulas, and the search for differences with a solver."""
