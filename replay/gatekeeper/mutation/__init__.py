"""Mutators, and how they change objects."""
